"""From the text of an expression to its tree."""

import ast as python_literals
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = [
    "Call",
    "Choice",
    "Index",
    "ListOf",
    "Literal",
    "MapOf",
    "Name",
    "Node",
    "Select",
    "Unsupported",
    "parse",
]


class Unsupported(ValueError):  # noqa: N818 - what the client asked for
    """No expression, or more than this small evaluator can do; said when it is given, never later."""


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """`target.field`"""

    target: "Node"
    field: str


@dataclass(frozen=True, slots=True)
class Index:
    """`target[key]`"""

    target: "Node"
    key: "Node"


@dataclass(frozen=True, slots=True)
class Call:
    """A function, a method (its target is the first argument), or an operator by its sign."""

    function: str
    arguments: tuple["Node", ...]
    method: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """`test ? yes : no`"""

    test: "Node"
    yes: "Node"
    no: "Node"


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    entries: tuple[tuple["Node", "Node"], ...]


Node = Literal | Name | Select | Index | Call | Choice | ListOf | MapOf

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
"""How tightly an operator binds: more is tighter."""
_DEEPEST = 64


class _Token(NamedTuple):
    kind: str
    text: str


def _tokens(text: str) -> list[_Token]:
    found, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise Unsupported(f"unexpected {text[position]!r} at {position} in {text!r}")
        if match.lastgroup:
            found.append(_Token(match.lastgroup, match[0]))
        position = match.end()
    return [*found, _Token("end", "")]


def parse(text: str) -> Node:
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
            raise Unsupported(f"expected {text or 'the end'}, found {token.text!r} in {self._text!r}")

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unsupported(f"nested more than {_DEEPEST} deep: {self._text[:80]!r}…")
        test = self._operators(1)
        if self._skip("?"):
            yes = self._operators(1)
            self.expect("sign", ":")
            test = Choice(test, yes, self.expression())
        self._depth -= 1
        return test

    def _operators(self, weakest: int) -> Node:
        left = self._unary()
        while (binding := self._binding()) >= weakest:
            operator = self._take().text
            left = Call(operator, (left, self._operators(binding + 1)))
        return left

    def _binding(self) -> int:
        token = self._peek()
        return _BINDING.get(token.text, 0) if token.kind == "sign" or token.text == "in" else 0

    def _unary(self) -> Node:
        signs = []
        while self._peek() in (("sign", "!"), ("sign", "-")):
            signs.append("!" if self._take().text == "!" else "negate")
        inner = self._members(self._primary())
        for sign in reversed(signs):
            inner = Call(sign, (inner,))
        return inner

    def _members(self, target: Node) -> Node:
        while True:
            if self._skip("."):
                token = self._take()
                if token.kind != "name":
                    raise Unsupported(f"expected a name after '.', found {token.text!r} in {self._text!r}")
                if self._skip("("):
                    target = Call(token.text, (target, *self._list(")")), method=True)
                else:
                    target = Select(target, _unescaped(token.text))
            elif self._skip("["):
                target = Index(target, self.expression())
                self.expect("sign", "]")
            else:
                return target

    def _primary(self) -> Node:
        token = self._take()
        if token.kind == "number":
            is_fraction = "." in token.text
            return Literal(float(token.text) if is_fraction else int(token.text.removesuffix("u")))
        if token.kind == "text":
            return Literal(_unquoted(token.text))
        if token.kind == "name":
            if token.text in _WORDS:
                return Literal(_WORDS[token.text])
            return Call(token.text, self._list(")")) if self._skip("(") else Name(token.text)
        if token.text == "(":
            inner = self.expression()
            self.expect("sign", ")")
            return inner
        if token.text == "[":
            return ListOf(self._list("]"))
        if token.text == "{":
            return MapOf(self._entries())
        raise Unsupported(f"unexpected {token.text or 'end'!r} in {self._text!r}")

    def _list(self, closing: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._skip(closing):
            if items:
                self.expect("sign", ",")
            items.append(self.expression())
        return tuple(items)

    def _entries(self) -> tuple[tuple[Node, Node], ...]:
        entries: list[tuple[Node, Node]] = []
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
    """A field whose name could not be written otherwise: `__namespace__`, `my__dash__name`."""
    if (reserved := _RESERVED.fullmatch(field)) and field not in _ESCAPED:
        return reserved[1]
    for escaped, plain in _ESCAPED.items():
        field = field.replace(escaped, plain)
    return field


def _unquoted(text: str) -> str:
    try:
        return str(python_literals.literal_eval(text))
    except (SyntaxError, ValueError) as error:
        raise Unsupported(f"no text: {text}") from error
