"""What all controllers share: the world they look at, and how they are woken.

A controller says which changes concern which of its keys (`watches`), and what to do about one key
(`reconcile`). It reads the store itself, not a copy that lags behind, so it needs no expectations about
writes of its own that it has not seen yet: what it wrote is there when it looks next. One look at one key
ends before the next begins.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime

from rescheduler.simulator.admission import defaults
from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.controllers.key_queue import KeyQueue
from rescheduler.simulator.controllers.pods import Pod, PodIndex
from rescheduler.simulator.controllers.writes import Writes
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.metrics import UsageBook
from rescheduler.simulator.store import Change, Record, key_of

__all__ = ["Controller", "Noticed", "World", "split_key"]

Noticed = Callable[[Change], None]


class World:
    """The cluster, with the pods found by what controllers ask for."""

    def __init__(
        self, cluster: Cluster, *, react_s: float, write_s: float, usage: UsageBook | None = None
    ) -> None:
        self.cluster = cluster
        self.store = cluster.store
        self.clock = cluster.clock
        self.react_s = react_s
        self.write_s = write_s
        self.usage = usage
        self.pod_kind = cluster.kind("v1", "Pod")
        self.pods = PodIndex(self.store.collection(self.pod_kind).ordered())

    def now(self) -> datetime:
        return self.clock.now()

    def read(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """With its defaults, which loaded objects may lack; a real server adds them on every read.

        None also for one without a spec: loading makes such owners up from references to them, and there
        is nothing to be done about them.
        """
        record = self.store.find(kind, namespace, name)
        content = self.complete(kind, record) if record is not None and b'"spec"' in record.raw else None
        return content if content is not None and "spec" in content else None

    def complete(self, kind: Kind, record: Record) -> Object:
        return defaults.apply(
            kind,
            record.object,
            "UPDATE",
            now=self.now(),
            lookup=self.cluster.admission.lookup,
            subresource="status",
        )


class Controller(ABC):
    name: str
    """As its service account is called."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.writes = Writes(world.cluster, self.name, world.write_s)
        self.queue = KeyQueue(world.clock, world.react_s, self.reconcile)

    def kind(self, api_version: str, name: str) -> Kind:
        return self.world.cluster.kind(api_version, name)

    @abstractmethod
    def watches(self) -> Mapping[Kind, Noticed]:
        """What to call when an object of a kind changes; pods go to `pod_changed`."""

    def pod_changed(self, before: Pod | None, after: Pod | None) -> None:  # noqa: B027 - few care
        """For controllers that care for pods."""

    @abstractmethod
    async def reconcile(self, key: str) -> float | None:
        """Makes what is like what should be; answers after how many seconds to look again, if at all.

        May be called at any time and any number of times. A `Failure` means: again, after a pause that
        grows. Anything else that is raised is a mistake in the controller.
        """

    def enqueue(self, change: Change) -> None:
        """For the controller's own kind: the object itself is what to look at."""
        record = change.after or change.before
        assert record is not None
        self.queue.add(key_of(record.namespace, record.name))


def split_key(key: str) -> tuple[str, str]:
    namespace, _, name = key.rpartition("/")
    return namespace, name
