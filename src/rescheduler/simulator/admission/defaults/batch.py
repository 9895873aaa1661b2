"""Defaults of jobs and cron jobs."""

from rescheduler.simulator.admission.defaults.filling import Circumstances, fill, inner
from rescheduler.simulator.admission.defaults.pod_spec import fill_template
from rescheduler.simulator.exchange import Object

__all__ = ["fill_cron_job", "fill_job"]

_UNLIMITED = (1 << 31) - 1
_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"


def fill_job(job: Object, about: Circumstances) -> None:
    spec = inner(job, "spec")
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    fill(
        spec,
        parallelism=1,
        backoffLimit=_UNLIMITED if "backoffLimitPerIndex" in spec else 6,
        completionMode="NonIndexed",
        suspend=False,
        manualSelector=False,
        podReplacementPolicy="Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
    )
    fill(job, status={})
    fill_template(spec)
    if about.creating:
        if not spec["manualSelector"]:
            _select_own_pods(job)
        if not job["metadata"].get("labels") and spec["template"]["metadata"].get("labels"):
            job["metadata"]["labels"] = dict(spec["template"]["metadata"]["labels"])


def _select_own_pods(job: Object) -> None:
    """The job's uid is in the labels of its pods and in its selector, so that no two jobs share pods."""
    name, uid = job["metadata"].get("name", ""), job["metadata"].get("uid", "")
    labels = inner(job["spec"]["template"]["metadata"], "labels")
    for label, value in (
        (_CONTROLLER_UID, uid),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        ("job-name", name),
    ):
        labels.setdefault(label, value)
    inner(inner(job["spec"], "selector"), "matchLabels").setdefault(_CONTROLLER_UID, uid)


def fill_cron_job(cron_job: Object, _: Circumstances) -> None:
    spec = inner(cron_job, "spec")
    fill(
        spec,
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    fill(cron_job, status={})
    template = inner(spec, "jobTemplate")
    fill(template, metadata={})
    fill_template(inner(template, "spec"))
