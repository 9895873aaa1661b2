"""What the leader and people write into `rescheduler-state`, and what can be read of it."""

from datetime import UTC, datetime

import pytest

from rescheduler.model.status import (
    Balance,
    Halt,
    HaltReason,
    LastCheck,
    NodeLoad,
    Pause,
    Status,
    UnreadableState,
    pause_of,
    status_of,
    written,
)

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
STATUS = Status(
    leader="me",
    updated=NOW,
    last_check=LastCheck(NOW, 0.5, moves=2, refused={"TooYoung": 3}),
    halts=(Halt(HaltReason.PAUSED, NOW, "words", "ends"),),
    balance=(Balance("cpu", 50.0, NodeLoad("a", 45.0), NodeLoad("b", 85.0)),),
)


def test_what_is_written_can_be_read():
    assert status_of({"status": written(STATUS)}) == STATUS
    pause = Pause(paused=True, by="ada", at=NOW, why="the fair")
    assert pause_of({"pause": written(pause)}) == pause


def test_nothing_written_is_no_status_and_no_pause():
    assert status_of({}) is None
    assert pause_of({}) == Pause()


def test_what_a_newer_version_adds_is_not_minded():
    later = written(STATUS).replace('"leader":', '"mood":"good","leader":')
    assert status_of({"status": later}) == STATUS


@pytest.mark.parametrize("content", ["yes", "[]", '{"paused": "no"}'])
def test_a_switch_that_is_something_else_is_not_taken_for_open(content):
    with pytest.raises(UnreadableState, match="pause can't be read"):
        pause_of({"pause": content})


def test_the_spread_is_the_difference():
    assert STATUS.balance[0].spread == 40.0


@pytest.mark.parametrize("reason", list(HaltReason))
def test_people_are_held_up_only_where_facts_cannot_be_trusted(reason):
    assert reason.holds_up_people is (reason not in {"Paused", "FailureRatio", "NamespaceFailing"})
