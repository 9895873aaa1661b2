r"""Parse label selectors (text and object form) and field selectors (text form).

The grammar of the text form is that of the API server's `labelSelector` parameter:

    selector    = [ requirement { "," requirement } ]
    requirement = "!" KEY
                | KEY [ ( "=" | "==" | "!=" | ">" | "<" ) [ VALUE ] ]
                | KEY ( "in" | "notin" ) "(" [ VALUE ] { "," [ VALUE ] } ")"

White space is allowed between any two parts. `in` and `notin` are operators only where an operator is
expected: a label can have the key `in`.

The object form has `matchLabels` and `matchExpressions`. Its values come from manifests and saved clusters,
so their types are checked.

Field selectors (`metadata.name=web,status.phase!=Running`) have only equality, joined by commas. In a
value, a backslash escapes `,` `=` and `\`. A missing field counts as empty.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kubevalues.label_selectors import (
    EVERYTHING,
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    SelectorOperator,
)

__all__ = [
    "FieldSelector",
    "FieldTerm",
    "node_requirements_from_object",
    "parse_field_selector",
    "parse_selector",
    "selector_from_labels",
    "selector_from_object",
]

_TOKEN = re.compile(r"(?P<symbol>==|!=|[=!<>(),])|(?P<word>[^ \t\r\n=!<>(),]+)")
_SPACE = re.compile(r"[ \t\r\n]*")
_OPERATORS = {
    "=": SelectorOperator.IN,
    "==": SelectorOperator.IN,
    "!=": SelectorOperator.NOT_IN,
    "in": SelectorOperator.IN,
    "notin": SelectorOperator.NOT_IN,
    ">": SelectorOperator.GREATER,
    "<": SelectorOperator.LESS,
}


class _Token(NamedTuple):
    text: str
    """Empty at the end of the selector."""
    position: int
    is_word: bool = False

    @property
    def shown(self) -> str:
        return repr(self.text) if self.text else "the end"


def parse_selector(text: str) -> Selector:
    """Parse a selector; an empty text selects everything. Raise `SelectorError` with the position."""
    return Selector.of(_Parser(text).requirements())


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = _end_of_space(text, 0)
    while position < len(text):
        found = _TOKEN.match(text, position)
        assert found is not None  # anything but a symbol or white space is a word
        tokens.append(_Token(found[0], position, is_word=found["word"] is not None))
        position = _end_of_space(text, found.end())
    return [*tokens, _Token("", len(text))]


def _end_of_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


class _Parser:
    """A parser reads the tokens once, from left to right."""

    def __init__(self, text: str) -> None:
        self._rest = iter(_tokens(text))
        self._next = next(self._rest)

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        if not self._next.text:
            return found
        while True:
            found.append(self._requirement())
            token = self._take()
            if not token.text:
                return found
            if token.text != ",":
                raise _unexpected(token, "',' or the end")

    def _requirement(self) -> Requirement:
        negated = self._skip("!")
        key = self._take()
        if not key.is_word:
            raise _unexpected(key, "a label key" if negated else "a label key or '!'")
        if negated:
            return _checked(key, SelectorOperator.DOES_NOT_EXIST, [])
        if self._next.text in ("", ","):
            return _checked(key, SelectorOperator.EXISTS, [])
        sign = self._take()
        operator = _OPERATORS.get(sign.text)
        if operator is None:
            raise _unexpected(sign, "one of = == != in notin < > , or the end")
        return _checked(key, operator, self._set() if sign.is_word else [self._value()])

    def _set(self) -> list[str]:
        opening = self._take()
        if opening.text != "(":
            raise _unexpected(opening, "'('")
        values = [self._value()]
        while self._skip(","):
            values.append(self._value())
        closing = self._take()
        if closing.text != ")":
            raise _unexpected(closing, "',' or ')'")
        return values

    def _value(self) -> str:
        """Take a value; a missing one is empty."""
        return self._take().text if self._next.is_word else ""

    def _skip(self, symbol: str) -> bool:
        if self._next.text != symbol:
            return False
        self._take()
        return True

    def _take(self) -> _Token:
        token = self._next
        self._next = next(self._rest, token)
        return token


def _checked(key: _Token, operator: SelectorOperator, values: list[str]) -> Requirement:
    try:
        return Requirement.checked(key.text, operator, values)
    except SelectorError as error:
        raise SelectorError(error.reason, position=key.position) from None


def _unexpected(token: _Token, expected: str) -> SelectorError:
    return SelectorError(f"found {token.shown} where {expected} is expected", position=token.position)


_LABEL_OPERATORS = (
    SelectorOperator.IN,
    SelectorOperator.NOT_IN,
    SelectorOperator.EXISTS,
    SelectorOperator.DOES_NOT_EXIST,
)
_NODE_OPERATORS = tuple(SelectorOperator)


def selector_from_object(selector: object) -> Selector:
    """Parse the object form. A missing selector (None) selects nothing, an empty one everything. Raise
    `SelectorError`."""
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
    """Build a selector from a plain map of labels, as in a Service or a `nodeSelector`; an empty one selects
    everything."""
    return Selector.of(_label_requirements(labels, "")) if labels else EVERYTHING


def node_requirements_from_object(expressions: object, path: str = "matchExpressions") -> Selector:
    """Parse one term of a node affinity, which also allows Gt and Lt; a term without conditions selects
    nothing."""
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
    return Requirement.checked(_text(key), SelectorOperator.IN, [_text(value)])


def _requirements(expressions: object, path: str, allowed: Sequence[SelectorOperator]) -> list[Requirement]:
    if expressions is None:
        return []
    if not isinstance(expressions, Sequence) or isinstance(expressions, str):
        raise SelectorError(f"{expressions!r} is not a list", path=path)
    return [
        _at(f"{path}[{index}]", lambda e=expression: _requirement(e, allowed))  # type: ignore[misc]
        for index, expression in enumerate(expressions)
    ]


def _requirement(expression: object, allowed: Sequence[SelectorOperator]) -> Requirement:
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
        raise SelectorError(f"{value!r} is not a string")
    return value


def _at(path: str, make: Callable[[], Requirement]) -> Requirement:
    try:
        return make()
    except SelectorError as error:
        raise SelectorError(error.reason, path=f"{path}.{error.path}" if error.path else path) from None


_TERM = re.compile(r"(?:[^\\,]|\\.|\\$)*", re.DOTALL)
_SIGN = re.compile(r"!=|==?")
_SPECIAL = re.compile(r"[\\,=]")
_PIECE = re.compile(r"(?P<plain>[^\\=]+)|\\(?P<escaped>[\\,=])|(?P<wrong>\\.|\\$|=)", re.DOTALL)


class FieldTerm(NamedTuple):
    field: str
    equal: bool
    """False for `!=`."""
    value: str

    def __str__(self) -> str:
        escaped = _SPECIAL.sub(r"\\\g<0>", self.value)
        return f"{self.field}{'=' if self.equal else '!='}{escaped}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A field selector matches fields that match every term; without terms, it matches everything."""

    terms: tuple[FieldTerm, ...] = ()
    """Sorted, without duplicates."""

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all((fields.get(term.field, "") == term.value) is term.equal for term in self.terms)

    def required(self, field: str) -> str | None:
        """Return the value that the selector requires of this field, or None. An index can use the value."""
        return next((term.value for term in self.terms if term.equal and term.field == field), None)

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


def parse_field_selector(text: str) -> FieldSelector:
    """Parse a field selector; an empty text selects everything, and empty terms are skipped. Raise
    `SelectorError` with the position."""
    terms: set[FieldTerm] = set()
    position = 0
    while position <= len(text):
        found = _TERM.match(text, position)
        assert found is not None  # the pattern matches anything, even the empty text
        if found[0]:
            terms.add(_term(found[0], position))
        position = found.end() + 1
    # A term that names neither a field nor a value, such as a bare "=", requires nothing.
    return FieldSelector(tuple(sorted(term for term in terms if term.field or term.value)))


def _term(text: str, position: int) -> FieldTerm:
    sign = _SIGN.search(text)
    if sign is None:
        raise SelectorError(f"{text!r} has none of = == !=", position=position)
    value = "".join(_piece(piece, position + sign.end()) for piece in _PIECE.finditer(text[sign.end() :]))
    return FieldTerm(text[: sign.start()], sign[0] != "!=", value)


def _piece(piece: re.Match[str], start: int) -> str:
    if piece["wrong"]:
        message = rf"{piece['wrong']!r} in a value must be written with a backslash before each of \ , ="
        raise SelectorError(message, position=start + piece.start())
    return piece["plain"] or piece["escaped"]
