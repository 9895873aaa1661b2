"""What the leader writes down about itself and the cluster, and what others ask of it: one form for both.

Kept in the ConfigMap `rescheduler-state`: under `status` as the leader sees things, under `pause` what people
want. Readers are lenient: a field that they don't know was written by a newer version.

Which version of the program this is.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

__all__ = [
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
        """Whether moves that a person wishes have to wait too: where not even the facts can be trusted."""
        return self not in {HaltReason.PAUSED, HaltReason.FAILURE_RATIO, HaltReason.NAMESPACE_FAILING}


class Halt(msgspec.Struct, frozen=True, rename="camel"):
    """Why no move is begun. What is under way comes to its end."""

    reason: HaltReason
    since: _Time
    words: str
    ends: str
    """How it ends."""
    namespace: str = ""
    """The only namespace whose pods it holds back; empty if it holds back all."""


class Pause(msgspec.Struct, frozen=True, rename="camel"):
    """What people want: no moves; or that the failures of the past are forgiven."""

    paused: bool = False
    by: str = ""
    at: _Time | None = None
    why: str = ""


class LastCheck(msgspec.Struct, frozen=True, rename="camel"):
    at: _Time
    took_seconds: float
    """From looking to having a plan."""
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
    """So many different ones fail there."""
    why: str = ""


class NodeInMaintenance(msgspec.Struct, frozen=True, rename="camel"):
    node: str
    left: int
    """Pods that are still to go."""
    blocked: tuple[str, ...] = ()
    """Pods that can't, and why, in words; of many the first."""
    message: str = ""


class DaemonStatus(msgspec.Struct, frozen=True, rename="camel"):
    """All of it as the leader saw it at `updated`."""

    leader: str = ""
    version: str = ""
    updated: _Time | None = None
    configuration: str = ""
    """What is to be said about the configuration file, such as why a change of it is kept out."""
    last_check: LastCheck | None = None
    halts: tuple[Halt, ...] = ()
    balance: tuple[ResourceBalance, ...] = ()
    failing: tuple[FailingPod, ...] = ()
    suspects: tuple[SuspectNode, ...] = ()
    maintenance: tuple[NodeInMaintenance, ...] = ()


class UnreadableState(ValueError):  # noqa: N818 - says what it is
    """Somebody has written something else there."""


def decode_pause(data: Mapping[str, str]) -> Pause:
    """Raises `UnreadableState`: a switch that can't be read must not be taken for open."""
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
    """Without an installation, as in a bare checkout, nobody knows."""
    try:
        return version("kube-rescheduler")
    except PackageNotFoundError:
        return "unknown"
