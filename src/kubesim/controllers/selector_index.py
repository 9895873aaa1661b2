"""Find the objects of a kind whose selectors match a pod; selectors are parsed once per change."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

import msgspec

from kubesim.apiserver.object_store import StoreChange, StoredObject
from kubevalues import NOTHING, Selector, SelectorError, selector_from_labels, selector_from_object
from kubevalues.label_selectors import SelectorOperator

__all__ = ["SelectorIndex", "read_selector"]


class _Spec(msgspec.Struct, frozen=True):
    selector: dict[str, Any] | None = None


class _Selecting(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


_decode = msgspec.json.Decoder(_Selecting).decode


def read_selector(selector: object) -> Selector:
    """Parse a selector; an invalid one selects nothing."""
    try:
        return selector_from_object(selector) if selector is not None else NOTHING
    except SelectorError:
        return NOTHING


def _read_labels(labels: Mapping[str, str] | None) -> Selector:
    """Parse the plain map of a Service; an empty one selects nothing."""
    try:
        return selector_from_labels(labels) if labels else NOTHING
    except SelectorError:
        return NOTHING


class _Entry(NamedTuple):
    order: int
    selector: Selector
    buckets: tuple[tuple[str, str], ...]


_ANY_LABEL = ("", "")


def _buckets_of(selector: Selector) -> tuple[tuple[str, str], ...]:
    """Return labels of which every matching pod has one; `_ANY_LABEL` if the selector names none."""
    if selector.selects_nothing:
        return ()
    for requirement in selector.requirements:
        if requirement.operator is SelectorOperator.IN:
            return tuple((requirement.key, value) for value in requirement.values)
    return (_ANY_LABEL,)


class SelectorIndex:
    """Objects by a label that they select: comparing each pod with thousands of selectors takes long."""

    def __init__(self, records: Iterable[StoredObject], *, plain_labels: bool = False) -> None:
        self._read = _read_labels if plain_labels else read_selector
        self._entries: dict[str, _Entry] = {}
        self._by_label: dict[tuple[str, str, str], dict[str, None]] = {}
        """Keys of objects by namespace, and a label that they select."""
        self._numbers = count()
        for record in records:
            self._add(record)

    def update(self, change: StoreChange) -> None:
        before, after = change.before, change.after
        if after is not None:
            self._add(after)
        elif before is not None:
            self._remove(before)

    def _add(self, record: StoredObject) -> None:
        known = self._remove(record)
        selector = self._read(_decode(record.raw).spec.selector)
        order = next(self._numbers) if known is None else known.order
        self._entries[record.key] = entry = _Entry(order, selector, _buckets_of(selector))
        for label in entry.buckets:
            self._by_label.setdefault((record.namespace, *label), {})[record.key] = None

    def _remove(self, record: StoredObject) -> _Entry | None:
        entry = self._entries.pop(record.key, None)
        for label in entry.buckets if entry is not None else ():
            del self._by_label[record.namespace, *label][record.key]
        return entry

    def matching(self, namespace: str, labels: Mapping[str, str]) -> Iterator[str]:
        """Yield the keys of the objects that select these labels, in the order in which they were created."""
        keys = [
            key
            for label in (_ANY_LABEL, *labels.items())
            for key in self._by_label.get((namespace, *label), ())
        ]
        for key in sorted(keys, key=lambda key: self._entries[key].order):
            if self._entries[key].selector.matches(labels):
                yield key
