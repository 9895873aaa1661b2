"""What is measured: which application, under which load, loses its pod in which way."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

__all__ = ["CORE", "ROWS", "VARIANTS", "App", "Case", "Load", "grouped"]

ROWS = (
    "kubectl delete pod",
    "kubectl drain",
    "kubectl rollout restart",
    "descheduler",
    "Karpenter's evictions",
    "kubectl drain, safe evictions",
    "Karpenter's evictions, safe evictions",
    "rescheduler move",
    "rescheduler drain",
    "rescheduler balancing",
)


@dataclass(frozen=True)
class App:
    """A Deployment, or a StatefulSet, of the tests' web server."""

    start_s: int = 10
    delay_s: int = 5
    """How long it serves on after SIGTERM."""
    replicas: int = 1
    budget: bool = False
    """Whether a budget allows one pod less than there are at most, but never none."""
    injected: bool = False
    """The delay is not the application's: an annotation asks the webhook for it."""
    stateful: bool = False

    def __str__(self) -> str:
        parts = [
            f"{self.replicas} {'replica' if self.replicas == 1 else 'replicas'}",
            f"start {self.start_s} s",
        ]
        if self.delay_s:
            parts.append(f"shutdown delay {self.delay_s} s{' (annotation)' if self.injected else ''}")
        else:
            parts.append("no shutdown delay")
        if self.budget:
            parts.append("budget")
        return ("StatefulSet, " if self.stateful else "") + ", ".join(parts)


@dataclass(frozen=True)
class Load:
    protocol: str = "http1"
    keep_alive: bool = False
    rate: int = 1000

    def __str__(self) -> str:
        names = {"http1": "HTTP/1.1", "http2": "HTTP/2", "grpc": "gRPC", "websocket": "websocket"}
        kept = ", keep-alive" if self.keep_alive else ", new connections"
        return f"{names[self.protocol]}{kept if self.protocol == 'http1' else ''}, {self.rate}/s"


@dataclass(frozen=True)
class Case:
    row: str
    app: App
    load: Load

    @property
    def is_ours(self) -> bool:
        return self.row.startswith("rescheduler") or "safe evictions" in self.row


_APP, _LOAD = App(), Load()
CORE = tuple(Case(row, replace(_APP, delay_s=delay), _LOAD) for delay in (5, 0) for row in ROWS)

_LOADS = (
    Load(keep_alive=True),
    Load("http2"),
    Load("grpc"),
    Load("websocket"),
    Load(rate=100),
)
_APPS = (
    App(start_s=1),
    App(replicas=3),
    App(replicas=3, budget=True),
    App(budget=True),
    App(injected=True),
)
_COMPARED = ("kubectl drain", "kubectl drain, safe evictions", "rescheduler move")
VARIANTS = (
    Case("rescheduler move", App(stateful=True), _LOAD),
    *(Case(row, app, _LOAD) for app in _APPS for row in _COMPARED),
    *(Case(row, _APP, load) for load in _LOADS for row in _COMPARED),
    *(Case(row, App(replicas=3, delay_s=0), _LOAD) for row in _COMPARED),
    Case("rescheduler move, leader killed", _APP, _LOAD),
    Case("rescheduler move, target node killed", _APP, _LOAD),
)
"""Each differs from the core in one thing."""


def grouped(cases: Sequence[Case]) -> Iterator[tuple[App, list[Case]]]:
    """Each application once, with everything that is done to it."""
    for app in dict.fromkeys(case.app for case in cases):
        yield app, [case for case in cases if case.app == app]
