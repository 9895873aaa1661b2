"""Definitions of custom resources: a kind is served from the moment its definition is accepted."""

from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.custom import definitions
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.store import Change, Record

__all__ = ["Establishing"]


class Establishing:
    """Follows every change of a definition at once, so that nobody has to wait for a new kind."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._definitions = cluster.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        cluster.store.observers.append(self._changed)

    def _changed(self, kind: Kind, change: Change) -> None:
        if kind != self._definitions:
            return
        if change.after is not None:
            self._establish(change.after)
        elif change.before is not None:
            self._withdraw(change.before)

    def _establish(self, record: Record) -> None:
        content = record.object
        collection = self._cluster.store.collection(self._definitions)
        others = [other.object for other in collection.ordered() if other.uid != record.uid]
        judged = definitions.established(content, others, self._cluster.clock.now())
        if judged != content:
            self._cluster.store.put(self._definitions, judged)  # comes back here, and then has nothing to add
            return
        accepted = any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in judged["status"]["conditions"]
        )
        spec = judged["spec"]
        for known in list(self._cluster.kinds):
            if (known.group, known.plural) == (spec["group"], spec["names"]["plural"]) and known.custom:
                self._cluster.kinds.remove(known)
        for defined in definitions.kinds_of(judged) if accepted else ():
            if defined.served:
                self._cluster.kinds.add(defined)

    def _withdraw(self, record: Record) -> None:
        for kind in definitions.kinds_of(record.object):
            self._cluster.store.drop_collection(kind)
            self._cluster.kinds.remove(kind)
