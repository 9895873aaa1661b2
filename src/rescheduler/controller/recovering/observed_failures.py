"""On which nodes pods have failed, as far as our migrations have shown it: kept current by their events.

What is written on workloads about failures is the text of their owners. This is what it is compared with.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from rescheduler.controller.followed import Followed, key_of_item
from rescheduler.kube.resources import Object
from rescheduler.snapshot.moves import failures_seen

__all__ = ["ObservedFailures"]


class ObservedFailures(Mapping[str, Collection[str]]):
    """Nodes by the uid of the pod. `changed` handles the events of the informer of migrations."""

    def __init__(self, followed: Followed) -> None:
        self._records = followed.records
        self._of_migration: dict[str, tuple[tuple[str, str], ...]] = {}
        self._nodes: dict[str, Counter[str]] = {}

    def changed(self, old: Object | None, new: Object | None) -> None:
        item = new or old
        assert item is not None
        key = key_of_item(item)
        migration = None if new is None else self._records.migration(new)
        found = () if migration is None else tuple(failures_seen(migration))
        before = self._of_migration.pop(key, ())
        if found:
            self._of_migration[key] = found
        for uid, node in found:
            self._nodes.setdefault(uid, Counter())[node] += 1
        for uid, node in before:
            self._nodes[uid][node] -= 1
            self._nodes[uid] = +self._nodes[uid]
            if not self._nodes[uid]:
                del self._nodes[uid]

    def __getitem__(self, uid: str) -> Collection[str]:
        return self._nodes[uid].keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)
