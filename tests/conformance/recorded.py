"""What the real API server showed: a JSON file per group of scenarios."""

import difflib
import json
import traceback
from pathlib import Path
from typing import Any

__all__ = ["difference", "load", "save"]

_FOLDER = Path(__file__).with_name("recorded")
_SHOWN = 600
Notes = list[list[Any]]


def load(group: str) -> dict[str, Notes]:
    path = _FOLDER / f"{group}.json"
    notes: dict[str, Notes] = json.loads(path.read_text()) if path.exists() else {}
    return notes


def save(group: str, notes: dict[str, Notes]) -> None:
    _FOLDER.mkdir(exist_ok=True)
    (_FOLDER / f"{group}.json").write_text(_text(notes) + "\n")


def difference(recorded: Notes | None, seen: Notes | Exception) -> list[str]:
    """Line by line: `-` was recorded, `+` is seen now."""
    if isinstance(seen, Exception):
        return [f"+ {line}" for line in traceback.format_exception(seen)]
    before, now = (_text(notes).splitlines() for notes in (recorded or [], seen))
    return [
        line[:_SHOWN]
        for line in difflib.unified_diff(before, now, lineterm="", n=0)
        if line[:2] not in ("--", "++", "@@")
    ]


def _text(notes: object) -> str:
    return json.dumps(notes, indent=1, sort_keys=True, ensure_ascii=False)
