"""Faults on demand: what a real API server does on a bad day, when and as often as one wants.

By the Python API (`server.faults.add(Fault("unavailable", verbs=("list",), times=2))`) or over HTTP (see
`admin`). A fault strikes the requests that match all it says; what it leaves out matches everything.
"""

import random
from fnmatch import fnmatchcase
from itertools import count
from typing import Literal

import msgspec

from rescheduler.simulator.failures import Failure, conflict, internal_error
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.routing import Route

__all__ = ["Fault", "FaultKind", "Faults", "ResponseLost", "refusal"]

FaultKind = Literal[
    "conflict", "too-many-requests", "internal-error", "unavailable", "slow", "lose-response",
    "drop-watches", "compact",
]  # fmt: skip

_CHANGES = frozenset({"update", "patch", "delete"})
_WRITES = _CHANGES | {"create", "deletecollection"}


class ResponseLost(ConnectionError):  # noqa: N818 - what happened, to a caller that expects it
    """The request was carried out, and the connection broke before the answer was through."""


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    kind: FaultKind
    """The last two happen at once, when the fault is added; all others wait for requests."""
    verbs: tuple[str, ...] = ()
    """As in RBAC: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`."""
    resource: str = "*"
    """`pods`, `deployments.apps`, `pods/eviction`; `*` stands for anything."""
    namespace: str = "*"
    name: str = "*"
    times: int | None = 1
    """How often it strikes, at least once; null: until it is removed."""
    probability: float = 1.0
    retry_after_s: int | None = None
    """For `too-many-requests` and `unavailable`."""
    delay_s: float = 1.0
    """For `slow`."""
    version: int | None = None
    """For `compact`: up to which version; null: all."""

    def matches(self, verb: str, route: Route) -> bool:
        return (
            verb in self._verbs()
            and self.matches_kind(route.kind, route.subresource)
            and fnmatchcase(route.namespace, self.namespace)
            and fnmatchcase(route.name, self.name)
        )

    def matches_kind(self, kind: Kind, subresource: str = "") -> bool:
        below = f"/{subresource}" if subresource else ""
        shown = (f"{kind.plural}{below}", f"{kind.resource}{below}")
        return any(fnmatchcase(name, self.resource) for name in shown)

    def _verbs(self) -> frozenset[str]:
        """Some faults make sense for some verbs only."""
        if self.verbs:
            return frozenset(self.verbs)
        if self.kind == "conflict":
            return _CHANGES
        if self.kind == "lose-response":
            return _WRITES
        return _WRITES | {"get", "list", "watch"}


class Faults:
    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 - dice, not secrets
        self._numbers = count(1)
        self._active: dict[int, tuple[Fault, int]] = {}

    def add(self, fault: Fault) -> int:
        """A number to remove it by."""
        number = next(self._numbers)
        self._active[number] = (fault, 0)
        return number

    def remove(self, number: int) -> bool:
        return self._active.pop(number, None) is not None

    def clear(self) -> None:
        self._active.clear()

    def active(self) -> dict[int, tuple[Fault, int]]:
        """By number: each fault and how often it has struck."""
        return dict(self._active)

    def strike(self, verb: str, route: Route) -> list[Fault]:
        """The faults that this request meets; those that have struck often enough are gone."""
        struck = []
        for number, (fault, times) in list(self._active.items()):
            if not fault.matches(verb, route) or self._random.random() >= fault.probability:
                continue
            struck.append(fault)
            if fault.times is not None and times + 1 >= fault.times:
                del self._active[number]
            else:
                self._active[number] = (fault, times + 1)
        return struck


def refusal(fault: Fault, route: Route) -> Failure | None:
    """What the client is told instead of an answer; none for faults that refuse nothing."""
    delay = {"retry-after": str(fault.retry_after_s)} if fault.retry_after_s is not None else {}
    details = {"retryAfterSeconds": fault.retry_after_s} if fault.retry_after_s is not None else {}
    match fault.kind:
        case "conflict":
            return conflict(route.kind, route.name)
        case "too-many-requests":
            message = "the server has received too many requests and has asked us to try again later"
            return Failure(429, "TooManyRequests", message, details=details, headers=delay)
        case "internal-error":
            return internal_error("a fault was asked for")
        case "unavailable":
            message = "the server is currently unable to handle the request"
            return Failure(503, "ServiceUnavailable", message, details=details, headers=delay)
    return None
