r"""Field selectors: `metadata.name=web,status.phase!=Running`.

Only equality exists, joined by commas. In a value, `,` `=` and `\` are written with a backslash before
them. A field that an object lacks counts as empty.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rescheduler.model.selectors.labels import SelectorError

__all__ = ["FieldSelector", "FieldTerm", "parse_field_selector"]

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
    """Fields match when every term does; without terms, everything matches."""

    terms: tuple[FieldTerm, ...] = ()
    """Sorted, without doubles."""

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all((fields.get(term.field, "") == term.value) is term.equal for term in self.terms)

    def required(self, field: str) -> str | None:
        """The one value that this field must have, if the selector asks for one: an index can use it."""
        return next((term.value for term in self.terms if term.equal and term.field == field), None)

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


def parse_field_selector(text: str) -> FieldSelector:
    """An empty text selects everything; empty terms are skipped. Raises `SelectorError` with the position."""
    terms: set[FieldTerm] = set()
    position = 0
    while position <= len(text):
        found = _TERM.match(text, position)
        assert found is not None  # the pattern matches anything, if only the empty text
        if found[0]:
            terms.add(_term(found[0], position))
        position = found.end() + 1
    # A term that names neither a field nor a value, such as a bare "=", asks for nothing.
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
