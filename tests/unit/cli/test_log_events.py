"""Every kind of line in the log has a name, and the documentation lists them all."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src" / "rescheduler"
STEERING, HTTP = SOURCES / "steering", SOURCES / "http"

COMPUTED = {
    "f'Maintenance{each.reason}'": {
        "MaintenanceEmptying",
        "MaintenanceEmpty",
        "MaintenanceBlocked",
        "MaintenanceSignalGone",
    },
    "event": {"EvictionInProgress", "EvictionRefused", "PodEvicted"},
    "result": {"NotificationDropped", "NotificationRetried"},
    "room_event": {"RoomKept", "RoomUsed", "RoomReleased"},
}
"""By how the program makes their names."""


def calls(*files):
    """Those of files that log; others may mean something else by `log_event`."""
    for file in files:
        text = file.read_text()
        if re.search(r"import .*\blog_event\b", text) or "getLogger(" in text:
            yield from ((file, node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))


def names_of(call):
    """Return the event names of a call of `log_event` or of a logger; empty for any other call."""
    if isinstance(call.func, ast.Name) and call.func.id == "log_event":
        name = call.args[2]
        return {name.value} if isinstance(name, ast.Constant) else COMPUTED[ast.unparse(name)]
    extra = [each.value for each in call.keywords if each.arg == "extra" and is_of_a_logger(call)]
    # `log_event` itself passes its own arguments on.
    return {ast.literal_eval(each)["event"] for each in extra if "'event': event" not in ast.unparse(each)}


def is_of_a_logger(call):
    return ast.unparse(call.func).startswith("log.")


def names_in(*files):
    return {name for _, call in calls(*files) for name in names_of(call)}


def listed_in(page):
    """Return the first column of the table of events."""
    table = (ROOT / "docs" / page).read_text().partition("| event | |\n")[2].partition("\n\n")[0]
    return {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}


SERVED = {*STEERING.rglob("*.py"), *HTTP.rglob("*.py")}
OTHERS = set(SOURCES.rglob("*.py")) - SERVED


@pytest.mark.parametrize(("page", "files"), [("operating.md", OTHERS), ("webhook.md", SERVED)])
def test_a_page_lists_the_events_of_the_program_and_no_others(page, files):
    assert listed_in(page) == names_in(*files)


def test_the_webhook_says_nothing_without_a_name():
    nameless = [
        f"{file.name}:{call.lineno}"
        for file, call in calls(*SERVED)
        if is_of_a_logger(call) and not names_of(call)
    ]
    assert nameless == []
