"""How far a move is, in words and as bars."""

import io

import msgspec
import pytest
from rich.console import Console

from rescheduler.api.podmigration import ConditionType, Handover, MigrationCondition, PodReference
from rescheduler.cli.move_status import (
    ProgressDisplay,
    completed_fraction,
    failure_lines,
    failure_remedy,
    move_state,
    moves_summary,
)
from rescheduler.cli.progress_display import LiveProgressDisplay, progress_display_for
from rescheduler.cli.terminal import Terminal
from rescheduler.migrations.controller.plan_execution import MoveProgress
from rescheduler.migrations.transition_table import TRANSITIONS, MigrationStep
from rescheduler.planner.plan import Move
from tests.unit.migrations.observations import NOW, migration

REFUSED = MigrationCondition(ConditionType.BUDGET_ALLOWS, "False", NOW, "Refused")


def move_progress(step=None, handover=Handover.ADOPT, *, pod="shop/web-1-a", cancelled_because="", **status):
    move = Move(
        pod=pod, uid="source-uid", source="old", target="new", strategy="LoadBalancing", handover=handover,
        reason="because", gain=0.1,
    )  # fmt: skip
    if step is None:
        return MoveProgress(move, cancelled_because=cancelled_because)
    return MoveProgress(move, "shop/move", migration(step, handover, status=status), cancelled_because)


# -- in words


@pytest.mark.parametrize(
    ("moving", "words"),
    [
        pytest.param(
            move_progress(MigrationStep.MARKING, message="tolerates one more"),
            "moving, handover Adopt",
            id="at first",
        ),
        pytest.param(
            move_progress(MigrationStep.STARTING, message="waiting for copy b to become ready"),
            "waiting for copy b to become ready",
            id="what it waits for",
        ),
        pytest.param(
            move_progress(MigrationStep.EVICTING, message="copy b is ready"),
            "copy is ready, evicting the source pod",
            id="evicted",
        ),
        pytest.param(
            move_progress(MigrationStep.EVICTING, Handover.EVICT, message="asks the Eviction API"),
            "evicting the pod, its replacement follows",
            id="evicted before there is a successor",
        ),
        pytest.param(
            move_progress(
                MigrationStep.EVICTING, message="budget web allows no disruption now", conditions=(REFUSED,)
            ),
            "budget web allows no disruption now",
            id="who stands in the way",
        ),
        pytest.param(
            move_progress(MigrationStep.ROLLING_BACK, message="copy b can't run: ErrImagePull"),
            "rolling back: copy b can't run: ErrImagePull",
            id="why it goes back",
        ),
        pytest.param(
            move_progress("Teleporting"),
            "invalid status: a migration by Adopt has no step Teleporting",
            id="an invalid status",
        ),
    ],
)
def test_what_is_under_way_says_what_it_does_or_waits_for(moving, words):
    assert move_state(moving) == ("InProgress", words)
    assert 0 <= completed_fraction(moving) < 1


def test_what_failed_is_reported_with_its_pod_its_reason_and_what_to_do():
    known = move_progress(MigrationStep.FAILED, message="no node has room", failure="NoTarget")
    other = move_progress(MigrationStep.FAILED, message="copy b can't run", failure="CopyFailing")
    reported = list(
        failure_lines(
            [
                known,
                move_progress(MigrationStep.COMPLETED),
                other,
                move_progress(cancelled_because="cancelled"),
            ]
        )
    )
    assert reported[0] == "  shop/web-1-a: no node has room"
    assert reported[1].strip()
    assert reported[2:] == [
        "  shop/web-1-a: copy b can't run",
        "    For details, run: rescheduler migrations -n shop move",
    ]


def test_a_cancelled_move_points_to_no_object_that_is_gone():
    cancelled = move_progress(MigrationStep.STARTING, cancelled_because="cancelled")
    assert failure_remedy(cancelled) == ("Reason: cancelled. To move the pod, run the command again.")


def test_a_move_that_another_process_cancelled_has_not_failed():
    """Its leader records the reason on the PodMigration, which the command deleted."""
    cancelled = move_progress(
        MigrationStep.FAILED, failure="Cancelled", message="cancelled before it started"
    )
    assert move_state(cancelled) == ("Cancelled", "cancelled before it started")
    cancelled.migration = msgspec.structs.replace(cancelled.migration, finalizers=())
    assert moves_summary([cancelled]) == "0 of 1 move made, 1 not made."


def test_all_of_them_are_summed_up():
    over = [
        move_progress(MigrationStep.COMPLETED),
        move_progress(MigrationStep.FAILED),
        move_progress(cancelled_because="cancelled"),
    ]
    for each in over[:2]:
        each.migration = migration(MigrationStep(each.migration.status.step), finalizers=())
    assert (
        moves_summary([*over, move_progress(MigrationStep.STARTING)])
        == "1 of 4 moves made, 1 failed, 1 still running, 1 not made."
    )


@pytest.mark.parametrize("handover", [Handover.ADOPT, Handover.COPY, Handover.EVICT])
def test_every_step_brings_it_further(handover):
    ahead = {step for step, _ in TRANSITIONS[handover]} - {MigrationStep.ROLLING_BACK} | {
        MigrationStep.COMPLETED
    }
    shares = {step: completed_fraction(move_progress(step, handover)) for step in ahead}
    assert shares[MigrationStep.COMPLETED] == 1.0
    assert len(set(shares.values())) == len(ahead), "no two steps are equally far"
    assert (
        shares[MigrationStep.MARKING] < shares[MigrationStep.EVICTING] < shares[MigrationStep.RELEASING] < 1.0
    )


# -- as bars


def shown(*moves, width=120, height=30, interrupted=False):
    """What stands above, and the bars."""
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    progress = LiveProgressDisplay(console, Terminal(width, colour=True))
    progress._moves = moves
    for each in moves:
        progress.on_progress(each)
        progress.on_progress(each)
    if interrupted:
        progress.interrupted()
    above = console.file.getvalue()
    with console.capture() as frame:
        console.print(progress.frame())
    return above.splitlines(), frame.get().splitlines()


def test_what_is_over_scrolls_away_and_what_is_under_way_has_a_bar():
    done = move_progress(
        MigrationStep.COMPLETED, target_pod=PodReference("web-1-c", "copy-uid"), finished_at=NOW
    )
    failed = move_progress(MigrationStep.FAILED, message="no node has room", finished_at=NOW)
    starting = move_progress(MigrationStep.STARTING, message="waiting for copy b to become ready")
    above, bars = shown(done, failed, starting, move_progress(MigrationStep.QUEUED), move_progress())
    assert above == [
        "✓ shop/web-1-a  old → new  0s  web-1-c",
        "✗ shop/web-1-a  old → new  0s  no node has room",
    ]
    first, second, last = (line.split() for line in bars)
    assert first[1:5] == ["shop/web-1-a", "old", "→", "new"]
    assert "Starting" in first
    assert bars[0].rstrip().endswith("waiting for copy b to become ready")
    assert (second[0], second[-4:]) == ("·", ["waiting", "for", "its", "turn"])
    assert " ".join(last).startswith("1 of 5 moves made, 1 not made, 2 in progress, 1 waiting")


def test_a_name_that_is_wider_than_the_window_goes_on_in_the_next_line():
    long = move_progress(
        MigrationStep.STARTING, message="waiting for copy b to become ready " * 5, pod=f"shop/{'w' * 80}"
    )
    _, bars = shown(long, width=64)
    assert all(len(line) <= 64 for line in bars)
    assert f"shop/{'w' * 80}" in "".join(line.strip("⠋⠙⠹ ") for line in bars)
    assert any("Starting" in line and line.rstrip().endswith("…") for line in bars)


def test_moves_of_several_lines_leave_room_for_the_count_of_those_that_are_hidden():
    moves = [move_progress(MigrationStep.STARTING, pod=f"shop/{'w' * 50}-{n}") for n in range(30)]
    _, bars = shown(*moves, width=64, height=12)
    assert len(bars) <= 12
    assert bars[-2].strip() == "and 28 more"


def test_more_than_the_window_has_lines_are_counted_and_those_that_wait_come_last():
    waiting = [move_progress(MigrationStep.QUEUED) for _ in range(30)]
    _, bars = shown(*waiting, move_progress(MigrationStep.STARTING), height=12)
    assert len(bars) < 12
    assert "Starting" in bars[0]
    assert bars[-2].strip() == "and 23 more"


def test_after_ctrl_c_it_says_what_happens_now():
    _, bars = shown(move_progress(MigrationStep.STARTING), interrupted=True)
    assert "Ctrl-C again to exit immediately" in bars[-1]


def test_into_a_file_go_lines():
    assert type(progress_display_for("table", stream=io.StringIO())) is ProgressDisplay
