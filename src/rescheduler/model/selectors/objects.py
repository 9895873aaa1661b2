"""The object form of label selectors: `matchLabels` and `matchExpressions`, as API objects have it.

The values come from outside (a manifest, a saved cluster), so their shapes are checked as well.
"""

from collections.abc import Callable, Mapping, Sequence

from rescheduler.model.selectors.labels import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    SelectorError,
)

__all__ = ["node_requirements_from_object", "selector_from_labels", "selector_from_object"]

_LABEL_OPERATORS = (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
_NODE_OPERATORS = tuple(Operator)


def selector_from_object(selector: object) -> Selector:
    """A missing selector (None) selects nothing, an empty one everything. Raises `SelectorError`."""
    if selector is None:
        return NOTHING
    if not isinstance(selector, Mapping):
        raise SelectorError(f"{selector!r} is not a map with matchLabels and matchExpressions")
    for name in selector:
        if name not in ("matchLabels", "matchExpressions"):
            raise SelectorError("unknown field: matchLabels and matchExpressions are allowed", path=str(name))
    labels = _label_requirements(selector.get("matchLabels"), "matchLabels")
    expressions = _requirements(selector.get("matchExpressions"), "matchExpressions", _LABEL_OPERATORS)
    return Selector.of(labels + expressions)


def selector_from_labels(labels: Mapping[str, str] | None) -> Selector:
    """A plain map of labels, as in a Service or a pod's `nodeSelector`; none is everything."""
    return Selector.of(_label_requirements(labels, "")) if labels else EVERYTHING


def node_requirements_from_object(expressions: object, path: str = "matchExpressions") -> Selector:
    """One term of a node affinity, where Gt and Lt are allowed too; a term without any selects nothing."""
    found = _requirements(expressions, path, _NODE_OPERATORS)
    return Selector.of(found) if found else NOTHING


def _label_requirements(labels: object, path: str) -> list[Requirement]:
    if labels is None:
        return []
    if not isinstance(labels, Mapping):
        raise SelectorError(f"{labels!r} is not a map of labels", path=path)
    return [
        _at(f"{path}[{key}]" if path else str(key), lambda k=key, v=value: _equal(k, v))  # type: ignore[misc]
        for key, value in labels.items()
    ]


def _equal(key: object, value: object) -> Requirement:
    return Requirement.checked(_text(key), Operator.IN, [_text(value)])


def _requirements(expressions: object, path: str, allowed: Sequence[Operator]) -> list[Requirement]:
    if expressions is None:
        return []
    if not isinstance(expressions, Sequence) or isinstance(expressions, str):
        raise SelectorError(f"{expressions!r} is not a list", path=path)
    return [
        _at(f"{path}[{index}]", lambda e=expression: _requirement(e, allowed))  # type: ignore[misc]
        for index, expression in enumerate(expressions)
    ]


def _requirement(expression: object, allowed: Sequence[Operator]) -> Requirement:
    if not isinstance(expression, Mapping):
        raise SelectorError(f"{expression!r} is not a map with key, operator and values")
    operator = next((o for o in allowed if o == expression.get("operator")), None)
    if operator is None:
        raise SelectorError(
            f"{expression.get('operator')!r} is not allowed: {', '.join(allowed)}", path="operator"
        )
    values = expression.get("values") or ()
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise SelectorError(f"{values!r} is not a list", path="values")
    return Requirement.checked(_text(expression.get("key")), operator, map(_text, values))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise SelectorError(f"{value!r} is not a text")
    return value


def _at(path: str, make: Callable[[], Requirement]) -> Requirement:
    try:
        return make()
    except SelectorError as error:
        raise SelectorError(error.reason, path=f"{path}.{error.path}" if error.path else path) from None
