"""The custom resource `PodMigration`, which is one move of one pod, and the traits of strategies.

The CustomResourceDefinition (`podmigration_crd`) is generated from these types, so the schema of the API
server can't differ from what the code reads and writes.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from rescheduler.api.well_known_names import BALANCE_ANNOTATION, PLAN_ANNOTATION, REQUESTED_BY_ANNOTATION

__all__ = [
    "BUILT_IN_TRAITS",
    "COPY_FAILING",
    "EVACUATION",
    "EVICTION",
    "FAILED_PODS",
    "MANUAL",
    "MAX_GROUP_SIZE",
    "MAX_SIBLINGS",
    "MAX_TEXT_LENGTH",
    "STRATEGY_ENTRY_POINTS",
    "ConditionType",
    "ControllerReference",
    "Handover",
    "Migration",
    "MigrationCondition",
    "MigrationPhase",
    "MigrationSpec",
    "MigrationStatus",
    "PodReference",
    "RoomReference",
    "StrategyTraits",
    "UnreadableMigration",
    "decode_migration",
    "label_value",
    "strategy_plugins",
    "traits_of",
]


MANUAL: Final = "Manual"
"""The strategy of a move that a user requested."""
FAILED_PODS: Final = "FailedPods"
"""The strategy of a move that gives a failing pod another node."""
EVACUATION: Final = "Evacuation"
"""The strategy of moves off nodes that give a signal of `evacuateOn`."""
EVICTION: Final = "Eviction"
"""The strategy of a move that another client caused by an eviction of the pod."""

COPY_FAILING: Final = "CopyFailing"
"""The failure of a migration whose copy can't run."""
CANCELLED: Final = "Cancelled"
"""The failure of a migration whose PodMigration was deleted before the source pod was evicted."""

# Planner and controllers ask `traits_of(name)` for a trait instead of comparing names. Built-in strategies
# declare their traits here, plugins in the attribute `traits` of their class.
STRATEGY_ENTRY_POINTS: Final = "rescheduler.strategies"
"""The group of entry points in which plugins register their strategies."""


@dataclass(frozen=True, slots=True)
class StrategyTraits:
    """The properties of a strategy that the rest of rescheduler uses; the defaults fit one that improves
    placement."""

    urgent: bool = False
    """Its pods must leave their node: some protections don't apply, and its moves start before others."""
    ignores_windows: bool = False
    """Its moves also start outside maintenance windows."""
    retries: bool = True
    """A failed migration is tried again on the same target, up to `maxRetries` times."""
    recovers: bool = False
    """Its pods fail where they run. Each move counts as an attempt on the workload's ledger."""
    consolidates: bool = False
    """It decides which nodes are not needed, so it may fill one that an autoscaler would remove next."""
    balances: bool = False
    """It acts on the load of nodes: moves for a preference must not cause further moves by it."""
    requested: bool = False
    """A user or client requested this move: `minPodAge` and `podCooldown` don't apply."""
    on_eviction: bool = False
    """Another client waits to evict the pod: the move has a deadline, and waiting for room is no failure."""
    evacuates: bool = False
    """Its node is removed at a time that rescheduler can't change: a migration with a deadline fails then."""


_DEFAULT: Final = StrategyTraits()
BUILT_IN_TRAITS: Final[Mapping[str, StrategyTraits]] = {
    FAILED_PODS: StrategyTraits(urgent=True, ignores_windows=True, retries=False, recovers=True),
    MANUAL: StrategyTraits(urgent=True, ignores_windows=True, requested=True),
    EVICTION: StrategyTraits(urgent=True, ignores_windows=True, requested=True, on_eviction=True),
    EVACUATION: StrategyTraits(urgent=True, ignores_windows=True, evacuates=True),
    "NodeMaintenance": StrategyTraits(urgent=True),
    "CostOptimization": StrategyTraits(consolidates=True),
    "LoadBalancing": StrategyTraits(balances=True),
    "ResourceOptimization": StrategyTraits(balances=True),
    **dict.fromkeys(("MakeRoom", "PlacementDrift", "PodLifeTime", "TopologySpread"), _DEFAULT),
}


def traits_of(strategy: str) -> StrategyTraits:
    """Return the traits of the strategy with this name; the defaults if it is unknown."""
    is_plugin = strategy in strategy_plugins().names
    return BUILT_IN_TRAITS.get(strategy) or (_plugin_traits(strategy) if is_plugin else _DEFAULT)


@cache
def strategy_plugins() -> EntryPoints:
    """Return the strategies that installed packages add."""
    # Cached: this reads the metadata of every package, and takes longer than the plan of a small cluster.
    return entry_points(group=STRATEGY_ENTRY_POINTS)


@cache
def _plugin_traits(strategy: str) -> StrategyTraits:
    """Load a plugin and return what it declares.

    A plugin that can't be loaded has the defaults; `strategies_of` reports it if a policy enables it.
    """
    try:
        (plugin,) = strategy_plugins().select(name=strategy)
        declared = plugin.load().traits
    except (Exception, SystemExit):  # noqa: BLE001 - a plugin may raise anything
        return _DEFAULT
    return declared if isinstance(declared, StrategyTraits) else _DEFAULT


class Handover(StrEnum):
    """How a pod is moved. `Auto` is only for settings and requests: a move that has started names another."""

    AUTO = "Auto"
    ADOPT = "Adopt"
    COPY = "Copy"
    EVICT = "Evict"

    @property
    def source_stays(self) -> bool:
        """Return whether the pod and its successor run at the same time, so that both must fit."""
        return self in {Handover.ADOPT, Handover.COPY}


class MigrationPhase(StrEnum):
    PENDING = "Pending"
    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"

    @property
    def is_final(self) -> bool:
        return self in {MigrationPhase.COMPLETED, MigrationPhase.FAILED}


class ConditionType(StrEnum):
    BUDGET_ALLOWS = "BudgetAllows"
    COPY_READY = "CopyReady"
    HANDED_OVER = "HandedOver"
    STEERED = "Steered"
    MARKED = "Marked"
    ROLLED_BACK = "RolledBack"


MAX_SIBLINGS: Final = 100
"""Limit of `status.siblings`: an object must not grow with the workload."""

MAX_GROUP_SIZE: Final = 100
"""Migrations that are handed over together."""

MAX_TEXT_LENGTH: Final = 4096
"""Limit of free text."""

_Name = Annotated[str, Meta(min_length=1, max_length=253)]
_Uid = Annotated[str, Meta(min_length=1, max_length=128)]
_Word = Annotated[str, Meta(max_length=128)]
_Text = Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)]
_Time = Annotated[datetime, Meta(tz=True)]


class PodReference(msgspec.Struct, frozen=True, rename="camel"):
    name: Annotated[_Name, Meta(description="Name of the pod, in the migration's own namespace.")]
    uid: Annotated[_Uid, Meta(description="UID of the pod.")]


class ControllerReference(msgspec.Struct, frozen=True, rename="camel"):
    api_version: _Name
    kind: _Word
    name: _Name
    uid: _Uid


class RoomReference(msgspec.Struct, frozen=True, rename="camel"):
    """Room on a node for a pod that waits to be scheduled, in any namespace."""

    namespace: _Name
    name: _Name
    uid: _Uid
    node: _Name

    @property
    def pod_key(self) -> str:
        return f"{self.namespace}/{self.name}"


class MigrationSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The requested move. It is immutable: for another move, create another PodMigration."""

    pod: Annotated[PodReference, Meta(description="The pod to move.")]
    source_node: Annotated[_Name, Meta(description="The node that the pod runs on.")]
    target_node: Annotated[
        str,
        Meta(
            max_length=253, description="The node to move the pod to; if empty, the rescheduler chooses one."
        ),
    ] = ""
    strategy: Annotated[
        _Word, Meta(description="The strategy that requested the move; Manual if a user did.")
    ] = MANUAL
    reason: Annotated[_Text, Meta(description="Why the pod is moved.")] = ""
    handover: Annotated[Handover, Meta(description="How the pod is moved; Auto chooses by its owner.")] = (
        Handover.AUTO
    )
    group: Annotated[
        str, Meta(max_length=253, description="Migrations of one group are handed over together.")
    ] = ""
    group_size: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_GROUP_SIZE,
            description="Number of migrations in the group; none starts before all of them exist.",
        ),
    ] = 0
    deadline: Annotated[
        _Time | None,
        Meta(description="When a move of strategy Eviction or Evacuation fails if it is not finished."),
    ] = None
    rooms: Annotated[
        tuple[RoomReference, ...],
        Meta(
            max_length=MAX_GROUP_SIZE,
            description="Pending pods for which this move and others make room; they stay nominated.",
        ),
    ] = ()
    replicas: Annotated[
        int,
        Meta(
            ge=0,
            le=0,
            description="Always 0: PodDisruptionBudgets read it from the temporary owner of a copy.",
        ),
    ] = 0


class MigrationCondition(msgspec.Struct, frozen=True, rename="camel"):
    type: Annotated[str, Meta(min_length=1, max_length=316)]
    status: Annotated[str, Meta(extra_json_schema={"enum": ["True", "False", "Unknown"]})]
    last_transition_time: _Time
    reason: Annotated[str, Meta(min_length=1, max_length=1024)]
    message: _Text = ""
    observed_generation: Annotated[int, Meta(ge=0)] = 0


class MigrationStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The progress of the move. Another process can continue the move from this status and the pods alone."""

    observed_generation: Annotated[int, Meta(ge=0)] = 0
    phase: MigrationPhase = MigrationPhase.PENDING
    step: Annotated[_Word, Meta(description="The current step within the phase.")] = ""
    step_since: Annotated[_Time | None, Meta(description="When the current step started.")] = None
    attempts: Annotated[int, Meta(ge=0, description="Number of attempts.")] = 0
    retry_at: Annotated[_Time | None, Meta(description="When the migration is retried.")] = None
    handover: Annotated[Handover | None, Meta(description="How the pod is moved; never Auto.")] = None
    target_node: Annotated[str, Meta(max_length=253, description="The chosen target node.")] = ""
    target_pod: Annotated[
        PodReference | None, Meta(description="The copy or the replacement of the pod.")
    ] = None
    owner: Annotated[ControllerReference | None, Meta(description="The controller of the pod.")] = None
    workload: Annotated[
        ControllerReference | None, Meta(description="The Deployment above that controller.")
    ] = None
    siblings: Annotated[
        tuple[_Uid, ...],
        Meta(
            max_length=MAX_SIBLINGS,
            description="Evict: UIDs of that controller's youngest pods before the eviction.",
        ),
    ] = ()
    """Neither these pods nor older ones are the replacement."""
    failure: Annotated[_Word, Meta(description="Machine-readable reason for the rollback.")] = ""
    failure_is_final: Annotated[
        bool, Meta(description="Whether the failure is permanent, so that there is no retry.")
    ] = False
    message: Annotated[_Text, Meta(description="Human-readable state of the migration.")] = ""
    started_at: _Time | None = None
    eviction_requested_at: Annotated[
        _Time | None, Meta(description="When the eviction of the source was last requested.")
    ] = None
    handed_over_at: Annotated[_Time | None, Meta(description="When the source's eviction was accepted.")] = (
        None
    )
    finished_at: _Time | None = None
    conditions: Annotated[tuple[MigrationCondition, ...], Meta(max_length=16)] = ()  # must fit in etcd
    replicas: Annotated[int, Meta(ge=0, le=0)] = 0

    def condition(self, kind: ConditionType) -> MigrationCondition | None:
        return next((each for each in self.conditions if each.type == kind), None)


class Migration(msgspec.Struct, frozen=True):
    key: str
    """`namespace/name`."""
    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created: datetime
    deleted: datetime | None
    """When its deletion was requested, which cancels the migration."""
    finalizers: tuple[str, ...]
    spec: MigrationSpec
    status: MigrationStatus
    plan: str = ""
    """Id of the plan that requested it, from an annotation."""
    balance: str = ""
    """Spreads of node loads before and after that plan as JSON, from an annotation."""
    requested_by: str = ""
    """The user of the command that requested it, from an annotation."""

    @property
    def pod_key(self) -> str:
        return f"{self.namespace}/{self.spec.pod.name}"

    @property
    def is_cancelled(self) -> bool:
        return self.deleted is not None

    @property
    def is_finished(self) -> bool:
        return self.status.phase.is_final

    @property
    def target_node(self) -> str:
        """Return the chosen node, else the requested one; empty if there is none yet."""
        return self.status.target_node or self.spec.target_node


class UnreadableMigration(ValueError):  # noqa: N818 - says what the object is
    """The object does not match the CustomResourceDefinition, because it was created before that."""


def decode_migration(item: Mapping[str, Any]) -> Migration:
    """Decode a PodMigration; raise `UnreadableMigration`, which names the object and the field."""
    metadata = item["metadata"]
    key = f"{metadata['namespace']}/{metadata['name']}"
    try:
        spec = msgspec.convert(item.get("spec", {}), MigrationSpec)
        status = msgspec.convert(item.get("status") or {}, MigrationStatus)
    except msgspec.ValidationError as error:
        raise UnreadableMigration(f"PodMigration {key} is invalid: {error}") from error
    annotations = metadata.get("annotations") or {}
    return Migration(
        key=key,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        generation=metadata.get("generation", 0),
        created=datetime.fromisoformat(metadata["creationTimestamp"]),
        deleted=datetime.fromisoformat(deleted) if (deleted := metadata.get("deletionTimestamp")) else None,
        finalizers=tuple(metadata.get("finalizers") or ()),
        spec=spec,
        status=status,
        plan=annotations.get(PLAN_ANNOTATION, ""),
        balance=annotations.get(BALANCE_ANNOTATION, ""),
        requested_by=annotations.get(REQUESTED_BY_ANNOTATION, ""),
    )


_MAX_LABEL_VALUE_LENGTH: Final = 63
_VALID_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_HASH_LENGTH: Final = 8


def label_value(text: str) -> str:
    """Return the text if it is a valid label value, else a shortened, valid form of it with a hash."""
    if not text or (len(text) <= _MAX_LABEL_VALUE_LENGTH and _VALID_VALUE.fullmatch(text)):
        return text
    kept = re.sub(r"[^A-Za-z0-9._-]", "-", text).strip("._-")[: _MAX_LABEL_VALUE_LENGTH - _HASH_LENGTH - 1]
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{kept.rstrip('._-')}-{digest}".lstrip("-")
