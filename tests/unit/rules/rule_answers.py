"""Ask a placement by names."""

from rescheduler.rules.placement import Placement
from rescheduler.rules.rule_check import NodeRefusal, SchedulerRule
from tests.building import ClusterBuilder

__all__ = ["fits", "only_refusal", "refusals"]


def fits(built: ClusterBuilder, pod: str = "shop/web", *, source_stays: bool = True) -> set[str]:
    """Names of the nodes where it fits."""
    snapshot = built.snapshot()
    found = Placement(snapshot).fits(snapshot.pods.row[pod], source_stays=source_stays)
    return {node.name for node, fit in zip(snapshot.nodes.records, found, strict=True) if fit}


def refusals(
    built: ClusterBuilder, node: str, pod: str = "shop/web", *, source_stays: bool = True
) -> dict[SchedulerRule, NodeRefusal]:
    snapshot = built.snapshot()
    rows = snapshot.pods.row[pod], snapshot.nodes.row[node]
    return {each.rule: each for each in Placement(snapshot).refusals(*rows, source_stays=source_stays)}


def only_refusal(
    built: ClusterBuilder, node: str, pod: str = "shop/web", *, source_stays: bool = True
) -> NodeRefusal:
    (found,) = refusals(built, node, pod, source_stays=source_stays).values()
    return found
