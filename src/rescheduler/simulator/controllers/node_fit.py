"""Whether a pod template may run on a node at all, as DaemonSets ask it: selector, affinity and taints."""

from typing import Any

from rescheduler.model.selectors import SelectorError, node_requirements_from_object, selector_from_labels
from rescheduler.simulator.controllers.nodes import Node, tolerates
from rescheduler.simulator.exchange import Object

__all__ = ["node_is_selected", "untolerated"]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node_is_selected(spec: Object, node: Node) -> bool:
    if not selector_from_labels(spec.get("nodeSelector")).matches(node.labels):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(_REQUIRED)
    if required is None:
        return True
    return any(_term_matches(term, node) for term in required.get("nodeSelectorTerms") or ())


def _term_matches(term: dict[str, Any], node: Node) -> bool:
    expressions, fields = term.get("matchExpressions"), term.get("matchFields")
    if not expressions and not fields:
        return False
    try:
        by_labels = node_requirements_from_object(expressions or [])
        by_fields = node_requirements_from_object(fields or [])
    except SelectorError:
        return False
    return by_labels.matches(node.labels) and by_fields.matches({"metadata.name": node.name})


def untolerated(tolerations: list[Object], node: Node) -> set[str]:
    """The effects of taints that these tolerations leave."""
    return {
        taint["effect"]
        for taint in node.taints
        if not any(tolerates(toleration, taint) for toleration in tolerations)
    }
