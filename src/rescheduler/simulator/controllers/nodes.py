"""Nodes as controllers see them, and the taints that say what is wrong with them."""

from typing import Any

import msgspec

from rescheduler.simulator.controllers.pods import Condition, Metadata
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.store import Record

__all__ = ["NOT_READY", "UNREACHABLE", "Node", "node_of", "tolerates"]

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


class _Spec(msgspec.Struct, frozen=True):
    taints: tuple[dict[str, Any], ...] | None = None
    unschedulable: bool | None = None


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[Condition, ...] | None = None


class Node(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or {}

    @property
    def taints(self) -> tuple[dict[str, Any], ...]:
        return self.spec.taints or ()

    def says(self, condition: str) -> str:
        """`True`, `False`, `Unknown`, or nothing at all."""
        found = (item.status for item in self.status.conditions or () if item.type == condition)
        return next(found, "")


_decode = msgspec.json.Decoder(Node).decode


def node_of(record: Record) -> Node:
    return _decode(record.raw)


def tolerates(toleration: Object, taint: Object) -> bool:
    """One that names no key or no effect tolerates any."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
