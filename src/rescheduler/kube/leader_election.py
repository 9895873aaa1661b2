"""The Lease that whoever executes holds: of several processes one acts, and another takes over if it dies.

    async with lease.contending():            # from now on it is acquired, renewed, and acquired again
        await lease.acquired()
        async with controller.running():
            await lease.lost()                # then stop at once: soon another may start

A leader that can't renew stops at `renewDeadline`, counted from when it *sent* its last renewal that was
accepted. Others count `leaseDuration`, which is longer, from when they *saw* that renewal, which was later.
So there are never two, unless a clock runs faster than another by more than the ratio of the two durations;
and where that happens, or a process hangs, the preconditions of every write see to it that no harm is done.

    FREE ──acquired──▶ HELD ──renewed──▶ HELD ──renewDeadline over, or somebody else has it──▶ FREE
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Final

from rescheduler.api.structured_log import log_event
from rescheduler.api.well_known_names import install_labels
from rescheduler.config.policy import LeaderElection
from rescheduler.kube import errors
from rescheduler.kube.api_resources import LEASES, Object
from rescheduler.kube.client import Client
from rescheduler.kube.lease_records import (
    LeaseObservation,
    LeaseRecord,
    claimed_record,
    is_vacant,
    lease_record_of,
    lease_spec_of,
    released_record,
)

__all__ = ["LeaderElector"]

log = logging.getLogger(__name__)

_JITTER: Final = 1.2
"""As client-go: tries of several contenders drift apart."""


def _wall_clock() -> datetime:
    return datetime.now(UTC)


class LeaderElector:
    """One contender. Times that decide are the event loop's; the wall clock is only written down."""

    def __init__(
        self,
        client: Client,
        key: str,
        me: str,
        terms: LeaderElection = LeaderElection(),  # noqa: B008 - frozen
        *,
        now: Callable[[], datetime] = _wall_clock,
        dice: random.Random | None = None,
    ) -> None:
        """`key` is `namespace/name` of the Lease; `me` must differ from the name of every other contender."""
        self.key = key
        self.me = me
        self._client = client
        self._terms = terms
        self._now = now
        self._dice = dice or random.Random()  # noqa: S311 - jitter, not a secret
        self._seen: LeaseObservation | None = None
        self._item: Object = {}
        self._stop_at_s = 0.0
        self._changed = asyncio.Condition()
        self._is_held = False
        self._looked = asyncio.Event()
        self.failure: errors.KubeError | None = None
        """Why the last try failed; None if it did not, whoever has the lease."""

    # -- what is the case

    @property
    def is_held(self) -> bool:
        """By us, and in time: true a moment longer than it may be acted upon is what must not be."""
        return self._is_held and _loop_s() < self._stop_at_s

    @property
    def holder(self) -> str:
        """As last seen; empty if nobody has it."""
        return self._seen.record.holder if self._seen is not None else ""

    @property
    def is_held_by_another(self) -> bool:
        """By somebody who has not been silent for too long, as far as we have seen."""
        return self._seen is not None and not is_vacant(self._seen, self.me, _loop_s())

    async def looked(self) -> None:
        """Until it was tried once: then it is ours, or `holder` says whose."""
        await self._looked.wait()

    async def acquired(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.is_held)

    async def lost(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_held)

    # -- contending

    @contextlib.asynccontextmanager
    async def contending(self) -> AsyncIterator[None]:
        """Tries to get and to keep it while the body runs; gives it back at the end."""
        task = asyncio.create_task(self._contend(), name=f"lease {self.key}")
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await self._give_back()

    async def _contend(self) -> None:
        while True:
            await self._acquire()
            await self._set_held(True)
            log_event(log, logging.INFO, "LeaseAcquired", "the lease is ours", lease=self.key, holder=self.me)
            try:
                await self._keep()
            finally:
                await self._set_held(False)
            words = "the lease is lost: nothing is done any more until it is ours again"
            log_event(log, logging.WARNING, "LeaseLost", words, lease=self.key, holder=self.holder)

    async def _acquire(self) -> None:
        pause_s = self._terms.retry_period.total_seconds()
        while True:
            is_ours = await self._try()
            self._looked.set()
            if is_ours:
                return
            await asyncio.sleep(pause_s * self._dice.uniform(1.0, _JITTER))

    async def _keep(self) -> None:
        """Returns when it is lost."""
        pause_s = self._terms.retry_period.total_seconds()
        while True:
            try:
                async with asyncio.timeout_at(self._stop_at_s):
                    await asyncio.sleep(pause_s)
                    renewed = await self._try()
            except TimeoutError:
                return
            if not renewed and self.is_held_by_another:
                return

    # -- one try

    async def _try(self) -> bool:
        """Whether it is ours now."""
        sent_s = _loop_s()
        try:
            async with asyncio.timeout(self._terms.renew_deadline.total_seconds()):
                is_ours = await self._claimed()
        except errors.KubeError as error:
            self.failure = error
            log_event(log, logging.INFO, "LeaseNotReached", str(error), lease=self.key)
            return False
        except TimeoutError:
            return False
        self.failure = None
        if is_ours:
            self._stop_at_s = sent_s + self._terms.renew_deadline.total_seconds()
        return is_ours

    async def _claimed(self) -> bool:
        if self._seen is None or self._seen.record.holder != self.me:
            await self._look()
        try:
            return await self._write_if_vacant()
        except (errors.Conflict, errors.NotFound, errors.AlreadyExists):
            # Somebody wrote in between; or it was we, and the answer was lost.
            await self._look()
            return await self._write_if_vacant()

    async def _look(self) -> None:
        try:
            self._note(await self._client.get(LEASES, self.key))
        except errors.NotFound:
            self._seen = None

    async def _write_if_vacant(self) -> bool:
        if self._seen is None:
            wanted = claimed_record(None, self.me, self._terms, self._now())
            self._note(await self._client.create(LEASES, self._manifest(wanted)))
            return True
        if not is_vacant(self._seen, self.me, _loop_s()):
            return False
        wanted = claimed_record(self._seen.record, self.me, self._terms, self._now())
        self._note(await self._client.replace(LEASES, self._manifest(wanted)))
        return True

    async def _give_back(self) -> None:
        """Best effort: if it fails, others have to wait until it expires."""
        if self.holder != self.me:
            return
        try:
            async with asyncio.timeout(self._terms.renew_deadline.total_seconds()):
                await self._look()  # a renewal may have been under way when we were stopped
                if self._seen is not None and self.holder == self.me:
                    wanted = released_record(self._seen.record, self._now())
                    self._note(await self._client.replace(LEASES, self._manifest(wanted)))
        except (errors.KubeError, TimeoutError) as error:
            log_event(
                log, logging.INFO, "LeaseNotGivenBack", str(error) or "no answer in time", lease=self.key
            )

    # -- reading and writing

    def _note(self, item: Object) -> None:
        record, version = lease_record_of(item.get("spec") or {}), item["metadata"]["resourceVersion"]
        now_s = _loop_s()
        before = self._seen
        is_known = before is not None and self._item["metadata"].get("uid") == item["metadata"].get("uid")
        self._item = item
        if before is None or not is_known:
            self._seen = LeaseObservation(record, version, now_s)
        else:
            self._seen = before.then(record, version, now_s)

    def _manifest(self, record: LeaseRecord) -> Object:
        """With the version that was seen, as precondition, and whatever others have written into it."""
        namespace, _, name = self.key.rpartition("/")
        known = self._item if self._seen is not None else {}
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


def _loop_s() -> float:
    return asyncio.get_running_loop().time()
