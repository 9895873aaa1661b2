"""Selectors: which objects are meant, by their labels or by their fields.

`parse_selector` reads the text form, `selector_from_object` the form with `matchLabels` and
`matchExpressions`; both give a `Selector`. Field selectors have their own small grammar.

Beware of the two kinds of empty, which Kubernetes keeps apart: a selector that is *missing* selects
nothing (`NOTHING`), a selector that is *empty* selects everything (`EVERYTHING`).
"""

from kubevalues.label_selectors import (
    EVERYTHING,
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    SelectorOperator,
    can_match,
    can_overlap,
    label_key_error,
    label_value_error,
)
from kubevalues.selector_parsers import (
    FieldSelector,
    FieldTerm,
    node_requirements_from_object,
    parse_field_selector,
    parse_selector,
    selector_from_labels,
    selector_from_object,
)

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "FieldSelector",
    "FieldTerm",
    "Requirement",
    "Selector",
    "SelectorError",
    "SelectorOperator",
    "can_match",
    "can_overlap",
    "label_key_error",
    "label_value_error",
    "node_requirements_from_object",
    "parse_field_selector",
    "parse_selector",
    "selector_from_labels",
    "selector_from_object",
]
