"""Rules for jobs and cron jobs."""

from collections.abc import Iterator

from rescheduler.simulator.admission import causes
from rescheduler.simulator.admission.validation.labels import check_selector, selector_of
from rescheduler.simulator.admission.validation.numbers import check_not_negative
from rescheduler.simulator.admission.validation.pod_spec import check_template
from rescheduler.simulator.admission.validation.pod_updates import without_empty
from rescheduler.simulator.admission.validation.schedules import schedule_fault
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["check_cron_job", "check_job"]

_COUNTS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_FIXED = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates")
_LONGEST_CRON_NAME = 52


def check_job(new: Object, old: Object | None) -> Iterator[Cause]:
    spec = new["spec"]
    yield from _check_job_spec(spec, "spec")
    if "selector" not in spec:
        yield causes.required("spec.selector")
    else:
        yield from check_selector(spec["selector"], "spec.selector")
        selector = selector_of(spec["selector"])
        labels = spec["template"].get("metadata", {}).get("labels", {})
        if selector is not None and not selector.matches(labels):
            detail = "`selector` does not match template `labels`"
            yield causes.invalid("spec.template.metadata.labels", labels, detail)
    if old is None:
        yield from _check_generated_selector(new)
    else:
        yield from _check_job_update(spec, old["spec"])


def _check_generated_selector(job: Object) -> Iterator[Cause]:
    """Labels that a user set against the generated ones would mix up the pods of two jobs."""
    spec = job["spec"]
    if spec.get("manualSelector"):
        return
    labels = spec["template"].get("metadata", {}).get("labels", {})
    name, uid = job["metadata"].get("name", ""), job["metadata"].get("uid", "")
    expected = {
        "controller-uid": uid,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
    }
    for label, value in expected.items():
        if labels.get(label, "") != value:
            path = f"spec.template.metadata.labels[{label}]"
            yield causes.invalid(path, labels, f"must be '{value}'")
    selector = selector_of(spec.get("selector", {}))
    if selector is not None and not selector.matches(expected):
        yield causes.invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def _check_job_spec(spec: Object, path: str) -> Iterator[Cause]:
    yield from check_not_negative(spec, _COUNTS, path)
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in ("NonIndexed", "Indexed"):
        yield causes.not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed" and "completions" not in spec:
        yield causes.required(f"{path}.completions", "when completion mode is Indexed")
    if mode == "NonIndexed":
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if field in spec:
                yield causes.invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")
    template = spec.get("template", {})
    yield from check_template(template, f"{path}.template")
    restart = template.get("spec", {}).get("restartPolicy", "")
    if restart in ("", "Always"):
        yield causes.required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    elif restart not in ("OnFailure", "Never"):
        yield causes.not_supported(f"{path}.template.spec.restartPolicy", restart, ("OnFailure", "Never"))


def _check_job_update(spec: Object, before: Object) -> Iterator[Cause]:
    indexed = before.get("completionMode") == "Indexed"
    elastic = indexed and spec.get("completions") == spec.get("parallelism")
    if spec.get("completions") != before.get("completions") and not elastic:
        yield causes.immutable("spec.completions", spec.get("completions"))
    for field in _FIXED:
        if spec.get(field) != before.get(field):
            yield causes.immutable(f"spec.{field}", spec.get(field))
    template, template_before = spec["template"], before["template"]
    if before.get("suspend"):
        # A suspended job has no pods yet: where they will run is still open.
        template, template_before = _without_scheduling(template), _without_scheduling(template_before)
    if without_empty(template) != without_empty(template_before):
        yield causes.immutable("spec.template", spec["template"])


def _without_scheduling(template: Object) -> Object:
    spec = {field: value for field, value in template["spec"].items() if field not in _SCHEDULING}
    if "affinity" in spec:
        spec["affinity"] = {name: v for name, v in spec["affinity"].items() if name != "nodeAffinity"}
    return {"spec": spec}


def check_cron_job(new: Object, old: Object | None) -> Iterator[Cause]:
    spec, name = new["spec"], new["metadata"].get("name", "")
    if not spec.get("schedule"):
        yield causes.required("spec.schedule")
    elif "TZ" in spec["schedule"]:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield causes.invalid("spec.schedule", spec["schedule"], detail)
    elif fault := schedule_fault(spec["schedule"]):
        yield causes.invalid("spec.schedule", spec["schedule"], fault)
    yield from check_not_negative(spec, ["startingDeadlineSeconds"], "spec")
    policies = ("Allow", "Forbid", "Replace")
    if spec.get("concurrencyPolicy") not in policies:
        yield causes.not_supported("spec.concurrencyPolicy", spec.get("concurrencyPolicy", ""), policies)
    yield from _check_job_spec(spec["jobTemplate"].get("spec", {}), "spec.jobTemplate.spec")
    yield from check_not_negative(spec, ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], "spec")
    if old is None and len(name) > _LONGEST_CRON_NAME:
        # Eleven characters are added for each job, and 63 is the limit of a label.
        yield causes.invalid("metadata.name", name, f"must be no more than {_LONGEST_CRON_NAME} characters")
