"""The table lists every transition, and no other happens."""

import pytest

from rescheduler.api.podmigration import Handover, MigrationPhase
from rescheduler.migrations.transition_table import (
    TRANSITIONS,
    IllegalTransition,
    MigrationStep,
    Trigger,
    next_step,
    phase_of,
)
from tests.unit.migrations.observations import FORWARD_ONLY

CHOSEN = [Handover.ADOPT, Handover.COPY, Handover.EVICT]
FINAL = {MigrationStep.COMPLETED, MigrationStep.FAILED}


def steps_of(handover):
    return {step for step, _ in TRANSITIONS[handover]} | set(TRANSITIONS[handover].values())


def reachable(handover, start, *, without=frozenset()):
    found, open_ends = {start}, [start]
    while open_ends:
        here = open_ends.pop()
        for (step, event), then in TRANSITIONS[handover].items():
            if step is here and event not in without and then not in found:
                found.add(then)
                open_ends.append(then)
    return found


@pytest.mark.parametrize("handover", CHOSEN)
def test_every_step_of_a_handover_can_be_reached_and_can_end(handover):
    assert reachable(handover, MigrationStep.QUEUED) == steps_of(handover)
    for step in steps_of(handover):
        assert reachable(handover, step) & FINAL


@pytest.mark.parametrize("handover", CHOSEN)
def test_nothing_follows_an_end(handover):
    assert not [step for step, _ in TRANSITIONS[handover] if step in FINAL]


@pytest.mark.parametrize("handover", CHOSEN)
def test_after_the_source_is_gone_nothing_leads_back(handover):
    beyond = steps_of(handover) & FORWARD_ONLY
    assert beyond
    for step in beyond:
        assert reachable(handover, step) <= beyond | FINAL


@pytest.mark.parametrize("handover", CHOSEN)
def test_a_migration_completes_only_past_the_eviction_or_beside_a_lost_source(handover):
    without = {Trigger.SOURCE_LEFT, Trigger.SOURCE_LOST}
    assert MigrationStep.COMPLETED not in reachable(handover, MigrationStep.QUEUED, without=without)


@pytest.mark.parametrize("handover", CHOSEN)
def test_before_the_eviction_every_step_can_be_cancelled(handover):
    for step in steps_of(handover) - FINAL - {MigrationStep.ROLLING_BACK}:
        if step not in FORWARD_ONLY:
            assert next_step(handover, step, Trigger.CANCELLED) in {
                MigrationStep.FAILED,
                MigrationStep.ROLLING_BACK,
            }


@pytest.mark.parametrize("handover", CHOSEN)
def test_what_has_been_touched_is_undone_before_a_migration_fails(handover):
    untouched = {MigrationStep.QUEUED, MigrationStep.CHECKING}
    straight = {step for (step, _), then in TRANSITIONS[handover].items() if then is MigrationStep.FAILED}
    assert straight - untouched <= {
        MigrationStep.MARKING,
        MigrationStep.ROLLING_BACK,
        MigrationStep.RELEASING,
    }
    # Marking fails only because the pod is another's: then nothing of ours is there to undo.
    ends = [
        event
        for (step, event), then in TRANSITIONS[handover].items()
        if step is MigrationStep.MARKING and then in FINAL
    ]
    assert ends == [Trigger.LOCKED]


def test_a_terminating_source_is_no_reason_to_roll_back():
    """At the step Evicting, the eviction may be ours."""
    for handover in CHOSEN:
        assert (MigrationStep.EVICTING, Trigger.SOURCE_GONE) not in TRANSITIONS[handover]
        assert next_step(handover, MigrationStep.EVICTING, Trigger.SOURCE_LEFT) in FORWARD_ONLY


def test_an_event_that_the_table_does_not_know_is_refused():
    with pytest.raises(
        IllegalTransition, match="a migration by Copy has no transition for ADOPTED at Starting"
    ):
        next_step(Handover.COPY, MigrationStep.STARTING, Trigger.ADOPTED)


@pytest.mark.parametrize(
    ("step", "phase"),
    [
        (MigrationStep.QUEUED, MigrationPhase.PENDING),
        (MigrationStep.MARKING, MigrationPhase.IN_PROGRESS),
        (MigrationStep.ROLLING_BACK, MigrationPhase.IN_PROGRESS),
        (MigrationStep.COMPLETED, MigrationPhase.COMPLETED),
        (MigrationStep.FAILED, MigrationPhase.FAILED),
    ],
)
def test_the_phase_follows_from_the_step(step, phase):
    assert phase_of(step) is phase
