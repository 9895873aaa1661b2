"""Answer AdmissionReviews of `pods/eviction`, and record the moves of pods that are to be moved first.

An answer takes no request: the PodMigration is created in the background, while the client waits for its next
try. If that fails permanently, the next eviction of the pod passes.
"""

import asyncio
import contextlib
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, Counter, generate_latest

from rescheduler.api.podmigration import MigrationSpec
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy import Policy, SafeEvictionMode
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import log_event
from rescheduler.migrations.interruptions import EVICTION_RETRY_AFTER
from rescheduler.steering.webhook.admission_review import allowed_review, denied_review, uid_of
from rescheduler.steering.webhook.eviction_caches import EvictionCaches
from rescheduler.steering.webhook.eviction_decision import (
    EvictionFacts,
    HoldEviction,
    PassEviction,
    PassReason,
    decide_eviction,
    eviction_migration_name,
)

__all__ = ["EvictionGuard", "EvictionMetrics", "has_turn"]

log = logging.getLogger(__name__)

_MAX_REMEMBERED: Final = 20_000
"""Pods whose evictions were held. A hostile client can't make the process remember more."""
_MAX_RECORDING: Final = 100
"""PodMigrations that are being created at the same time; others are created at the client's next try."""
_SIBLING_S: Final = 10.0
"""The time after which the status of a controller shows that one of its pods was evicted."""
_REFUSED_S: Final = 300.0
"""How long evictions pass after the API server refused the PodMigration: the cause may be gone then."""
_ALL: Final = "All"
_COUNTED: Final = frozenset({PassReason.ONLY_EVICTABLE, PassReason.NOT_NEEDED})
"""The reasons for which an evicted pod counts: others of the same controller must wait, or be moved first."""


class _Preconditions(msgspec.Struct):
    uid: str | None = None


class _DeleteOptions(msgspec.Struct, rename="camel"):
    dry_run: list[str] | None = None
    preconditions: _Preconditions | None = None


class _Eviction(msgspec.Struct, rename="camel"):
    delete_options: _DeleteOptions | None = None


class _ExtraOfUser(msgspec.Struct):
    pods: list[str] | None = msgspec.field(default=None, name="authentication.kubernetes.io/pod-name")


class _User(msgspec.Struct):
    username: str = ""
    extra: _ExtraOfUser | None = None


class _Options(msgspec.Struct, rename="camel"):
    field_manager: str = ""


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    name: str
    namespace: str
    operation: str
    sub_resource: str | None = None
    object: _Eviction | None = None
    dry_run: bool | None = None
    user_info: _User = msgspec.field(default_factory=_User)
    options: _Options | None = None

    @property
    def is_dry_run(self) -> bool:
        """Return whether the request must change nothing. `kubectl drain --dry-run=server` says so in the
        options of the deletion, not of the request."""
        options = self.object.delete_options if self.object is not None else None
        return bool(self.dry_run) or (options is not None and _ALL in (options.dry_run or ()))

    @property
    def pod_uid(self) -> str:
        options = self.object.delete_options if self.object is not None else None
        wanted = options.preconditions if options is not None else None
        return (wanted.uid or "") if wanted is not None else ""

    @property
    def client(self) -> str:
        """Return the user and other details of the client. A review has no user agent."""
        pod = (self.user_info.extra.pods if self.user_info.extra is not None else None) or []
        manager = self.options.field_manager if self.options is not None else ""
        more = ", ".join([*(f"pod {name}" for name in pod[:1]), *filter(None, (manager,))])
        words = f"{self.user_info.username} ({more})" if more else self.user_info.username
        return _printable(words)[:300]


class _Review(msgspec.Struct):
    request: _Request


_READER: Final = msgspec.json.Decoder(_Review)


class EvictionMetrics:
    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.intercepted = Counter(
            "rescheduler_evictions_intercepted",
            "Pods whose eviction was turned into a move",
            registry=registry,
        )
        self.held = Counter(
            "rescheduler_evictions_held", "Evictions that were answered with 429", registry=registry
        )
        self.passed = Counter(
            "rescheduler_evictions_passed",
            "Evictions that were left to the API server, by reason",
            ("reason",),
            registry=registry,
        )
        for reason in PassReason:
            self.passed.labels(reason)

    def text(self) -> bytes:
        return generate_latest(self.registry)


@dataclass(slots=True)
class _HeldPod:
    first: datetime
    """When an eviction of the pod was first held."""
    last: datetime
    """When a client last tried to evict it."""
    last_blocked: datetime | None = None
    """When it last had to wait until other pods of its controller are ready."""
    has_passed: bool = False
    """Whether an eviction of it has passed since."""


class EvictionGuard:
    def __init__(
        self,
        client: Client,
        caches: EvictionCaches,
        policy: Callable[[], Policy],
        now: Callable[[], datetime],
        monotonic_s: Callable[[], float],
    ) -> None:
        self.metrics = EvictionMetrics()
        self.token = ""
        """The last part of the path under which API servers call; empty until it is known."""
        self._client = client
        self._caches = caches
        self._policy = policy
        self._now = now
        self._monotonic_s = monotonic_s
        self._held: dict[str, _HeldPod] = {}
        """The pods whose eviction was held, by uid."""
        self._refused: dict[str, tuple[str, float]] = {}
        """Why and when the API server refused the PodMigration of a pod, by the uid of the pod."""
        self._evicted: dict[str, dict[str, float]] = {}
        """When evictions of pods passed lately, by the uid of the controller, then of the pod."""
        self._recording: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """The namespaces of pods whose PodMigration is being created, by the uid of the pod."""

    @property
    def is_on(self) -> bool:
        return self._policy().safe_evictions.mode is not SafeEvictionMode.OFF

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            async with self._caches.running():
                yield
        finally:
            for _, task in self._recording.values():
                task.cancel()

    def is_authentic(self, token: str) -> bool:
        """Return whether an API server called: only they know the path. A forged review would move a pod
        of another user."""
        return bool(self.token) and hmac.compare_digest(token.encode(), self.token.encode())

    def answer(self, body: bytes) -> bytes:
        """Answer an AdmissionReview. Never raises, and lets the eviction pass in case of doubt."""
        try:
            request = _READER.decode(body).request
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._passed(
                uid_of(body), PassEviction(PassReason.UNREADABLE, "not a review of an eviction")
            )
        decision, pod = self._decide(request)
        if isinstance(decision, PassEviction):
            if pod is not None:
                self._note_passed(pod, decision.reason)
            return self._passed(request.uid, decision, pod=f"{request.namespace}/{request.name}")
        assert pod is not None
        self._hold(pod, decision)
        return denied_review(request.uid, 429, "TooManyRequests", _printable(decision.message))

    def _decide(self, request: _Request) -> tuple[PassEviction | HoldEviction, PodRecord | None]:
        policy = self._policy()
        if policy.safe_evictions.mode is SafeEvictionMode.OFF:
            return PassEviction(PassReason.OFF, "safeEvictions.mode is off"), None
        if request.operation != "CREATE" or request.sub_resource != "eviction":
            return PassEviction(PassReason.UNREADABLE, "not the creation of an eviction"), None
        if request.is_dry_run:
            return PassEviction(PassReason.DRY_RUN, "dry run"), None
        if not self._caches.is_ready:
            return PassEviction(PassReason.NOT_READY, "the caches are not synced, or stale"), None
        pod = self._caches.pod(f"{request.namespace}/{request.name}")
        if pod is None or (request.pod_uid and request.pod_uid != pod.uid):
            return PassEviction(PassReason.UNKNOWN_POD, "the pod is not known"), None
        held = self._held_before(pod)
        template = EvictionFacts(
            now=self._now(),
            policy=policy,
            pod=pod,
            node=None,
            namespace_annotations={},
            first_held=None if held is None else held.first,
            last_blocked=None if held is None else held.last_blocked,
            siblings_evicted=sum(uid != pod.uid for uid in self._just_evicted(pod)),
            unavailable=self._refusal(pod),
            requested_by=request.client,
        )
        return decide_eviction(self._caches.facts(pod, policy, template)), pod

    def _held_before(self, pod: PodRecord) -> _HeldPod | None:
        """Return the record of earlier attempts to evict the pod. After a long pause an attempt belongs to
        another drain, for which the move may succeed, so the record is forgotten; but only if an eviction has
        passed, so that the deadline also applies to a client that tries once a day."""
        now, held = self._now(), self._held.get(pod.uid)
        if held is None or (held.has_passed and now - held.last >= EVICTION_RETRY_AFTER):
            self._held.pop(pod.uid, None)
            return None
        held.last = now
        return held

    def _refusal(self, pod: PodRecord) -> str:
        why, at_s = self._refused.get(pod.uid, ("", 0.0))
        return why if self._monotonic_s() - at_s < _REFUSED_S else ""

    def _just_evicted(self, pod: PodRecord) -> dict[str, float]:
        """Return the pods of the same controller whose eviction passed lately."""
        known = self._evicted.get(pod.owner.uid, {}) if pod.owner is not None else {}
        since_s = self._monotonic_s() - _SIBLING_S
        return {uid: at_s for uid, at_s in known.items() if at_s > since_s}

    def _note_passed(self, pod: PodRecord, reason: PassReason) -> None:
        if (held := self._held.get(pod.uid)) is not None:
            held.has_passed = True
        if pod.owner is not None and reason in _COUNTED:
            evicted = self._just_evicted(pod) | {pod.uid: self._monotonic_s()}
            _remember(self._evicted, pod.owner.uid, evicted)

    def _passed(self, uid: str, decision: PassEviction, pod: str = "") -> bytes:
        self.metrics.passed.labels(decision.reason).inc()
        level = logging.INFO if decision.reason.is_warned_of else logging.DEBUG
        log_event(log, level, "EvictionPassed", decision.message, pod=pod, reason=str(decision.reason))
        warnings = (f"rescheduler did not move the pod first: {_printable(decision.message)}",)
        return allowed_review(uid, warnings=warnings if decision.reason.is_warned_of else ())

    def _hold(self, pod: PodRecord, decision: HoldEviction) -> None:
        self.metrics.held.inc()
        if pod.uid not in self._held:
            _remember(self._held, pod.uid, _HeldPod(self._now(), self._now()))
        if decision.is_for_siblings:
            self._held[pod.uid].last_blocked = self._now()
        if decision.request is None or pod.uid in self._recording:
            return
        if not has_turn([namespace for namespace, _ in self._recording.values()], pod.namespace):
            return
        task = asyncio.create_task(self._record(pod, decision.request), name=f"eviction of {pod.key}")
        self._recording[pod.uid] = pod.namespace, task
        task.add_done_callback(lambda _: self._recording.pop(pod.uid, None))

    async def _record(self, pod: PodRecord, spec: MigrationSpec) -> None:
        name = eviction_migration_name(pod.uid)
        wanted: dict[str, Any] = {
            "apiVersion": POD_MIGRATIONS.api_version,
            "kind": POD_MIGRATIONS.kind,
            "metadata": {"namespace": pod.namespace, "name": name},
            "spec": msgspec.to_builtins(spec),
        }
        try:
            await self._client.create(POD_MIGRATIONS, wanted)
        except errors.AlreadyExists:
            if self._caches.is_name_taken(f"{pod.namespace}/{name}", pod):
                self._refuse(pod, f"PodMigration {name} exists already, and does not move the pod")
            # Else another replica of the webhook has created it.
        except errors.Permanent as error:
            self._refuse(pod, f"the PodMigration can't be created: {error.why}")
        except errors.KubeError as error:
            words = f"{error} The next eviction tries again."
            log_event(log, logging.WARNING, "EvictionNotRecorded", words, pod=pod.key)
        else:
            self.metrics.intercepted.inc()
            words = f"the pod is moved before it may be evicted: {spec.reason}"
            log_event(log, logging.INFO, "EvictionIntercepted", words, pod=pod.key, migration=name)

    def _refuse(self, pod: PodRecord, why: str) -> None:
        """Let evictions of the pod pass for a while."""
        _remember(self._refused, pod.uid, (why, self._monotonic_s()))
        log_event(log, logging.WARNING, "EvictionNotRecorded", why, pod=pod.key)


def _printable(words: str) -> str:
    """Return the words without control characters: kubectl prints them, and tenants write some of them."""
    return "".join(each if each.isprintable() else "?" for each in words)


def has_turn(recording: Sequence[str], namespace: str) -> bool:
    """Return whether one more PodMigration may be created now, besides those in these namespaces.

    One namespace gets half of the places at most: tenants may evict their pods as fast as they like, and the
    evictions of others would be held without a move.
    """
    return len(recording) < _MAX_RECORDING and recording.count(namespace) < _MAX_RECORDING // 2


def _remember(known: dict[str, Any], key: str, value: Any) -> None:
    """Store the value, and forget the oldest if there are too many."""
    known.pop(key, None)
    known[key] = value
    if len(known) > _MAX_REMEMBERED:
        del known[next(iter(known))]
