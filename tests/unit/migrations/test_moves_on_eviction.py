"""A move that another client caused by an eviction: it has a deadline, and waits for room."""

from datetime import timedelta

import msgspec
import pytest

from rescheduler.api.daemon_status import Halt, HaltReason
from rescheduler.api.podmigration import EVICTION
from rescheduler.config.policy import Policy, SafeEvictions, Window
from rescheduler.migrations.controller.concurrency_limits import raised_node_limits
from rescheduler.migrations.effects import RemoveSchedulingGate
from rescheduler.migrations.interruptions import DEADLINE_EXCEEDED, deadline_of, time_left
from rescheduler.migrations.observation import Perform, Transition, Wait
from rescheduler.migrations.runtime_state import RuntimeState
from rescheduler.migrations.state_machine import advance, decide
from rescheduler.migrations.transition_table import MigrationStep, Trigger
from tests.unit.migrations.observations import LATER, NOW, copy, migration, observation, pod

DEADLINE = timedelta(minutes=10)
POLICY = Policy(safe_evictions=SafeEvictions(deadline=DEADLINE))
CLOSED = Window(from_=0, to=1)


def on_eviction(step=MigrationStep.QUEUED, *, target="", name="move", **spec):
    moving = migration(step)
    status = msgspec.structs.replace(moving.status, target_node=target)
    wanted = msgspec.structs.replace(moving.spec, strategy=EVICTION, target_node="", **spec)
    return msgspec.structs.replace(moving, spec=wanted, key=f"shop/{name}", name=name, status=status)


class TestTheDeadline:
    def test_counts_from_the_first_eviction(self):
        moving = on_eviction()
        assert deadline_of(moving, POLICY) == moving.created + DEADLINE

    def test_can_be_shortened_by_whoever_records_the_move_and_not_extended(self):
        moving = on_eviction()
        sooner, later = moving.created + timedelta(minutes=1), moving.created + timedelta(days=1)
        assert deadline_of(on_eviction(deadline=sooner), POLICY) == sooner
        assert deadline_of(on_eviction(deadline=later), POLICY) == moving.created + DEADLINE

    def test_is_none_for_other_moves(self):
        assert deadline_of(migration(), POLICY) is None

    def test_ends_a_move_that_waits_for_its_turn(self):
        moving = on_eviction()
        seen = observation(moving, policy=POLICY, has_turn=False, source=pod())
        assert decide(seen) == Wait(moving.created + DEADLINE, "waiting for its turn")
        late = observation(moving, policy=POLICY, has_turn=False, source=pod(), now=moving.created + DEADLINE)
        ended = decide(late)
        assert isinstance(ended, Transition)
        assert (ended.event, ended.failure, ended.final) == (Trigger.REFUSED, DEADLINE_EXCEEDED, True)
        assert advance(late, ended).is_finished

    def test_rolls_a_running_move_back_for_good(self):
        moving = on_eviction(MigrationStep.STARTING, target="new")
        late = observation(moving, policy=POLICY, target=copy(ready=False), now=moving.created + DEADLINE)
        ended = decide(late)
        assert isinstance(ended, Transition)
        assert (ended.event, ended.failure, ended.final) == (Trigger.TIMED_OUT, DEADLINE_EXCEEDED, True)

    def test_limits_the_time_of_an_attempt(self):
        moving = on_eviction(MigrationStep.STARTING, target="new")
        seen = observation(moving, policy=POLICY)
        assert time_left(seen) == moving.created + DEADLINE - LATER


class TestWithoutRoom:
    def test_the_copy_gets_no_nomination(self):
        """Autoscalers ignore pods that have one."""
        seen = observation(on_eviction(MigrationStep.PLACING), target=copy(node="", gated=True, ready=False))
        decision = decide(seen)
        assert isinstance(decision, Perform)
        assert isinstance(decision.effect, RemoveSchedulingGate)

    def test_a_copy_that_could_preempt_others_stays_gated(self):
        seen = observation(
            on_eviction(MigrationStep.PLACING),
            target=copy(node="", gated=True, ready=False),
            may_preempt="shop/api",
        )
        decision = decide(seen)
        assert isinstance(decision, Wait)
        assert "could preempt shop/api" in decision.message

    def test_it_waits_until_the_deadline(self):
        moving = on_eviction(MigrationStep.PLACING)
        pending = copy(node="", ready=False)
        decision = decide(observation(moving, policy=POLICY, target=pending))
        assert decision == Wait(
            moving.created + DEADLINE, "copy web-1-c is Pending until a node has room for it"
        )

    def test_any_other_node_is_the_target(self):
        seen = observation(on_eviction(MigrationStep.PLACING), target=copy(node="third", ready=False))
        bound = decide(seen)
        assert isinstance(bound, Transition)
        assert bound.event is Trigger.COPY_BOUND
        assert advance(seen, bound).target_node == "third"

    def test_the_source_node_is_not(self):
        seen = observation(on_eviction(MigrationStep.PLACING), target=copy(node="old", ready=False))
        decision = decide(seen)
        assert isinstance(decision, Transition)
        assert decision.event is Trigger.COPY_MISPLACED


class TestTheStart:
    def test_ignores_windows(self):
        state = RuntimeState(Policy(windows=(CLOSED,)))
        assert not state.may_start(migration(), NOW)
        assert state.may_start(on_eviction(), NOW)

    def test_comes_before_balancing(self):
        assert EVICTION in RuntimeState(Policy()).urgent_strategies

    @pytest.mark.parametrize(
        ("reason", "goes_on"),
        [
            (HaltReason.PAUSED, False),
            (HaltReason.FAILURE_RATIO, False),
            (HaltReason.API_FAILING, False),
            (HaltReason.NODES_NOT_READY, True),
            (HaltReason.CACHES_STALE, True),
        ],
    )
    def test_under_a_halt(self, reason, goes_on):
        state = RuntimeState(Policy(), halts=(Halt(reason, NOW, "why", "ends"),))
        assert state.may_start(on_eviction(), NOW) is goes_on

    def test_under_a_halt_of_its_namespace(self):
        halts = [Halt(HaltReason.NAMESPACE_FAILING, NOW, "", "", namespace=each) for each in ("shop", "bank")]
        assert not RuntimeState(Policy(), halts=(halts[0],)).may_start(on_eviction(), NOW)
        assert RuntimeState(Policy(), halts=(halts[1],)).may_start(on_eviction(), NOW)


class TestParallelism:
    def test_is_raised_so_that_a_drain_ends_before_its_deadline(self):
        """100 pods at 40 s each need 4,000 s, and a little more than 8 minutes are left."""
        drain = [on_eviction(name=f"move-{number}") for number in range(100)]
        limits = raised_node_limits(drain, POLICY, drain[0].created)
        assert limits == {"old": 8}

    def test_is_not_raised_for_other_moves(self):
        assert raised_node_limits([migration()], POLICY, NOW) == {}
