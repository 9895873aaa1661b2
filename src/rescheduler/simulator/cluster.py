"""Everything behind the API: the objects, the rules for changing them, and time."""

from collections.abc import Iterable

from rescheduler.simulator.admitting import AdmissionChain
from rescheduler.simulator.clock import Clock
from rescheduler.simulator.contents import load_objects
from rescheduler.simulator.deletion import Deletion
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import not_found
from rescheduler.simulator.kinds import Kind, Kinds
from rescheduler.simulator.metadata import Naming
from rescheduler.simulator.store import Record, Store
from rescheduler.simulator.writing import Writer

__all__ = ["Cluster"]


class Cluster:
    """What the verbs, the subresources and the background work share."""

    def __init__(self, clock: Clock, *, seed: int | None, history_limit: int) -> None:
        self.clock = clock
        self.kinds = Kinds()
        self.store = Store(history_limit=history_limit)
        self.naming = Naming(seed)
        self.admission = AdmissionChain(self.store, self.kinds, clock, self.naming)
        self.writer = Writer(
            self.store, clock, self.naming, self.admission, namespaces=self.kind("v1", "Namespace")
        )
        self.deletion = Deletion(self.store, clock)

    def kind(self, api_version: str, name: str) -> Kind:
        """One that is known to be there."""
        found = self.kinds.named(api_version, name)
        assert found is not None, f"no kind {name} in {api_version}"
        return found

    def expect(self, kind: Kind, namespace: str, name: str) -> Record:
        record = self.store.find(kind, namespace, name)
        if record is None:
            raise not_found(kind, name)
        return record

    def load(self, objects: Iterable[Object]) -> list[Object]:
        return load_objects(objects, store=self.store, kinds=self.kinds, clock=self.clock, naming=self.naming)
