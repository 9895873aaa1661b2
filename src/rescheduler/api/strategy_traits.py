"""What the rest of the program must know about a strategy, by the name that a PodMigration carries.

Controllers see only that name, and a plugin's strategy may not be installed any more. So the traits are a
table, and other code asks for a trait instead of comparing names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rescheduler.api.podmigration import EVICTION, FAILED_PODS, MANUAL

__all__ = ["BUILT_IN_TRAITS", "StrategyTraits", "traits_of"]


@dataclass(frozen=True, slots=True)
class StrategyTraits:
    """The defaults are those of a strategy that improves placement, such as LoadBalancing."""

    urgent: bool = False
    """Its pods must leave their node: some protections don't apply, and its moves start before others."""
    ignores_windows: bool = False
    """Its moves also start outside maintenance windows."""
    retries: bool = True
    """A failed migration is tried again on the same target, up to `maxRetries` times."""
    recovers: bool = False
    """Its pods fail where they run. Each move counts as an attempt on the workload's ledger."""
    requested: bool = False
    """A user or client requested this very move: `minPodAge` and `podCooldown` don't apply."""
    on_eviction: bool = False
    """Another client waits until it may evict the pod: the move has a deadline, after which the eviction is
    left to the API server, and it waits for room instead of failing."""


BUILT_IN_TRAITS: Final[Mapping[str, StrategyTraits]] = {
    FAILED_PODS: StrategyTraits(urgent=True, ignores_windows=True, retries=False, recovers=True),
    MANUAL: StrategyTraits(urgent=True, ignores_windows=True, requested=True),
    EVICTION: StrategyTraits(urgent=True, ignores_windows=True, requested=True, on_eviction=True),
    "NodeMaintenance": StrategyTraits(urgent=True),
    "CostOptimization": StrategyTraits(),
    "LoadBalancing": StrategyTraits(),
    "ResourceOptimization": StrategyTraits(),
    "TopologySpread": StrategyTraits(),
}

_DEFAULT: Final = StrategyTraits()


def traits_of(strategy: str) -> StrategyTraits:
    """Return the traits of the strategy with this name; the defaults for plugins and unknown names."""
    return BUILT_IN_TRAITS.get(strategy, _DEFAULT)
