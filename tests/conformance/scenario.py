"""A scenario: a sentence about the API, and the steps that show it on any server.

    @scenario("an update with an outdated version is refused")
    async def outdated(world: World) -> None: ...

Each runs on the simulated API server and on a real one. The real server's notes are kept in `recorded/`, so
that everyday tests hold the simulator to them without a control plane at hand; `make e2e` checks that they
are still true.
"""

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.conformance.world import World

__all__ = ["Scenario", "all_scenarios", "scenario"]

Steps = Callable[[World], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    sentence: str
    steps: Steps
    alone: bool = False
    """It restarts the server, or needs the controllers for itself: nothing may run beside it."""
    sockets: bool = False
    """It has a server of its own, which answers in real time: the simulator's time must not jump."""

    @property
    def group(self) -> str:
        """The file it stands in: what it is about."""
        return self.steps.__module__.rpartition(".")[2]

    @property
    def id(self) -> str:
        return f"{self.group}/{self.steps.__name__}"


_FOUND: dict[str, Scenario] = {}


def scenario(sentence: str, *, alone: bool = False, sockets: bool = False) -> Callable[[Steps], Steps]:
    def register(steps: Steps) -> Steps:
        found = Scenario(sentence, steps, alone, sockets)
        if found.id in _FOUND:
            raise ValueError(f"two scenarios are called {found.id}")
        _FOUND[found.id] = found
        return steps

    return register


def all_scenarios() -> list[Scenario]:
    from tests.conformance import scenarios  # noqa: PLC0415 - they import this module

    for module in pkgutil.iter_modules(scenarios.__path__):
        importlib.import_module(f"{scenarios.__name__}.{module.name}")
    return sorted(_FOUND.values(), key=lambda found: found.id)
