"""Answer AdmissionReviews of `pods/eviction`, and record the moves of pods that are to be moved first.

An answer takes no request: the PodMigration is created in the background, while the client waits for its next
try. If that fails permanently, the next eviction of the pod passes. Only a pod of a set that is about to be
let go waits for a write (`EvictionTurns`).
"""

import asyncio
import contextlib
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, Counter, generate_latest

from rescheduler.api.podmigration import MigrationSpec
from rescheduler.cluster.object_meta import OwnerKey, owner_key
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy import Policy, SafeEvictionMode
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import EventRecorder, InvolvedObject, log_event
from rescheduler.migrations.interruptions import EVICTION_RETRY_AFTER
from rescheduler.steering.webhook.admission_review import (
    EvictionRequest,
    UnreadableReview,
    allowed_review,
    denied_review,
    printable,
    read_eviction,
    uid_of,
)
from rescheduler.steering.webhook.eviction_caches import EvictionCaches, EvictionTurns
from rescheduler.steering.webhook.eviction_decision import (
    EvictionFacts,
    HoldEviction,
    PassEviction,
    PassReason,
    decide_eviction,
    eviction_migration_name,
)

__all__ = ["EvictionGuard", "EvictionMetrics", "EvictionSettings", "has_turn"]

log = logging.getLogger(__name__)

_MAX_REMEMBERED: Final = 20_000
"""Pods whose evictions were held. A hostile client can't make the process remember more."""
_MAX_RECORDING: Final = 100
"""PodMigrations that are being created at the same time; others are created at the client's next try."""
_SIBLING_S: Final = 10.0
"""The time after which the status of a controller shows that one of its pods was evicted."""
_DRAIN_PAUSE: Final = timedelta(minutes=5)
"""After this time without an eviction, the next one by the same client on the node is of another drain."""
_REFUSED_S: Final = 300.0
"""How long evictions pass after the API server refused the PodMigration: the cause may be gone then."""
_COUNTED: Final = frozenset({PassReason.ONLY_EVICTABLE, PassReason.NOT_NEEDED})
"""The reasons for which an evicted pod counts: others of the same controller must wait, or be moved first."""


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
class EvictionSettings:
    """The settings of the configuration file for evictions. The policy may change while the program runs."""

    policy: Policy
    namespace: str
    """The namespace of the Lease and of the daemon's state."""
    lease: str
    home: str
    """The namespace of the installation, where the turns are."""


@dataclass(slots=True)
class _HeldDrain:
    """Evictions of the pods of one node by one client."""

    first: datetime
    """When one of them was first held."""
    last: datetime
    """When the client last tried one."""


@dataclass(slots=True)
class _HeldPod:
    first: datetime
    """When an eviction of the pod was first held."""
    last: datetime
    """When a client last tried to evict it."""
    has_passed: bool = False
    """Whether an eviction of it has passed since."""


class EvictionGuard:
    def __init__(
        self,
        client: Client,
        caches: EvictionCaches,
        turns: EvictionTurns,
        settings: EvictionSettings,
        now: Callable[[], datetime],
        monotonic_s: Callable[[], float],
    ) -> None:
        self.metrics = EvictionMetrics()
        self.token = ""
        """The last part of the path under which API servers call; empty until it is known."""
        self._client = client
        self._caches = caches
        self._turns = turns
        self._events = EventRecorder(client, now)
        self._settings = settings
        self._now = now
        self._monotonic_s = monotonic_s
        self._held: dict[str, _HeldPod] = {}
        """The pods whose eviction was held, by uid."""
        self._drains: dict[tuple[str, str], _HeldDrain] = {}
        """The nodes that are about to be emptied and on which evictions were held, with the client."""
        self._refused: dict[str, tuple[str, float]] = {}
        """Why and when the API server refused the PodMigration of a pod, by the uid of the pod."""
        self._evicted: dict[OwnerKey, dict[str, float]] = {}
        """When evictions of pods passed lately, by the controller, then by the uid of the pod."""
        self._recording: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """The namespaces of pods whose PodMigration is being created, by the uid of the pod."""

    @property
    def is_on(self) -> bool:
        return self._settings.policy.safe_evictions.mode is not SafeEvictionMode.OFF

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            async with self._caches.running(), self._turns.running(), self._events.running():
                yield
        finally:
            for _, task in self._recording.values():
                task.cancel()

    def is_authentic(self, token: str) -> bool:
        """Return whether an API server called: only they know the path. A forged review would move a pod
        of another user."""
        return bool(self.token) and hmac.compare_digest(token.encode(), self.token.encode())

    async def answer(self, body: bytes) -> bytes:
        """Answer an AdmissionReview. Never raises, and lets the eviction pass in case of doubt."""
        try:
            request = read_eviction(body)
        except UnreadableReview:
            return self._passed(uid_of(body), PassEviction(PassReason.UNREADABLE, "no review of an eviction"))
        decision, facts = self._decide(request)
        if facts is None:
            assert isinstance(decision, PassEviction)
            return self._passed(request.uid, decision, pod=f"{request.namespace}/{request.name}")
        pod = facts.pod
        if isinstance(decision, PassEviction) and decision.without_turn is not None:
            decision = decision if await self._turns.take(pod) else decision.without_turn
        if isinstance(decision, PassEviction):
            self._note_passed(pod, decision.reason)
            self._write_events(facts, decision)
            return self._passed(request.uid, decision, pod=pod.key)
        self._hold(pod, decision, _drainer(request.user_info.username))
        return denied_review(request.uid, 429, "TooManyRequests", printable(decision.message))

    def _decide(self, request: EvictionRequest) -> tuple[PassEviction | HoldEviction, EvictionFacts | None]:
        policy = self._settings.policy
        if policy.safe_evictions.mode is SafeEvictionMode.OFF:
            return PassEviction(PassReason.OFF, "safeEvictions.mode is off"), None
        if policy.dry_run:
            return PassEviction(PassReason.OFF, "dryRun is on: rescheduler moves no pods"), None
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
            drained_since=self._drained_since(pod.node, _drainer(request.user_info.username)),
            siblings_evicted=sum(uid != pod.uid for uid in self._just_evicted(pod)),
            unavailable=self._refusal(pod),
            requested_by=request.client,
        )
        facts = self._caches.facts(pod, policy, template)
        return decide_eviction(facts), facts

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

    def _drained_since(self, node: str, user: str) -> datetime | None:
        """Return since when evictions of pods of the node by that client are held; None if no drain is known.

        Each client has its own time: one that evicts its own pods on a cordoned node for long must not leave
        the pods of others unprotected. A drain ends when the node is in service again, or after a pause,
        which is longer if the deadline was used up: a client that only waits a little gains nothing.
        """
        now, held = self._now(), self._drains.get((node, user))
        if held is None:
            return None
        is_used_up = held.last - held.first >= self._settings.policy.safe_evictions.deadline
        pause = EVICTION_RETRY_AFTER if is_used_up else _DRAIN_PAUSE
        if now - held.last >= pause or not self._caches.is_emptied(node):
            del self._drains[node, user]
            return None
        held.last = now
        return held.first

    def _refusal(self, pod: PodRecord) -> str:
        why, at_s = self._refused.get(pod.uid, ("", 0.0))
        return why if self._monotonic_s() - at_s < _REFUSED_S else ""

    def _just_evicted(self, pod: PodRecord) -> dict[str, float]:
        """Return the pods of the same controller whose eviction passed lately."""
        if pod.owner is None:
            return {}
        known = self._evicted.get(owner_key(pod.namespace, pod.owner), {})
        since_s = self._monotonic_s() - _SIBLING_S
        return {uid: at_s for uid, at_s in known.items() if at_s > since_s}

    def _note_passed(self, pod: PodRecord, reason: PassReason) -> None:
        if (held := self._held.get(pod.uid)) is not None:
            held.has_passed = True
        if pod.owner is not None and reason in _COUNTED:
            evicted = self._just_evicted(pod) | {pod.uid: self._monotonic_s()}
            _remember(self._evicted, owner_key(pod.namespace, pod.owner), evicted)

    def _passed(self, uid: str, decision: PassEviction, pod: str = "") -> bytes:
        self.metrics.passed.labels(decision.reason).inc()
        level = logging.INFO if decision.reason.is_warned_of else logging.DEBUG
        log_event(log, level, "EvictionPassed", decision.message, pod=pod, reason=str(decision.reason))
        warnings = (f"rescheduler did not move the pod first: {printable(decision.message)}",)
        return allowed_review(uid, warnings=warnings if decision.reason.is_warned_of else ())

    def _write_events(self, facts: EvictionFacts, decision: PassEviction) -> None:
        """Say once on pod, workload and node why a pod is not moved first although it was meant to be."""
        if not decision.reason.is_warned_of:
            return
        pod, top = facts.pod, facts.top
        subjects = [InvolvedObject("v1", "Pod", pod.namespace, pod.name, pod.uid)]
        if top is not None:
            subjects.append(InvolvedObject(top.api_version, top.kind, top.namespace, top.name, top.uid))
        words = f"pod {pod.key} is not moved before it is evicted: {printable(decision.message)}"
        for subject in (*subjects, InvolvedObject.of_node(pod.node)):
            self._events.record(subject, "EvictionPassed", words, warning=True, once=True)

    def _hold(self, pod: PodRecord, decision: HoldEviction, user: str) -> None:
        self.metrics.held.inc()
        now, drain = self._now(), (pod.node, user)
        if pod.uid not in self._held:
            _remember(self._held, pod.uid, _HeldPod(now, now))
        if drain not in self._drains and self._caches.is_emptied(pod.node):
            _remember(self._drains, drain, _HeldDrain(now, now))
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


def _drainer(user: str) -> str:
    """Return whose drain an eviction belongs to. All service accounts of a namespace are one client: who owns
    it may create so many that the drains of others are forgotten."""
    return user.rpartition(":")[0] if user.startswith("system:serviceaccount:") else user


def has_turn(recording: Sequence[str], namespace: str) -> bool:
    """Return whether one more PodMigration may be created now, besides those in these namespaces.

    One namespace gets half of the places at most: tenants may evict their pods as fast as they like, and the
    evictions of others would be held without a move.
    """
    return len(recording) < _MAX_RECORDING and recording.count(namespace) < _MAX_RECORDING // 2


def _remember(known: dict[Any, Any], key: Any, value: Any) -> None:
    """Store the value, and forget the oldest if there are too many."""
    known.pop(key, None)
    known[key] = value
    if len(known) > _MAX_REMEMBERED:
        del known[next(iter(known))]
