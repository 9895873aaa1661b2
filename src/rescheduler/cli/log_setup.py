"""The log: text on a terminal, one JSON object per line elsewhere.

    12:00:31 INFO  CheckDone: 2 moves planned  check=1 moves=2
    {"time": "2026-03-02T12:00:31.104Z", "level": "info", "event": "CheckDone", "message": "2 moves planned",
     "check": 1, "moves": 2}

Every line has an `event`, the name of its kind. If the code gives none, the event is made of the module and
the constant part of the message. The lines per kind are limited, so that no input can fill a disk.
"""

import json
import logging
import re
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO, TypeVar

import click

from rescheduler.cli.terminal import printable

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
    """Limits the lines of one kind per period and logs how many were suppressed."""

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
            facts["suppressed"] = f"{suppressed} earlier lines of this kind"
        if period.logged == MAX_LINES_PER_PERIOD:
            facts["limit"] = f"suppressing lines of this kind for {LIMIT_PERIOD_S:g} s"
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
    """Add --log-level and --log-format."""
    level = click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        default="info",
        show_default=True,
        help="Lowest level to log.",
    )
    style = click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        default="auto",
        show_default=True,
        help="Log format; auto is text on a terminal and JSON elsewhere.",
    )
    return level(style(command))


def set_up_log(level: str, style: str, stream: TextIO | None = None) -> None:
    """Set up the log of the process; other libraries log only warnings and errors."""
    stream = stream or sys.stderr
    is_text = style == "text" or (style == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_TextFormatter(in_colour=stream.isatty()) if is_text else _JsonFormatter())
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
    """Return the event of a record, which is the same for all lines of one kind."""
    named = getattr(record, "event", None)
    if named:
        return str(named)
    module = record.name.rpartition(".")[2]
    words = _WORD.findall(_INSERTED.sub(" ", str(record.msg)))[:5]
    return "".join(word.capitalize() for word in (*module.split("_"), *words))


def _facts(record: logging.LogRecord) -> Mapping[str, object]:
    facts: Mapping[str, object] = getattr(record, "facts", None) or {}
    return facts


def _unreserved_name(name: str) -> str:
    """Return a name that does not replace one of the fields that every line has."""
    return f"{name}_" if name in {"time", "level", "event", "message", "traceback"} else name


def _record_time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)
