"""A scenario: a sentence about a cluster, and the steps that show it on any server.

    @scenario("an update with an outdated version is refused")
    async def outdated(cluster: ClusterUnderTest) -> None: ...

    @running_cluster_scenario("a ReplicaSet adopts a pod without an owner", nodes=1)
    async def adopts(cluster: RunningCluster) -> None: ...

Each runs on the simulated cluster and on a real one. The real one's notes are kept in `recorded/`, so that
everyday tests hold the simulator to them without a control plane at hand; `make e2e` checks that they are
still true.
"""

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.running_cluster import RunningCluster

__all__ = ["Components", "Scenario", "all_scenarios", "running_cluster_scenario", "scenario"]

Steps = Callable[[ClusterUnderTest], Awaitable[None]]
RunningClusterSteps = Callable[[RunningCluster], Awaitable[None]]


@dataclass(frozen=True)
class Components:
    """What a scenario needs in addition to the API server, the controllers and the scheduler."""

    nodes: int = 2
    metrics: bool = False
    """Usage is served, for autoscalers."""


@dataclass(frozen=True)
class Scenario:
    sentence: str
    steps: Callable[[Any], Awaitable[None]]
    alone: bool = False
    """It restarts the server, gets a message about all nodes, or needs the controllers: it must run alone."""
    sockets: bool = False
    """It has a server of its own, which answers in real time: the simulator's time must not jump."""
    components: Components | None = None
    """None: only the API server, the garbage collector and the namespace controller are at work."""

    @property
    def group(self) -> str:
        """The file it stands in: what it is about."""
        return self.steps.__module__.rpartition(".")[2]

    @property
    def id(self) -> str:
        return f"{self.group}/{self.steps.__name__}"


_FOUND: dict[str, Scenario] = {}


def scenario(sentence: str, *, alone: bool = False, sockets: bool = False) -> Callable[[Steps], Steps]:
    """Declare a scenario that needs only the API server."""

    def register(steps: Steps) -> Steps:
        _add(Scenario(sentence, steps, alone, sockets))
        return steps

    return register


def running_cluster_scenario(
    sentence: str, *, nodes: int = 2, metrics: bool = False, alone: bool = False
) -> Callable[[RunningClusterSteps], RunningClusterSteps]:
    """Declare a scenario that needs all components: controllers, scheduler, and kubelets of its own nodes."""

    def register(steps: RunningClusterSteps) -> RunningClusterSteps:
        _add(Scenario(sentence, steps, alone, components=Components(nodes, metrics)))
        return steps

    return register


def _add(found: Scenario) -> None:
    if found.id in _FOUND:
        raise ValueError(f"two scenarios are called {found.id}")
    _FOUND[found.id] = found


def all_scenarios() -> list[Scenario]:
    from tests.conformance import scenarios  # noqa: PLC0415 - they import this module

    for module in pkgutil.iter_modules(scenarios.__path__):
        importlib.import_module(f"{scenarios.__name__}.{module.name}")
    return sorted(_FOUND.values(), key=lambda found: found.id)
