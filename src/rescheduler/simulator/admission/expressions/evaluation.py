"""The value of an expression for given variables."""

from collections.abc import Callable, Mapping
from typing import Any

from rescheduler.simulator.admission.expressions.functions import FUNCTIONS, METHODS, OPERATORS, Undefined
from rescheduler.simulator.admission.expressions.syntax import (
    Call,
    Choice,
    Index,
    ListOf,
    Literal,
    MapOf,
    Name,
    Node,
    Select,
    Unsupported,
)

__all__ = ["MACROS", "evaluate", "expect_supported", "inner_nodes"]

Variables = Mapping[str, Any]

MACROS = ("all", "exists", "exists_one", "filter", "map")
"""`list.exists(x, x.name == "a")`: the first argument names an element, the second is asked of each."""


_DEEPEST = 100


def expect_supported(node: Node, depth: int = 0) -> None:
    """Raises `Unsupported` if anything in it could not be evaluated."""
    if depth > _DEEPEST:
        raise Unsupported(f"an expression of more than {_DEEPEST} levels")
    for inner in inner_nodes(node):
        expect_supported(inner, depth + 1)
    if not isinstance(node, Call):
        return
    count = len(node.arguments)
    if node.method and node.function in MACROS:
        if count != 3 or not isinstance(node.arguments[1], Name):
            raise Unsupported(f"{node.function}() takes the name of an element and a condition")
    elif node.function == "has" and not node.method:
        if count != 1 or not isinstance(node.arguments[0], Select):
            raise Unsupported("has() takes a field")
    elif node.function not in (*OPERATORS, "&&", "||"):
        known = (METHODS if node.method else FUNCTIONS).get(node.function)
        if known is None or known[0] != count:
            raise Unsupported(f"this server has no function {node.function}() with {count} argument(s)")


def inner_nodes(node: Node) -> tuple[Node, ...]:
    match node:
        case Select(target=target):
            return (target,)
        case Index(target=target, key=key):
            return (target, key)
        case Call(arguments=arguments):
            return arguments
        case Choice(test=test, yes=yes, no=no):
            return (test, yes, no)
        case ListOf(items=items):
            return items
        case MapOf(entries=entries):
            return tuple(inner for entry in entries for inner in entry)
        case _:
            return ()


def evaluate(node: Node, variables: Variables) -> Any:
    """Raises `Undefined` where there is no value."""
    match node:
        case Literal(value=value):
            return value
        case Name(name=name):
            if name not in variables:
                raise Undefined(f"undeclared reference to '{name}'")
            return variables[name]
        case Select(target=target, field=field):
            return _field(evaluate(target, variables), field)
        case Index(target=target, key=key):
            return _element(evaluate(target, variables), evaluate(key, variables))
        case ListOf(items=items):
            return [evaluate(item, variables) for item in items]
        case MapOf(entries=entries):
            return {evaluate(key, variables): evaluate(value, variables) for key, value in entries}
        case Choice(test=test, yes=yes, no=no):
            return evaluate(yes if _truth(evaluate(test, variables)) else no, variables)
        case Call():
            return _call(node, variables)


def _field(target: Any, field: str) -> Any:
    if isinstance(target, dict) and field in target:
        return target[field]
    raise Undefined(f"no such key: {field}")


def _element(target: Any, key: Any) -> Any:
    if isinstance(target, dict) and isinstance(key, str):
        return _field(target, key)
    if isinstance(target, list) and isinstance(key, int) and 0 <= key < len(target):
        return target[key]
    raise Undefined(f"index out of bounds: {key}")


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise Undefined("no such overload: neither true nor false")


def _call(node: Call, variables: Variables) -> Any:
    if node.function == "&&":
        return _decided(node.arguments, variables, decisive=False)
    if node.function == "||":
        return _decided(node.arguments, variables, decisive=True)
    if node.method and node.function in MACROS:
        return _macro(node, variables)
    if node.function == "has" and not node.method:
        return _has(node.arguments[0], variables)
    values = [evaluate(argument, variables) for argument in node.arguments]
    if node.function in OPERATORS and not node.method:
        return OPERATORS[node.function](*values)
    return (METHODS if node.method else FUNCTIONS)[node.function][1](*values)


def _decided(arguments: tuple[Node, ...], variables: Variables, *, decisive: bool) -> bool:
    """And, or: one side that decides is enough, even if the other has no value."""
    undefined: Undefined | None = None
    for argument in arguments:
        try:
            if _truth(evaluate(argument, variables)) is decisive:
                return decisive
        except Undefined as error:
            undefined = error
    if undefined:
        raise undefined
    return not decisive


def _has(node: Node, variables: Variables) -> bool:
    assert isinstance(node, Select)
    target = evaluate(node.target, variables)
    if not isinstance(target, dict):
        raise Undefined("no such overload: has of what has no fields")
    return node.field in target


def _macro(node: Call, variables: Variables) -> Any:
    target, element, condition = node.arguments
    assert isinstance(element, Name)
    name = element.name
    elements = evaluate(target, variables)
    if isinstance(elements, dict):
        elements = list(elements)
    if not isinstance(elements, list):
        raise Undefined(f"no such overload: {node.function} of what is no list")

    def asked(value: Any) -> Any:
        return evaluate(condition, {**variables, name: value})

    return _MACROS[node.function](elements, asked)


def _quantified(elements: list[Any], asked: Callable[[Any], Any], *, decisive: bool) -> bool:
    undefined: Undefined | None = None
    for element in elements:
        try:
            if _truth(asked(element)) is decisive:
                return decisive
        except Undefined as error:
            undefined = error
    if undefined:
        raise undefined
    return not decisive


_MACROS: dict[str, Callable[[list[Any], Callable[[Any], Any]], Any]] = {
    "all": lambda elements, asked: _quantified(elements, asked, decisive=False),
    "exists": lambda elements, asked: _quantified(elements, asked, decisive=True),
    "exists_one": lambda elements, asked: sum(_truth(asked(element)) for element in elements) == 1,
    "filter": lambda elements, asked: [element for element in elements if _truth(asked(element))],
    "map": lambda elements, asked: [asked(element) for element in elements],
}
