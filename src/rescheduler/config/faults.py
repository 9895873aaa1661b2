"""What is wrong with a configuration, said so that one can mend it."""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "MISSING",
    "ConfigurationError",
    "Fault",
    "Path",
    "Words",
    "did_you_mean",
    "path_text",
    "shown",
    "shown_plainly",
]

Path = tuple[str | int, ...]
"""Where in the file: `("profiles", 0, "pluginConfig")`."""

MISSING: Final = object()
"""The value of something that ought to be there."""

_LONGEST_VALUE = 80


class Words(str):
    """What is wrong, where no value could be shown: "given twice"."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Fault:
    path: Path
    value: object
    """As the file has it, or `Words` where that would say nothing."""
    allowed: str
    line: int | None = None
    """In the file, counted from 1."""

    def __str__(self) -> str:
        if isinstance(self.value, Words):
            problem = shown_plainly(self.value)
        elif self.value is MISSING:
            problem = "missing"
        else:
            problem = f"{shown(self.value)} is not allowed"
        return f"{path_text(self.path)}: {problem}: {self.allowed}"


class ConfigurationError(Exception):
    """The configuration can't be used; every fault that was found is in `faults`."""

    def __init__(self, source: str, faults: Iterable[Fault]) -> None:
        self.source = source
        self.faults = tuple(faults)
        super().__init__(self._report())

    def _report(self) -> str:
        count = len(self.faults)
        head = f"{shown_plainly(self.source)}: {count} {'error' if count == 1 else 'errors'}"
        lines = [f"  {_place(fault.line)}{fault}" for fault in self.faults]
        return "\n".join([head, *lines])


def _place(line: int | None) -> str:
    return "" if line is None else f"line {line}: "


def path_text(path: Path) -> str:
    """`profiles[0].pluginConfig[1].args`; keys that are no plain names stand in quotes."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.replace("-", "").replace("_", "").isalnum() and step.isascii():
            text += f".{step}" if text else step
        else:
            text += f"[{shown(step)}]"
    return text or "the file"


def shown(value: Any) -> str:
    """On one line, not too long, and never a control character."""
    if isinstance(value, Mapping):
        text = "{" + ", ".join(f"{shown(key)}: {shown(entry)}" for key, entry in _first(value.items())) + "}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        text = "[" + ", ".join(shown(entry) for entry in _first(value)) + "]"
    elif isinstance(value, str):
        text = json.dumps(value[:_LONGEST_VALUE], ensure_ascii=False)
        text = text if len(value) <= _LONGEST_VALUE else text[:-1]
    elif isinstance(value, bool) or value is None:
        text = json.dumps(value)
    elif isinstance(value, int) and value.bit_length() > 256:
        text = f"a number of more than {int(value.bit_length() * 0.3)} digits"
    else:
        text = str(value)
    text = shown_plainly(text)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def shown_plainly(text: str) -> str:
    """What a terminal would act upon, or can't encode, is written as its code."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _first(entries: Iterable[Any]) -> Iterable[Any]:
    # More than would be shown anyway; a large file must not make a large message.
    return (entry for entry, _ in zip(entries, range(_LONGEST_VALUE), strict=False))


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing if no name is near."""
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(wrong.lower()[:100], by_lower, n=1, cutoff=0.7)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""
