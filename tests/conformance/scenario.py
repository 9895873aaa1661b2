"""A scenario: a sentence about a cluster, and the steps that show it on any server.

    @scenario("an update with an outdated version is refused")
    async def outdated(world: World) -> None: ...

    @living("a ReplicaSet takes a pod that nobody owns", nodes=1)
    async def adopts(world: LivingWorld) -> None: ...

Each runs on the simulated cluster and on a real one. The real one's notes are kept in `recorded/`, so that
everyday tests hold the simulator to them without a control plane at hand; `make e2e` checks that they are
still true.
"""

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.conformance.living import LivingWorld
from tests.conformance.world import World

__all__ = ["Cast", "Scenario", "all_scenarios", "living", "scenario"]

Steps = Callable[[World], Awaitable[None]]
LivingSteps = Callable[[LivingWorld], Awaitable[None]]


@dataclass(frozen=True)
class Cast:
    """Who is there beside the API server, the controllers and the scheduler."""

    nodes: int = 2
    metrics: bool = False
    """Somebody tells what pods use, for autoscalers."""


@dataclass(frozen=True)
class Scenario:
    sentence: str
    steps: Callable[[Any], Awaitable[None]]
    alone: bool = False
    """It restarts the server, is told of all nodes, or needs the controllers: nothing may run beside it."""
    sockets: bool = False
    """It has a server of its own, which answers in real time: the simulator's time must not jump."""
    cast: Cast | None = None
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
    """On the API server as such."""

    def register(steps: Steps) -> Steps:
        _add(Scenario(sentence, steps, alone, sockets))
        return steps

    return register


def living(
    sentence: str, *, nodes: int = 2, metrics: bool = False, alone: bool = False
) -> Callable[[LivingSteps], LivingSteps]:
    """In a cluster where everybody is at work: all controllers, the scheduler, kubelets of its own nodes."""

    def register(steps: LivingSteps) -> LivingSteps:
        _add(Scenario(sentence, steps, alone, cast=Cast(nodes, metrics)))
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
