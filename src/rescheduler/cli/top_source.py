"""What `rescheduler top` shows, and the source from which it comes. Without Textual, which is optional."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["MoveRow", "NodeRow", "TopSource", "TopState", "sorted_nodes"]


@dataclass(frozen=True, slots=True)
class NodeRow:
    name: str
    cpu: float
    """Percent of allocatable, as is `memory`."""
    memory: float
    pods: int
    state: str
    """The state in words, such as `Ready, cordoned`."""


@dataclass(frozen=True, slots=True)
class MoveRow:
    key: str
    """The key of the PodMigration."""
    status: str
    """The progress in words, such as `copy ready, settling 6/10 s`."""
    age: str
    nodes: str
    """Source and target: `worker-1 → worker-2`."""
    reason: str
    is_finished: bool


@dataclass(frozen=True, slots=True)
class TopState:
    """What the screen shows at one moment."""

    summary: tuple[str, ...] = ()
    """Leader, dry run, halts and balance."""
    nodes: tuple[NodeRow, ...] = ()
    moves: tuple[MoveRow, ...] = ()
    """Unfinished ones first, then those that finished last."""


class TopSource(Protocol):
    """Where the screen gets what it shows, and what carries out what the user requests.

    `width` is the number of columns that lines of text may have.
    """

    async def current_state(self) -> TopState: ...

    async def explain_node(self, name: str, width: int) -> Sequence[str]: ...

    async def explain_pod(self, key: str, width: int) -> Sequence[str]: ...

    async def plan(self, width: int) -> Sequence[str]: ...

    async def pods_on(self, node: str) -> Sequence[str]:
        """Return the keys of the pods on the node."""
        ...

    async def pause(self) -> str: ...

    async def resume(self) -> str: ...

    async def cancel(self, migration: str) -> str: ...


def sorted_nodes(nodes: Sequence[NodeRow], by: str, wanted: str) -> list[NodeRow]:
    """Return the nodes whose name contains `wanted`: the most loaded first, or by name."""
    found = [node for node in nodes if wanted.lower() in node.name.lower()]
    if by == "name":
        return sorted(found, key=lambda node: node.name)
    return sorted(found, key=lambda node: (-getattr(node, by), node.name))
