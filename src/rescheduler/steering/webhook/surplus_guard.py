"""The surplus guard: refuses the pod that a ReplicaSet would create while it adopts a copy.

When the source is evicted, the ReplicaSet is one pod short, although its copy is ready to be adopted. The
surplus pod that it creates is deleted again, but meanwhile it may be scheduled, started, and preempt other
pods. So its creation is refused from the request for the eviction on, for a few seconds at most, whatever
happens to the migration.

The ReplicaSet controller retries within milliseconds, with growing delays, and when the copy is offered to
it. Until then a replacement of another pod of the ReplicaSet, or a pod of a scale-up, waits as well.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rescheduler.api.podmigration import (
    Handover,
    Migration,
    MigrationPhase,
    UnreadableMigration,
    decode_migration,
)
from rescheduler.api.well_known_names import GUARD_WEBHOOK
from rescheduler.kube.api_resources import Object
from rescheduler.kube.event_recorder import log_event
from rescheduler.kube.informer import Informer
from rescheduler.migrations.source_eviction import GUARD_INTERVAL
from rescheduler.migrations.transition_table import MigrationStep
from rescheduler.steering.webhook.admission_review import (
    AdmissionRequest,
    UnreadableReview,
    allowed_review,
    denied_review,
    is_probe,
    probe_review,
    read_request,
    uid_of,
)
from rescheduler.steering.webhook.webhook_configurations import REPLICA_SET_CONTROLLERS

__all__ = ["MAX_REFUSAL_S", "PendingAdoption", "SurplusGuard", "pending_adoption_of"]

MAX_REFUSAL_S: Final = 10.0
"""How long pods of a ReplicaSet are refused at most. Adoption takes milliseconds; the rest is for slow
servers.

If evictions keep being refused, the migration gets no second window before `GUARD_INTERVAL` has passed, so
that the ReplicaSet can create pods that it needs."""

_ADOPTION_STEPS: Final = frozenset({MigrationStep.EVICTING, MigrationStep.ADOPTING})


@dataclass(frozen=True, slots=True)
class PendingAdoption:
    """A ReplicaSet that is about to adopt a copy."""

    namespace: str
    owner_uid: str
    """The uid of the ReplicaSet."""
    migration: str
    pod: str
    copy: str
    requested_at: datetime
    """When the eviction of the source was requested, by the clock of the controller."""


def pending_adoption_of(migration: Migration) -> PendingAdoption | None:
    """Return the pending adoption of a migration; None unless its eviction was requested and its copy is not
    adopted."""
    status = migration.status
    if (
        status.phase is not MigrationPhase.IN_PROGRESS
        or status.handover is not Handover.ADOPT
        or status.step not in _ADOPTION_STEPS
        or status.owner is None
        or status.eviction_requested_at is None
    ):
        return None
    return PendingAdoption(
        namespace=migration.namespace,
        owner_uid=status.owner.uid,
        migration=migration.name,
        pod=migration.spec.pod.name,
        copy=status.target_pod.name if status.target_pod is not None else "",
        requested_at=status.eviction_requested_at,
    )


log = logging.getLogger(__name__)

_MAX_CLOCK_DIFFERENCE_S: Final = 60.0
"""An older request is over, however much the clocks differ."""


class _Window:
    def __init__(self, of: PendingAdoption, opened_s: float, lasts_s: float) -> None:
        """`opened_s` is by the monotonic clock of this process."""
        self.of = of
        self.until_s = opened_s + lasts_s
        self.next_s = opened_s + GUARD_INTERVAL.total_seconds()
        """The same migration opens no other window before this time."""


class SurplusGuard:
    """Knows all pending adoptions by the uid of their ReplicaSet, from an informer of PodMigrations."""

    def __init__(
        self, informer: Informer[Object], now: Callable[[], datetime], monotonic_s: Callable[[], float]
    ) -> None:
        self._informer = informer
        self._now = now
        self._monotonic_s = monotonic_s
        self._by_owner: dict[str, dict[str, _Window]] = {}
        """Windows by the uid of the ReplicaSet, then by the key of the migration."""
        informer.subscribe(self._migration_changed)

    def answer(self, body: bytes, *, is_ready: bool) -> bytes:
        """Answer an AdmissionReview. Never raises, and allows the pod in case of doubt."""
        try:
            request = read_request(body)
        except UnreadableReview:
            return allowed_review(uid_of(body))
        if not is_ready:
            return allowed_review(request.uid)
        if is_probe(request, GUARD_WEBHOOK):
            return probe_review(request)
        found = self._window(request)
        if found is None:
            return allowed_review(request.uid)
        of = found.of
        metadata = request.object.metadata
        pod = f"{request.namespace}/{metadata.name or metadata.generate_name or ''}"
        words = "refused a surplus pod: its ReplicaSet is about to adopt a copy"
        log_event(
            log, logging.INFO, "SurplusRefused", words, pod=pod, migration=f"{of.namespace}/{of.migration}"
        )
        return denied_review(request.uid, 429, "TooManyRequests", _refusal_message(of))

    def _window(self, request: AdmissionRequest) -> _Window | None:
        controller = request.object.metadata.controller
        if (
            controller is None
            or not request.is_for_new_pod
            or request.user_info.username not in REPLICA_SET_CONTROLLERS
        ):
            return None
        now_s = self._monotonic_s()
        windows = self._by_owner.get(controller.uid, {}).values()
        return next(
            (each for each in windows if each.of.namespace == request.namespace and now_s < each.until_s),
            None,
        )

    def _migration_changed(self, old: Object | None, new: Object | None) -> None:
        before, now = _pending_adoption(old), _pending_adoption(new)
        item = old if new is None else new
        assert item is not None
        key = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        if before is not None and (now is None or now.owner_uid != before.owner_uid):
            windows = self._by_owner.get(before.owner_uid, {})
            windows.pop(key, None)
            if not windows:
                self._by_owner.pop(before.owner_uid, None)
        if now is not None:
            self._open(key, now)

    def _open(self, key: str, adoption: PendingAdoption) -> None:
        windows = self._by_owner.setdefault(adoption.owner_uid, {})
        known = windows.get(key)
        now_s = self._monotonic_s()
        if known is not None and (known.of.requested_at == adoption.requested_at or now_s < known.next_s):
            known.of = adoption
            return
        windows[key] = _Window(adoption, now_s, self._left_s(adoption))

    def _left_s(self, adoption: PendingAdoption) -> float:
        """Return how long the window lasts: for an event the whole time, even if clocks differ; for a
        migration that existed before this process the rest of it, so that restarting replicas don't prolong
        it."""
        ago_s = (self._now() - adoption.requested_at).total_seconds()
        if self._informer.is_synced:
            return MAX_REFUSAL_S if ago_s < _MAX_CLOCK_DIFFERENCE_S else 0.0
        return min(max(MAX_REFUSAL_S - ago_s, 0.0), MAX_REFUSAL_S)


def _pending_adoption(item: Object | None) -> PendingAdoption | None:
    if item is None:
        return None
    try:
        return pending_adoption_of(decode_migration(item))
    except UnreadableMigration:
        return None  # the intent cache reports it


def _refusal_message(of: PendingAdoption) -> str:
    return (
        f"the ReplicaSet needs no new pod: it is about to adopt {of.copy or 'a copy'} in place of {of.pod} "
        f"(PodMigration {of.namespace}/{of.migration}). "
        f"No action is needed: this ends within {MAX_REFUSAL_S:g} s"
    )
