"""All output to a terminal, a file or a pipe: tables, wrapped lines, load bars, counts and lists.

Output to a file or a pipe is complete and plain: no line is cut, no name is shortened, nothing is coloured.

Text from the cluster can't control the terminal. Names, messages and annotations are untrusted: escape
sequences in them could clear the screen, set the title or hide what follows. Every control character is
therefore written as an escape. Our own styles carry a key that is random for each process, so that text from
the cluster can't forge them.
"""

import json
import os
import re
import secrets
import shutil
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, TextIO

import click

from kubevalues.duration import short_duration

__all__ = [
    "Cell",
    "Terminal",
    "abbreviated_list",
    "counted",
    "cut_sentence",
    "detailed_table",
    "echo",
    "echo_lines",
    "fitting_table",
    "load_cell",
    "load_change",
    "load_change_lines",
    "printable",
    "rounded_duration",
    "styled",
    "table",
    "table_widths",
    "terminal_of",
    "wrapped",
]


_CONTROL: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories: control and format characters (among them those that reverse the reading direction),
lone surrogates, line and paragraph separators."""

_NOT_ASCII: Final = re.compile(r"[^\x20-\x7e\n\t]")
"""Characters outside of plain ASCII, which are rare and examined one by one."""

_KEY: Final = secrets.token_hex(8)
_STYLE: Final = re.compile(rf"\x1b{_KEY}\[([0-9;]*)m")


def printable(text: str, *, keep_newlines: bool = False) -> str:
    """Return the text with control characters escaped as in JSON (`\\u001b`), so that terminals ignore them.

    A JSON document keeps its meaning.
    """
    text = _NOT_ASCII.sub(_escaped, text)
    return text if keep_newlines else text.replace("\n", "\\n")


def _escaped(match: re.Match[str]) -> str:
    character = match.group()
    return json.dumps(character)[1:-1] if unicodedata.category(character) in _CONTROL else character


def styled(text: str, **style: Any) -> str:
    """Return the text in a style that `echo` understands."""
    return click.style(text, **style).replace("\x1b[", f"\x1b{_KEY}[")


def echo(text: str = "", *, err: bool = False, color: bool | None = None, nl: bool = True) -> None:
    """Print text, which may have several lines."""
    _print(text, keep_newlines=True, err=err, color=color, nl=nl)


def echo_lines(lines: Iterable[str], *, err: bool = False, color: bool | None = None) -> None:
    """Print lines, and escape line breaks within them."""
    for line in lines:
        _print(line, keep_newlines=False, err=err, color=color)


def _print(text: str, *, keep_newlines: bool, err: bool, color: bool | None, nl: bool = True) -> None:
    parts = _STYLE.split(text)
    parts[::2] = [printable(part, keep_newlines=keep_newlines) for part in parts[::2]]
    parts[1::2] = [f"\x1b[{codes}m" for codes in parts[1::2]]
    click.echo("".join(parts), err=err, color=color, nl=nl)  # noqa: TID251 - the one place


_MIN_WIDTH = 40
_GAP = 2


@dataclass(frozen=True, slots=True)
class Terminal:
    width: int | None = None
    """None means unlimited."""
    colour: bool = False
    unicode: bool = True

    def styled(self, text: str, style: Mapping[str, Any]) -> str:
        return styled(text, **style) if self.colour and style and text else text

    def bold(self, text: str) -> str:
        return self.styled(text, {"bold": True})

    def dim(self, text: str) -> str:
        return self.styled(text, {"dim": True})

    @property
    def arrow(self) -> str:
        return "→" if self.unicode else "->"

    def is_narrower_than(self, width: int) -> bool:
        return self.width is not None and self.width < width


def terminal_of(stream: TextIO) -> Terminal:
    """Return the properties of the stream: window size, encoding, and colours by https://no-color.org."""
    is_terminal = stream.isatty()
    width = max(_MIN_WIDTH, shutil.get_terminal_size().columns) if is_terminal else None
    colour = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Terminal(width, colour, _can_encode(stream, "→█▏…"))


def _can_encode(stream: TextIO, characters: str) -> bool:
    try:
        characters.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    style: Mapping[str, Any] = field(default_factory=dict)
    printed: str = ""
    """Text with several styles, printed in place of `text`; it has the same width."""


def table(
    terminal: Terminal,
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    indent: str = "",
) -> Iterator[str]:
    """Yield the lines of a table. Nothing is shortened; the last column is wrapped."""
    widths = table_widths(heads, rows)
    if any(heads):
        yield indent + terminal.dim(_line(terminal, [*map(Cell, heads)], widths))
    before = len(indent) + sum(widths[:-1]) + _GAP * (len(heads) - 1)
    for row in _with_wrapped_last(terminal, rows, before):
        yield indent + _line(terminal, row, widths)


def fitting_table(
    terminal: Terminal,
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    dropped_first: Sequence[int],
    min_last: int,
    indent: str = "",
) -> Iterator[str]:
    """Yield the lines of a table that omits columns on a narrow terminal, but shortens no names.

    Columns are omitted in the order of `dropped_first`. Before that, the last column, which is prose, is cut
    to at least `min_last` characters.
    """
    kept = list(range(len(heads)))
    widths = table_widths(heads, rows)
    widths[-1] = min(widths[-1], min_last)
    for dropped in dropped_first:
        width = len(indent) + sum(widths[at] for at in kept) + _GAP * (len(kept) - 1)
        if not terminal.is_narrower_than(width):
            break
        kept.remove(dropped)
    first, *rest = kept
    if rest and terminal.is_narrower_than(len(indent) + sum(widths[at] for at in kept) + _GAP * len(rest)):
        # Not even one other column fits beside the names, so the others are below them.
        for row in rows:
            yield f"{indent}{row[first].text}"
            others = [terminal.styled(row[at].text, row[at].style) for at in rest]
            yield f"{indent}  {'  '.join(others)}".rstrip()
        return
    cells = [[row[column] for column in kept] for row in rows]
    if terminal.width is not None and kept[-1] == len(heads) - 1:
        room = terminal.width - len(indent) - sum(widths[at] for at in kept[:-1]) - _GAP * len(rest)
        cells = [[*row, replace(prose, text=cut_sentence(prose.text, room))] for *row, prose in cells]
    yield from table(terminal, [heads[column] for column in kept], cells, indent=indent)


def detailed_table(
    terminal: Terminal,
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    min_last: int,
    brief: Sequence[int],
    details: Sequence[Sequence[str]],
    of: Sequence[Sequence[Cell]] = (),
) -> Iterator[str]:
    """Yield the lines of a table that omits and shortens nothing.

    The last column is prose, which is wrapped. If it has less space than `min_last`, the table has only the
    columns in `brief`, with the name first, and the parts in `details` are below each row. With the rows of
    several tables in `of`, all these tables get the same form.
    """
    widths = table_widths(heads, of or rows)
    before = sum(widths[:-1]) + _GAP * (len(heads) - 1)
    longest_word = max((len(word) for row in of or rows for word in row[-1].text.split()), default=0)
    if not terminal.is_narrower_than(before + max(longest_word, min(widths[-1], min_last))):
        yield terminal.dim(_line(terminal, [*map(Cell, heads)], widths))
        for row in _with_wrapped_last(terminal, rows, before):
            yield _line(terminal, row, widths)
        return
    widths = [widths[column] for column in brief]
    is_stacked = terminal.is_narrower_than(sum(widths) + _GAP * (len(brief) - 1))
    if not is_stacked:
        yield terminal.dim(_line(terminal, [Cell(heads[column]) for column in brief], widths))
    for row, parts in zip(rows, details, strict=True):
        name, *others = (row[column] for column in brief)
        if is_stacked:
            yield name.text
            yield "  " + _line(terminal, others, widths[1:])
        else:
            yield _line(terminal, [name, *others], widths)
        together = "  ".join(parts)
        for line in parts if terminal.is_narrower_than(_GAP + len(together)) else [together]:
            yield from map(terminal.dim, wrapped(terminal, line, indent="  "))


def _with_wrapped_last(
    terminal: Terminal, rows: Sequence[Sequence[Cell]], before: int
) -> Iterator[Sequence[Cell]]:
    """Yield the rows, each with more rows for a long last cell; `before` is the width of the other cells."""
    for *cells, prose in rows:
        room = None if terminal.width is None else max(terminal.width - before, 1)
        if room is None or len(prose.text) <= room:
            yield [*cells, prose]
            continue
        lines = list(wrapped(replace(terminal, width=room), prose.text, indent=""))
        first, *further = lines or [""]
        yield [*cells, replace(prose, text=first)]
        for line in further:
            yield [*(Cell("") for _ in cells), replace(prose, text=line)]


def table_widths(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[int]:
    """Return the width of each column if nothing is shortened."""
    return [max(map(len, column)) for column in zip(heads, *[[c.text for c in row] for row in rows])]  # noqa: B905


def _line(terminal: Terminal, cells: Sequence[Cell], widths: Sequence[int]) -> str:
    parts = []
    for cell, width in zip(cells, widths, strict=True):
        printed = cell.printed if cell.printed and terminal.colour else ""
        shown = printed or terminal.styled(cell.text, cell.style)
        parts.append(shown + " " * (width - len(cell.text)))
    return (" " * _GAP).join(parts).rstrip()


def cut_sentence(text: str, width: int) -> str:
    """Cut a sentence after a whole word, because a part of a name would look like another name."""
    if len(text) <= width:
        return text
    # One column is for the ellipsis, and one for the space before it.
    kept = text[: max(width - 1, 0)].rpartition(" ")[0].rstrip()
    return f"{kept} …" if kept else "…"


def wrapped(terminal: Terminal, text: str, *, indent: str, first: str = "") -> Iterator[str]:
    """Yield lines of at most the terminal's width; one line if the width is unlimited."""
    if terminal.width is None:
        yield f"{first or indent}{text}"
        return
    yield from textwrap.wrap(
        text,
        terminal.width,
        initial_indent=first or indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        # A name that is wider than the terminal stays one word, so that it can be copied.
        break_long_words=False,
    )


_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_HOT, _WARM = 80.0, 60.0
_CHANGE_BARS: Final = (10, 6, 0)


def load_change(terminal: Terminal, before: float, after: float, width: int) -> Cell:
    """Return a bar and a percentage before and after: `██████▌ 65% → ███ 30%`."""
    texts, printed = [], []
    for percent in (before, after):
        text = (
            f"{_bar(percent, width, unicode=terminal.unicode)} {percent:3.0f}%"
            if width
            else f"{percent:3.0f}%"
        )
        texts.append(text)
        printed.append(terminal.styled(text, {"fg": _colour(percent)}))
    joint = f" {terminal.arrow} "
    return Cell(joint.join(texts), printed=joint.join(printed))


def load_change_lines(
    terminal: Terminal,
    resources: Sequence[str],
    nodes: Sequence[tuple[str, Mapping[str, tuple[float, float]]]],
) -> Iterator[str]:
    """Yield a table of nodes with their loads before and after, without bars if there is no room for them.

    Names stay whole: if the numbers don't fit beside them, they are below.
    """
    heads = ("NODE", *(name.upper() for name in resources))
    rows: list[list[Cell]] = []
    for bar in _CHANGE_BARS:
        rows = [
            [
                Cell(name),
                *(
                    load_change(terminal, *loads[each], bar) if each in loads else Cell("unknown")
                    for each in resources
                ),
            ]
            for name, loads in nodes
        ]
        width = sum(table_widths(heads, rows)) + _GAP * (len(heads) - 1)
        if terminal.width is None or width <= terminal.width:
            yield from table(terminal, heads, rows)
            return
    yield terminal.dim("NODE")
    for name, *changes in rows:
        yield name.text
        named = [
            f"{resource} {' '.join(change.text.split())}"
            for resource, change in zip(resources, changes, strict=True)
        ]
        yield from wrapped(terminal, ", ".join(named), indent="  ")


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


def rounded_duration(time: timedelta) -> str:
    """Return a time in whole seconds, such as `1m30s`; a negative one, by two clocks, counts as 0."""
    return short_duration(timedelta(seconds=max(0, round(time.total_seconds()))))


def counted(number: int, noun: str) -> str:
    """Return the number with the noun, such as `1 pod` or `3 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def abbreviated_list(names: Sequence[str], count: int | None = None, *, most: int = 3) -> str:
    """Return a list such as `a, b, c and 4 more`; `count` is the total if `names` is incomplete."""
    count = len(names) if count is None else count
    shown = list(names[:most])
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
