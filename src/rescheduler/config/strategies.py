"""Which strategies can be named in a configuration: the built-in ones and those that plugins add."""

from importlib.metadata import entry_points

from rescheduler.model.migrations import FAILED_PODS

__all__ = ["BUILT_IN", "ENTRY_POINT_GROUP", "FAILED_PODS", "known_strategies"]

ENTRY_POINT_GROUP = "rescheduler.strategies"

BUILT_IN = frozenset(
    {"CostOptimization", "LoadBalancing", "NodeMaintenance", "ResourceOptimization", "TopologySpread"}
)
"""FAILED_PODS is not among them: it has a block of its own, and acts only where owners ask for it."""


def known_strategies() -> frozenset[str]:
    """Looks plugins up by name, without importing them."""
    return BUILT_IN | entry_points(group=ENTRY_POINT_GROUP).names
