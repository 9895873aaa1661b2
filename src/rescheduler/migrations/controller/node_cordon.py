"""Cordon nodes with an annotation, and uncordon only nodes that rescheduler cordoned.

The annotation alone does not prove that: a user may uncordon a node and cordon it again for another reason,
and the annotation would stay. So before an uncordon the managed fields of the node show which client cordoned
it.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from rescheduler.api.well_known_names import CORDONED_BY_ANNOTATION, REQUESTED_BY_ANNOTATION
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.node_record import NodeChange, NodeRecord, cordoned_by_others, is_cordoned_by
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object, identity_of_object, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import log_event
from rescheduler.planner.plan import PlannedNodeChange

__all__ = ["NodeCordoner", "remove_stale_cordon_annotation"]

log: Final = logging.getLogger(__name__)

_MAX_CONFLICTS: Final = 5
"""A node's kubelet writes its status all the time, and each write is another version."""


class NodeCordoner:
    def __init__(self, client: Client, known: Callable[[str], NodeRecord | None]) -> None:
        """`known` returns the last known state of a node by name."""
        self._client = client
        self._known = known

    async def make(self, changes: Iterable[PlannedNodeChange]) -> None:
        """Make the changes; raise `KubeError`. Nodes that are gone, or already as they should be, are left
        alone."""
        for change in changes:
            if change.change is NodeChange.CORDON:
                await self._cordon(change)
            else:
                await self.uncordon(change.node, change.strategy)

    async def _cordon(self, change: PlannedNodeChange) -> None:
        node = self._known(change.node)
        for tries_left in reversed(range(_MAX_CONFLICTS)):
            if node is None or node.unschedulable:
                return
            try:
                await self._patch(change.node, node.resource_version, mark=change.strategy, cordon=True)
            except errors.NotFound:
                return
            except errors.Conflict:
                if not tries_left:
                    raise
                node = await self._client.get_or_none(NODES, change.node)
                continue
            return

    async def uncordon(self, name: str, strategy: str) -> bool:
        """Uncordon the node, and return whether it is schedulable now. If another client cordoned it, only
        our annotation is removed.

        Raises `KubeError`.
        """
        node = self._known(name)
        if node is None or not is_cordoned_by(node, strategy):
            return node is not None and not node.unschedulable
        for tries_left in reversed(range(_MAX_CONFLICTS)):
            try:
                return await self._uncordon(name, strategy)
            except errors.NotFound:
                return False
            except errors.Conflict:
                if not tries_left:
                    raise
        return False

    async def _uncordon(self, name: str, strategy: str) -> bool:
        live = await self._client.get(NODES.as_json, name)
        is_cordoned = bool((live.get("spec") or {}).get("unschedulable"))
        if (live["metadata"].get("annotations") or {}).get(CORDONED_BY_ANNOTATION) != strategy:
            return not is_cordoned
        version = identity_of_object(live).version
        others = cordoned_by_others(live, self._client.field_manager)
        if is_cordoned and others:
            message = (
                f"node {name} stays cordoned: it was cordoned by {', '.join(others)} after rescheduler had "
                f"cordoned it. To make it schedulable, run `kubectl uncordon {name}`."
            )
            log_event(log, logging.INFO, "CordonKept", message, node=name, cordoned_by=", ".join(others))
            await self._patch(name, version)
            return False
        await self._patch(name, version, cordon=False if is_cordoned else None)
        return True

    async def _patch(
        self, name: str, version: str, *, mark: str | None = None, cordon: bool | None = None
    ) -> None:
        """Patch the node with its version as precondition: another client may cordon it at the same time."""
        annotations = {CORDONED_BY_ANNOTATION: mark}
        if mark is None:
            # Otherwise the next maintenance, by another user, would be attributed to this one.
            annotations[REQUESTED_BY_ANNOTATION] = None
        patch: Object = {"metadata": {"resourceVersion": version, "annotations": annotations}}
        if cordon is not None:
            patch["spec"] = {"unschedulable": cordon or None}
        await self._client.patch(NODES, name, merge_patch(patch))


async def remove_stale_cordon_annotation(client: Client, node: NodeRecord) -> None:
    """Remove the annotation of a cordon that no longer exists. Raises `KubeError`.

    The version is a precondition, so that a cordon that we make at the same time keeps its annotation.
    """
    if CORDONED_BY_ANNOTATION not in node.annotations or node.unschedulable:
        return
    metadata = {"resourceVersion": node.resource_version, "annotations": {CORDONED_BY_ANNOTATION: None}}
    await client.patch(NODES, node.name, merge_patch({"metadata": metadata}))
