"""Request paths: every part of one that comes from data passes through `segment`.

Names reach us from objects that others write (owner references, specs, annotations) and from the command
line. A name such as `..` or `a/b` would address another object, and an empty one the whole collection.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

__all__ = ["InvalidSegment", "path_of", "segment"]

_LONGEST: Final = 253
_FORBIDDEN: Final = frozenset("/%\\")
"""The API server refuses the first two in every name; some proxies read the third as the first."""


class InvalidSegment(ValueError):  # noqa: N818 - says what the text is
    """Text that can't be one part of a request path."""


def segment(text: str) -> str:
    """Return `text` percent-encoded as one part of a path; raise `InvalidSegment` if it names no object."""
    if not text:
        raise InvalidSegment("a name is empty")
    if len(text) > _LONGEST:
        raise InvalidSegment(f"a name has {len(text)} characters; at most {_LONGEST} are allowed")
    if text in {".", ".."}:
        raise InvalidSegment(f"{text!r} is not a name")
    if not text.isprintable() or _FORBIDDEN.intersection(text):
        raise InvalidSegment(f"{text!r} has characters that no name may have")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        raise InvalidSegment(f"{text!r} can't be encoded") from error


def path_of(parts: Iterable[str]) -> str:
    """Return the absolute path of these parts."""
    return "/" + "/".join(map(segment, parts))
