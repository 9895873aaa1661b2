"""The log: lines for people on a terminal, one JSON object per line elsewhere.

    12:00:31 INFO  CheckDone    2 moves planned  check=1 moves=2
    {"time": "2026-03-02T12:00:31.104Z", "level": "info", "event": "CheckDone", "message": "2 moves planned",
     "check": 1, "moves": 2}

Every kind of line has a name, `event`. Lines that were written without one are named after the module and the
unchanging part of their words.

How many lines of one kind are logged: nobody who can make the program log can fill a disk.

The line that reaches the limit says that more are not logged for a while, and the next one afterwards says
how many there were.
"""

import json
import logging
import re
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO, TypeVar

import click

from rescheduler.cli.safe_output import printable

__all__ = ["LIMIT_PERIOD_S", "MAX_LINES_PER_PERIOD", "LogLimit", "log_options", "set_up_log"]

MAX_LINES_PER_PERIOD: Final = 100
LIMIT_PERIOD_S: Final = 10.0
_MAX_KINDS: Final = 1000


class _Period:
    __slots__ = ("begun_s", "logged", "suppressed")

    def __init__(self, begun_s: float) -> None:
        self.begun_s = begun_s
        self.logged = 0
        self.suppressed = 0


class LogLimit(logging.Filter):
    def __init__(self, kind_of: Callable[[logging.LogRecord], str]) -> None:
        super().__init__()
        self._kind_of = kind_of
        self._periods: dict[str, _Period] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = self._kind_of(record)
        period = self._periods.get(kind)
        suppressed = 0
        if period is None or not 0 <= record.created - period.begun_s < LIMIT_PERIOD_S:
            suppressed = period.suppressed if period else 0
            if len(self._periods) >= _MAX_KINDS:
                self._periods.clear()
            period = self._periods[kind] = _Period(record.created)
        if period.logged >= MAX_LINES_PER_PERIOD:
            period.suppressed += 1
            return False
        period.logged += 1
        facts: dict[str, object] = dict(getattr(record, "facts", None) or {})
        if suppressed:
            facts["suppressed"] = f"{suppressed} lines of this kind before"
        if period.logged == MAX_LINES_PER_PERIOD:
            facts["limit"] = f"more lines of this kind are not logged for {LIMIT_PERIOD_S:g} s"
        record.facts = facts
        return True


F = TypeVar("F", bound=Callable[..., Any])

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "text", "json")

_COLOURS = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red", "DEBUG": "bright_black"}
_SHORT = {"WARNING": "WARN", "CRITICAL": "ERROR"}
_INSERTED = re.compile(r"%[-+ #0]*[\d.*]*[a-zA-Z]")
_WORD = re.compile(r"[A-Za-z]+")


def log_options(command: F) -> F:
    """`log_level` and `log_format`."""
    level = click.option(
        "--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="How much to log."
    )
    style = click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        default="auto",
        show_default=True,
        help="Lines for people or for programs; auto: for people on a terminal.",
    )
    return level(style(command))


def set_up_log(level: str, style: str, stream: TextIO | None = None) -> None:
    """For the whole process. Other libraries are heard only when something is wrong."""
    stream = stream or sys.stderr
    is_for_people = style == "text" or (style == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_TextFormatter(in_colour=stream.isatty()) if is_for_people else _JsonFormatter())
    handler.addFilter(LogLimit(lambda record: f"{record.levelname} {event_of(record)}"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("rescheduler").setLevel(level.upper())


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _record_time(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": event_of(record),
            "message": record.getMessage(),
            **{_unreserved_name(name): value for name, value in _facts(record).items()},
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return printable(json.dumps(line, ensure_ascii=False, default=str))


class _TextFormatter(logging.Formatter):
    def __init__(self, *, in_colour: bool) -> None:
        super().__init__()
        self._in_colour = in_colour

    def format(self, record: logging.LogRecord) -> str:
        level = f"{_SHORT.get(record.levelname, record.levelname):5}"
        if self._in_colour and record.levelname in _COLOURS:
            level = click.style(level, fg=_COLOURS[record.levelname])
        facts = " ".join(f"{name}={value}" for name, value in _facts(record).items() if value != "")
        time = f"{_record_time(record).astimezone():%H:%M:%S}"
        text = f"{event_of(record)}: {record.getMessage()}{f'  {facts}' if facts else ''}"
        line = f"{time} {level} {printable(text)}"
        if record.exc_info:
            line += "\n" + printable(self.formatException(record.exc_info), keep_newlines=True)
        return line


def event_of(record: logging.LogRecord) -> str:
    """The same for all lines of one kind, whatever is inserted into them."""
    named = getattr(record, "event", None)
    if named:
        return str(named)
    module = record.name.rpartition(".")[2]
    words = _WORD.findall(_INSERTED.sub(" ", str(record.msg)))[:5]
    return "".join(word.capitalize() for word in (*module.split("_"), *words))


def _facts(record: logging.LogRecord) -> Mapping[str, object]:
    found: Mapping[str, object] = getattr(record, "facts", None) or {}
    return found


def _unreserved_name(name: str) -> str:
    """A fact must not take the place of what every line has."""
    return f"{name}_" if name in {"time", "level", "event", "message", "traceback"} else name


def _record_time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)
