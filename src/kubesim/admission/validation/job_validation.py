"""Validation of Jobs and CronJobs, with the error messages of the real parser of cron schedules."""

from collections.abc import Iterator

from kubesim.admission import field_errors
from kubesim.admission.validation.metadata_validation import check_not_negative, check_selector, selector_of
from kubesim.admission.validation.pod_update_validation import without_empty
from kubesim.admission.validation.pod_validation import check_template
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.status_errors import FieldError
from kubevalues.duration import parse_duration

__all__ = ["check_cron_job", "check_job", "schedule_fault"]

_FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_NAMED = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


def schedule_fault(schedule: str) -> str | None:
    """Return what is wrong with a cron schedule, or None."""
    if schedule.startswith("@"):
        if schedule in _NAMED:
            return None
        if schedule.startswith("@every "):
            return _interval_fault(schedule)
        return f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    return next((fault for index, field in enumerate(fields) for fault in _field_faults(field, index)), None)


def _interval_fault(schedule: str) -> str | None:
    try:
        parse_duration(schedule.removeprefix("@every "))
    except ValueError as wrong:
        return f"failed to parse duration {schedule}: {wrong}"
    return None


def _field_faults(field: str, index: int) -> Iterator[str]:
    for expression in field.split(","):
        if fault := _range_fault(expression, index):
            yield fault


def _range_fault(expression: str, index: int) -> str | None:
    lowest, highest = _FIELDS[index]
    bounds, slash, step = expression.partition("/")
    if "/" in step:
        return f"too many slashes: {expression}"
    if slash and not step.isdecimal():
        return _no_number(step)
    if slash and int(step) == 0:
        return f"step of range should be a positive number: {expression}"
    if bounds in ("*", "?"):
        return None
    start_text, dash, end_text = bounds.partition("-")
    if "-" in end_text:
        return f"too many hyphens: {expression}"
    start = _number(start_text, index)
    if start is None:
        return _no_number(start_text)
    end = _number(end_text, index) if dash else highest if slash else start
    if end is None:
        return _no_number(end_text)
    if start < lowest:
        return f"beginning of range ({start}) below minimum ({lowest}): {expression}"
    if end > highest:
        return f"end of range ({end}) above maximum ({highest}): {expression}"
    return f"beginning of range ({start}) beyond end of range ({end}): {expression}" if start > end else None


def _number(text: str, index: int) -> int | None:
    if text.isdecimal() and text.isascii():
        return int(text)
    if index == 3 and text.lower() in _MONTHS:
        return _MONTHS.index(text.lower()) + 1
    if index == 4 and text.lower() in _DAYS:
        return _DAYS.index(text.lower())
    return None


def _no_number(text: str) -> str:
    return f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'


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


def check_job(new: Object, old: Object | None) -> Iterator[FieldError]:
    spec = new["spec"]
    yield from _check_job_spec(spec, "spec")
    if "selector" not in spec:
        yield field_errors.required("spec.selector")
    else:
        yield from check_selector(spec["selector"], "spec.selector")
        selector = selector_of(spec["selector"])
        labels = spec["template"].get("metadata", {}).get("labels", {})
        if selector is not None and not selector.matches(labels):
            detail = "`selector` does not match template `labels`"
            yield field_errors.invalid("spec.template.metadata.labels", labels, detail)
    if old is None:
        yield from _check_generated_selector(new)
    else:
        yield from _check_job_update(spec, old["spec"])


def _check_generated_selector(job: Object) -> Iterator[FieldError]:
    """Check that labels of the user don't contradict generated ones, which would mix the pods of two jobs."""
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
            yield field_errors.invalid(path, labels, f"must be '{value}'")
    selector = selector_of(spec.get("selector", {}))
    if selector is not None and not selector.matches(expected):
        yield field_errors.invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def _check_job_spec(spec: Object, path: str) -> Iterator[FieldError]:
    yield from check_not_negative(spec, _COUNTS, path)
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in ("NonIndexed", "Indexed"):
        yield field_errors.not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed" and "completions" not in spec:
        yield field_errors.required(f"{path}.completions", "when completion mode is Indexed")
    if mode == "NonIndexed":
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if field in spec:
                yield field_errors.invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")
    template = spec.get("template", {})
    yield from check_template(template, f"{path}.template")
    restart = template.get("spec", {}).get("restartPolicy", "")
    if restart in ("", "Always"):
        yield field_errors.required(
            f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'
        )
    elif restart not in ("OnFailure", "Never"):
        yield field_errors.not_supported(
            f"{path}.template.spec.restartPolicy", restart, ("OnFailure", "Never")
        )


def _check_job_update(spec: Object, before: Object) -> Iterator[FieldError]:
    indexed = before.get("completionMode") == "Indexed"
    elastic = indexed and spec.get("completions") == spec.get("parallelism")
    if spec.get("completions") != before.get("completions") and not elastic:
        yield field_errors.immutable("spec.completions", spec.get("completions"))
    for field in _FIXED:
        if spec.get(field) != before.get(field):
            yield field_errors.immutable(f"spec.{field}", spec.get(field))
    template, template_before = spec["template"], before["template"]
    if before.get("suspend"):
        # A suspended job has no pods yet: where they will run is still open.
        template, template_before = _without_scheduling(template), _without_scheduling(template_before)
    if without_empty(template) != without_empty(template_before):
        yield field_errors.immutable("spec.template", spec["template"])


def _without_scheduling(template: Object) -> Object:
    spec = {field: value for field, value in template["spec"].items() if field not in _SCHEDULING}
    if "affinity" in spec:
        spec["affinity"] = {name: v for name, v in spec["affinity"].items() if name != "nodeAffinity"}
    return {"spec": spec}


def check_cron_job(new: Object, old: Object | None) -> Iterator[FieldError]:
    spec, name = new["spec"], new["metadata"].get("name", "")
    if not spec.get("schedule"):
        yield field_errors.required("spec.schedule")
    elif "TZ" in spec["schedule"]:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield field_errors.invalid("spec.schedule", spec["schedule"], detail)
    elif fault := schedule_fault(spec["schedule"]):
        yield field_errors.invalid("spec.schedule", spec["schedule"], fault)
    yield from check_not_negative(spec, ["startingDeadlineSeconds"], "spec")
    policies = ("Allow", "Forbid", "Replace")
    if spec.get("concurrencyPolicy") not in policies:
        yield field_errors.not_supported(
            "spec.concurrencyPolicy", spec.get("concurrencyPolicy", ""), policies
        )
    yield from _check_job_spec(spec["jobTemplate"].get("spec", {}), "spec.jobTemplate.spec")
    yield from check_not_negative(spec, ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], "spec")
    if old is None and len(name) > _LONGEST_CRON_NAME:
        # Eleven characters are added for each job, and 63 is the limit of a label.
        yield field_errors.invalid(
            "metadata.name", name, f"must be no more than {_LONGEST_CRON_NAME} characters"
        )
