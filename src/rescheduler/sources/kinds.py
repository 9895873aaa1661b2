"""The kinds of objects that matter for deciding: how each is read, and what is assumed without it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rescheduler.kube import resources
from rescheduler.kube.resources import Resource
from rescheduler.model.migrations import GROUP as OUR_GROUP
from rescheduler.model.migrations import KIND as POD_MIGRATION
from rescheduler.model.migrations import VERSION as OUR_VERSION
from rescheduler.sources.needs import Needs
from rescheduler.sources.slim import slim
from rescheduler.usage.metrics_api import GROUP as METRICS_GROUP
from rescheduler.usage.metrics_api import VERSION as METRICS_VERSION

if TYPE_CHECKING:
    from rescheduler.snapshot.state import ClusterState

__all__ = ["CLUSTER_KINDS", "METRICS_KINDS", "ClusterKind", "kind_of"]


@dataclass(frozen=True, slots=True)
class ClusterKind:
    resource: Resource[Any]
    """Decoded as it is needed for deciding; `resource.as_json` is all of it, for saving."""
    without: str = ""
    """What is assumed if none was to be had, in words; empty if that changes nothing."""
    matters: Callable[[Needs], bool] = lambda _: True
    """Whether that assumption makes a difference in this cluster."""
    required: bool = False
    decides: bool = True
    """Others are only saved, for those who look at the file."""

    @property
    def kind(self) -> str:
        return self.resource.kind

    def applier(self, state: "ClusterState") -> Callable[[Any], None]:
        """What takes each object into the state. It raises ValueError for one that makes no sense."""
        if self.kind == "Pod":
            return state.apply_pod
        if self.kind == "Node":
            return state.apply_node
        # Not before it is needed: while a server answers there is time to import it.
        from rescheduler.snapshot.objects import apply_object  # noqa: PLC0415

        return partial(apply_object, state, self.kind)


def _storage(plural: str, kind: str, *, namespaced: bool = False) -> Resource[Any]:
    return resources.custom("storage.k8s.io", "v1", plural, kind, namespaced=namespaced)


def _workload(resource: Resource[Any]) -> ClusterKind:
    return ClusterKind(
        slim(resource),
        f"the handover of pods of a {resource.kind} follows from that kind alone",
        lambda needs: resource.kind in needs.owner_kinds,
    )


def _uses_claims(needs: Needs) -> bool:
    return needs.has_claims


CLUSTER_KINDS: Final = (
    # Pods first: they take longest.
    ClusterKind(resources.PODS, required=True),
    ClusterKind(resources.NODES, required=True),
    ClusterKind(
        resources.NAMESPACES,
        "namespaces have no labels but their names",
        lambda needs: needs.selects_namespaces,
    ),
    ClusterKind(
        slim(resources.DEPLOYMENTS),
        "a ReplicaSet that names a Deployment as its owner has one, of which nothing is known",
        lambda needs: "ReplicaSet" in needs.owner_kinds,
    ),
    _workload(resources.REPLICA_SETS),
    _workload(resources.STATEFUL_SETS),
    _workload(resources.DAEMON_SETS),
    _workload(resources.JOBS),
    ClusterKind(slim(resources.CRON_JOBS)),
    ClusterKind(resources.POD_DISRUPTION_BUDGETS, "no budget protects any pod"),
    ClusterKind(
        resources.PERSISTENT_VOLUME_CLAIMS,
        "pods with claims stay where they are (VolumeUnknown)",
        _uses_claims,
    ),
    ClusterKind(
        resources.PERSISTENT_VOLUMES,
        "pods with bound claims stay where they are (VolumeUnknown)",
        _uses_claims,
    ),
    ClusterKind(
        resources.STORAGE_CLASSES, "claims that are not bound yet can't be bound to new volumes", _uses_claims
    ),
    ClusterKind(
        _storage("csinodes", "CSINode"), "no node limits how many volumes are attached to it", _uses_claims
    ),
    ClusterKind(_storage("csidrivers", "CSIDriver")),
    ClusterKind(_storage("csistoragecapacities", "CSIStorageCapacity", namespaced=True)),
    ClusterKind(_storage("volumeattachments", "VolumeAttachment")),
    ClusterKind(resources.PRIORITY_CLASSES, decides=False),
    ClusterKind(resources.custom(OUR_GROUP, OUR_VERSION, "podmigrations", POD_MIGRATION)),
)

METRICS_KINDS: Final = (
    resources.custom(METRICS_GROUP, METRICS_VERSION, "pods", "PodMetrics"),
    resources.custom(METRICS_GROUP, METRICS_VERSION, "nodes", "NodeMetrics", namespaced=False),
)
"""Read by whoever `usageSource` names; here for saving."""

_BY_NAME: Final = {(each.resource.group, each.kind): each for each in CLUSTER_KINDS}


def kind_of(api_version: str, kind: str) -> ClusterKind | None:
    """Whatever version of it: those that were served in recent years have the same fields."""
    return _BY_NAME.get((api_version.rpartition("/")[0], kind))
