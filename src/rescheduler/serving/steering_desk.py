"""Answers reviews from a cache of the running migrations, without asking anybody.

If the cache isn't there yet, or has not heard of the server for too long, pods are let through as they are:
better unsteered than by news of yesterday.
"""

import logging
from collections import Counter

from rescheduler.intents.book import IntentBook
from rescheduler.intents.from_migrations import intent_of
from rescheduler.intents.intent import Intent
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer
from rescheduler.kube.resources import Object, custom
from rescheduler.migrations.definition import PLURAL
from rescheduler.model.migrations import GROUP, KIND, VERSION, UnreadableMigration, migration_of
from rescheduler.serving.admission import Steered, answer

__all__ = ["SteeringDesk"]

log = logging.getLogger(__name__)

_NOTHING = IntentBook()


class SteeringDesk:
    def __init__(self, client: Client) -> None:
        self.informer = Informer(client, custom(GROUP, VERSION, PLURAL, KIND))
        self._intents: dict[str, Intent] = {}
        """By the key of the migration."""
        self._book: IntentBook | None = _NOTHING
        """None if it is to be made anew."""
        self._used: Counter[str] = Counter()
        self.informer.subscribe(self._heard)

    @property
    def is_ready(self) -> bool:
        return self.informer.is_fresh

    def answer(self, body: bytes) -> bytes:
        """To a review as the server sends it. Never raises."""
        answered = answer(body, self._known(), self._used)
        if answered.steered is not None:
            self._note(answered.steered)
        return answered.body

    def _known(self) -> IntentBook:
        if not self.is_ready:
            return _NOTHING
        if self._book is None:
            self._book = IntentBook(self._intents.values())
        return self._book

    def _note(self, steered: Steered) -> None:
        intent = steered.intent
        if not steered.is_dry_run and not steered.is_again:
            self._used[f"{intent.namespace}/{intent.cause}"] += 1
        log.info(
            "steered pod=%s to=%s away-from=%s migration=%s/%s%s",
            steered.pod,
            intent.prefer or "-",
            ",".join(intent.avoid) or "-",
            intent.namespace,
            intent.cause,
            " dry-run" if steered.is_dry_run else "",
        )

    # -- following

    def _heard(self, old: Object | None, new: Object | None) -> None:
        item = old if new is None else new
        assert item is not None
        key = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        intent = None if new is None else _read(new)
        if intent == self._intents.get(key):
            return
        self._book = None
        if intent is None:
            del self._intents[key]
            self._used.pop(key, None)
        else:
            self._intents[key] = intent


def _read(item: Object) -> Intent | None:
    try:
        return intent_of(migration_of(item))
    except UnreadableMigration as error:
        log.warning("%s; it steers nothing", error)
        return None
