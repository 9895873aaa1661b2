"""Parse CEL expressions into syntax trees."""

import ast as python_literals
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = [
    "CallNode",
    "CelNode",
    "ConditionalNode",
    "IndexNode",
    "ListNode",
    "LiteralNode",
    "MapNode",
    "NameNode",
    "SelectNode",
    "UnsupportedExpression",
    "parse",
]


class UnsupportedExpression(ValueError):  # noqa: N818 - what the client asked for
    """The text is not an expression, or uses a feature that is not supported here."""


@dataclass(frozen=True, slots=True)
class LiteralNode:
    value: Any


@dataclass(frozen=True, slots=True)
class NameNode:
    name: str


@dataclass(frozen=True, slots=True)
class SelectNode:
    """`target.field`"""

    target: "CelNode"
    field: str


@dataclass(frozen=True, slots=True)
class IndexNode:
    """`target[key]`"""

    target: "CelNode"
    key: "CelNode"


@dataclass(frozen=True, slots=True)
class CallNode:
    """A function, a method (its target is the first argument), or an operator by its sign."""

    function: str
    arguments: tuple["CelNode", ...]
    method: bool = False


@dataclass(frozen=True, slots=True)
class ConditionalNode:
    """`test ? yes : no`"""

    test: "CelNode"
    yes: "CelNode"
    no: "CelNode"


@dataclass(frozen=True, slots=True)
class ListNode:
    items: tuple["CelNode", ...]


@dataclass(frozen=True, slots=True)
class MapNode:
    entries: tuple[tuple["CelNode", "CelNode"], ...]


CelNode = LiteralNode | NameNode | SelectNode | IndexNode | CallNode | ConditionalNode | ListNode | MapNode

_TOKEN = re.compile(
    r"""\s+ | //[^\n]*
    | (?P<number>\d+\.\d+(?:[eE][+-]?\d+)?|\d+u?)
    | (?P<text>r?(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
    | (?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "null": None}
_BINDING = {
    "||": 1, "&&": 2,
    "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "in": 3,
    "+": 4, "-": 4,
    "*": 5, "/": 5, "%": 5,
}  # fmt: skip
"""The precedence of each operator; a higher one binds more tightly."""
_DEEPEST = 64


class _Token(NamedTuple):
    kind: str
    text: str


def _tokens(text: str) -> list[_Token]:
    found, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise UnsupportedExpression(f"unexpected {text[position]!r} at {position} in {text!r}")
        if match.lastgroup:
            found.append(_Token(match.lastgroup, match[0]))
        position = match.end()
    return [*found, _Token("end", "")]


def parse(text: str) -> CelNode:
    parser = _Parser(text)
    tree = parser.expression()
    parser.expect("end", "")
    return tree


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._position = 0
        self._depth = 0

    def _peek(self) -> _Token:
        return self._tokens[self._position]

    def _take(self) -> _Token:
        token = self._peek()
        self._position += 1
        return token

    def _skip(self, sign: str) -> bool:
        if self._peek() == ("sign", sign):
            self._position += 1
            return True
        return False

    def expect(self, kind: str, text: str) -> None:
        token = self._take()
        if token != (kind, text):
            raise UnsupportedExpression(
                f"expected {text or 'the end'}, found {token.text!r} in {self._text!r}"
            )

    def expression(self) -> CelNode:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnsupportedExpression(f"nested more than {_DEEPEST} deep: {self._text[:80]!r}…")
        test = self._operators(1)
        if self._skip("?"):
            yes = self._operators(1)
            self.expect("sign", ":")
            test = ConditionalNode(test, yes, self.expression())
        self._depth -= 1
        return test

    def _operators(self, weakest: int) -> CelNode:
        left = self._unary()
        while (binding := self._binding()) >= weakest:
            operator = self._take().text
            left = CallNode(operator, (left, self._operators(binding + 1)))
        return left

    def _binding(self) -> int:
        token = self._peek()
        return _BINDING.get(token.text, 0) if token.kind == "sign" or token.text == "in" else 0

    def _unary(self) -> CelNode:
        signs = []
        while self._peek() in (("sign", "!"), ("sign", "-")):
            signs.append("!" if self._take().text == "!" else "negate")
        inner = self._members(self._primary())
        for sign in reversed(signs):
            inner = CallNode(sign, (inner,))
        return inner

    def _members(self, target: CelNode) -> CelNode:
        while True:
            if self._skip("."):
                token = self._take()
                if token.kind != "name":
                    raise UnsupportedExpression(
                        f"expected a name after '.', found {token.text!r} in {self._text!r}"
                    )
                if self._skip("("):
                    target = CallNode(token.text, (target, *self._list(")")), method=True)
                else:
                    target = SelectNode(target, _unescaped(token.text))
            elif self._skip("["):
                target = IndexNode(target, self.expression())
                self.expect("sign", "]")
            else:
                return target

    def _primary(self) -> CelNode:
        token = self._take()
        if token.kind == "number":
            is_fraction = "." in token.text
            return LiteralNode(float(token.text) if is_fraction else int(token.text.removesuffix("u")))
        if token.kind == "text":
            return LiteralNode(_unquoted(token.text))
        if token.kind == "name":
            if token.text in _WORDS:
                return LiteralNode(_WORDS[token.text])
            return CallNode(token.text, self._list(")")) if self._skip("(") else NameNode(token.text)
        if token.text == "(":
            inner = self.expression()
            self.expect("sign", ")")
            return inner
        if token.text == "[":
            return ListNode(self._list("]"))
        if token.text == "{":
            return MapNode(self._entries())
        raise UnsupportedExpression(f"unexpected {token.text or 'end'!r} in {self._text!r}")

    def _list(self, closing: str) -> tuple[CelNode, ...]:
        items: list[CelNode] = []
        while not self._skip(closing):
            if items:
                self.expect("sign", ",")
            items.append(self.expression())
        return tuple(items)

    def _entries(self) -> tuple[tuple[CelNode, CelNode], ...]:
        entries: list[tuple[CelNode, CelNode]] = []
        while not self._skip("}"):
            if entries:
                self.expect("sign", ",")
            key = self.expression()
            self.expect("sign", ":")
            entries.append((key, self.expression()))
        return tuple(entries)


_ESCAPED = {"__dot__": ".", "__dash__": "-", "__slash__": "/", "__underscores__": "__"}
_RESERVED = re.compile(r"__([a-z]+)__")


def _unescaped(field: str) -> str:
    """Return the field name that an escaped identifier stands for: `__namespace__`, `my__dash__name`."""
    if (reserved := _RESERVED.fullmatch(field)) and field not in _ESCAPED:
        return reserved[1]
    for escaped, plain in _ESCAPED.items():
        field = field.replace(escaped, plain)
    return field


def _unquoted(text: str) -> str:
    try:
        return str(python_literals.literal_eval(text))
    except (SyntaxError, ValueError) as error:
        raise UnsupportedExpression(f"invalid string literal: {text}") from error
