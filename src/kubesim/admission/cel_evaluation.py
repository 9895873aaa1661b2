"""Evaluate CEL expressions, the language of validation rules and match conditions.

Supported are comparisons, `&& || ! ?:`, arithmetic, `in`, `has()`, `size()`, string functions, and the macros
`all exists exists_one filter map`. Any other expression is rejected when it is compiled
(`UnsupportedExpression`), so that no rule is silently ignored.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kubesim.admission.cel_functions import FUNCTIONS, METHODS, OPERATORS, UndefinedValue
from kubesim.admission.cel_syntax import (
    CallNode,
    CelNode,
    ConditionalNode,
    IndexNode,
    ListNode,
    LiteralNode,
    MapNode,
    NameNode,
    SelectNode,
    UnsupportedExpression,
    parse,
)

__all__ = [
    "MACROS",
    "CelExpression",
    "UndefinedValue",
    "UnsupportedExpression",
    "compile_expression",
    "evaluate",
    "expect_supported",
    "inner_nodes",
]

Variables = Mapping[str, Any]

MACROS = ("all", "exists", "exists_one", "filter", "map")
"""Macros such as `list.exists(x, x.name == "a")`: the first argument names an element, the second tests it.
"""


_DEEPEST = 100


def expect_supported(node: CelNode, depth: int = 0) -> None:
    """Raise `UnsupportedExpression` if any part of the expression can't be evaluated."""
    if depth > _DEEPEST:
        raise UnsupportedExpression(f"an expression of more than {_DEEPEST} levels")
    for inner in inner_nodes(node):
        expect_supported(inner, depth + 1)
    if not isinstance(node, CallNode):
        return
    count = len(node.arguments)
    if node.method and node.function in MACROS:
        if count != 3 or not isinstance(node.arguments[1], NameNode):
            raise UnsupportedExpression(f"{node.function}() takes the name of an element and a condition")
    elif node.function == "has" and not node.method:
        if count != 1 or not isinstance(node.arguments[0], SelectNode):
            raise UnsupportedExpression("has() takes a field")
    elif node.function not in (*OPERATORS, "&&", "||"):
        known = (METHODS if node.method else FUNCTIONS).get(node.function)
        if known is None or known[0] != count:
            raise UnsupportedExpression(
                f"this server has no function {node.function}() with {count} argument(s)"
            )


def inner_nodes(node: CelNode) -> tuple[CelNode, ...]:
    match node:
        case SelectNode(target=target):
            return (target,)
        case IndexNode(target=target, key=key):
            return (target, key)
        case CallNode(arguments=arguments):
            return arguments
        case ConditionalNode(test=test, yes=yes, no=no):
            return (test, yes, no)
        case ListNode(items=items):
            return items
        case MapNode(entries=entries):
            return tuple(inner for entry in entries for inner in entry)
        case _:
            return ()


def evaluate(node: CelNode, variables: Variables) -> Any:
    """Return the value of a node; raise `UndefinedValue` if it has none."""
    match node:
        case LiteralNode(value=value):
            return value
        case NameNode(name=name):
            if name not in variables:
                raise UndefinedValue(f"undeclared reference to '{name}'")
            return variables[name]
        case SelectNode(target=target, field=field):
            return _field(evaluate(target, variables), field)
        case IndexNode(target=target, key=key):
            return _element(evaluate(target, variables), evaluate(key, variables))
        case ListNode(items=items):
            return [evaluate(item, variables) for item in items]
        case MapNode(entries=entries):
            return {evaluate(key, variables): evaluate(value, variables) for key, value in entries}
        case ConditionalNode(test=test, yes=yes, no=no):
            return evaluate(yes if _truth(evaluate(test, variables)) else no, variables)
        case CallNode():
            return _call(node, variables)


def _field(target: Any, field: str) -> Any:
    if isinstance(target, dict) and field in target:
        return target[field]
    raise UndefinedValue(f"no such key: {field}")


def _element(target: Any, key: Any) -> Any:
    if isinstance(target, dict) and isinstance(key, str):
        return _field(target, key)
    if isinstance(target, list) and isinstance(key, int) and 0 <= key < len(target):
        return target[key]
    raise UndefinedValue(f"index out of bounds: {key}")


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise UndefinedValue("no such overload: not a boolean")


def _call(node: CallNode, variables: Variables) -> Any:
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


def _decided(arguments: tuple[CelNode, ...], variables: Variables, *, decisive: bool) -> bool:
    """Evaluate and/or: one side that decides is enough, even if the other has no value."""
    undefined: UndefinedValue | None = None
    for argument in arguments:
        try:
            if _truth(evaluate(argument, variables)) is decisive:
                return decisive
        except UndefinedValue as error:
            undefined = error
    if undefined:
        raise undefined
    return not decisive


def _has(node: CelNode, variables: Variables) -> bool:
    assert isinstance(node, SelectNode)
    target = evaluate(node.target, variables)
    if not isinstance(target, dict):
        raise UndefinedValue("no such overload: has() on a value without fields")
    return node.field in target


def _macro(node: CallNode, variables: Variables) -> Any:
    target, element, condition = node.arguments
    assert isinstance(element, NameNode)
    name = element.name
    elements = evaluate(target, variables)
    if isinstance(elements, dict):
        elements = list(elements)
    if not isinstance(elements, list):
        raise UndefinedValue(f"no such overload: {node.function}() on a value that is not a list")

    def asked(value: Any) -> Any:
        return evaluate(condition, {**variables, name: value})

    return _MACROS[node.function](elements, asked)


def _quantified(elements: list[Any], asked: Callable[[Any], Any], *, decisive: bool) -> bool:
    undefined: UndefinedValue | None = None
    for element in elements:
        try:
            if _truth(asked(element)) is decisive:
                return decisive
        except UndefinedValue as error:
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


@dataclass(frozen=True, slots=True)
class CelExpression:
    text: str
    tree: CelNode

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Return whether the expression is true; raise `UndefinedValue` if its value is not a boolean."""
        value = evaluate(self.tree, variables)
        if not isinstance(value, bool):
            raise UndefinedValue(f"{self.text}: not a boolean")
        return value

    def mentions(self, name: str) -> bool:
        return _mentions(self.tree, name)


@lru_cache(maxsize=512)
def compile_expression(text: str) -> CelExpression:
    """Parse an expression; raise `UnsupportedExpression` if it can't be evaluated here."""
    tree = parse(text)
    expect_supported(tree)
    return CelExpression(text, tree)


def _mentions(node: CelNode, name: str) -> bool:
    return node == NameNode(name) or any(_mentions(inner, name) for inner in inner_nodes(node))
