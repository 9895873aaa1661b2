"""The table says what can follow what, and nothing else can."""

import pytest

from rescheduler.migrations.steps import NEXT, Event, IllegalEvent, Step, next_step, phase_of, reversible
from rescheduler.model.migrations import Phase
from rescheduler.model.plan import Handover

CHOSEN = [Handover.ADOPT, Handover.COPY, Handover.EVICT]
FINAL = {Step.COMPLETED, Step.FAILED}


def steps_of(handover):
    return {step for step, _ in NEXT[handover]} | set(NEXT[handover].values())


def reachable(handover, start, *, without=frozenset()):
    found, open_ends = {start}, [start]
    while open_ends:
        here = open_ends.pop()
        for (step, event), then in NEXT[handover].items():
            if step is here and event not in without and then not in found:
                found.add(then)
                open_ends.append(then)
    return found


@pytest.mark.parametrize("handover", CHOSEN)
def test_every_step_of_a_handover_can_be_reached_and_can_end(handover):
    assert reachable(handover, Step.QUEUED) == steps_of(handover)
    for step in steps_of(handover):
        assert reachable(handover, step) & FINAL


@pytest.mark.parametrize("handover", CHOSEN)
def test_nothing_follows_an_end(handover):
    assert not [step for step, _ in NEXT[handover] if step in FINAL]


@pytest.mark.parametrize("handover", CHOSEN)
def test_after_the_source_is_gone_nothing_leads_back(handover):
    beyond = {step for step in steps_of(handover) if not reversible(step)}
    assert beyond
    for step in beyond:
        assert reachable(handover, step) <= beyond | FINAL


@pytest.mark.parametrize("handover", CHOSEN)
def test_a_migration_completes_only_past_the_eviction_or_beside_a_lost_source(handover):
    without = {Event.SOURCE_LEFT, Event.SOURCE_LOST}
    assert Step.COMPLETED not in reachable(handover, Step.QUEUED, without=without)


@pytest.mark.parametrize("handover", CHOSEN)
def test_before_the_eviction_every_step_can_be_cancelled(handover):
    for step in steps_of(handover) - FINAL - {Step.ROLLING_BACK}:
        if reversible(step):
            assert next_step(handover, step, Event.CANCELLED) in {Step.FAILED, Step.ROLLING_BACK}


@pytest.mark.parametrize("handover", CHOSEN)
def test_what_has_been_touched_is_undone_before_a_migration_fails(handover):
    untouched = {Step.QUEUED, Step.CHECKING}
    straight = {step for (step, _), then in NEXT[handover].items() if then is Step.FAILED}
    assert straight - untouched <= {Step.MARKING, Step.ROLLING_BACK, Step.RELEASING}
    # Marking fails only because the pod is another's: then nothing of ours is there to undo.
    ends = [event for (step, event), then in NEXT[handover].items() if step is Step.MARKING and then in FINAL]
    assert ends == [Event.LOCKED]


def test_at_the_eviction_a_source_that_goes_is_ours_to_follow_and_never_a_reason_to_undo():
    for handover in CHOSEN:
        assert (Step.EVICTING, Event.SOURCE_GONE) not in NEXT[handover]
        assert not reversible(next_step(handover, Step.EVICTING, Event.SOURCE_LEFT))


def test_an_event_that_the_table_does_not_know_is_refused():
    with pytest.raises(IllegalEvent, match="a migration by Copy can't see ADOPTED at Starting"):
        next_step(Handover.COPY, Step.STARTING, Event.ADOPTED)


@pytest.mark.parametrize(
    ("step", "phase"),
    [
        (Step.QUEUED, Phase.PENDING),
        (Step.MARKING, Phase.IN_PROGRESS),
        (Step.ROLLING_BACK, Phase.IN_PROGRESS),
        (Step.COMPLETED, Phase.COMPLETED),
        (Step.FAILED, Phase.FAILED),
    ],
)
def test_the_phase_follows_from_the_step(step, phase):
    assert phase_of(step) is phase
