"""Answer API servers and schedulers from caches of migrations and failed attempts, without any request.

If a cache is not synced, or stale, pods are admitted unchanged: no steering is better than outdated steering.
"""

import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import datetime

from rescheduler.api.podmigration import UnreadableMigration, decode_migration
from rescheduler.api.podmigration_crd import POD_MIGRATION_PLURAL
from rescheduler.api.well_known_names import GROUP, POD_MIGRATION_KIND, VERSION
from rescheduler.kube.api_resources import Object, api_resource
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import log_event
from rescheduler.kube.informer import ChangeHandler, Informer
from rescheduler.kube.transport import loop_s, wall_clock
from rescheduler.steering.extender_verbs import filter_nodes, prioritize_nodes
from rescheduler.steering.failed_attempts_watch import FailedAttemptsWatch
from rescheduler.steering.intents import Intent, IntentIndex, intent_of_migration
from rescheduler.steering.webhook.eviction_caches import DaemonPresence, EvictionCaches, EvictionTurns
from rescheduler.steering.webhook.eviction_guard import EvictionGuard, EvictionSettings
from rescheduler.steering.webhook.pod_mutation import SteeredPod, answer_review
from rescheduler.steering.webhook.surplus_guard import SurplusGuard

__all__ = ["IntentCache", "SteeringService"]


class IntentCache:
    """The intents of all migrations and workloads, kept current by informers."""

    def __init__(self, on_end: Callable[[Intent], None] = lambda _: None) -> None:
        """Create the cache; `on_end` receives intents that have ended."""
        self._by_record: dict[str, tuple[Intent, ...]] = {}
        self.index = IntentIndex()
        self._on_end = on_end

    def reading(self, kind: str, read: Callable[[Object], Iterable[Intent]]) -> ChangeHandler[Object]:
        """Return a handler for an informer of that kind; `read` must not raise."""

        def changed(old: Object | None, new: Object | None) -> None:
            item = old if new is None else new
            assert item is not None
            key = f"{kind}/{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
            self.update(key, () if new is None else tuple(read(new)))

        return changed

    def update(self, key: str, intents: tuple[Intent, ...]) -> None:
        """Replace the intents of the record with that key."""
        before = self._by_record.get(key, ())
        if intents == before:
            return
        self.index.replace(before, intents)
        if intents:
            self._by_record[key] = intents
        else:
            del self._by_record[key]
        still = {(intent.namespace, intent.cause) for intent in intents}
        for intent in before:
            if (intent.namespace, intent.cause) not in still:
                self._on_end(intent)


log = logging.getLogger(__name__)

_NO_INTENTS = IntentIndex()


class SteeringService:
    def __init__(
        self,
        client: Client,
        now: Callable[[], datetime] = wall_clock,
        evictions: EvictionSettings | None = None,
    ) -> None:
        """Create the service; without `evictions`, all evictions pass."""
        self._known = IntentCache(self._forget)
        self._used: Counter[str] = Counter()
        """How often the intent of each migration was used."""
        self._given: dict[str, str] = {}
        """The key of the migration whose target the scheduler got for a pod, by the uid of the pod."""
        self.informer = Informer(
            client, api_resource(GROUP, VERSION, POD_MIGRATION_PLURAL, POD_MIGRATION_KIND)
        )
        self.informer.subscribe(self._known.reading(POD_MIGRATION_KIND, _intents_of_object))
        self._attempts = FailedAttemptsWatch(client, self._known.update)
        self._guard = SurplusGuard(self.informer, now, loop_s)
        self.evictions: EvictionGuard | None = None
        if evictions is not None:
            daemon = DaemonPresence(client, evictions.namespace, evictions.lease, loop_s)
            caches = EvictionCaches(client, self.informer, daemon)
            turns = EvictionTurns(client, evictions.home, loop_s)
            self.evictions = EvictionGuard(client, caches, turns, evictions, now, loop_s)

    @property
    def is_ready(self) -> bool:
        return self.informer.is_fresh and self._attempts.is_settled

    async def synced(self) -> None:
        """Wait until all caches are synced."""
        await self.informer.synced()
        await self._attempts.settled()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self.informer.running())
            await stack.enter_async_context(self._attempts.running())
            if self.evictions is not None:
                await stack.enter_async_context(self.evictions.running())
            yield

    # -- answers: none of these raises, whatever the body is

    def answer(self, body: bytes) -> bytes:
        """Answer an AdmissionReview of the steering webhook."""
        answered = answer_review(
            body, self._known.index if self.is_ready else None, self._used, self._attempts.annotations
        )
        if answered.steered is not None:
            self._note(answered.steered)
        return answered.body

    def guard(self, body: bytes) -> bytes:
        """Answer an AdmissionReview of the surplus guard."""
        return self._guard.answer(body, is_ready=self.informer.is_fresh)

    def filter(self, body: bytes) -> bytes:
        """Answer a `filter` request of a scheduler."""
        found = filter_nodes(body, self._index)
        if found.dropped:
            words = "allowed nodes on which the pod failed, because there are no others"
            log_event(
                log, logging.INFO, "ExclusionsDropped", words, pod=found.pod, nodes=",".join(found.dropped)
            )
        if found.refusals:
            words = "excluded nodes for the scheduler"
            log_event(
                log, logging.INFO, "NodesExcluded", words, pod=found.pod, nodes=",".join(found.refusals)
            )
        return found.body

    def prioritize(self, body: bytes) -> bytes:
        """Answer a `prioritize` request of a scheduler."""
        found = prioritize_nodes(body, self._index, self._used, self._given)
        intent = found.intent
        if intent is not None and intent.cause:
            key = f"{intent.namespace}/{intent.cause}"
            words = "gave the scheduler the preferred node"
            log_event(
                log, logging.INFO, "PodSteered", words, pod=found.pod, target=intent.prefer, migration=key
            )
            # Schedulers ask again until the pod is bound: the pod counts once, and keeps its target.
            if found.pod_uid and found.pod_uid not in self._given and not found.is_again:
                self._given[found.pod_uid] = key
                self._used[key] += 1
        return found.body

    @property
    def _index(self) -> IntentIndex:
        return self._known.index if self.is_ready else _NO_INTENTS

    def _note(self, steered: SteeredPod) -> None:
        intent = steered.intent
        if intent.cause and not steered.is_dry_run and not steered.is_again:
            self._used[f"{intent.namespace}/{intent.cause}"] += 1
        words = (
            "added the target node to a new pod" if intent.cause else "excluded nodes on which the pod failed"
        )
        log_event(
            log,
            logging.INFO,
            "PodSteered",
            f"{words} (dry run)" if steered.is_dry_run else words,
            pod=steered.pod,
            target=intent.prefer or "",
            excluded=",".join(intent.excluded),
            migration=f"{intent.namespace}/{intent.cause}" if intent.cause else "",
        )

    def _forget(self, intent: Intent) -> None:
        ended = f"{intent.namespace}/{intent.cause}"
        self._used.pop(ended, None)
        self._given = {uid: migration for uid, migration in self._given.items() if migration != ended}


def _intents_of_object(item: Object) -> Iterator[Intent]:
    try:
        intent = intent_of_migration(decode_migration(item))
    except UnreadableMigration as error:
        log_event(log, logging.WARNING, "MigrationUnreadable", f"{error}; the PodMigration steers no pod")
        return
    if intent is not None:
        yield intent
