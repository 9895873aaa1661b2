"""Nodes and their taints as controllers see them, and whether a DaemonSet's pod may run on a node."""

from typing import Any

import msgspec

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.object_store import StoredObject
from kubesim.controllers.pod_index import IndexedCondition, IndexedMetadata
from kubevalues import SelectorError, node_requirements_from_object, selector_from_labels

__all__ = [
    "NOT_READY",
    "UNREACHABLE",
    "IndexedNode",
    "node_is_selected",
    "node_of",
    "tolerates",
    "untolerated",
]

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


class _Spec(msgspec.Struct, frozen=True):
    taints: tuple[dict[str, Any], ...] | None = None
    unschedulable: bool | None = None


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[IndexedCondition, ...] | None = None


class IndexedNode(msgspec.Struct, frozen=True):
    metadata: IndexedMetadata
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

    def condition_status(self, condition: str) -> str:
        """Return `True`, `False`, `Unknown`, or an empty string if there is no such condition."""
        found = (item.status for item in self.status.conditions or () if item.type == condition)
        return next(found, "")


_decode = msgspec.json.Decoder(IndexedNode).decode


def node_of(record: StoredObject) -> IndexedNode:
    return _decode(record.raw)


def tolerates(toleration: Object, taint: Object) -> bool:
    """Return whether a toleration matches; without a key or an effect, it matches any."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node_is_selected(spec: Object, node: IndexedNode) -> bool:
    if not selector_from_labels(spec.get("nodeSelector")).matches(node.labels):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(_REQUIRED)
    if required is None:
        return True
    return any(_term_matches(term, node) for term in required.get("nodeSelectorTerms") or ())


def _term_matches(term: dict[str, Any], node: IndexedNode) -> bool:
    expressions, fields = term.get("matchExpressions"), term.get("matchFields")
    if not expressions and not fields:
        return False
    try:
        by_labels = node_requirements_from_object(expressions or [])
        by_fields = node_requirements_from_object(fields or [])
    except SelectorError:
        return False
    return by_labels.matches(node.labels) and by_fields.matches({"metadata.name": node.name})


def untolerated(tolerations: list[Object], node: IndexedNode) -> set[str]:
    """Return the effects of the taints that are not tolerated."""
    return {
        taint["effect"]
        for taint in node.taints
        if not any(tolerates(toleration, taint) for toleration in tolerations)
    }
