"""Know when Karpenter removes nodes by force, from their NodeClaims.

At the end of the `terminationGracePeriod`, Karpenter deletes what still runs on a node, whatever budgets and
webhooks say. So pods must be moved before. NodeClaims are followed as soon as there is a node of Karpenter:
most clusters don't have this kind.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from rescheduler.api.well_known_names import KARPENTER_NODE_POOL_LABEL
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.sources.watched_objects import nested_field
from rescheduler.kube.api_resources import ApiResource, Object, ObjectIdentity
from rescheduler.kube.client import Client
from rescheduler.kube.codecs.codec import JsonCodec
from rescheduler.kube.informer import Informer
from rescheduler.migrations.runtime_state import RuntimeStateHolder

__all__ = ["NodeClaimWatch"]

_TERMINATION_TIMESTAMP: Final = "karpenter.sh/nodeclaim-termination-timestamp"
_POD_GRACE_PERIOD: Final = timedelta(seconds=30)
"""Karpenter deletes a pod its grace period before the node's end. This is the default of pods."""


@dataclass(frozen=True, slots=True)
class _NodeClaim:
    name: str
    uid: str
    resource_version: str
    node: str
    removed_at: datetime | None
    """When its pods are deleted; None as long as it has no such deadline."""


def _read(raw: bytes | msgspec.Raw) -> _NodeClaim:
    item: Object = msgspec.json.decode(raw, type=Object)
    metadata = item["metadata"]
    written = nested_field(item, "metadata", "annotations", _TERMINATION_TIMESTAMP)
    try:
        removed_at = datetime.fromisoformat(written) - _POD_GRACE_PERIOD if written else None
    except (TypeError, ValueError, OverflowError):
        removed_at = None
    if removed_at is not None and removed_at.tzinfo is None:
        removed_at = None
    return _NodeClaim(
        metadata["name"],
        metadata.get("uid", ""),
        metadata.get("resourceVersion", ""),
        str(nested_field(item, "status", "nodeName") or ""),
        removed_at,
    )


_NODE_CLAIMS: Final = ApiResource(
    "karpenter.sh", "v1", "nodeclaims", "NodeClaim", False,
    JsonCodec("nodeclaims", _read, lambda each: each.resource_version),
    lambda each: ObjectIdentity(each.name, each.uid, each.resource_version),
)  # fmt: skip


class NodeClaimWatch:
    """Write `node_deadlines` of the runtime state."""

    def __init__(self, client: Client, nodes: Informer[NodeRecord], runtime: RuntimeStateHolder) -> None:
        self._runtime = runtime
        self._has_nodes = asyncio.Event()
        self._claims = Informer(client, _NODE_CLAIMS)
        nodes.subscribe(self._node_changed)
        self._claims.subscribe(self._claim_changed)

    async def run(self) -> None:
        await self._has_nodes.wait()
        await self._claims.run()

    def _node_changed(self, _old: NodeRecord | None, new: NodeRecord | None) -> None:
        if new is not None and KARPENTER_NODE_POOL_LABEL in new.labels:
            self._has_nodes.set()

    def _claim_changed(self, old: _NodeClaim | None, new: _NodeClaim | None) -> None:
        before, now = (
            {} if each is None or not each.node or each.removed_at is None else {each.node: each.removed_at}
            for each in (old, new)
        )
        if before != now:
            known = self._runtime.current.node_deadlines
            rest = {node: moment for node, moment in known.items() if node not in before}
            self._runtime.update(node_deadlines=rest | now)
