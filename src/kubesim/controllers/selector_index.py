"""Find the objects of a kind whose selectors match a pod; selectors are parsed once per change."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from kubesim.apiserver.object_store import StoreChange, StoredObject, key_of
from kubevalues import NOTHING, Selector, SelectorError, selector_from_labels, selector_from_object

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


class SelectorIndex:
    def __init__(self, records: Iterable[StoredObject], *, plain_labels: bool = False) -> None:
        self._read = _read_labels if plain_labels else read_selector
        self._by_namespace: dict[str, dict[str, Selector]] = {}
        for record in records:
            self._add(record)

    def update(self, change: StoreChange) -> None:
        before, after = change.before, change.after
        if after is not None:
            self._add(after)
        elif before is not None:
            self._by_namespace[before.namespace].pop(before.name, None)

    def _add(self, record: StoredObject) -> None:
        selector = self._read(_decode(record.raw).spec.selector)
        self._by_namespace.setdefault(record.namespace, {})[record.name] = selector

    def matching(self, namespace: str, labels: Mapping[str, str]) -> Iterator[str]:
        """Yield the keys of the objects that select these labels."""
        for name, selector in self._by_namespace.get(namespace, {}).items():
            if selector.matches(labels):
                yield key_of(namespace, name)
