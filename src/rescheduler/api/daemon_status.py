"""The contents of the ConfigMap `rescheduler-state`: the leader's status, and the user's pause.

The leader writes `status`, the commands write `pause`. Readers ignore unknown fields, which newer versions
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
    "STATE_CONFIG_MAP",
    "DaemonStatus",
    "FailingPod",
    "Halt",
    "HaltReason",
    "LastCheck",
    "NodeInMaintenance",
    "NodeLoad",
    "Pause",
    "ResourceBalance",
    "SuspectNode",
    "UnreadableState",
    "decode_pause",
    "decode_status",
    "encode_state",
    "program_version",
]

STATE_CONFIG_MAP = "rescheduler-state"

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
        """Whether manual moves wait, too: the state of the cluster itself can't be trusted."""
        return self not in {HaltReason.PAUSED, HaltReason.FAILURE_RATIO, HaltReason.NAMESPACE_FAILING}

    @property
    def stops_safe_evictions(self) -> bool:
        """Whether evictions by other clients pass: moves are not wanted, or would hardly succeed.

        The other halts only protect from balancing on incomplete data. A move on eviction takes one pod off a
        node that it has to leave anyway, and is checked live before anything is evicted.
        """
        return self not in {HaltReason.NODES_NOT_READY, HaltReason.CACHES_STALE}


class Halt(msgspec.Struct, frozen=True, rename="camel"):
    """Why no move starts. Moves in progress continue."""

    reason: HaltReason
    since: _Time
    words: str
    ends: str
    """How it ends."""
    namespace: str = ""
    """The only namespace whose pods it holds back; empty if it holds back all."""


class Pause(msgspec.Struct, frozen=True, rename="camel"):
    """A user's request to start no moves, or to reset past failures."""

    paused: bool = False
    by: str = ""
    at: _Time | None = None
    why: str = ""


class LastCheck(msgspec.Struct, frozen=True, rename="camel"):
    at: _Time
    took_seconds: float
    """From reading the cluster to the finished plan."""
    moves: int = 0
    """As many as were proposed, whether they are made or not."""
    refused: Mapping[str, int] = {}
    """How many pods were refused, by reason."""
    usage_source: str = ""
    assumptions: tuple[str, ...] = ()


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
    """Pods that are still to go."""
    blocked: tuple[str, ...] = ()
    """Pods that can't, and why, in words; of many the first."""
    message: str = ""


class DaemonStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The state that the leader saw at `updated`."""

    leader: str = ""
    version: str = ""
    updated: _Time | None = None
    configuration: str = ""
    """A message about the configuration file, such as why a change is not applied."""
    last_check: LastCheck | None = None
    halts: tuple[Halt, ...] = ()
    balance: tuple[ResourceBalance, ...] = ()
    failing: tuple[FailingPod, ...] = ()
    suspects: tuple[SuspectNode, ...] = ()
    maintenance: tuple[NodeInMaintenance, ...] = ()


class UnreadableState(ValueError):  # noqa: N818 - says what it is
    """The ConfigMap has other content than expected."""


def decode_pause(data: Mapping[str, str]) -> Pause:
    """Raises `UnreadableState`: an unreadable pause must not count as "not paused"."""
    return _read(data, "pause", Pause) or Pause()


def decode_status(data: Mapping[str, str]) -> DaemonStatus | None:
    """None if no leader has written one yet. Raises `UnreadableState`."""
    return _read(data, "status", DaemonStatus)


def encode_state(content: Pause | DaemonStatus) -> str:
    return msgspec.json.encode(content).decode()


_T = TypeVar("_T", Pause, DaemonStatus)


def _read(data: Mapping[str, str], key: str, kind: type[_T]) -> _T | None:
    if not data.get(key):
        return None
    try:
        return msgspec.json.decode(data[key], type=kind)
    except msgspec.DecodeError as error:
        raise UnreadableState(f"{key} can't be read: {error}") from error


def program_version() -> str:
    """Return the version of the installed package, or `unknown` in a bare checkout."""
    try:
        return version("kube-rescheduler")
    except PackageNotFoundError:
        return "unknown"
