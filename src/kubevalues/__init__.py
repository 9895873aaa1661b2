"""Values of the Kubernetes API (quantities, durations, selectors, saved clusters), certificates, connections.

The simulator (kubesim) and the product share this package and nothing else, so it imports neither. The
package itself exports selectors. Kubernetes distinguishes two kinds of empty selector: a *missing* one
selects nothing (`NOTHING`), an *empty* one selects everything (`EVERYTHING`).
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
