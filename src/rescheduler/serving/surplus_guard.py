"""Refuses the pod that a ReplicaSet would create between the eviction of a pod and the adoption of its copy.

The ReplicaSet controller tries again within milliseconds, with a growing delay, and at once when the copy is
offered to it; then no pod is missing any more. Until then a replacement of another pod of the same
ReplicaSet, or one more that an autoscaler wants, waits as well.
"""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from rescheduler.intents.handing_over import LONGEST_S, HandingOver, handing_over
from rescheduler.kube.informer import Informer
from rescheduler.kube.resources import Object
from rescheduler.migrations.evicting import GUARD_INTERVAL
from rescheduler.model.migrations import UnreadableMigration, migration_of
from rescheduler.model.saying import say
from rescheduler.model.webhook_registration import GUARD, REPLICA_SET_CONTROLLERS
from rescheduler.serving.review import (
    Request,
    Unreadable,
    allowing,
    answering_probe,
    denying,
    is_probe,
    read_request,
    uid_of,
)

__all__ = ["SurplusGuard"]

log = logging.getLogger(__name__)

_FOREIGN_CLOCK_S: Final = 60.0
"""What is recorded as so long ago is over by any clock."""


class _Window:
    def __init__(self, of: HandingOver, opened_s: float, lasts_s: float) -> None:
        """`opened_s` is by our own monotonic clock."""
        self.of = of
        self.until_s = opened_s + lasts_s
        self.next_s = opened_s + GUARD_INTERVAL.total_seconds()
        """The same migration opens no other window before."""


class SurplusGuard:
    """Knows handovers from an informer of PodMigrations, by the uid of their ReplicaSet."""

    def __init__(
        self, informer: Informer[Object], now: Callable[[], datetime], monotonic_s: Callable[[], float]
    ) -> None:
        self._informer = informer
        self._now = now
        self._monotonic_s = monotonic_s
        self._by_owner: dict[str, dict[str, _Window]] = {}
        """Then by the key of the migration."""
        informer.subscribe(self._heard)

    def answer(self, body: bytes, *, is_ready: bool) -> bytes:
        """To a review as an API server sends it. Never raises; refuses only what it is sure of."""
        try:
            request = read_request(body)
        except Unreadable:
            return allowing(uid_of(body))
        if not is_ready:
            return allowing(request.uid)
        if is_probe(request, GUARD):
            return answering_probe(request)
        found = self._window(request)
        if found is None:
            return allowing(request.uid)
        of = found.of
        metadata = request.object.metadata
        pod = f"{request.namespace}/{metadata.name or metadata.generate_name or ''}"
        words = "refused a pod that its ReplicaSet does not need: it is about to adopt a copy"
        say(log, logging.INFO, "SurplusRefused", words, pod=pod, migration=f"{of.namespace}/{of.migration}")
        return denying(request.uid, 429, "TooManyRequests", _words(of))

    def _window(self, request: Request) -> _Window | None:
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

    # -- following

    def _heard(self, old: Object | None, new: Object | None) -> None:
        before, now = _read(old), _read(new)
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

    def _open(self, key: str, found: HandingOver) -> None:
        windows = self._by_owner.setdefault(found.owner_uid, {})
        known = windows.get(key)
        now_s = self._monotonic_s()
        if known is not None and (known.of.requested_at == found.requested_at or now_s < known.next_s):
            known.of = found
            return
        windows[key] = _Window(found, now_s, self._left_s(found))

    def _left_s(self, found: HandingOver) -> float:
        """Of what is heard as it happens, the whole time, whatever the clocks say. Of what was there before
        us, what is left by the clocks: several replicas that start one after the other add nothing."""
        ago_s = (self._now() - found.requested_at).total_seconds()
        if self._informer.is_synced:
            return LONGEST_S if ago_s < _FOREIGN_CLOCK_S else 0.0
        return min(max(LONGEST_S - ago_s, 0.0), LONGEST_S)


def _read(item: Object | None) -> HandingOver | None:
    if item is None:
        return None
    try:
        return handing_over(migration_of(item))
    except UnreadableMigration:
        return None  # the steering that follows the same records says so


def _words(of: HandingOver) -> str:
    return (
        f"the ReplicaSet needs no new pod: it adopts {of.copy or 'a copy'} in place of {of.pod} "
        f"(PodMigration {of.namespace}/{of.migration}). No action is needed: this ends within {LONGEST_S:g} s"
    )
