"""Leader election with a Lease: only one of several processes acts, and another takes over if that one dies.

    async with elector.running():             # acquires the Lease, and again if it is lost
        await elector.acquired()
        async with controller.running():
            await elector.lost()              # stop immediately: another process may start soon

A leader that can't renew stops at `renewDeadline`, counted from when it *sent* its last accepted renewal.
Others count `leaseDuration`, which is longer, from when they *saw* that renewal, which was later. So there
are never two leaders, unless one clock runs faster than another by more than the ratio of the two durations.
Where that happens, or a process hangs, the preconditions of every write prevent harm.

    FREE ──acquired──▶ HELD ──renewed──▶ HELD ──renewDeadline passed, or another process holds it──▶ FREE

As in client-go, the clocks of other machines are not trusted. The times in a Lease are for people. Whether a
holder is alive depends on how long *we* have not seen its Lease change, on our own clock. So a leader whose
clock is hours off keeps its Lease, and a leader that has died loses it after its own `leaseDurationSeconds`.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from rescheduler.api.well_known_names import install_labels
from rescheduler.config.policy import LeaderElection
from rescheduler.kube import errors
from rescheduler.kube.api_resources import LEASES, Object, split_key
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import log_event
from rescheduler.kube.transport import loop_s, wall_clock
from rescheduler.kube.work_queue import background_task

__all__ = [
    "HeldLease",
    "LeaderElector",
    "LeaseObservation",
    "LeaseRecord",
    "claimed_record",
    "find_renewed_lease",
    "is_vacant",
    "lease_record_of",
    "lease_spec_of",
    "released_record",
]

log = logging.getLogger(__name__)

_JITTER: Final = 1.2
"""The random share that is added to intervals, as in client-go, so that candidates drift apart."""
_POLL_INTERVAL_S: Final = 0.5


class LeaderElector:
    """Compete for one Lease. Decisions use the event loop's clock; wall-clock times are only written."""

    def __init__(
        self,
        client: Client,
        key: str,
        identity: str,
        settings: LeaderElection = LeaderElection(),  # noqa: B008 - frozen
        *,
        now: Callable[[], datetime] = wall_clock,
        rng: random.Random | None = None,
    ) -> None:
        """`key` is `namespace/name` of the Lease; `identity` must be unique among all candidates."""
        self.key = key
        self.identity = identity
        self._client = client
        self._settings = settings
        self._now = now
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._observation: LeaseObservation | None = None
        self._item: Object = {}
        self._stop_at_s = 0.0
        self._changed = asyncio.Condition()
        self._is_held = False
        self._tried = asyncio.Event()
        self.failure: errors.KubeError | None = None
        """Why the last attempt failed; None if the server answered. A timeout does not change this."""

    @property
    def is_held(self) -> bool:
        """Return whether we hold the Lease and may still act on it."""
        return self._is_held and loop_s() < self._stop_at_s

    @property
    def holder(self) -> str:
        """Return the holder as last observed; empty if the Lease is free."""
        return self._observation.record.holder if self._observation is not None else ""

    @property
    def is_held_by_another(self) -> bool:
        """Return whether another process holds the Lease and has renewed it recently, as far as we have
        observed."""
        return self._observation is not None and not is_vacant(self._observation, self.identity, loop_s())

    async def tried(self) -> None:
        """Wait for the end of the first attempt: then we hold the Lease, or `holder` says who does."""
        await self._tried.wait()

    async def acquired(self) -> None:
        """Wait until we hold the Lease."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.is_held)

    async def lost(self) -> None:
        """Wait until we don't hold the Lease."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_held)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Acquire and renew the Lease while the body runs; release it at the end."""
        try:
            async with background_task(self._acquire_and_renew(), f"lease {self.key}"):
                yield
        finally:
            await self._release()

    async def _acquire_and_renew(self) -> None:
        while True:
            await self._acquire()
            await self._set_held(True)
            log_event(log, logging.INFO, "LeaseAcquired", "acquired the lease",
                      lease=self.key, holder=self.identity)  # fmt: skip
            try:
                await self._renew_until_lost()
            finally:
                await self._set_held(False)
            log_event(log, logging.WARNING, "LeaseLost", "lost the lease: waiting until it is acquired again",
                      lease=self.key, holder=self.holder)  # fmt: skip

    async def _acquire(self) -> None:
        retry_s, reported = self._settings.retry_period.total_seconds(), ""
        while True:
            is_ours = await self._try()
            self._tried.set()
            if is_ours:
                return
            if self.is_held_by_another and self.holder != reported:
                reported = self.holder
                log_event(log, logging.INFO, "LeaseHeld", "another process leads: waiting for the lease",
                          lease=self.key, holder=reported)  # fmt: skip
            await asyncio.sleep(retry_s * self._rng.uniform(1.0, _JITTER))

    async def _renew_until_lost(self) -> None:
        retry_s = self._settings.retry_period.total_seconds()
        while True:
            try:
                async with asyncio.timeout_at(self._stop_at_s):
                    await asyncio.sleep(retry_s)
                    renewed = await self._try()
            except TimeoutError:
                return
            if not renewed and self.is_held_by_another:
                return

    async def _try(self) -> bool:
        """Try to acquire or renew the Lease; return whether we hold it now."""
        sent_s = loop_s()
        try:
            async with asyncio.timeout(self._settings.renew_deadline.total_seconds()):
                is_ours = await self._claim()
        except errors.KubeError as error:
            self.failure = error
            log_event(log, logging.INFO, "LeaseNotReached", str(error), lease=self.key)
            return False
        except TimeoutError:
            return False
        self.failure = None
        if is_ours:
            self._stop_at_s = sent_s + self._settings.renew_deadline.total_seconds()
        return is_ours

    async def _claim(self) -> bool:
        if self.holder != self.identity:
            await self._read()
        try:
            return await self._write_if_vacant()
        except (errors.Conflict, errors.NotFound, errors.AlreadyExists):
            # Another process wrote in between; or it was us, and the answer was lost.
            await self._read()
            return await self._write_if_vacant()

    async def _read(self) -> None:
        try:
            self._observe(await self._client.get(LEASES, self.key))
        except errors.NotFound:
            self._observation = None

    async def _write_if_vacant(self) -> bool:
        if self._observation is None:
            claim = claimed_record(None, self.identity, self._settings, self._now())
            self._observe(await self._client.create(LEASES, self._manifest(claim)))
            return True
        if not is_vacant(self._observation, self.identity, loop_s()):
            return False
        claim = claimed_record(self._observation.record, self.identity, self._settings, self._now())
        self._observe(await self._client.replace(LEASES, self._manifest(claim)))
        return True

    async def _release(self) -> None:
        """Release the Lease, best effort: if that fails, others wait until it expires."""
        if self.holder != self.identity:
            return
        try:
            async with asyncio.timeout(self._settings.renew_deadline.total_seconds()):
                await self._read()  # a renewal may have been in progress when we were stopped
                if self._observation is not None and self.holder == self.identity:
                    release = released_record(self._observation.record, self._now())
                    self._observe(await self._client.replace(LEASES, self._manifest(release)))
        except (errors.KubeError, TimeoutError) as error:
            message = str(error) or "no answer in time"
            log_event(log, logging.INFO, "LeaseNotReleased", message, lease=self.key)

    def _observe(self, item: Object) -> None:
        is_same = self._item.get("metadata", {}).get("uid") == item["metadata"].get("uid")
        self._observation = _observation_of(item, self._observation if is_same else None)
        self._item = item

    def _manifest(self, record: "LeaseRecord") -> Object:
        """Return the Lease with the observed version as precondition and the fields that others have set."""
        namespace, name = split_key(self.key)
        known = self._item if self._observation is not None else {}
        metadata = known.get("metadata") or {"namespace": namespace, "name": name}
        labels = {**(metadata.get("labels") or {}), **install_labels(namespace)}
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {**metadata, "labels": labels},
            "spec": {**(known.get("spec") or {}), **lease_spec_of(record)},
        }

    async def _set_held(self, held: bool) -> None:
        async with self._changed:
            self._is_held = held
            self._changed.notify_all()


class HeldLease(NamedTuple):
    lease: str
    holder: str


async def find_renewed_lease(
    client: Client, leases: Iterable[str], *, grace_s: float = 0.0
) -> HeldLease | None:
    """Return the first of `leases` that is renewed after `grace_s`; None when each is free or has expired.

    Raises `KubeError`.

        first read ──released, or no renewal for its own leaseDurationSeconds──▶ free
                   ──a renewal, after every process had `grace_s` to stop──▶ renewed
    """
    started_s = loop_s()
    observations: dict[str, LeaseObservation] = {}
    undecided = set(leases)
    while undecided:
        for lease in sorted(undecided):
            before = observations.get(lease)
            try:
                observation = _observation_of(await client.get(LEASES, lease), before)
            except errors.NotFound:
                undecided.discard(lease)
                continue
            if is_vacant(observation, "", loop_s()):
                undecided.discard(lease)
                continue
            is_renewed = before is not None and observation.changed_s > before.changed_s
            if is_renewed and observation.changed_s >= started_s + grace_s:
                return HeldLease(lease, observation.record.holder)
            observations[lease] = observation
        if undecided:
            await asyncio.sleep(_POLL_INTERVAL_S)
    return None


# --- what a Lease says (pure) ---


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The `spec` of a Lease."""

    holder: str = ""
    """Empty if the Lease was released."""
    lasts_s: int = 0
    acquired: datetime | None = None
    renewed: datetime | None = None
    transitions: int = 0


@dataclass(frozen=True, slots=True)
class LeaseObservation:
    """A record, and when we first observed it on our own clock."""

    record: LeaseRecord
    changed_s: float

    def then(self, record: LeaseRecord, now_s: float) -> "LeaseObservation":
        """Return the observation after another read. Only a change of the record is a sign of life."""
        return LeaseObservation(record, self.changed_s if record == self.record else now_s)


def is_vacant(observation: LeaseObservation, identity: str, now_s: float) -> bool:
    """Return whether `identity` may take the Lease, or holds it already."""
    record = observation.record
    return record.holder in ("", identity) or now_s >= observation.changed_s + record.lasts_s


def claimed_record(
    observed: LeaseRecord | None, identity: str, settings: LeaderElection, now: datetime
) -> LeaseRecord:
    """Return the record with which `identity` takes or renews the Lease."""
    lasts_s = max(1, round(settings.lease_duration / timedelta(seconds=1)))
    if observed is None:
        return LeaseRecord(identity, lasts_s, now, now)
    if observed.holder == identity:
        return LeaseRecord(identity, lasts_s, observed.acquired or now, now, observed.transitions)
    return LeaseRecord(identity, lasts_s, now, now, observed.transitions + 1)


def released_record(observed: LeaseRecord, now: datetime) -> LeaseRecord:
    """Return a record without a holder, so that the next candidate need not wait."""
    return LeaseRecord("", 1, now, now, observed.transitions)


def lease_record_of(spec: dict[str, Any]) -> LeaseRecord:
    """Read a record; missing fields and null count as unset, because other clients may write Leases."""
    return LeaseRecord(
        str(spec.get("holderIdentity") or ""),
        int(spec.get("leaseDurationSeconds") or 0),
        _time_of(spec.get("acquireTime")),
        _time_of(spec.get("renewTime")),
        int(spec.get("leaseTransitions") or 0),
    )


def lease_spec_of(record: LeaseRecord) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.lasts_s,
        "acquireTime": _micro_time(record.acquired),
        "renewTime": _micro_time(record.renewed),
        "leaseTransitions": record.transitions,
    }


def _observation_of(item: Object, before: LeaseObservation | None) -> LeaseObservation:
    record = lease_record_of(item.get("spec") or {})
    return LeaseObservation(record, loop_s()) if before is None else before.then(record, loop_s())


def _time_of(text: object) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None


def _micro_time(moment: datetime | None) -> str | None:
    """Format a `MicroTime`, which always has six digits."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
