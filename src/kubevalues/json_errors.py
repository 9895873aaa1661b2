"""Text for the errors of a JSON parser: the path of the value, what was expected, and what is there."""

import re

__all__ = ["json_error_text"]

_PATH = re.compile(r" - at `(?:key in )?\$?(?P<path>[^`]*)`$")
_MISMATCH = re.compile(r"^Expected `(?P<wanted>[^`]+)`, got `(?P<found>[^`]+)`$")
_WORDS = {
    "object": "an object",
    "array": "a list",
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "datetime": "a timestamp",
}


def json_error_text(place: str, error: Exception) -> str:
    """Return such as `items[3].metadata.name: expected a string, got an integer`."""
    why = str(error) or type(error).__name__
    if isinstance(error, RecursionError):
        why = "nested too deeply"
    path = ""
    if found := _PATH.search(why):
        path, why = found["path"], why[: found.start()]
    if mismatch := _MISMATCH.match(why):
        wanted = [kind for kind in mismatch["wanted"].split(" | ") if kind != "null"] or ["null"]
        why = f"expected {' or '.join(map(_word, wanted))}, got {_word(mismatch['found'])}"
    where = f"{place}{path}".lstrip(".")
    return f"{where}: {why}" if where else why


def _word(kind: str) -> str:
    return _WORDS.get(kind, kind)
