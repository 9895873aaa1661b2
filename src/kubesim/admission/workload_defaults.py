"""Defaults of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs."""

from kubesim.admission.admission_lookup import DefaultingContext, fill, inner
from kubesim.admission.pod_defaults import fill_template
from kubesim.apiserver.api_messages import Object

__all__ = [
    "fill_cron_job",
    "fill_daemon_set",
    "fill_deployment",
    "fill_job",
    "fill_replica_set",
    "fill_replication_controller",
    "fill_stateful_set",
]

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def fill_deployment(deployment: Object, _: DefaultingContext) -> None:
    spec = inner(deployment, "spec")
    fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    fill(deployment, status={})
    strategy = inner(spec, "strategy")
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(inner(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    fill_template(spec)


def fill_replica_set(replica_set: Object, _: DefaultingContext) -> None:
    spec = inner(replica_set, "spec")
    fill(spec, replicas=1)
    fill(inner(replica_set, "status"), replicas=0)
    fill_template(spec)


def fill_replication_controller(controller: Object, _: DefaultingContext) -> None:
    spec = inner(controller, "spec")
    fill(spec, replicas=1)
    fill(inner(controller, "status"), replicas=0)
    fill_template(spec)
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not controller["metadata"].get("labels"):
            controller["metadata"]["labels"] = dict(labels)


def fill_stateful_set(stateful_set: Object, _: DefaultingContext) -> None:
    spec = inner(stateful_set, "spec")
    fill(spec, replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
    spec.setdefault("serviceName", "")
    fill(inner(stateful_set, "status"), replicas=0, availableReplicas=0)
    strategy = inner(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        fill(strategy, rollingUpdate={})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        fill(strategy["rollingUpdate"], partition=0, maxUnavailable=1)
    fill(inner(spec, "persistentVolumeClaimRetentionPolicy"), whenDeleted="Retain", whenScaled="Retain")
    fill_template(spec)
    for claim in spec.get("volumeClaimTemplates", ()):
        fill(claim, kind="PersistentVolumeClaim", apiVersion="v1", metadata={})
        fill(inner(claim, "spec"), volumeMode="Filesystem", resources={})
        fill(inner(claim, "status"), phase="Pending")


def fill_daemon_set(daemon_set: Object, about: DefaultingContext) -> None:
    spec = inner(daemon_set, "spec")
    fill(spec, revisionHistoryLimit=10)
    counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    fill(inner(daemon_set, "status"), dict.fromkeys(counts, 0))
    strategy = inner(spec, "updateStrategy")
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(inner(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    fill_template(spec)
    if about.creating:
        fill(inner(daemon_set["metadata"], "annotations"), {_TEMPLATE_GENERATION: "1"})
    elif (stored := about.stored(daemon_set)) is not None:
        _count_templates(daemon_set, stored)


def _count_templates(daemon_set: Object, before: Object) -> None:
    """Set the template generation, which clients can't set."""
    known = (before["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION)
    if known is None:
        return
    fill_template(before["spec"])
    changed = daemon_set["spec"]["template"] != before["spec"]["template"]
    inner(daemon_set["metadata"], "annotations")[_TEMPLATE_GENERATION] = str(int(known) + changed)


_UNLIMITED = (1 << 31) - 1
_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"


def fill_job(job: Object, about: DefaultingContext) -> None:
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
    """Add the job's uid to the labels of its pods and to its selector, so that no two jobs share pods."""
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


def fill_cron_job(cron_job: Object, _: DefaultingContext) -> None:
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
