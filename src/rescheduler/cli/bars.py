"""Loads as small bars."""

from typing import Final

from rescheduler.cli.terminal import Cell, Terminal

__all__ = ["load_cell", "load_change"]

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_HOT, _WARM = 80.0, 60.0


def load_change(terminal: Terminal, before: float, after: float, width: int) -> Cell:
    """`██████▌    65% → ███        30%`."""
    texts, printed = [], []
    for percent in (before, after):
        text = f"{_bar(percent, width, unicode=terminal.unicode)} {percent:3.0f}%"
        texts.append(text)
        printed.append(terminal.styled(text, {"fg": _colour(percent)}))
    joint = f" {terminal.arrow} "
    return Cell(joint.join(texts), printed=joint.join(printed))


def load_cell(terminal: Terminal, percent: float, width: int) -> Cell:
    return Cell(f"{_bar(percent, width, unicode=terminal.unicode)} {percent:3.0f}%", {"fg": _colour(percent)})


def _bar(percent: float, width: int, *, unicode: bool) -> str:
    share = min(max(percent, 0.0), 100.0) / 100.0
    if not unicode:
        return f"{'#' * round(share * width):<{width}}"
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    return f"{'█' * full}{_EIGHTHS[rest] if rest else ''}".ljust(width)


def _colour(percent: float) -> str:
    return "red" if percent >= _HOT else "yellow" if percent >= _WARM else "green"
