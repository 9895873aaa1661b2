"""The contents of the ConfigMap `rescheduler-state`: the leader's status, and the user's pause.

The leader writes `status`, and commands write `pause`. Readers ignore unknown fields, which newer versions
may write.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

__all__ = [
    "DRY_RUN_MOVES_KEY",
    "STATE_CONFIG_MAP",
    "DaemonStatus",
    "DetectedAutoscaler",
    "DryRunEvidence",
    "FailingPod",
    "Halt",
    "HaltReason",
    "LastCheck",
    "NodeInMaintenance",
    "NodeLoad",
    "Pause",
    "ResourceBalance",
    "SpreadChange",
    "SuspectNode",
    "UnreadableState",
    "decode_pause",
    "decode_status",
    "encode_state",
    "program_version",
]

STATE_CONFIG_MAP = "rescheduler-state"
DRY_RUN_MOVES_KEY = "dryRunMoves"
"""The key of the ConfigMap with the moves that a dry run has counted: a restart counts none twice."""

_Time = Annotated[datetime, Meta(tz=True)]


class HaltReason(StrEnum):
    PAUSED = "Paused"
    FAILURE_RATIO = "FailureRatio"
    NAMESPACE_FAILING = "NamespaceFailing"
    NODES_NOT_READY = "NodesNotReady"
    API_FAILING = "ApiFailing"
    CACHES_STALE = "CachesStale"

    @property
    def blocks_manual_moves(self) -> bool:
        """Return whether manual moves wait, too, because the state of the cluster itself can't be trusted."""
        return self not in {HaltReason.PAUSED, HaltReason.FAILURE_RATIO, HaltReason.NAMESPACE_FAILING}

    @property
    def stops_safe_evictions(self) -> bool:
        """Return whether evictions by other clients are not held for a move.

        During these halts, moves are not wanted or would rarely succeed. The other halts only prevent
        balancing on incomplete data. A move on eviction takes one pod off a node that the pod has to leave
        anyway, and is checked live before anything is evicted.
        """
        return self not in {HaltReason.NODES_NOT_READY, HaltReason.CACHES_STALE}


class Halt(msgspec.Struct, frozen=True, rename="camel"):
    """Why no move starts. Moves in progress continue."""

    reason: HaltReason
    since: _Time
    words: str
    ends: str
    """The event that ends the halt."""
    namespace: str = ""
    """The only namespace whose pods are not moved; empty if no pods are moved."""


class Pause(msgspec.Struct, frozen=True, rename="camel"):
    """A user's request to start no moves, or to reset past failures."""

    paused: bool = False
    by: str = ""
    at: _Time | None = None
    why: str = ""


class LastCheck(msgspec.Struct, frozen=True, rename="camel"):
    at: _Time
    took_seconds: float
    """Seconds from reading the cluster to the finished plan."""
    moves: int = 0
    """The number of proposed moves, whether or not they are made."""
    refused: Mapping[str, int] = {}
    """How many pods were refused, by reason."""
    usage_source: str = ""
    assumptions: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    """The limits that delay moves (windows, moves per hour), and until when, in words."""


class NodeLoad(msgspec.Struct, frozen=True, rename="camel"):
    node: str
    percent: float


class ResourceBalance(msgspec.Struct, frozen=True, rename="camel"):
    """Loads of one resource over all Ready nodes, in percent of allocatable."""

    resource: str
    mean: float
    least: NodeLoad
    most: NodeLoad

    @property
    def spread(self) -> float:
        return self.most.percent - self.least.percent


class SpreadChange(msgspec.Struct, frozen=True, rename="camel"):
    """Spread of one resource over nodes, in percentage points, before and after the moves of a plan."""

    resource: str
    before: float
    after: float


class DryRunEvidence(msgspec.Struct, frozen=True, rename="camel"):
    """The moves that a dry run would have made."""

    since: _Time
    """Start of the dry run, at most a week ago."""
    moves: int = 0
    """Pods that checks would have moved since then; a pod that several checks plan counts once."""
    spreads: tuple[SpreadChange, ...] = ()
    """Spreads before and after the moves, as the last check expects them."""


class FailingPod(msgspec.Struct, frozen=True, rename="camel"):
    pod: str
    """`namespace/name`."""
    node: str
    why: str
    tries: int = 0
    allowed: int = 0
    message: str = ""


class SuspectNode(msgspec.Struct, frozen=True, rename="camel"):
    node: str
    workloads: int
    """Number of workloads that fail on the node."""
    why: str = ""


class NodeInMaintenance(msgspec.Struct, frozen=True, rename="camel"):
    node: str
    left: int
    """Number of pods that must still leave the node, with those in `blocked`."""
    blocked: tuple[str, ...] = ()
    """Pods that can't leave, and why, in words; only the first if there are many."""
    message: str = ""
    terminating: int = 0
    """How many of `left` are terminating."""

    @property
    def has_movable_pods(self) -> bool:
        """Return whether a drain would continue, which was stopped by Ctrl-C: a daemon without the strategy
        NodeMaintenance does not continue it."""
        return "still there" in self.message and not self.blocked and self.left > self.terminating


class DetectedAutoscaler(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    how: str
    """The evidence for it in the cluster, in words, or that it is configured."""


class DaemonStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The state that the leader saw at `updated`."""

    leader: str = ""
    version: str = ""
    updated: _Time | None = None
    configuration: str = ""
    """A message about the configuration file, such as why a change is not applied."""
    last_check: LastCheck | None = None
    dry_run: DryRunEvidence | None = None
    """Set while plans are made and not executed."""
    halts: tuple[Halt, ...] = ()
    balance: tuple[ResourceBalance, ...] = ()
    failing: tuple[FailingPod, ...] = ()
    suspects: tuple[SuspectNode, ...] = ()
    maintenance: tuple[NodeInMaintenance, ...] = ()
    autoscalers: tuple[DetectedAutoscaler, ...] = ()
    """Components that remove unneeded nodes."""


class UnreadableState(ValueError):  # noqa: N818 - says what it is
    """The ConfigMap has unexpected content."""


def decode_pause(data: Mapping[str, str]) -> Pause:
    """Decode the pause; raise `UnreadableState` if it is unreadable, which must not count as "not paused"."""
    return _read(data, "pause", Pause) or Pause()


def decode_status(data: Mapping[str, str]) -> DaemonStatus | None:
    """Decode the status; return None if no leader has written one yet. Raise `UnreadableState`."""
    return _read(data, "status", DaemonStatus)


def encode_state(content: Pause | DaemonStatus) -> str:
    return msgspec.json.encode(content).decode()


_T = TypeVar("_T", Pause, DaemonStatus)


def _read(data: Mapping[str, str], key: str, kind: type[_T]) -> _T | None:
    if not data.get(key):
        return None
    try:
        return msgspec.json.decode(data[key], type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableState(f"{key} can't be read: {error}") from error


def program_version() -> str:
    """Return the version of the installed package, or `unknown` in a bare checkout."""
    try:
        return version("kube-rescheduler")
    except PackageNotFoundError:
        return "unknown"
