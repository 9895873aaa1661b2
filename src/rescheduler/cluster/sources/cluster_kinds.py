"""List the kinds of objects that decisions depend on: how each is read, and what is assumed without it.

Workloads are read without their pod templates, which are most of their size. ReplicaSets are read as
protobuf: there are thousands of them, and in JSON each is three times as long and takes the server five
times as long.

A `ClusterReading` is what one read of a live or saved cluster returned.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from rescheduler.api.well_known_names import GROUP as OUR_GROUP
from rescheduler.api.well_known_names import POD_MIGRATION_KIND as POD_MIGRATION
from rescheduler.api.well_known_names import VERSION as OUR_VERSION
from rescheduler.cluster.cluster_state import ClusterState, apply_object
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.pod_constraints import Affinity
from rescheduler.cluster.pod_record import CLAIM_VOLUME, PodRecord
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.sources.metrics_api import METRICS_GROUP, METRICS_VERSION
from rescheduler.cluster.trusted_usage import UsageSubjects, usage_for_check
from rescheduler.cluster.usage_readings import UsageOutcome, UsageReadings
from rescheduler.config.policy import Policy, UsageSource
from rescheduler.kube import api_resources
from rescheduler.kube.api_resources import ApiResource
from rescheduler.kube.codecs import api_pb2
from rescheduler.kube.codecs.codec import Codec, JsonCodec
from rescheduler.kube.codecs.negotiated_codec import NegotiatedCodec
from rescheduler.kube.codecs.protobuf_codec import builtins_of

__all__ = [
    "CLUSTER_KINDS",
    "METRICS_KINDS",
    "ClusterKind",
    "ClusterReading",
    "PodDependencies",
    "WebhookProbeResult",
    "cluster_kind",
    "pod_dependencies",
    "replica_sets_from",
    "snapshot_of",
    "without_templates",
]


@dataclass(frozen=True, slots=True)
class PodDependencies:
    owner_kinds: frozenset[str] = frozenset()
    """The kinds of the pods' controllers."""
    has_claims: bool = False
    selects_namespaces: bool = False
    """Whether some pod's affinity selects pods by labels of their namespaces."""


def pod_dependencies(pods: Collection[PodRecord]) -> PodDependencies:
    # Pods of a template share these objects, so each is examined once.
    owners = {id(pod.owners): pod.owners for pod in pods}.values()
    volumes = {id(pod.volumes): pod.volumes for pod in pods}.values()
    affinities = {id(pod.affinity): pod.affinity for pod in pods}.values()
    return PodDependencies(
        owner_kinds=frozenset(each.kind for found in owners for each in found if each.controller),
        has_claims=any(volume.kind == CLAIM_VOLUME for found in volumes for volume in found),
        selects_namespaces=any(map(_selects_namespaces, affinities)),
    )


def _selects_namespaces(affinity: Affinity) -> bool:
    terms = (*affinity.pod_affinity.required, *affinity.pod_anti_affinity.required)
    return any(term.namespace_selector is not None for term in terms)


ReplicaSetObject = dict[str, Any]


def replica_sets_from(items: bytes) -> list[ReplicaSetObject]:
    """Decode consecutive items of a list; raise protobuf's `DecodeError`."""
    found = map(builtins_of, api_pb2.ReplicaSetList.FromString(items).items)
    return [_replica_set_as_in_json(each) for each in found]


def _replica_set_as_in_json(replica_set: ReplicaSetObject) -> ReplicaSetObject:
    """Return the ReplicaSet with times as strings, and without the zeros that JSON omits."""
    metadata, status = replica_set.get("metadata", {}), replica_set.get("status", {})
    for moment in ("creationTimestamp", "deletionTimestamp"):
        if moment in metadata:
            metadata[moment] = datetime.fromtimestamp(metadata[moment], UTC).isoformat()
    if not status.get("observedGeneration"):
        status.pop("observedGeneration", None)
    return replica_set


Object = dict[str, Any]
_HEAVY: Final[Mapping[str, tuple[str, ...]]] = {
    "metadata": ("managedFields",),
    "spec": ("jobTemplate", "template", "volumeClaimTemplates"),
}
_parts = msgspec.json.Decoder(dict[str, Raw] | None).decode
_object = msgspec.json.Decoder(Object).decode


def without_templates(resource: ApiResource[Object]) -> ApiResource[Object]:
    """Return the resource with a codec that leaves out pod templates; `as_json` still has all of it."""
    title = f"the {resource.kind} list"
    many = resource.kind == "ReplicaSet"
    codec: Codec[Object] = (
        NegotiatedCodec(title, _ReplicaSets(), _version_of)
        if many
        else JsonCodec(title, _read_without_templates, _version_of)
    )
    return replace(resource, codec=codec)


class _ReplicaSets:
    """A reader that decodes ReplicaSets from protobuf, because there are very many."""

    def from_json(self, raw: bytes | Raw) -> Object:
        return _read_without_templates(raw)

    def from_protobuf(self, items: bytes) -> list[Object]:
        return replica_sets_from(items)


def _read_without_templates(raw: bytes | Raw) -> Object:
    parts = _parts(raw) or {}
    for name, heavy in _HEAVY.items():
        if name in parts and (inner := _parts(parts[name])) is not None:
            for each in heavy:
                inner.pop(each, None)
            parts[name] = Raw(msgspec.json.encode(inner))
    return _object(msgspec.json.encode(parts))


def _version_of(item: Object) -> str:
    version: str = item["metadata"].get("resourceVersion", "")
    return version


@dataclass(frozen=True, slots=True)
class ClusterKind:
    resource: ApiResource[Any]
    """Decodes only what decisions need; `resource.as_json` decodes everything, for saving."""
    without: str = ""
    """The message about what is assumed if the kind can't be read; empty if that changes nothing."""
    matters: Callable[[PodDependencies], bool] = lambda _: True
    """Whether that assumption makes a difference in this cluster."""
    required: bool = False
    decides: bool = True
    """Whether decisions need the kind. Others are only saved, for readers of the file."""

    @property
    def kind(self) -> str:
        return self.resource.kind

    def applier(self, state: ClusterState) -> Callable[[Any], None]:
        """Return the function that applies an object to the state; it raises ValueError for an invalid
        object."""
        if self.kind == "Pod":
            return state.apply_pod
        if self.kind == "Node":
            return state.apply_node
        return partial(apply_object, state, self.kind)


def _storage(plural: str, kind: str, *, namespaced: bool = False) -> ApiResource[Any]:
    return api_resources.api_resource("storage.k8s.io", "v1", plural, kind, namespaced=namespaced)


def _workload(resource: ApiResource[Any]) -> ClusterKind:
    return ClusterKind(
        without_templates(resource),
        f"the handover of pods of a {resource.kind} depends only on the kind",
        lambda needs: resource.kind in needs.owner_kinds,
    )


def _uses_claims(needs: PodDependencies) -> bool:
    return needs.has_claims


CLUSTER_KINDS: Final = (
    # Pods first: they take longest.
    ClusterKind(PODS, required=True),
    ClusterKind(NODES, required=True),
    ClusterKind(
        api_resources.NAMESPACES,
        "namespaces have no labels except their names",
        lambda needs: needs.selects_namespaces,
    ),
    ClusterKind(
        without_templates(api_resources.DEPLOYMENTS),
        "Deployments that own ReplicaSets exist, but nothing else is known about them",
        lambda needs: "ReplicaSet" in needs.owner_kinds,
    ),
    _workload(api_resources.REPLICA_SETS),
    _workload(api_resources.STATEFUL_SETS),
    _workload(api_resources.DAEMON_SETS),
    _workload(api_resources.JOBS),
    ClusterKind(without_templates(api_resources.CRON_JOBS)),
    ClusterKind(api_resources.POD_DISRUPTION_BUDGETS, "no PodDisruptionBudget protects any pod"),
    ClusterKind(
        api_resources.PERSISTENT_VOLUME_CLAIMS,
        "pods with claims are not moved (VolumeUnknown)",
        _uses_claims,
    ),
    ClusterKind(
        api_resources.PERSISTENT_VOLUMES,
        "pods with bound claims are not moved (VolumeUnknown)",
        _uses_claims,
    ),
    ClusterKind(
        api_resources.STORAGE_CLASSES,
        "unbound claims can't be bound to new volumes",
        _uses_claims,
    ),
    ClusterKind(_storage("csinodes", "CSINode"), "nodes have no limit on attached volumes", _uses_claims),
    ClusterKind(_storage("csidrivers", "CSIDriver")),
    ClusterKind(_storage("csistoragecapacities", "CSIStorageCapacity", namespaced=True)),
    ClusterKind(_storage("volumeattachments", "VolumeAttachment")),
    ClusterKind(api_resources.PRIORITY_CLASSES, decides=False),
    ClusterKind(api_resources.api_resource(OUR_GROUP, OUR_VERSION, "podmigrations", POD_MIGRATION)),
)

METRICS_KINDS: Final = (
    api_resources.api_resource(METRICS_GROUP, METRICS_VERSION, "pods", "PodMetrics"),
    api_resources.api_resource(METRICS_GROUP, METRICS_VERSION, "nodes", "NodeMetrics", namespaced=False),
)
"""These kinds are read by the source in `usageSource`; here they are only saved."""

_BY_NAME: Final = {(each.resource.group, each.kind): each for each in CLUSTER_KINDS}


def cluster_kind(api_version: str, kind: str) -> ClusterKind | None:
    """Return the kind in any version, because all versions of recent years have the same fields."""
    return _BY_NAME.get((api_version.rpartition("/")[0], kind))


class WebhookProbeResult(NamedTuple):
    """The result of probing the webhook."""

    steers: bool | None = None
    """Whether the webhook steers replacements of evicted pods; None if that is not known."""
    guards: bool | None = None
    """Whether the webhook keeps ReplicaSets from creating a pod while they adopt a copy."""
    problem: str = ""
    """Why the webhook does not, or why that is not known, as a message."""


# No repr: asyncio writes the result of a task into an error message of its own, which is not shown; with tens
# of thousands of pods in it, that takes longer than planning.
@dataclass(slots=True, repr=False)
class ClusterReading:
    now_s: float
    """When the cluster was read."""
    state: ClusterState = field(default_factory=ClusterState)
    pods: list[PodRecord] = field(default_factory=list)
    node_uids: dict[str, str] = field(default_factory=dict)
    """The uids of nodes, by name."""
    webhook: WebhookProbeResult = field(default_factory=WebhookProbeResult)
    """The result of probing our webhook."""
    assumptions: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Notes for the user, on which no decision depends."""
    usage: UsageOutcome = field(default_factory=lambda: UsageReadings(UsageSource.REQUESTS))
    saved_metrics: tuple[list[Raw], list[Raw]] = field(default_factory=lambda: ([], []))
    """The PodMetrics and NodeMetrics of a saved cluster, undecoded."""


def snapshot_of(reading: ClusterReading, policy: Policy) -> Snapshot:
    """Return the snapshot of a single reading: usage is not smoothed, because there is no earlier reading."""
    notes: Iterable[str] = ()
    if reading.usage.source is not UsageSource.REQUESTS:
        trusted, _ = usage_for_check(
            reading.usage,
            _usage_subjects(reading),
            now_s=reading.now_s,
            half_life_s=policy.usage_half_life.total_seconds(),
            smoothing=None,
        )
        reading.state.apply_usage(trusted.pods)
        notes = trusted.notes
    custom = reading.usage.custom
    reading.state.apply_custom_metrics(custom.metrics)
    return reading.state.freeze(reading.now_s, assumptions=(*reading.assumptions, *notes, *custom.notes))


def _usage_subjects(reading: ClusterReading) -> UsageSubjects:
    running = [pod for pod in reading.pods if pod.node and not pod.is_finished]
    return UsageSubjects(
        node_of={pod.key: pod.node for pod in running},
        pod_uids={pod.key: pod.uid for pod in running},
        node_uids=reading.node_uids,
    )
