"""The records of the controllers above pods, from Deployments to CronJobs."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kubevalues import NOTHING, Selector, SelectorError
from kubevalues.quantity import IntOrString, IntOrStringError, scaled_rounding_down, scaled_rounding_up
from rescheduler.api.well_known_names import MIGRATION_LABELS
from rescheduler.cluster.object_meta import (
    Object,
    ObjectMeta,
    OwnerReference,
    PartialObject,
    UnreadableObject,
    decode_object,
)
from rescheduler.cluster.pod_constraints import LabelSelector

__all__ = [
    "WORKLOAD_KINDS",
    "WorkloadRecord",
    "controller_of",
    "decode_workload",
    "is_rolling_out",
    "tolerates_surge",
]


WORKLOAD_KINDS: Mapping[str, str] = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
}
"""The kinds that are read, each with its `apiVersion`."""


class WorkloadRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    kind: str
    api_version: str
    key: str
    """`namespace/name`."""
    namespace: str
    uid: str = ""
    owners: tuple[OwnerReference, ...] = ()
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    """The annotations that records keep (`is_kept_annotation`)."""
    selector: LabelSelector | None = None
    """The selector as written; `pods()` parses it."""
    own_migration_labels: tuple[str, ...] = ()
    """The `MIGRATION_LABELS` that its selector uses or its template carries, where that was read. On its pods
    they are the workload's, not a migration's."""
    deleted_s: int | None = None
    generation: int = 0
    observed_generation: int = 0

    replicas: int = 0
    """The requested number of pods. For a DaemonSet, the number of nodes that its controller counted; for a
    Job, its parallelism; for a CronJob, 0."""
    current_replicas: int = 0
    """How many pods it has; for a Job, the active ones."""
    ready_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    """How many pods have the newest template."""

    update_type: str = ""
    """RollingUpdate, Recreate or OnDelete; empty if the kind has no update strategy."""
    max_surge: IntOrString = 0
    """The value as written: a number, or a percentage such as `25%`."""
    max_unavailable: IntOrString = 0
    surge: int = 0
    """How many pods more than `replicas` an update may create, rounded as Kubernetes does."""
    unavailable: int = 0
    """How many pods fewer than `replicas` may be available during an update, rounded as Kubernetes does."""
    min_ready_s: int = 0
    template_node: str = ""
    """The node that its pod template names (`nodeName`): then no scheduler places its pods."""
    paused: bool = False
    """Whether a Deployment is paused, or a Job or CronJob suspended."""
    has_rolled_out: bool = False
    """Whether the controller of a Deployment reports that the newest template was once rolled out completely.
    It reports nothing where no progress deadline is set."""

    partition: int = 0
    """The partition of a StatefulSet: pods with a smaller ordinal are not updated."""
    pod_management: str = ""
    """The pod management policy of a StatefulSet: OrderedReady or Parallel."""
    first_ordinal: int = 0
    """The ordinal of the first pod of a StatefulSet."""
    current_revision: str = ""
    update_revision: str = ""
    parallelism: int | None = None
    completions: int | None = None

    @property
    def name(self) -> str:
        return self.key[len(self.namespace) + 1 :]

    @property
    def owner(self) -> OwnerReference | None:
        """Return the owner that controls the workload: there is at most one."""
        return next((owner for owner in self.owners if owner.controller), None)

    def pods(self) -> Selector:
        """Return the selector of its pods; it matches none if the selector is invalid."""
        try:
            return NOTHING if self.selector is None else self.selector.selector()
        except SelectorError:
            return NOTHING


def controller_of(
    controllers: Mapping[str, WorkloadRecord], namespace: str, owner: OwnerReference | None
) -> WorkloadRecord | None:
    """Return the workload that an owner reference of an object in `namespace` names; None if it is not known.

    `controllers` are by uid. A workload of that uid but of another namespace, kind or name is not the owner:
    such a reference was forged.
    """
    record = None if owner is None else controllers.get(owner.uid)
    if record is None or owner is None:
        return None
    is_named = (record.kind, record.namespace, record.name) == (owner.kind, namespace, owner.name)
    return record if is_named else None


def is_rolling_out(workload: WorkloadRecord) -> bool:
    """Return whether the controller is replacing pods by those of a newer template, or is about to.

    One pod more or fewer than requested is not a rollout: the workload scales, or a pod was evicted and is
    being replaced, or the workload has adopted a copy of ours.
    """
    if workload.observed_generation < workload.generation:
        return True
    match workload.kind:
        case "Deployment":
            some_are_old = workload.updated_replicas < workload.current_replicas
            some_are_missing = workload.updated_replicas < workload.replicas
            return some_are_old or (some_are_missing and not workload.has_rolled_out)
        case "StatefulSet" if workload.update_type == "RollingUpdate" and workload.update_revision:
            if workload.partition:
                return workload.updated_replicas < workload.replicas - workload.partition
            return workload.update_revision != workload.current_revision
        case "DaemonSet" if workload.update_type == "RollingUpdate":
            return workload.updated_replicas < workload.replicas
        case _:
            return False


def tolerates_surge(workload: WorkloadRecord) -> bool:
    """Return whether the update settings of the workload allow one pod more than it requests.

    A ReplicaSet creates a new pod even while the old one is still terminating, so it always does.
    """
    if workload.kind == "ReplicaSet":
        return True
    return workload.kind == "Deployment" and workload.update_type == "RollingUpdate" and workload.surge >= 1


class _RollingUpdate(msgspec.Struct, rename="camel", frozen=True, gc=False):
    max_surge: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    partition: int = 0


class _Strategy(msgspec.Struct, rename="camel", frozen=True, gc=False):
    type: str = "RollingUpdate"
    rolling_update: _RollingUpdate = _RollingUpdate()


class _Ordinals(msgspec.Struct, frozen=True, gc=False):
    start: int = 0


class _TemplateMeta(msgspec.Struct, frozen=True, gc=False):
    labels: dict[str, str] = {}


class _PodSpec(msgspec.Struct, rename="camel", frozen=True, gc=False):
    node_name: str = ""


class _Template(msgspec.Struct, frozen=True, gc=False):
    metadata: _TemplateMeta = _TemplateMeta()
    spec: _PodSpec = _PodSpec()


class _Spec(msgspec.Struct, rename="camel", frozen=True, gc=False):
    replicas: int = 1
    selector: LabelSelector | None = None
    template: _Template = _Template()
    strategy: _Strategy = _Strategy()
    update_strategy: _Strategy = _Strategy()
    min_ready_seconds: int = 0
    paused: bool = False
    suspend: bool = False
    pod_management_policy: str = "OrderedReady"
    ordinals: _Ordinals = _Ordinals()
    parallelism: int = 1
    completions: int | None = None


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    reason: str = ""


class _Status(msgspec.Struct, rename="camel", frozen=True, gc=False):
    observed_generation: int | None = None
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_ready: int = 0
    number_available: int = 0
    updated_number_scheduled: int = 0
    active: int | list[object] = 0
    """The active Jobs of a CronJob."""
    ready: int = 0
    conditions: tuple[_Condition, ...] = ()


class _Workload(PartialObject, frozen=True, gc=False):
    api_version: str = ""
    kind: str = ""
    spec: _Spec = _Spec()
    status: _Status = _Status()


def decode_workload(item: Object, kind: str = "") -> WorkloadRecord:
    """Decode a workload; `kind` is for items of a list, which don't name theirs. Raise `UnreadableObject`."""
    own_kind = item.get("kind")
    kind = own_kind if isinstance(own_kind, str) and own_kind else kind
    if kind not in _DECODERS:
        raise UnreadableObject(kind or "object", "", f"is not one of {', '.join(WORKLOAD_KINDS)}")
    found = decode_object(kind, item, _Workload)
    meta = found.metadata
    try:
        own = _DECODERS[kind](found)
    except IntOrStringError as error:
        raise UnreadableObject(kind, meta.key, str(error)) from None
    return WorkloadRecord(
        kind=kind,
        api_version=found.api_version or WORKLOAD_KINDS[kind],
        key=meta.key,
        namespace=meta.namespace,
        uid=meta.uid,
        owners=meta.owner_references,
        labels=meta.labels,
        annotations=meta.kept_annotations,
        selector=found.spec.selector,
        own_migration_labels=_own_migration_labels(found.spec),
        deleted_s=meta.deleted_s,
        generation=meta.generation,
        observed_generation=_observed(found.status, meta),
        template_node=found.spec.template.spec.node_name,
        **own,
    )


def _own_migration_labels(spec: _Spec) -> tuple[str, ...]:
    names = set(spec.template.metadata.labels)
    if spec.selector is not None:
        names |= {name for name, _ in spec.selector.match_labels}
        names |= {each.key for each in spec.selector.match_expressions}
    return tuple(label for label in MIGRATION_LABELS if label in names)


def _observed(status: _Status, meta: ObjectMeta) -> int:
    """Return the generation that the status describes; for Jobs and CronJobs, the current one."""
    return meta.generation if status.observed_generation is None else status.observed_generation


def _deployment(workload: _Workload) -> dict[str, Any]:
    spec, update = workload.spec, workload.spec.strategy
    max_surge, max_unavailable = _given(update, surge="25%", unavailable="25%")
    surge, unavailable = (
        scaled_rounding_up(max_surge, spec.replicas),
        scaled_rounding_down(max_unavailable, spec.replicas),
    )
    return _replicated(workload) | {
        "update_type": update.type,
        "max_surge": max_surge,
        "max_unavailable": max_unavailable,
        "surge": surge,
        # If both were 0, no update would be possible.
        "unavailable": 1 if update.type == "RollingUpdate" and surge == unavailable == 0 else unavailable,
        "paused": spec.paused,
        "updated_replicas": workload.status.updated_replicas,
        "has_rolled_out": _Condition("Progressing", "NewReplicaSetAvailable") in workload.status.conditions,
    }


def _stateful_set(workload: _Workload) -> dict[str, Any]:
    spec, update, status = workload.spec, workload.spec.update_strategy, workload.status
    _, max_unavailable = _given(update, surge=0, unavailable=1)
    return _replicated(workload) | {
        "update_type": update.type,
        "max_unavailable": max_unavailable,
        "unavailable": max(1, scaled_rounding_down(max_unavailable, spec.replicas)),
        "partition": update.rolling_update.partition,
        "pod_management": spec.pod_management_policy,
        "first_ordinal": spec.ordinals.start,
        "updated_replicas": status.updated_replicas,
        "current_revision": status.current_revision,
        "update_revision": status.update_revision,
    }


def _replicated(workload: _Workload) -> dict[str, Any]:
    spec, status = workload.spec, workload.status
    return {
        "replicas": spec.replicas,
        "min_ready_s": spec.min_ready_seconds,
        "current_replicas": status.replicas,
        "ready_replicas": status.ready_replicas,
        "available_replicas": status.available_replicas,
    }


def _daemon_set(workload: _Workload) -> dict[str, Any]:
    spec, update, status = workload.spec, workload.spec.update_strategy, workload.status
    wanted = status.desired_number_scheduled
    max_surge, max_unavailable = _given(update, surge=0, unavailable=1)
    surge, unavailable = scaled_rounding_up(max_surge, wanted), scaled_rounding_up(max_unavailable, wanted)
    return {
        "replicas": wanted,
        "min_ready_s": spec.min_ready_seconds,
        "current_replicas": status.current_number_scheduled,
        "ready_replicas": status.number_ready,
        "available_replicas": status.number_available,
        "updated_replicas": status.updated_number_scheduled,
        "update_type": update.type,
        "max_surge": max_surge,
        "max_unavailable": max_unavailable,
        "surge": surge,
        "unavailable": 1 if surge == unavailable == 0 else unavailable,
    }


def _job(workload: _Workload) -> dict[str, Any]:
    spec, status = workload.spec, workload.status
    return {
        "replicas": spec.parallelism,
        "current_replicas": status.active if isinstance(status.active, int) else 0,
        "ready_replicas": status.ready,
        "parallelism": spec.parallelism,
        "completions": spec.completions,
        "paused": spec.suspend,
    }


def _cron_job(workload: _Workload) -> dict[str, Any]:
    return {"paused": workload.spec.suspend}


def _given(
    update: _Strategy, *, surge: IntOrString, unavailable: IntOrString
) -> tuple[IntOrString, IntOrString]:
    """Return maxSurge and maxUnavailable, or the defaults; updates other than rolling ones have neither."""
    if update.type != "RollingUpdate":
        return 0, 0
    limits = update.rolling_update
    return (
        surge if limits.max_surge is None else limits.max_surge,
        unavailable if limits.max_unavailable is None else limits.max_unavailable,
    )


_DECODERS: Mapping[str, Callable[[_Workload], dict[str, Any]]] = {
    "Deployment": _deployment,
    "ReplicaSet": _replicated,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "CronJob": _cron_job,
}
