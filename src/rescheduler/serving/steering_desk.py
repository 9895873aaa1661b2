"""Answers API servers and schedulers from a cache of running migrations and failed attempts, asking nobody.

If the cache isn't there yet, or has not heard of the server for too long, pods are let through as they are:
better unsteered than by news of yesterday.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime

from rescheduler.intents.book import IntentBook
from rescheduler.intents.from_migrations import intent_of
from rescheduler.intents.intent import Intent
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer
from rescheduler.kube.resources import Object, custom
from rescheduler.migrations.definition import PLURAL
from rescheduler.model.migrations import GROUP, KIND, VERSION, UnreadableMigration, migration_of
from rescheduler.model.saying import say
from rescheduler.serving.admission import Steered, answer
from rescheduler.serving.attempts import AttemptsFollowed
from rescheduler.serving.extender import filter_nodes, prioritize_nodes
from rescheduler.serving.known_intents import KnownIntents
from rescheduler.serving.surplus_guard import SurplusGuard

__all__ = ["SteeringDesk"]

log = logging.getLogger(__name__)

_NOTHING = IntentBook()


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _loop_s() -> float:
    return asyncio.get_running_loop().time()


class SteeringDesk:
    def __init__(self, client: Client, now: Callable[[], datetime] = _wall_clock) -> None:
        self._known = KnownIntents(self._forget)
        self._used: Counter[str] = Counter()
        """How often each migration was answered with."""
        self._given: dict[str, str] = {}
        """By the uid of a pod, the migration whose target the scheduler was told for it."""
        self.informer = Informer(client, custom(GROUP, VERSION, PLURAL, KIND))
        self.informer.subscribe(self._known.reading(KIND, _of_migration))
        self._attempts = AttemptsFollowed(client, self._known.learn)
        self._guard = SurplusGuard(self.informer, now, _loop_s)

    @property
    def is_ready(self) -> bool:
        return self.informer.is_fresh and self._attempts.is_settled

    async def synced(self) -> None:
        """Returns when all records have been read once."""
        await self.informer.synced()
        await self._attempts.settled()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.informer.running(), self._attempts.running():
            yield

    # -- answering; none of these raises, whatever is asked

    def answer(self, body: bytes) -> bytes:
        """To a review as an API server sends it."""
        answered = answer(body, self._known.book if self.is_ready else None, self._used)
        if answered.steered is not None:
            self._note(answered.steered)
        return answered.body

    def guard(self, body: bytes) -> bytes:
        """To a review of a pod that the ReplicaSet controller is about to create."""
        return self._guard.answer(body, is_ready=self.informer.is_fresh)

    def filter(self, body: bytes) -> bytes:
        """To the arguments of `filter` as a scheduler sends them."""
        found = filter_nodes(body, self._book)
        if found.dropped:
            words = "it may go where it failed: there is no other place"
            say(log, logging.INFO, "PodLetBack", words, pod=found.pod, nodes=",".join(found.dropped))
        if found.refusals:
            words = "the scheduler was told where it must not go"
            say(log, logging.INFO, "PodKeptAway", words, pod=found.pod, nodes=",".join(found.refusals))
        return found.body

    def prioritize(self, body: bytes) -> bytes:
        """To the arguments of `prioritize` as a scheduler sends them."""
        found = prioritize_nodes(body, self._book, self._used, self._given)
        intent = found.intent
        if intent is not None and intent.cause:
            key = f"{intent.namespace}/{intent.cause}"
            words = "the scheduler was told where it should go"
            say(log, logging.INFO, "PodSteered", words, pod=found.pod, target=intent.prefer, migration=key)
            # Schedulers ask again until the pod has its place: it counts once, and keeps its target.
            if found.pod_uid and found.pod_uid not in self._given and not found.is_again:
                self._given[found.pod_uid] = intent.cause
                self._used[key] += 1
        return found.body

    @property
    def _book(self) -> IntentBook:
        return self._known.book if self.is_ready else _NOTHING

    def _note(self, steered: Steered) -> None:
        intent = steered.intent
        if intent.cause and not steered.is_dry_run and not steered.is_again:
            self._used[f"{intent.namespace}/{intent.cause}"] += 1
        words = (
            "it was created with where it should go" if intent.cause else "it is kept from where it failed"
        )
        say(
            log,
            logging.INFO,
            "PodSteered",
            f"{words}, in a dry run" if steered.is_dry_run else words,
            pod=steered.pod,
            target=intent.prefer or "",
            excluded=",".join(intent.excluded),
            migration=f"{intent.namespace}/{intent.cause}" if intent.cause else "",
        )

    def _forget(self, intent: Intent) -> None:
        self._used.pop(f"{intent.namespace}/{intent.cause}", None)
        self._given = {uid: cause for uid, cause in self._given.items() if cause != intent.cause}


def _of_migration(item: Object) -> Iterator[Intent]:
    try:
        intent = intent_of(migration_of(item))
    except UnreadableMigration as error:
        say(log, logging.WARNING, "MigrationUnreadable", f"{error}; it steers nothing")
        return
    if intent is not None:
        yield intent
