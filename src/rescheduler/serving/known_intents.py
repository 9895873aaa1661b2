"""The intents of the moment, read off the records that they follow from as these change."""

from collections.abc import Callable, Iterable

from rescheduler.intents.book import IntentBook
from rescheduler.intents.intent import Intent
from rescheduler.kube.informer import Handler
from rescheduler.kube.resources import Object

__all__ = ["KnownIntents"]


class KnownIntents:
    def __init__(self, on_end: Callable[[Intent], None] = lambda _: None) -> None:
        """`on_end` hears of intents that hold no longer."""
        self._by_record: dict[str, tuple[Intent, ...]] = {}
        self._book: IntentBook | None = None
        """None if it is to be made anew."""
        self._on_end = on_end

    @property
    def book(self) -> IntentBook:
        if self._book is None:
            self._book = IntentBook(intent for each in self._by_record.values() for intent in each)
        return self._book

    def reading(self, kind: str, read: Callable[[Object], Iterable[Intent]]) -> Handler[Object]:
        """What an informer of that kind is to call; `read` must not raise."""

        def heard(old: Object | None, new: Object | None) -> None:
            item = old if new is None else new
            assert item is not None
            key = f"{kind}/{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
            self.learn(key, () if new is None else tuple(read(new)))

        return heard

    def learn(self, key: str, intents: tuple[Intent, ...]) -> None:
        """From now on these follow from the record of that name."""
        before = self._by_record.get(key, ())
        if intents == before:
            return
        self._book = None
        if intents:
            self._by_record[key] = intents
        else:
            del self._by_record[key]
        still = {(intent.namespace, intent.cause) for intent in intents}
        for intent in before:
            if (intent.namespace, intent.cause) not in still:
                self._on_end(intent)
