"""The log: for people on a terminal, for programs elsewhere; and a name for every kind of line."""

import io
import json
import logging

import pytest

from rescheduler.cli.log_setup import LIMIT_PERIOD_S, MAX_LINES_PER_PERIOD, event_of, set_up_log
from rescheduler.kube.event_recorder import log_event


class Screen(io.StringIO):
    def isatty(self):
        return True


log = logging.getLogger("rescheduler.test")


def test_elsewhere_than_on_a_terminal_every_line_is_json():
    stream = io.StringIO()
    set_up_log("info", "auto", stream)
    log_event(log, logging.INFO, "CheckDone", "2 moves planned", moves=2, message="other")
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info", "event": "CheckDone", "message": "2 moves planned", "moves": 2, "message_": "other"
    }  # fmt: skip


def test_on_a_terminal_it_is_for_users():
    screen = Screen()
    set_up_log("info", "auto", screen)
    log_event(log, logging.WARNING, "Halted", "paused by ada", reason="Paused", target="")
    assert "WARN" in screen.getvalue()
    assert screen.getvalue().endswith("Halted: paused by ada  reason=Paused\n")


def test_the_format_can_be_chosen():
    screen = Screen()
    set_up_log("info", "json", screen)
    log_event(log, logging.INFO, "Started", "ready")
    assert json.loads(screen.getvalue())["event"] == "Started"


def test_a_fault_comes_with_its_traceback_on_one_line():
    stream = io.StringIO()
    set_up_log("info", "json", stream)
    try:
        int("broken")
    except ValueError:
        log.exception("a fault of the program")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: invalid literal" in json.loads(line)["traceback"]


@pytest.mark.parametrize(("level", "reported"), [("debug", 2), ("info", 1), ("error", 0)])
def test_the_level_says_how_much_is_reported(level, reported):
    stream = io.StringIO()
    set_up_log(level, "json", stream)
    log_event(log, logging.DEBUG, "Quiet", "nothing to do")
    log_event(log, logging.INFO, "Loud", "something to do")
    logging.getLogger("another.library").info("chatter")
    assert len(stream.getvalue().splitlines()) == reported


def _record(name, template, *args):
    return logging.LogRecord(name, logging.INFO, "", 1, template, args, None)


def test_lines_without_a_name_are_named_after_what_never_changes_in_them():
    one = _record("rescheduler.kube.reflector", "%s: following the server again", "pods")
    other = _record("rescheduler.kube.reflector", "%s: following the server again", "nodes")
    assert event_of(one) == event_of(other) == "ReflectorFollowingTheServerAgain"
    assert event_of(_record("rescheduler.kube.request_sender", "%s", "words")) == "RequestSender"


def test_of_one_kind_only_so_many_lines_are_logged_and_the_rest_is_counted(monkeypatch):
    stream, clock = io.StringIO(), [1000.0]
    monkeypatch.setattr("logging.time.time", lambda: clock[0])
    monkeypatch.setattr("logging.time.time_ns", lambda: int(clock[0] * 1e9), raising=False)
    set_up_log("info", "json", stream)
    for number in range(MAX_LINES_PER_PERIOD + 500):
        log_event(log, logging.WARNING, "TLSHandshakeFailed", f"of {number}", peer="192.0.2.7")
    log_event(log, logging.INFO, "CheckDone", "another kind is not concerned")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == MAX_LINES_PER_PERIOD + 1
    assert lines[MAX_LINES_PER_PERIOD - 1]["limit"] == "suppressing lines of this kind for 10 s"
    assert lines[MAX_LINES_PER_PERIOD]["event"] == "CheckDone"
    clock[0] += LIMIT_PERIOD_S
    for _ in range(2):
        log_event(log, logging.WARNING, "TLSHandshakeFailed", "later", peer="192.0.2.7")
    after, last = (json.loads(line) for line in stream.getvalue().splitlines()[MAX_LINES_PER_PERIOD + 1 :])
    assert after["suppressed"] == "500 earlier lines of this kind"
    assert after["peer"] == "192.0.2.7"
    assert "suppressed" not in last


def test_lines_without_names_are_counted_by_their_unchanging_words():
    stream = io.StringIO()
    set_up_log("info", "json", stream)
    for number in range(MAX_LINES_PER_PERIOD + 50):
        log.warning("Error handling request from %s", f"192.0.2.{number}")
    assert len(stream.getvalue().splitlines()) == MAX_LINES_PER_PERIOD
