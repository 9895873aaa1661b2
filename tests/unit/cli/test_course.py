"""How far a move is, in words and as bars."""

import io

import pytest
from rich.console import Console

from rescheduler.cli.course import failures, share_done, state_of, summary
from rescheduler.cli.live_progress import LiveProgress, progress_on
from rescheduler.cli.progress import Progress
from rescheduler.cli.terminal import Terminal
from rescheduler.controller.plan_run import Errand
from rescheduler.migrations.steps import NEXT, Step
from rescheduler.model.migrations import Condition, ConditionType, PodReference
from rescheduler.model.plan import Handover, Move
from tests.unit.migrations.scenes import NOW, migration

REFUSED = Condition(ConditionType.BUDGET_ALLOWS, "False", NOW, "Refused")


def errand(step=None, handover=Handover.ADOPT, *, pod="shop/web-1-a", given_up="", **status):
    move = Move(
        pod=pod, uid="source-uid", source="old", target="new", strategy="LoadBalancing", handover=handover,
        reason="because", gain=0.1,
    )  # fmt: skip
    if step is None:
        return Errand(move, given_up=given_up)
    return Errand(move, "shop/move", migration(step, handover, status=status), given_up)


# -- in words


@pytest.mark.parametrize(
    ("moving", "words"),
    [
        pytest.param(
            errand(Step.MARKING, message="tolerates one more"), "is being moved, by Adopt", id="at first"
        ),
        pytest.param(
            errand(Step.STARTING, message="waits for copy b to become ready"),
            "waits for copy b to become ready",
            id="what it waits for",
        ),
        pytest.param(
            errand(Step.EVICTING, message="copy b is ready"),
            "its successor is ready, and it is evicted",
            id="evicted",
        ),
        pytest.param(
            errand(Step.EVICTING, Handover.EVICT, message="asks the Eviction API"),
            "is evicted; its successor comes after it",
            id="evicted before there is a successor",
        ),
        pytest.param(
            errand(Step.EVICTING, message="budget web allows no disruption now", conditions=(REFUSED,)),
            "budget web allows no disruption now",
            id="who stands in the way",
        ),
        pytest.param(
            errand(Step.ROLLING_BACK, message="copy b can't run: ErrImagePull"),
            "is rolled back: copy b can't run: ErrImagePull",
            id="why it goes back",
        ),
        pytest.param(
            errand("Teleporting"),
            "its status makes no sense: a migration by Adopt has no step Teleporting",
            id="what nobody can go on with",
        ),
    ],
)
def test_what_is_under_way_says_what_it_does_or_waits_for(moving, words):
    assert state_of(moving) == ("InProgress", words)
    assert 0 <= share_done(moving) < 1


def test_what_failed_is_told_with_its_pod_its_reason_and_what_to_do():
    known = errand(Step.FAILED, message="no node has room", failure="NoTarget")
    other = errand(Step.FAILED, message="copy b can't run", failure="CopyFailing")
    told = list(failures([known, errand(Step.COMPLETED), other, errand(given_up="cancelled")]))
    assert told[0] == "  shop/web-1-a: no node has room"
    assert told[1].strip()
    assert told[2:] == [
        "  shop/web-1-a: copy b can't run",
        "    Its story: rescheduler migrations -n shop move",
    ]


def test_all_of_them_are_summed_up():
    over = [errand(Step.COMPLETED), errand(Step.FAILED), errand(given_up="cancelled")]
    for each in over[:2]:
        each.migration = migration(Step(each.migration.status.step), finalizers=())
    assert (
        summary([*over, errand(Step.STARTING)])
        == "1 of 4 moves made, 1 failed, 1 still under way, 1 not made."
    )


@pytest.mark.parametrize("handover", [Handover.ADOPT, Handover.COPY, Handover.EVICT])
def test_every_step_brings_it_further(handover):
    ahead = {step for step, _ in NEXT[handover]} - {Step.ROLLING_BACK} | {Step.COMPLETED}
    shares = {step: share_done(errand(step, handover)) for step in ahead}
    assert shares[Step.COMPLETED] == 1.0
    assert len(set(shares.values())) == len(ahead), "no two steps are equally far"
    assert shares[Step.MARKING] < shares[Step.EVICTING] < shares[Step.RELEASING] < 1.0


# -- as bars


def shown(*errands, width=120, height=30, interrupted=False):
    """What stands above, and the bars."""
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    progress = LiveProgress(console, Terminal(width, colour=True))
    progress._errands = errands
    for each in errands:
        progress.tell(each)
        progress.tell(each)
    if interrupted:
        progress.interrupted()
    above = console.file.getvalue()
    with console.capture() as frame:
        console.print(progress.frame())
    return above.splitlines(), frame.get().splitlines()


def test_what_is_over_scrolls_away_and_what_is_under_way_has_a_bar():
    done = errand(Step.COMPLETED, target_pod=PodReference("web-1-c", "copy-uid"), finished_at=NOW)
    failed = errand(Step.FAILED, message="no node has room", finished_at=NOW)
    starting = errand(Step.STARTING, message="waits for copy b to become ready")
    above, bars = shown(done, failed, starting, errand(Step.QUEUED), errand())
    assert above == [
        "✓ shop/web-1-a  old → new  0s  web-1-c",
        "✗ shop/web-1-a  old → new  0s  no node has room",
    ]
    first, second, last = (line.split() for line in bars)
    assert first[1:5] == ["shop/web-1-a", "old", "→", "new"]
    assert "Starting" in first
    assert bars[0].rstrip().endswith("waits for copy b to become ready")
    assert (second[0], second[-4:]) == ("·", ["waits", "for", "its", "turn"])
    assert " ".join(last).startswith("1 of 5 moves made, 1 not made, 2 under way, 1 to come")


def test_names_give_way_where_it_is_narrow_and_nothing_is_wider_than_the_window():
    long = errand(Step.STARTING, message="waits for copy b to become ready " * 5, pod=f"shop/{'w' * 80}")
    _, bars = shown(long, width=64)
    assert all(len(line) <= 64 for line in bars)
    assert "…" in bars[0]
    assert "Starting" in bars[0]


def test_more_than_the_window_has_lines_are_counted_and_those_that_wait_come_last():
    waiting = [errand(Step.QUEUED) for _ in range(30)]
    _, bars = shown(*waiting, errand(Step.STARTING), height=12)
    assert len(bars) < 12
    assert "Starting" in bars[0]
    assert bars[-2].strip() == "and 23 more"


def test_after_ctrl_c_it_says_what_happens_now():
    _, bars = shown(errand(Step.STARTING), interrupted=True)
    assert "Ctrl-C again leaves at once" in bars[-1]


def test_into_a_file_go_lines():
    assert type(progress_on(io.StringIO(), to_stderr=False)) is Progress
