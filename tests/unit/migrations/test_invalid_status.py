"""An invalid status: edited by hand, or written by another version."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.podmigration import (
    MANUAL,
    ConditionType,
    Handover,
    MigrationCondition,
    MigrationPhase,
    MigrationStatus,
    PodReference,
)
from rescheduler.api.well_known_names import FINALIZER
from rescheduler.migrations.effects import CancelMigration, RemoveFinalizer
from rescheduler.migrations.observation import (
    Perform,
    RevalidationOutcome,
    RevalidationResult,
    Transition,
    Wait,
)
from rescheduler.migrations.state_machine import advance, decide, invalid_status, with_wait_message
from rescheduler.migrations.transition_table import MigrationStep
from tests.unit.migrations.observations import NOW, OWNER, copy, migration, observation, pod, replica_set

MOMENTS = st.none() | st.datetimes(timezones=st.just(UTC)) | st.just(NOW)
CONDITIONS = st.builds(
    MigrationCondition,
    type=st.sampled_from(list(ConditionType)),
    status=st.sampled_from(["True", "False", "Unknown"]),
    last_transition_time=st.datetimes(timezones=st.just(UTC)),
    reason=st.just("Edited"),
)
STATUSES = st.builds(
    MigrationStatus,
    phase=st.sampled_from(MigrationPhase),
    step=st.sampled_from([*MigrationStep, "", "Teleporting"]),
    step_since=MOMENTS,
    attempts=st.integers(0, 2**63 - 1),
    retry_at=MOMENTS,
    handover=st.none() | st.sampled_from(Handover),
    target_node=st.sampled_from(["", "new", "nowhere"]),
    target_pod=st.none() | st.just(PodReference("web-1-c", "copy-uid")),
    owner=st.none() | st.just(OWNER),
    failure_is_final=st.booleans(),
    started_at=MOMENTS,
    handed_over_at=MOMENTS,
    finished_at=MOMENTS,
    conditions=st.just(()) | st.tuples(CONDITIONS),
)
PODS = st.none() | st.builds(
    pod, marked=st.booleans(), ready=st.booleans(), deleted_s=st.none() | st.just(1)
)  # fmt: skip
COPIES = st.none() | st.builds(
    copy, node=st.sampled_from(["", "new"]), ready=st.booleans(), deleted_s=st.none() | st.just(1)
)


@st.composite
def drawn_observations(draw):
    """Whatever the definition lets in, beside whatever may be seen."""
    status = draw(STATUSES)
    moving = migration(
        deleted=draw(st.none() | st.just(NOW)), finalizers=draw(st.sampled_from([(), (FINALIZER,)]))
    )
    return observation(
        msgspec.structs.replace(moving, status=status),
        source=draw(PODS),
        target=draw(COPIES),
        owner=draw(st.none() | st.just(replica_set())),
        revalidation=RevalidationResult(
            draw(st.sampled_from(RevalidationOutcome)), Handover.ADOPT, "new", OWNER
        ),
        has_turn=draw(st.booleans()),
        is_winding_down=draw(st.booleans()),
    )


@given(drawn_observations())
def test_an_invalid_status_touches_no_pod(seen):
    """The state machine accepts every status."""
    decision = decide(seen)
    if isinstance(decision, Transition):
        advance(seen, decision)
    if isinstance(decision, Wait):
        with_wait_message(seen, decision)
    why = invalid_status(seen.migration)
    if why and seen.migration.is_cancelled and FINALIZER in seen.migration.finalizers:
        assert decision == Perform(RemoveFinalizer())
    elif why:
        assert decision == Wait(message=why)
        assert with_wait_message(seen, decision) == seen.migration, "not written over"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"step": "Teleporting"}, "by Adopt has no step Teleporting", id="an unknown step"),
        pytest.param(
            {"step": "Protecting"}, "by Adopt has no step Protecting", id="a step of another handover"
        ),
        pytest.param({"handover": None}, "whose handover is not chosen has no step", id="no handover"),
        pytest.param(
            {"phase": MigrationPhase.COMPLETED}, "step Starting is not of phase Completed", id="another phase"
        ),
        pytest.param({"step": "Adopting", "owner": None}, "the owner that adopts", id="no owner"),
        pytest.param(
            {"started_at": datetime(9999, 12, 31, tzinfo=UTC)},
            "timestamps after the year 9000",
            id="the end of time",
        ),
    ],
)
def test_why_is_said_in_words(changes, words):
    moving = migration(MigrationStep.STARTING)
    assert invalid_status(moving) == ""
    edited = msgspec.structs.replace(moving, status=msgspec.structs.replace(moving.status, **changes))
    assert words in invalid_status(edited)


# -- nothing is begun any more


def test_a_queued_move_of_a_plan_is_cancelled_in_a_dry_run():
    later = {"retry_at": NOW + timedelta(hours=1)}
    for moving in (migration(), migration(finalizers=()), migration(status=later)):
        assert decide(observation(moving, is_winding_down=True, has_turn=False)) == Perform(CancelMigration())


def test_a_manual_move_waits_without_finalizer_in_a_dry_run():
    moving = migration()
    manual = msgspec.structs.replace(moving, spec=msgspec.structs.replace(moving.spec, strategy=MANUAL))
    assert decide(observation(manual, is_winding_down=True, has_turn=False)) == Perform(RemoveFinalizer())
    free = msgspec.structs.replace(manual, finalizers=())
    assert isinstance(decide(observation(free, is_winding_down=True, has_turn=False)), Wait)


def test_a_queued_move_of_a_command_is_left_to_it_in_a_dry_run():
    """`apply` and `drain` have the strategies of the program, and wait for the Lease."""
    moving = msgspec.structs.replace(migration(), requested_by="ann")
    assert decide(observation(moving, is_winding_down=True, has_turn=False)) == Perform(RemoveFinalizer())


def test_what_is_under_way_is_not_cancelled():
    decision = decide(
        observation(migration(MigrationStep.STARTING), target=copy(ready=False), is_winding_down=True)
    )
    assert isinstance(decision, Wait)
