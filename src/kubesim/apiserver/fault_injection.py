"""Inject faults into the API server: errors, delays, broken watches.

A fault applies to all requests that match its fields; fields that are not set match every request. Add faults
in Python (`server.faults.add(InjectedFault("unavailable", verbs=("list",), times=2))`) or over HTTP:

| request | effect |
|---|---|
| `GET /simulator` | returns the version, the number of objects and of open watches |
| `GET /simulator/faults` | returns the active faults by number, and how often each was applied |
| `POST /simulator/faults` | adds a fault (the fields of `InjectedFault` in camel case); returns its number |
| `DELETE /simulator/faults/NUMBER` | removes one fault |
| `DELETE /simulator/faults` | removes all faults |
"""

import random
from fnmatch import fnmatchcase
from itertools import count
from typing import Literal

import msgspec

from kubesim.apiserver.api_messages import Object, ServerRequest, ServerResponse, object_response
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.request_route import RequestRoute
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.apiserver.status_errors import (
    StatusError,
    bad_request,
    conflict,
    forbidden,
    internal_error,
    method_not_allowed,
    no_such_path,
)
from kubesim.apiserver.watch_streams import OpenWatches

__all__ = [
    "FaultInjector",
    "FaultKind",
    "InjectedFault",
    "ResponseLost",
    "SimulatorEndpoint",
    "injected_error",
]

FaultKind = Literal[
    "conflict", "too-many-requests", "internal-error", "unavailable", "not-ready", "slow", "lose-response",
    "drop-watches", "compact",
]  # fmt: skip

_CHANGES = frozenset({"update", "patch", "delete"})
_WRITES = _CHANGES | {"create", "deletecollection"}


class ResponseLost(ConnectionError):  # noqa: N818 - what happened, to a caller that expects it
    """The request was executed, but the connection broke before the response was complete."""


class InjectedFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    kind: FaultKind
    """The last two take effect immediately when the fault is added; all others apply to requests."""
    verbs: tuple[str, ...] = ()
    """The verbs as in RBAC: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    `deletecollection`."""
    resource: str = "*"
    """`pods`, `deployments.apps`, `pods/eviction`; `*` stands for anything."""
    namespace: str = "*"
    name: str = "*"
    times: int | None = 1
    """How many requests it applies to, at least one; null: until it is removed."""
    probability: float = 1.0
    retry_after_s: int | None = None
    """For `too-many-requests` and `unavailable`."""
    delay_s: float = 1.0
    """For `slow`."""
    version: int | None = None
    """For `compact`: up to which version; null: all."""

    def matches(self, verb: str, route: RequestRoute) -> bool:
        return (
            verb in self._verbs()
            and self.matches_kind(route.kind, route.subresource)
            and fnmatchcase(route.namespace, self.namespace)
            and fnmatchcase(route.name, self.name)
        )

    def matches_kind(self, kind: ResourceKind, subresource: str = "") -> bool:
        below = f"/{subresource}" if subresource else ""
        shown = (f"{kind.plural}{below}", f"{kind.resource}{below}")
        return any(fnmatchcase(name, self.resource) for name in shown)

    def _verbs(self) -> frozenset[str]:
        """Return the verbs to which the fault applies."""
        if self.verbs:
            return frozenset(self.verbs)
        if self.kind == "conflict":
            return _CHANGES
        if self.kind in ("lose-response", "not-ready"):
            return _WRITES
        return _WRITES | {"get", "list", "watch"}


class FaultInjector:
    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 - not used for secrets
        self._numbers = count(1)
        self._active: dict[int, tuple[InjectedFault, int]] = {}

    def add(self, fault: InjectedFault) -> int:
        """Add a fault and return the number by which to remove it."""
        number = next(self._numbers)
        self._active[number] = (fault, 0)
        return number

    def remove(self, number: int) -> bool:
        return self._active.pop(number, None) is not None

    def clear(self) -> None:
        self._active.clear()

    def active(self) -> dict[int, tuple[InjectedFault, int]]:
        """Return the active faults by number, each with how often it was applied."""
        return dict(self._active)

    def apply_fault(self, verb: str, route: RequestRoute) -> list[InjectedFault]:
        """Return the faults that apply to this request, and remove those that are used up."""
        faulted = []
        for number, (fault, times) in list(self._active.items()):
            if not fault.matches(verb, route) or self._random.random() >= fault.probability:
                continue
            faulted.append(fault)
            if fault.times is not None and times + 1 >= fault.times:
                del self._active[number]
            else:
                self._active[number] = (fault, times + 1)
        return faulted


def injected_error(fault: InjectedFault, route: RequestRoute) -> StatusError | None:
    """Return the error of a fault, or None for faults that don't reject requests."""
    delay = {"retry-after": str(fault.retry_after_s)} if fault.retry_after_s is not None else {}
    details = {"retryAfterSeconds": fault.retry_after_s} if fault.retry_after_s is not None else {}
    match fault.kind:
        case "conflict":
            return conflict(route.kind, route.name)
        case "too-many-requests":
            message = "the server has received too many requests and has asked us to try again later"
            return StatusError(429, "TooManyRequests", message, details=details, headers=delay)
        case "internal-error":
            return internal_error("injected fault")
        case "unavailable":
            message = "the server is currently unable to handle the request"
            return StatusError(503, "ServiceUnavailable", message, details=details, headers=delay)
        case "not-ready":
            # A server that has just started: its admission plugins have not synced yet.
            return forbidden(route.kind, route.name, "not yet ready to handle request")
    return None


class SimulatorEndpoint:
    def __init__(self, cluster: SimulatedCluster, watches: OpenWatches, faults: FaultInjector) -> None:
        self._cluster = cluster
        self._watches = watches
        self._faults = faults

    def answer(self, request: ServerRequest) -> ServerResponse | None:
        """Respond to a request under `/simulator`; return None for any other path."""
        match (request.method, *request.path.strip("/").split("/")):
            case ("GET", "simulator"):
                return object_response(200, self._overview())
            case ("GET", "simulator", "faults"):
                return object_response(200, {"faults": self._listed()})
            case ("POST", "simulator", "faults"):
                return object_response(201, self._add(request.body))
            case ("DELETE", "simulator", "faults"):
                self._faults.clear()
                return object_response(200, {"faults": {}})
            case ("DELETE", "simulator", "faults", number):
                if number not in self._listed():
                    raise no_such_path()
                self._faults.remove(int(number))
                return object_response(200, {"faults": self._listed()})
            case (_, "simulator" | "simulator/faults", *_):
                raise method_not_allowed()
        return None

    def _overview(self) -> Object:
        counts = {
            kind.resource: len(self._cluster.store.collection(kind).records) for kind in self._cluster.kinds
        }
        return {
            "resourceVersion": str(self._cluster.store.version),
            "objects": {name: number for name, number in sorted(counts.items()) if number},
            "watches": len(self._watches),
        }

    def _listed(self) -> Object:
        return {
            str(number): {**msgspec.to_builtins(fault), "injected": times}
            for number, (fault, times) in self._faults.active().items()
        }

    def _add(self, body: bytes) -> Object:
        try:
            fault = msgspec.json.decode(body, type=InjectedFault)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(f"invalid fault: {error}") from error
        return self.add(fault)

    def add(self, fault: InjectedFault) -> Object:
        """Add a fault; one that takes effect immediately has no number."""
        match fault.kind:
            case "compact":
                self._cluster.store.compact(fault.version)
                newest = self._cluster.store.version
                return {"compacted": str(newest if fault.version is None else min(fault.version, newest))}
            case "drop-watches":
                return {"dropped": self._watches.drop(fault.matches_kind)}
        return {"number": self._faults.add(fault)}
