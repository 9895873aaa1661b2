"""The ConfigMap `rescheduler-state`: what the leader and the commands write, and how it is read."""

from datetime import UTC, datetime

import pytest

from rescheduler.api.daemon_status import (
    DaemonStatus,
    Halt,
    HaltReason,
    LastCheck,
    NodeLoad,
    Pause,
    ResourceBalance,
    UnreadableState,
    decode_pause,
    decode_status,
    encode_state,
)

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
STATUS = DaemonStatus(
    leader="me",
    updated=NOW,
    last_check=LastCheck(NOW, 0.5, moves=2, refused={"TooYoung": 3}),
    halts=(Halt(HaltReason.PAUSED, NOW, "words", "ends"),),
    balance=(ResourceBalance("cpu", 50.0, NodeLoad("a", 45.0), NodeLoad("b", 85.0)),),
)


def test_what_is_written_can_be_read():
    assert decode_status({"status": encode_state(STATUS)}) == STATUS
    pause = Pause(paused=True, by="ada", at=NOW, why="the fair")
    assert decode_pause({"pause": encode_state(pause)}) == pause


def test_nothing_written_is_no_status_and_no_pause():
    assert decode_status({}) is None
    assert decode_pause({}) == Pause()


def test_what_a_newer_version_adds_is_not_minded():
    later = encode_state(STATUS).replace('"leader":', '"mood":"good","leader":')
    assert decode_status({"status": later}) == STATUS


@pytest.mark.parametrize("content", ["yes", "[]", '{"paused": "no"}'])
def test_a_switch_that_is_something_else_is_not_taken_for_open(content):
    with pytest.raises(UnreadableState, match="pause can't be read"):
        decode_pause({"pause": content})


def test_the_spread_is_the_difference():
    assert STATUS.balance[0].spread == 40.0


@pytest.mark.parametrize("reason", list(HaltReason))
def test_people_are_held_up_only_where_facts_cannot_be_trusted(reason):
    assert reason.blocks_manual_moves is (reason not in {"Paused", "FailureRatio", "NamespaceFailing"})
