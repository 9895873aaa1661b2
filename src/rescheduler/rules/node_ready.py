"""Nodes that are not Ready. The scheduler leaves it to a taint, which comes later than the condition."""

from rescheduler.rules.check import Fixed
from rescheduler.rules.refusal import Refusal, Rule
from rescheduler.rules.terrain import Terrain

__all__ = ["node_ready"]


def node_ready(terrain: Terrain) -> Fixed | None:
    def explain(node: int) -> Refusal:
        condition = terrain.records[node].condition("Ready")
        detail = "the node has no condition Ready"
        if condition is not None:
            detail = f"the condition Ready is {condition.status}"
            detail += f" ({condition.reason})" if condition.reason else ""
        return Refusal(Rule.NODE_READY, ("node(s) were not ready",), detail)

    ready = terrain.nodes.ready
    return None if ready.all() else Fixed(ready, explain)
