"""Finds pod classes by what they are: labels, ports, disks, claims, and whom they keep away.

Thousands of classes are asked about thousands of times; what is looked up here is never scanned for.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from rescheduler.model.constraints import HostPort, LabelSelector
from rescheduler.model.selectors import Operator, Selector, SelectorError
from rescheduler.model.volumes import CLAIM, Volume
from rescheduler.rules.affinity_terms import Term, WrittenTerm
from rescheduler.snapshot.snapshot import Snapshot

__all__ = ["ClassIndex"]

_NAME = "kubernetes.io/metadata.name"
_Pair = tuple[str, str]


class ClassIndex:
    def __init__(self, snapshot: Snapshot) -> None:
        self.classes = snapshot.classes
        self._namespaces = snapshot.namespaces
        self._by_label: dict[str, dict[_Pair, list[int]]] = {}

    def matching(self, term: Term) -> list[int]:
        """Classes that the term means."""
        namespaces: Iterable[str] = term.namespaces
        if not term.namespace_selector.selects_nothing:
            labels = self.namespace_labels
            namespaces = [each for each in self._in_namespace if term.includes(each, labels(each))]
        return [number for namespace in namespaces for number in self.selected(namespace, term.selector)]

    def selected(self, namespace: str, selector: Selector) -> Iterator[int]:
        """Classes of that namespace whose labels match."""
        for number in self._candidates(namespace, selector):
            if selector.matches(self.classes[number].labels):
                yield number

    def against(self, number: int) -> dict[Term, list[int]]:
        """Terms by which other pods keep pods of this class away, and the classes that have each."""
        pod_class = self.classes[number]
        labels = self.namespace_labels(pod_class.namespace)
        found: defaultdict[Term, list[int]] = defaultdict(list)
        for pair in (*pod_class.labels.items(), None):
            for written, holders in self._anti_affinity.get(pair, {}).items():
                term = _readable(written)
                if (
                    term is not None
                    and term.selector.matches(pod_class.labels)
                    and term.includes(pod_class.namespace, labels)
                ):
                    found[term] += holders
        return found

    def with_port(self, wanted: HostPort) -> Iterator[int]:
        """Classes that can't be on a node together with that port."""
        for number, port in self._ports.get((wanted.port, wanted.protocol), ()):
            if wanted.ip == port.ip or _ANY_ADDRESS in {wanted.ip, port.ip}:
                yield number

    def with_disk(self, kind: str, name: str) -> list[tuple[int, Volume]]:
        """Classes with a volume of that source, and the volume."""
        return self._volumes.get((kind, name), [])

    def with_claim(self, namespace: str, name: str) -> list[int]:
        """Classes that name that claim; those of ephemeral volumes are no one else's."""
        return [
            number
            for number, volume in self._volumes.get((CLAIM, name), ())
            if not volume.ephemeral and self.classes[number].namespace == namespace
        ]

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The API server sees to it that every namespace has its name as a label."""
        return self._namespaces.get(namespace) or {_NAME: namespace}

    def _candidates(self, namespace: str, selector: Selector) -> Iterable[int]:
        """Those whose labels may match: by the requirement that leaves the fewest."""
        if selector.selects_nothing:
            return ()
        fewest: list[int] = self._in_namespace.get(namespace, [])
        for requirement in selector.requirements:
            if requirement.operator is Operator.IN:
                labelled = self._labelled(namespace)
                pairs = [(requirement.key, value) for value in requirement.values]
                fewest = min(fewest, [each for pair in pairs for each in labelled.get(pair, ())], key=len)
        return fewest

    @cached_property
    def _in_namespace(self) -> dict[str, list[int]]:
        found: defaultdict[str, list[int]] = defaultdict(list)
        for number, pod_class in enumerate(self.classes):
            found[pod_class.namespace].append(number)
        return dict(found)

    def _labelled(self, namespace: str) -> dict[_Pair, list[int]]:
        """Classes of that namespace by each of their labels. Namespaces are read when they are asked for."""
        found = self._by_label.get(namespace)
        if found is None:
            labelled: defaultdict[_Pair, list[int]] = defaultdict(list)
            for number in self._in_namespace.get(namespace, ()):
                for pair in self.classes[number].labels.items():
                    labelled[pair].append(number)
            found = self._by_label[namespace] = dict(labelled)
        return found

    @cached_property
    def _anti_affinity(self) -> dict[_Pair | None, dict[WrittenTerm, list[int]]]:
        """Terms and the classes that have them, each below a label that they can't do without, or None."""
        found: defaultdict[_Pair | None, dict[WrittenTerm, list[int]]] = defaultdict(dict)
        for number, pod_class in enumerate(self.classes):
            for term in pod_class.affinity.pod_anti_affinity.required:
                written = WrittenTerm.by(pod_class, term)
                for pair in _hooks(term.label_selector):
                    found[pair].setdefault(written, []).append(number)
        return dict(found)

    @cached_property
    def _ports(self) -> dict[tuple[int, str], list[tuple[int, HostPort]]]:
        found: defaultdict[tuple[int, str], list[tuple[int, HostPort]]] = defaultdict(list)
        for number, pod_class in enumerate(self.classes):
            for port in pod_class.constraints.host_ports:
                found[port.port, port.protocol].append((number, port))
        return dict(found)

    @cached_property
    def _volumes(self) -> dict[tuple[str, str], list[tuple[int, Volume]]]:
        found: defaultdict[tuple[str, str], list[tuple[int, Volume]]] = defaultdict(list)
        for number, pod_class in enumerate(self.classes):
            for volume in pod_class.volumes:
                found[volume.kind, volume.name].append((number, volume))
        return dict(found)


_ANY_ADDRESS = HostPort(0).ip


def _hooks(selector: LabelSelector | None) -> Iterable[_Pair | None]:
    """Labels of which a pod must have one to be selected; None if it can be selected without."""
    if selector is None:
        return ()
    if selector.match_labels:
        return selector.match_labels[:1]
    for expression in selector.match_expressions:
        if expression.operator == "In":
            return {(expression.key, value): None for value in expression.values}
    return (None,)


def _readable(written: WrittenTerm) -> Term | None:
    """A term that can't be read means nobody: the API server would not have admitted its pod."""
    try:
        return written.read()
    except SelectorError:
        return None
