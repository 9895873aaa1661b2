"""The runtime state that all code reads: what follows from it, and which listeners get its changes."""

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from rescheduler.api.daemon_status import Halt, HaltReason
from rescheduler.api.podmigration import MANUAL
from rescheduler.config.policy import Policy
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder, SteeringStatus
from rescheduler.migrations.transition_table import MigrationStep
from tests.unit.migrations.observations import migration

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
IDLE = RuntimeState(Policy())


def halt(reason, namespace=""):
    return Halt(reason, NOW, "words", "ends", namespace=namespace)


def queued(strategy="LoadBalancing", namespace="default"):
    made = migration(MigrationStep.QUEUED)
    spec = msgspec.structs.replace(made.spec, strategy=strategy)
    return msgspec.structs.replace(made, spec=spec, namespace=namespace)


@pytest.mark.parametrize(
    ("state", "planned", "manual"),
    [
        pytest.param(IDLE, True, True, id="nothing is in the way"),
        pytest.param(replace(IDLE, is_stopping=True), False, False, id="after SIGTERM"),
        pytest.param(RuntimeState(Policy(dry_run=True)), False, False, id="in a dry run"),
        pytest.param(
            replace(IDLE, halts=(halt(HaltReason.FAILURE_RATIO),)), False, True, id="after too many failures"
        ),
        pytest.param(replace(IDLE, halts=(halt(HaltReason.PAUSED),)), False, None, id="while paused"),
        pytest.param(
            replace(IDLE, halts=(halt(HaltReason.NAMESPACE_FAILING, "default"),)),
            False,
            True,
            id="while its namespace is halted",
        ),
        pytest.param(
            replace(IDLE, halts=(halt(HaltReason.NAMESPACE_FAILING, "other"),)),
            True,
            True,
            id="while another namespace is halted",
        ),
    ],
)
def test_whether_a_queued_migration_may_start(state, planned, manual):
    assert state.may_start(queued(), NOW) is planned
    if manual is None:
        manual = not HaltReason.PAUSED.blocks_manual_moves
    assert state.may_start(queued(MANUAL), NOW) is manual


def test_halts_of_namespaces_don_t_stop_the_cluster():
    state = replace(IDLE, halts=(halt(HaltReason.NAMESPACE_FAILING, "other"),))
    assert state.may_act
    assert state.halted_namespaces == {"other"}
    assert state.no_plan_reason is None
    assert replace(IDLE, halts=(halt(HaltReason.CACHES_STALE),)).no_plan_reason is not None


def test_an_extender_steers_without_a_webhook():
    assert not IDLE.steers
    assert RuntimeState(Policy(scheduler_extender=True)).steers
    assert not RuntimeState(Policy(scheduler_extender=True)).guards
    assert replace(IDLE, steering=SteeringStatus(steers=True)).steers


def test_subscribers_get_changes_after_they_were_made_and_nothing_else():
    holder, received = RuntimeStateHolder(IDLE), []

    def note(before, after):
        assert holder.current is after
        received.append((before.is_stopping, after.is_stopping))

    unsubscribe = holder.subscribe(note)
    holder.update(policy=Policy(), halts=())
    assert received == []
    holder.update(is_stopping=True)
    assert received == [(False, True)]
    unsubscribe()
    holder.update(is_stopping=False)
    assert len(received) == 1


def test_a_subscriber_may_end_its_subscription_while_it_is_called():
    holder, received = RuntimeStateHolder(IDLE), []
    ends = []
    ends.append(holder.subscribe(lambda *_: ends[0]()))
    holder.subscribe(lambda *_: received.append(1))
    holder.update(is_stopping=True)
    holder.update(is_stopping=False)
    assert received == [1, 1]


def test_a_state_that_was_read_does_not_change():
    holder = RuntimeStateHolder(IDLE)
    state = holder.current
    holder.update(policy=Policy(dry_run=True), is_stopping=True)
    assert state.may_act
    assert not holder.current.may_act
