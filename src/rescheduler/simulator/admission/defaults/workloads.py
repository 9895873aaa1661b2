"""Defaults of what keeps pods running: deployments, replica sets, stateful sets, daemon sets."""

from rescheduler.simulator.admission.defaults.filling import Circumstances, fill, inner
from rescheduler.simulator.admission.defaults.pod_spec import fill_template
from rescheduler.simulator.exchange import Object

__all__ = [
    "fill_daemon_set",
    "fill_deployment",
    "fill_replica_set",
    "fill_replication_controller",
    "fill_stateful_set",
]

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def fill_deployment(deployment: Object, _: Circumstances) -> None:
    spec = inner(deployment, "spec")
    fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    fill(deployment, status={})
    strategy = inner(spec, "strategy")
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(inner(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    fill_template(spec)


def fill_replica_set(replica_set: Object, _: Circumstances) -> None:
    spec = inner(replica_set, "spec")
    fill(spec, replicas=1)
    fill(inner(replica_set, "status"), replicas=0)
    fill_template(spec)


def fill_replication_controller(controller: Object, _: Circumstances) -> None:
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


def fill_stateful_set(stateful_set: Object, _: Circumstances) -> None:
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


def fill_daemon_set(daemon_set: Object, about: Circumstances) -> None:
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
    """Each new template has the next number, which nobody else can set."""
    known = (before["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION)
    if known is None:
        return
    fill_template(before["spec"])
    changed = daemon_set["spec"]["template"] != before["spec"]["template"]
    inner(daemon_set["metadata"], "annotations")[_TEMPLATE_GENERATION] = str(int(known) + changed)
