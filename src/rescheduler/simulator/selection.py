"""Which records a list or a watch is about."""

from collections.abc import Mapping

from rescheduler.model.selectors import FieldSelector, Selector, SelectorError, parse_selector
from rescheduler.simulator.failures import bad_request
from rescheduler.simulator.routing import Route
from rescheduler.simulator.selectable import field_selector
from rescheduler.simulator.store import Record

__all__ = ["Selection"]


class Selection:
    """By namespace, name, labels and fields; what is not asked for is not checked."""

    def __init__(
        self,
        *,
        namespace: str = "",
        name: str = "",
        labels: Selector | None = None,
        fields: FieldSelector | None = None,
    ) -> None:
        self.namespace = namespace
        self._name = name
        self._labels = labels
        self._fields = fields

    @classmethod
    def parse(cls, route: Route, query: Mapping[str, str]) -> "Selection":
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        return cls(
            namespace=route.namespace,
            name=route.name,
            labels=_labels(labels) if labels else None,
            fields=field_selector(route.kind, fields) if fields else None,
        )

    @property
    def selects(self) -> bool:
        """Whether it leaves anything out of a collection or namespace."""
        return bool(self._name or self._labels is not None or self._fields is not None)

    def includes(self, record: Record) -> bool:
        if self.namespace and record.namespace != self.namespace:
            return False
        if self._name and record.name != self._name:
            return False
        if self._labels is not None and not self._labels.matches(record.labels):
            return False
        return self._fields is None or self._fields.matches(record.fields)


def _labels(text: str) -> Selector:
    try:
        return parse_selector(text)
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from error
