"""The text form of label selectors: `app=web,tier in (front,back),!legacy`.

The grammar is that of the API server's `labelSelector` parameter:

    selector    = [ requirement { "," requirement } ]
    requirement = "!" KEY
                | KEY [ ( "=" | "==" | "!=" | ">" | "<" ) [ VALUE ] ]
                | KEY ( "in" | "notin" ) "(" [ VALUE ] { "," [ VALUE ] } ")"

White space may stand between any two parts. `in` and `notin` are operators only where an operator is
expected: a label may be called `in`.
"""

import re
from typing import NamedTuple

from rescheduler.model.selectors.labels import Operator, Requirement, Selector, SelectorError

__all__ = ["parse_selector"]

_TOKEN = re.compile(r"(?P<symbol>==|!=|[=!<>(),])|(?P<word>[^ \t\r\n=!<>(),]+)")
_SPACE = re.compile(r"[ \t\r\n]*")
_OPERATORS = {
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    ">": Operator.GREATER,
    "<": Operator.LESS,
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
    """An empty text selects everything. Raises `SelectorError` with the position."""
    return Selector.of(_Parser(text).requirements())


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = _end_of_space(text, 0)
    while position < len(text):
        found = _TOKEN.match(text, position)
        assert found is not None  # whatever is no symbol and no space is a word
        tokens.append(_Token(found[0], position, is_word=found["word"] is not None))
        position = _end_of_space(text, found.end())
    return [*tokens, _Token("", len(text))]


def _end_of_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


class _Parser:
    """Walks over the tokens once, from left to right."""

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
            return _checked(key, Operator.DOES_NOT_EXIST, [])
        if self._next.text in ("", ","):
            return _checked(key, Operator.EXISTS, [])
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
        """A value may be left out: then it is the empty one."""
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


def _checked(key: _Token, operator: Operator, values: list[str]) -> Requirement:
    try:
        return Requirement.checked(key.text, operator, values)
    except SelectorError as error:
        raise SelectorError(error.reason, position=key.position) from None


def _unexpected(token: _Token, expected: str) -> SelectorError:
    return SelectorError(f"found {token.shown} where {expected} is expected", position=token.position)
