"""Every version that objects of the API had, ordered by resourceVersion.

All kinds are stored in one etcd, so a resourceVersion is a revision of the whole cluster: the state of every
object *at* one revision can be read off, whichever watch delivered its event first.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

__all__ = [
    "Budget",
    "History",
    "MigrationState",
    "NodeState",
    "PodState",
    "Version",
    "WorkloadState",
]

Object = dict[str, Any]
S = TypeVar("S")
MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
MIGRATION_ID = "scheduler.alpha.kubernetes.io/migration-id"
MIGRATION_STATUS = "scheduler.alpha.kubernetes.io/migration-status"
CORDONED_BY = "rescheduler.dev/cordoned-by"
RETRIES = "scheduling-retries"
FORGED = "chaos.example/forged"
"""An annotation with which the chaos tells that it has written marks onto this object by itself."""


class PodState(NamedTuple):
    namespace: str
    name: str
    uid: str
    app: str
    node: str
    is_ready: bool
    is_leaving: bool
    is_over: bool
    """Whether its containers have ended for good."""
    removal_asked_at: datetime | None
    """When its deletion was asked for, in whole seconds as the API has it."""
    was_evicted: bool
    """Whether the Eviction API was asked, as the condition DisruptionTarget has it."""
    was_preempted: bool
    owners: tuple[tuple[str, str], ...]
    """Kind and uid of each."""
    is_gated: bool
    mark: str
    """The migration that its labels name as unfinished; empty if none."""
    is_forged: bool
    priority: int

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def workload(self) -> str:
        return f"{self.namespace}/{self.app}"

    @property
    def is_migrations(self) -> bool:
        return any(kind == "PodMigration" for kind, _ in self.owners)

    @property
    def serves(self) -> bool:
        return self.is_ready and not self.is_leaving

    @staticmethod
    def of(item: Object) -> "PodState":
        metadata, status = item["metadata"], item.get("status") or {}
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        conditions = {each["type"]: each for each in status.get("conditions") or ()}
        disrupted = conditions.get("DisruptionTarget", {})
        leaving = metadata.get("deletionTimestamp")
        is_over = status.get("phase") in {"Failed", "Succeeded"}
        is_marked = MIGRATION_ID in labels and labels.get(MIGRATION_STATUS) != "completed"
        return PodState(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            app=labels.get("app", ""),
            node=item["spec"].get("nodeName", ""),
            is_ready=conditions.get("Ready", {}).get("status") == "True" and not is_over,
            is_leaving=leaving is not None,
            is_over=is_over,
            removal_asked_at=_asked_at(metadata) if leaving else None,
            was_evicted=disrupted.get("reason") == "EvictionByEvictionAPI",
            was_preempted=disrupted.get("reason") == "PreemptionByScheduler",
            owners=tuple((each["kind"], each["uid"]) for each in metadata.get("ownerReferences") or ()),
            is_gated=bool(item["spec"].get("schedulingGates")),
            mark=labels.get(MIGRATION_ID, "") if is_marked else "",
            is_forged=FORGED in annotations,
            priority=item["spec"].get("priority") or 0,
        )


class NodeState(NamedTuple):
    name: str
    uid: str
    is_ready: bool
    is_cordoned: bool
    cordon_managers: tuple[str, ...]
    """The clients that own `spec.unschedulable`, as the API server records them."""
    in_maintenance: bool
    cordoned_by: str
    is_forged: bool

    @property
    def key(self) -> str:
        return self.name

    @staticmethod
    def of(item: Object) -> "NodeState":
        metadata = item["metadata"]
        annotations = metadata.get("annotations") or {}
        conditions = {each["type"]: each["status"] for each in item["status"].get("conditions") or ()}
        managers = [
            each["manager"]
            for each in metadata.get("managedFields") or ()
            if "f:unschedulable" in (each.get("fieldsV1", {}).get("f:spec") or {})
        ]
        return NodeState(
            name=metadata["name"],
            uid=metadata["uid"],
            is_ready=conditions.get("Ready") == "True",
            is_cordoned=bool(item["spec"].get("unschedulable")),
            cordon_managers=tuple(managers),
            in_maintenance=(metadata.get("labels") or {}).get(MAINTENANCE) == "true",
            cordoned_by=annotations.get(CORDONED_BY, ""),
            is_forged=FORGED in annotations,
        )


class WorkloadState(NamedTuple):
    key: str
    uid: str
    kind: str
    replicas: int
    is_leaving: bool
    annotations: tuple[str, ...]
    """Annotations of rescheduler."""
    parent: str = ""
    """The uid of the Deployment that owns a ReplicaSet."""
    allows_retries: bool = False
    """Whether its owner lets rescheduler move pods that keep failing."""

    @staticmethod
    def of(kind: str, item: Object) -> "WorkloadState":
        metadata = item["metadata"]
        return WorkloadState(
            key=f"{metadata['namespace']}/{metadata['name']}",
            uid=metadata["uid"],
            kind=kind,
            replicas=item["spec"].get("replicas", 1),
            is_leaving="deletionTimestamp" in metadata,
            annotations=tuple(
                name for name in metadata.get("annotations") or {} if name.startswith("rescheduler.dev/")
            ),
            parent=next((each["uid"] for each in metadata.get("ownerReferences") or ()), ""),
            allows_retries=RETRIES in (metadata.get("annotations") or {}),
        )


class Budget(NamedTuple):
    key: str
    uid: str
    namespace: str
    app: str
    desired_healthy: int
    is_computed: bool
    is_temporary: bool

    @staticmethod
    def of(item: Object) -> "Budget":
        metadata, status = item["metadata"], item.get("status") or {}
        return Budget(
            key=f"{metadata['namespace']}/{metadata['name']}",
            uid=metadata["uid"],
            namespace=metadata["namespace"],
            app=(item["spec"].get("selector") or {}).get("matchLabels", {}).get("app", ""),
            desired_healthy=status.get("desiredHealthy", 0),
            is_computed=status.get("observedGeneration") == metadata.get("generation"),
            is_temporary=metadata["name"].endswith("-rescheduler-pdb"),
        )


class MigrationState(NamedTuple):
    key: str
    uid: str
    namespace: str
    pod: str
    pod_uid: str
    copy: str
    copy_uid: str
    phase: str
    step: str
    handover: str
    failure: str
    strategy: str
    has_finalizer: bool

    @property
    def is_finished(self) -> bool:
        return self.phase in {"Completed", "Failed"}

    @staticmethod
    def of(item: Object) -> "MigrationState":
        metadata, spec, status = item["metadata"], item["spec"], item.get("status") or {}
        target = status.get("targetPod") or {}
        return MigrationState(
            key=f"{metadata['namespace']}/{metadata['name']}",
            uid=metadata["uid"],
            namespace=metadata["namespace"],
            pod=spec["pod"]["name"],
            pod_uid=spec["pod"]["uid"],
            copy=target.get("name", ""),
            copy_uid=target.get("uid", ""),
            phase=status.get("phase", "Pending"),
            step=status.get("step", ""),
            handover=status.get("handover") or spec.get("handover", "Auto"),
            failure=status.get("failure", ""),
            strategy=spec.get("strategy", "Manual"),
            has_finalizer=bool(metadata.get("finalizers")),
        )


def _asked_at(metadata: Object) -> datetime:
    gone_at = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp()
    return datetime.fromtimestamp(gone_at - metadata.get("deletionGracePeriodSeconds", 0), UTC)


@dataclass(frozen=True)
class Version(Generic[S]):
    revision: int
    seen_at: datetime
    state: S | None
    """None: the object is gone."""


@dataclass
class History(Generic[S]):
    """All versions of all objects of one kind, by uid."""

    versions: dict[str, list[Version[S]]] = field(default_factory=dict)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def note(self, uid: str, revision: int, state: S | None) -> None:
        known = self.versions.setdefault(uid, [])
        if known and known[-1].revision >= revision:
            return  # a list that was read again tells what is known already
        known.append(Version(revision, self.now(), state))

    def alive(self) -> list[str]:
        return [uid for uid, known in self.versions.items() if known[-1].state is not None]

    def at(self, revision: int) -> Iterator[S]:
        """The objects that existed right after that revision was written."""
        for uid in self.versions:
            found = self.get(uid, revision)
            if found is not None:
                yield found

    def get(self, uid: str, revision: int) -> S | None:
        known = self.versions.get(uid, [])
        index = bisect_right(known, revision, key=lambda each: each.revision)
        return known[index - 1].state if index else None

    def last(self) -> Iterator[S]:
        for known in self.versions.values():
            if known[-1].state is not None:
                yield known[-1].state

    def ever(self) -> Iterator[tuple[Version[S], Version[S]]]:
        """Every change of every object: the version before and the version after."""
        for known in self.versions.values():
            yield from pairwise(known)
