"""A day of a cluster: load that follows the time of day with noise, autoscaling and rollouts, and what is
measured of moves in it.

Half of the workloads have a fixed size, and their pods use more at the peak of their day; most have it in the
afternoon, some at night. The others are autoscaled: the number of their pods follows the curve. What pods use
has little to do with what they request: between 15 % and 160 % of it on average.
"""

import math
import random
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "HOUR_S",
    "App",
    "DayMove",
    "Undone",
    "apps_of",
    "behaviour_of",
    "rollouts_of",
    "spread_of",
    "undone_moves",
]

HOUR_S = 3600.0
DAY_H = 24.0
_NIGHTLY = 0.2
_AUTOSCALED = 0.5
_REQUESTED = 0.62
"""The share of the cluster that is requested at the peak."""
_NOISE = 0.25
_ROLLOUTS_PER_HOUR = 1.5


@dataclass(frozen=True)
class App:
    name: str
    replicas: int
    """At the peak, if it is autoscaled."""
    cpu_millis: int
    memory_mib: int
    mean: float
    """CPU usage as a share of the request, on average over the day."""
    swing: float
    peak_h: float
    autoscaled: bool
    memory_share: float

    def replicas_at(self, hour: float) -> int:
        if not self.autoscaled:
            return self.replicas
        return max(2, round(self.replicas * (0.7 + 0.3 * self._wave(hour))))

    def _wave(self, hour: float) -> float:
        return math.cos(2 * math.pi * (hour - self.peak_h) / DAY_H)


def apps_of(nodes: int, pods: int, node_cpu_millis: int, seed: int) -> list[App]:
    """Return workloads of about so many pods, for nodes of this size."""
    rng = random.Random(seed)
    average = nodes * node_cpu_millis * _REQUESTED / pods
    apps: list[App] = []
    left = pods
    while left > 0:
        replicas = min(left, max(2, round(rng.lognormvariate(1.6, 0.6))))
        mean = rng.choice((0.15, 0.3, 0.5, 0.8, 1.2, 1.6))
        autoscaled = rng.random() < _AUTOSCALED
        apps.append(
            App(
                f"app-{len(apps):03}",
                replicas,
                max(50, round(average * rng.choice((0.3, 0.5, 0.8, 1.2, 2.2)))),
                rng.choice((512, 1024, 1536, 2048)),
                mean,
                # The autoscaler keeps the usage of each pod about even.
                mean * (0.05 if autoscaled else rng.uniform(0.2, 0.45)),
                (rng.gauss(2, 1) if rng.random() < _NIGHTLY else rng.gauss(14, 2)) % DAY_H,
                autoscaled,
                rng.uniform(0.3, 0.9),
            )
        )
        left -= replicas
    return apps


def behaviour_of(apps: Iterable[App], seed: int, shift_h: float = 0.0) -> dict[str, Any]:
    """Return the behaviour of the pods, for kubesim and fake kubelets; `shift_h` moves the peaks."""
    rules = [
        {
            "match": {"labels": {"app": app.name}},
            "startup": "20s",
            "termination": "5s",
            "usage": {
                "cpu": {
                    "mean": f"{app.mean:.1%}",
                    "swing": f"{app.swing:.1%}",
                    "every": "24h",
                    "peak": f"{round((app.peak_h + shift_h) % DAY_H * 60)}m",
                    "noise": _NOISE,
                },
                "memory": {"level": f"{app.memory_share:.1%}", "noise": 0.05},
            },
        }
        for app in apps
    ]
    return {"seed": seed, "pods": rules, "nodes": [{"usage": {"cpu": "150m", "memory": "600Mi"}}]}


def rollouts_of(apps: Sequence[App], seed: int) -> Iterator[tuple[float, App]]:
    """Yield the hour and the workload of each rollout of the day, in office hours."""
    rng = random.Random(seed)
    hour = 8.0
    while (hour := hour + rng.expovariate(_ROLLOUTS_PER_HOUR)) < 18.0:
        yield hour, rng.choice(apps)


@dataclass(frozen=True)
class DayMove:
    """A pod that left a node, and its successor."""

    at_s: float
    app: str
    source: str
    target: str
    old_uid: str
    new_uid: str


@dataclass(frozen=True)
class Undone:
    """Moves that were undone within an hour."""

    same_pod: int
    """The successor of a moved pod moved back."""
    same_workload: int
    """Another pod of the workload moved in the opposite direction."""
    moved_again: int
    """The successor of a moved pod moved on, wherever."""


def undone_moves(moves: Iterable[DayMove], within_s: float = HOUR_S) -> Undone:
    ordered = sorted(moves, key=lambda each: each.at_s)
    same_pod = same_workload = again = 0
    for place, later in enumerate(ordered):
        recent = [each for each in ordered[:place] if later.at_s - each.at_s <= within_s]
        again += any(each.new_uid == later.old_uid for each in recent)
        back = [each for each in recent if (each.source, each.target) == (later.target, later.source)]
        same_pod += any(each.new_uid == later.old_uid for each in back)
        same_workload += any(each.app == later.app for each in back)
    return Undone(same_pod, same_workload, again)


def spread_of(loads: Sequence[float]) -> tuple[float, float]:
    """Return the spread and the deviation, in percentage points."""
    return max(loads) - min(loads), statistics.pstdev(loads)
