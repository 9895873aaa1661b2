"""What a JSON parser complains about, in words for whoever wrote the file, and where."""

import re

__all__ = ["json_error_text"]

_PATH = re.compile(r" - at `(?:key in )?\$?(?P<path>[^`]*)`$")
_MISMATCH = re.compile(r"^Expected `(?P<wanted>[^`]+)`, got `(?P<found>[^`]+)`$")
_WORDS = {
    "object": "an object",
    "array": "a list",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
    "datetime": "a time",
}


def json_error_text(place: str, error: Exception) -> str:
    """`items[3].metadata.name: a text is needed, not a whole number`."""
    why = str(error) or type(error).__name__
    if isinstance(error, RecursionError):
        why = "nested too deep"
    path = ""
    if found := _PATH.search(why):
        path, why = found["path"], why[: found.start()]
    if mismatch := _MISMATCH.match(why):
        wanted = [kind for kind in mismatch["wanted"].split(" | ") if kind != "null"] or ["null"]
        why = f"{' or '.join(map(_word, wanted))} is needed, not {_word(mismatch['found'])}"
    where = f"{place}{path}".lstrip(".")
    return f"{where}: {why}" if where else why


def _word(kind: str) -> str:
    return _WORDS.get(kind, kind)
