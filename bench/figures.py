"""Figures with their targets: a verdict for people, and a file from which charts are drawn."""

import json
from pathlib import Path
from typing import Any

__all__ = ["record", "verdict"]

_PLANNING = Path(__file__).parent / "results" / "planning.json"


def verdict(value: float, target: float, bound: float = 0.0) -> str:
    """Return whether a figure is at most its target; a bound above the target says that none can be."""
    if value <= target:
        return "reached"
    return "missed" if bound <= target else "no plan can"


def record(section: str, figures: list[dict[str, Any]]) -> None:
    """Replace the figures of one section in the file."""
    known = json.loads(_PLANNING.read_text()) if _PLANNING.exists() else {}
    known[section] = figures
    _PLANNING.parent.mkdir(exist_ok=True)
    _PLANNING.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
