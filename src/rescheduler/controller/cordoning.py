"""What a plan wants done to nodes: cordon them, with a mark that it was us, and uncordon only those."""

from collections.abc import Callable, Iterable
from typing import Final

from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.patches import merge_patch
from rescheduler.kube.resources import NODES, Object
from rescheduler.model.node_marks import CORDONED_BY, is_cordoned_by
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.plan import Change, NodeChange

__all__ = ["Cordoning"]

_TRIES: Final = 5
"""A node's kubelet writes its status all the time, and each write is another version."""


class Cordoning:
    def __init__(self, client: Client, known: Callable[[str], NodeRecord | None]) -> None:
        """`known` says how a node was last seen, by its name."""
        self._client = client
        self._known = known

    async def make(self, changes: Iterable[Change]) -> None:
        """Raises `KubeError`. A node that is gone, or as it should be, is left alone."""
        for change in changes:
            await self._make(change)

    async def _make(self, change: Change) -> None:
        node = self._known(change.node)
        for last in (*(False,) * (_TRIES - 1), True):
            wanted = None if node is None else _wanted(node, change)
            if wanted is None:
                return
            try:
                await self._client.patch(NODES, change.node, merge_patch(wanted))
            except errors.NotFound:
                return
            except errors.Conflict:
                if last:
                    raise
                node = await self._read(change.node)
                continue
            return

    async def _read(self, name: str) -> NodeRecord | None:
        try:
            return await self._client.get(NODES, name)
        except errors.NotFound:
            return None


def _wanted(node: NodeRecord, change: Change) -> Object | None:
    """With the version as precondition: somebody may cordon it for reasons of their own meanwhile."""
    if change.change is NodeChange.CORDON:
        if node.unschedulable:
            return None
        mark: str | None = change.strategy
    else:
        if not is_cordoned_by(node, change.strategy):
            return None
        mark = None
    return {
        "metadata": {"resourceVersion": node.resource_version, "annotations": {CORDONED_BY: mark}},
        "spec": {"unschedulable": True if change.change is NodeChange.CORDON else None},
    }
