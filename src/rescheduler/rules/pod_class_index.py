"""Index pod classes by labels, host ports, disks, claims and anti-affinity terms.

Plans look up thousands of classes thousands of times, so no lookup may scan all classes.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from kubevalues import NOTHING, Requirement, Selector, SelectorError, SelectorOperator
from rescheduler.cluster.pod_constraints import Affinity, HostPort, LabelSelector, PodAffinityTerm
from rescheduler.cluster.pod_record import CLAIM_VOLUME, PodVolume
from rescheduler.cluster.snapshot import PodClass, Snapshot

__all__ = ["AffinityTerm", "PodClassIndex", "UnparsedAffinityTerm", "parse_selector", "preferred_terms"]

_CACHED = 16_384


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """An affinity term; hashable, so that equal terms are counted once."""

    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector

    def includes(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace in self.namespaces or self.namespace_selector.matches(labels)

    def __str__(self) -> str:
        return str(self.selector) or ("no pod" if self.selector.selects_nothing else "every pod")


class UnparsedAffinityTerm(NamedTuple):
    """A term as written, with the values of the pod that it depends on: equal terms mean the same."""

    term: PodAffinityTerm
    namespace: str
    labels: tuple[tuple[str, str], ...]
    """The pod's labels whose keys the term names."""

    @classmethod
    def by(cls, pod_class: PodClass, term: PodAffinityTerm) -> "UnparsedAffinityTerm":
        keys = (*term.match_label_keys, *term.mismatch_label_keys)
        labels = tuple((key, pod_class.labels[key]) for key in keys if key in pod_class.labels)
        return cls(term, pod_class.namespace, labels)

    def read(self) -> AffinityTerm:
        """Parse the term; raise `SelectorError`."""
        return _parse_term(self)


@lru_cache(_CACHED)
def _parse_term(written: UnparsedAffinityTerm) -> AffinityTerm:
    term = written.term
    named = frozenset(term.namespaces)
    if not named and term.namespace_selector is None:
        named = frozenset({written.namespace})
    return AffinityTerm(
        topology_key=term.topology_key,
        namespaces=named,
        namespace_selector=parse_selector(term.namespace_selector),
        selector=_merged(parse_selector(term.label_selector), term, dict(written.labels)),
    )


def parse_selector(selector: LabelSelector | None) -> Selector:
    """Return the parsed selector; without one, it selects nothing. Raises `SelectorError`."""
    return NOTHING if selector is None else selector.selector()


def _merged(selector: Selector, term: PodAffinityTerm, labels: Mapping[str, str]) -> Selector:
    """Return the selector with `matchLabelKeys` merged in, as the API server does when it admits a pod.

    If the selector already has the key, the API server has merged it in when it admitted the pod.
    """
    named_keys = {requirement.key for requirement in selector.requirements}
    added = [
        Requirement.checked(key, operator, [labels[key]])
        for keys, operator in (
            (term.match_label_keys, SelectorOperator.IN),
            (term.mismatch_label_keys, SelectorOperator.NOT_IN),
        )
        for key in keys
        if key in labels and key not in named_keys
    ]
    return selector & Selector.of(added) if added else selector


_HARD_POD_AFFINITY_WEIGHT = 1
"""The default of `hardPodAffinityWeight` in the arguments of the plugin InterPodAffinity."""


def _weighted_terms(affinity: Affinity) -> Iterator[tuple[PodAffinityTerm, int]]:
    """Yield the terms by which a pod attracts (weight above 0) or repels (below 0) new pods. Required
    affinity counts, too."""
    yield from ((term, _HARD_POD_AFFINITY_WEIGHT) for term in affinity.pod_affinity.required)
    yield from preferred_terms(affinity)


def preferred_terms(affinity: Affinity) -> Iterator[tuple[PodAffinityTerm, int]]:
    """Yield the preferred terms of a pod with their weights, which are below 0 for anti-affinity."""
    yield from ((each.pod_affinity_term, each.weight) for each in affinity.pod_affinity.preferred)
    yield from ((each.pod_affinity_term, -each.weight) for each in affinity.pod_anti_affinity.preferred)


_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
_Label = tuple[str, str]
_TermIndex = dict[_Label | None, dict[tuple[UnparsedAffinityTerm, int], list[int]]]
"""The terms with their weights and the classes that have them, by a label that a match requires, or None."""


class PodClassIndex:
    def __init__(self, snapshot: Snapshot) -> None:
        self.classes = snapshot.classes
        self._namespaces = snapshot.namespaces
        self._by_label: dict[str, dict[_Label, list[int]]] = {}

    def matching(self, term: AffinityTerm) -> list[int]:
        """Return the classes that the term selects."""
        namespaces: Iterable[str] = term.namespaces
        if not term.namespace_selector.selects_nothing:
            labels = self.namespace_labels
            namespaces = [each for each in self._in_namespace if term.includes(each, labels(each))]
        return [number for namespace in namespaces for number in self.selected(namespace, term.selector)]

    def selected(self, namespace: str, selector: Selector) -> Iterator[int]:
        """Yield the classes of that namespace whose labels match."""
        for number in self._candidates(namespace, selector):
            if selector.matches(self.classes[number].labels):
                yield number

    def against(self, number: int) -> dict[AffinityTerm, list[int]]:
        """Return the required anti-affinity terms that exclude pods of this class, and the classes that have
        each."""
        found: defaultdict[AffinityTerm, list[int]] = defaultdict(list)
        for term, _, holders in self._about(number, self._anti_affinity):
            found[term] += holders
        return found

    def preferring(self, number: int) -> Iterator[tuple[AffinityTerm, int, list[int]]]:
        """Yield the terms by which other pods attract (weight above 0) or repel (below 0) pods of this class,
        the weight of each, and the classes that have it."""
        yield from self._about(number, self._preferences)

    def _about(self, number: int, terms: _TermIndex) -> Iterator[tuple[AffinityTerm, int, list[int]]]:
        """Yield the terms that select pods of this class."""
        pod_class = self.classes[number]
        labels = self.namespace_labels(pod_class.namespace)
        for pair in (*pod_class.labels.items(), None):
            for (written, weight), holders in terms.get(pair, {}).items():
                term = _parsed_or_none(written)
                if (
                    term is not None
                    and term.selector.matches(pod_class.labels)
                    and term.includes(pod_class.namespace, labels)
                ):
                    yield term, weight, holders

    def with_port(self, wanted: HostPort) -> Iterator[int]:
        """Yield the classes whose host ports conflict with that port."""
        for number, port in self._ports.get((wanted.port, wanted.protocol), ()):
            if wanted.ip == port.ip or _ANY_ADDRESS in {wanted.ip, port.ip}:
                yield number

    def with_disk(self, kind: str, name: str) -> list[tuple[int, PodVolume]]:
        """Return the classes with a volume of that source, and the volume."""
        return self._volumes.get((kind, name), [])

    def with_claim(self, namespace: str, name: str) -> list[int]:
        """Return the classes that name that claim; claims of ephemeral volumes belong to one pod."""
        return [
            number
            for number, volume in self._volumes.get((CLAIM_VOLUME, name), ())
            if not volume.ephemeral and self.classes[number].namespace == namespace
        ]

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace. The API server labels every namespace with its name."""
        return self._namespaces.get(namespace) or {_NAMESPACE_NAME_LABEL: namespace}

    def _candidates(self, namespace: str, selector: Selector) -> Iterable[int]:
        """Return the classes whose labels may match, found by the most selective requirement."""
        if selector.selects_nothing:
            return ()
        fewest: list[int] = self._in_namespace.get(namespace, [])
        for requirement in selector.requirements:
            if requirement.operator is SelectorOperator.IN:
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

    def _labelled(self, namespace: str) -> dict[_Label, list[int]]:
        """Return the classes of that namespace by each of their labels. A namespace is read at its first
        use."""
        found = self._by_label.get(namespace)
        if found is None:
            labelled: defaultdict[_Label, list[int]] = defaultdict(list)
            for number in self._in_namespace.get(namespace, ()):
                for pair in self.classes[number].labels.items():
                    labelled[pair].append(number)
            found = self._by_label[namespace] = dict(labelled)
        return found

    @cached_property
    def _anti_affinity(self) -> _TermIndex:
        # The first lookup in every snapshot waits for this. Most classes have no term, and a function call
        # for each class would double the time.
        return self._term_index(
            (number, term, 0)
            for number, pod_class in enumerate(self.classes)
            for term in pod_class.affinity.pod_anti_affinity.required
        )

    @cached_property
    def _preferences(self) -> _TermIndex:
        return self._term_index(
            (number, term, weight)
            for number, pod_class in enumerate(self.classes)
            for term, weight in _weighted_terms(pod_class.affinity)
        )

    def _term_index(self, terms: Iterable[tuple[int, PodAffinityTerm, int]]) -> _TermIndex:
        """Return an index of these terms: the class that has it, the term and its weight."""
        found: defaultdict[_Label | None, dict[tuple[UnparsedAffinityTerm, int], list[int]]]
        found = defaultdict(dict)
        for number, term, weight in terms:
            written = UnparsedAffinityTerm.by(self.classes[number], term), weight
            for pair in _required_labels(term.label_selector):
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
    def _volumes(self) -> dict[tuple[str, str], list[tuple[int, PodVolume]]]:
        found: defaultdict[tuple[str, str], list[tuple[int, PodVolume]]] = defaultdict(list)
        for number, pod_class in enumerate(self.classes):
            for volume in pod_class.volumes:
                found[volume.kind, volume.name].append((number, volume))
        return dict(found)


_ANY_ADDRESS = HostPort(0).ip


def _required_labels(selector: LabelSelector | None) -> Iterable[_Label | None]:
    """Return labels of which a selected pod has at least one: none if no pod is selected, and None as a label
    if selected pods need none."""
    if selector is None:
        return ()
    if selector.match_labels:
        return selector.match_labels[:1]
    for expression in selector.match_expressions:
        if expression.operator == "In":
            return {(expression.key, value): None for value in expression.values}
    return (None,)


def _parsed_or_none(written: UnparsedAffinityTerm) -> AffinityTerm | None:
    """Return None for a term that can't be parsed: the API server would not have admitted its pod."""
    try:
        return written.read()
    except SelectorError:
        return None
