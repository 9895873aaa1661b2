"""What the demo is about, chapter by chapter, and how one sees whether it came true."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from typing import Final

from rescheduler.cli.demo.witness import Witness
from rescheduler.config.policy import Configuration, FailedPods, Policy, UsageSource, ZeroBudget
from rescheduler.simulator.scenario import Scenario, parse_scenario

__all__ = ["CHAPTERS", "CONFIGURATION", "LENGTH_S", "Chapter", "story"]

LENGTH_S: Final = 120.0

_MAINTAINED: Final = "worker-3"
_BROKEN: Final = "worker-4"

CONFIGURATION: Final = Configuration(
    policy=Policy(
        rescheduling_interval=timedelta(seconds=4),
        enabled_strategies=("NodeMaintenance", "LoadBalancing"),
        usage_source=UsageSource.REQUESTS,
        min_pod_age=timedelta(),
        pod_cooldown=timedelta(seconds=30),
        settle_time=timedelta(seconds=2),
        move_under_zero_budget=ZeroBudget.ALWAYS,
        failed_pods=FailedPods(restart_threshold=1, recovery_window=timedelta(minutes=1)),
    )
)
"""Everything faster than one would have it in earnest, and budgets that allow nothing no reason to stay."""


@dataclass(frozen=True, slots=True)
class Chapter:
    begins_s: float
    title: str
    words: str
    came_true: Callable[[Witness], str]
    """Asked when the next one begins: empty, or what is not as it should be."""


def story() -> Scenario:
    return parse_scenario(files(__package__).joinpath("story.yaml").read_bytes(), source="story.yaml")


def _is_balanced(seen: Witness) -> str:
    most = CONFIGURATION.policy.imbalance_threshold
    spread = seen.spread()
    return (
        "" if spread <= most else f"nodes are still {spread:.0f} points apart in cpu, of {most:.0f} at most"
    )


def _is_emptied(seen: Witness) -> str:
    left = seen.movable_on(_MAINTAINED)
    if left:
        return f"{', '.join(left)} still on {_MAINTAINED}"
    return "" if seen.is_cordoned(_MAINTAINED) else f"{_MAINTAINED} is not cordoned"


def _has_recovered(seen: Witness) -> str:
    unready = seen.unready("reports")
    if unready:
        return f"{', '.join(unready)} not ready"
    if seen.is_cordoned(_MAINTAINED):
        return f"{_MAINTAINED} is still cordoned"
    if wrong := _is_balanced(seen):
        return wrong
    there = [pod for pod in seen.movable_on(_BROKEN) if pod.startswith("reports/")]
    return f"{', '.join(there)} still on {_BROKEN}" if there else ""


CHAPTERS: Final = (
    Chapter(
        0.0,
        "A lopsided shop",
        "worker-1 and worker-2 are hot, worker-6 is idle. Budgets of checkout and search allow no disruption "
        "at all. Pods are moved all the same: the copy is ready before the pod goes.",
        _is_balanced,
    ),
    Chapter(
        40.0,
        f"{_MAINTAINED} goes into maintenance",
        "Somebody labels it. It is cordoned and emptied; a pod of the database is evicted within its budget, "
        "and its successor steered to the chosen node.",
        _is_emptied,
    ),
    Chapter(
        68.0,
        f"{_BROKEN} breaks pods",
        'Pods of renderer crash there. Its owner allows three tries (scheduling-retries: "3"): it gets '
        f"another node, and {_MAINTAINED} comes back into service.",
        _has_recovered,
    ),
)
