"""Selectors: which objects are meant, by their labels or by their fields.

`parse_selector` reads the text form, `selector_from_object` the form with `matchLabels` and
`matchExpressions`; both give a `Selector`. Field selectors have their own small grammar.

Beware of the two kinds of empty, which Kubernetes keeps apart: a selector that is *missing* selects
nothing (`NOTHING`), a selector that is *empty* selects everything (`EVERYTHING`).
"""

from rescheduler.model.selectors.fields import FieldSelector, FieldTerm, parse_field_selector
from rescheduler.model.selectors.labels import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    SelectorError,
)
from rescheduler.model.selectors.names import label_key_fault, label_value_fault
from rescheduler.model.selectors.objects import (
    node_requirements_from_object,
    selector_from_labels,
    selector_from_object,
)
from rescheduler.model.selectors.overlap import can_match, can_overlap
from rescheduler.model.selectors.text import parse_selector

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "FieldSelector",
    "FieldTerm",
    "Operator",
    "Requirement",
    "Selector",
    "SelectorError",
    "can_match",
    "can_overlap",
    "label_key_fault",
    "label_value_fault",
    "node_requirements_from_object",
    "parse_field_selector",
    "parse_selector",
    "selector_from_labels",
    "selector_from_object",
]
