"""A move that another client caused by an eviction: it has a deadline, and waits for room."""

from datetime import timedelta

import msgspec
import pytest

from rescheduler.api.daemon_status import Halt, HaltReason
from rescheduler.api.podmigration import EVICTION, PodReference, traits_of
from rescheduler.api.well_known_names import DO_NOT_DISRUPT_ADDED_ANNOTATION, KARPENTER_NODE_POOL_LABEL
from rescheduler.config.move_limits import Window
from rescheduler.config.policy import Policy, SafeEvictions
from rescheduler.migrations.controller.concurrency_limits import raised_node_limits
from rescheduler.migrations.effects import DeleteMigration, ProtectSource, RemoveSchedulingGate
from rescheduler.migrations.interruptions import DEADLINE_EXCEEDED, deadline_of, time_left
from rescheduler.migrations.labels_and_names import metadata_to_remove
from rescheduler.migrations.observation import Perform, Transition, Wait
from rescheduler.migrations.runtime_state import RuntimeState
from rescheduler.migrations.state_machine import advance, decide
from rescheduler.migrations.transition_table import MigrationStep, Trigger
from tests.unit.migrations.observations import LATER, NOW, copy, migration, node, observation, pod

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

    def test_can_be_shortened_by_the_recorder_and_not_extended(self):
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
        assert (ended.trigger, ended.failure, ended.final) == (Trigger.REFUSED, DEADLINE_EXCEEDED, True)
        assert advance(late, ended).is_finished

    def test_rolls_a_running_move_back_for_good(self):
        moving = on_eviction(MigrationStep.STARTING, target="new")
        late = observation(moving, policy=POLICY, target=copy(ready=False), now=moving.created + DEADLINE)
        ended = decide(late)
        assert isinstance(ended, Transition)
        assert (ended.trigger, ended.failure, ended.final) == (Trigger.TIMED_OUT, DEADLINE_EXCEEDED, True)

    def test_limits_the_time_of_an_attempt(self):
        moving = on_eviction(MigrationStep.STARTING, target="new")
        seen = observation(moving, policy=POLICY)
        assert time_left(seen) == moving.created + DEADLINE - LATER


def failed(**more):
    moving = on_eviction(MigrationStep.FAILED)
    status = msgspec.structs.replace(moving.status, finished_at=LATER, failure_is_final=True)
    return observation(msgspec.structs.replace(moving, status=status, finalizers=()), **more)


class TestTheRecordOfAFailure:
    def test_is_kept_for_an_hour_as_it_lets_evictions_of_the_pod_pass(self):
        """There is one PodMigration per pod: with this one, the next drain would not move the pod."""
        hour = timedelta(hours=1)
        assert decide(failed(source=pod())) == Wait(LATER + hour)
        removed = decide(failed(source=pod(), now=LATER + hour))
        assert isinstance(removed, Perform)
        assert isinstance(removed.effect, DeleteMigration)

    def test_is_kept_longer_if_the_pod_is_gone_or_must_rest(self):
        assert decide(failed(source=None)) == Wait(LATER + Policy().migration_ttl)
        policy = Policy(pod_cooldown=timedelta(hours=3))
        assert decide(failed(source=pod(), policy=policy)) == Wait(LATER + timedelta(hours=3))

    def test_is_not_kept_longer_than_any_other(self):
        policy = Policy(migration_ttl=timedelta(minutes=40))
        assert decide(failed(source=pod(), policy=policy)) == Wait(LATER + timedelta(minutes=40))


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
        assert bound.trigger is Trigger.COPY_BOUND
        assert advance(seen, bound).target_node == "third"

    def test_the_source_node_is_not(self):
        seen = observation(on_eviction(MigrationStep.PLACING), target=copy(node="old", ready=False))
        decision = decide(seen)
        assert isinstance(decision, Transition)
        assert decision.trigger is Trigger.COPY_MISPLACED


def on_karpenters_node(step, *, annotations=None, **more):
    """The observation of a move from a node that Karpenter manages."""
    nodes = {"old": msgspec.structs.replace(node("old"), labels={KARPENTER_NODE_POOL_LABEL: "default"})}
    source = pod(marked=True, started_s=int(NOW.timestamp()) - 3600, annotations=annotations or {})
    moving = on_eviction(step, target="new" if step is MigrationStep.STARTING else "")
    return observation(moving, policy=POLICY, source=source, nodes=nodes | {"new": node("new")}, **more)


class TestKarpenter:
    @pytest.mark.parametrize(
        ("step", "target"),
        [
            pytest.param(MigrationStep.STARTING, copy(ready=False), id="the copy is bound"),
            pytest.param(MigrationStep.PLACING, copy(node="", ready=False), id="the copy is Pending"),
        ],
    )
    def test_leaves_the_source_to_us_once(self, step, target):
        """It would count source and copy, and launch one node too many. The annotation expires at the end of
        the move: an hour since the start of the pod, and ten minutes less the one that has passed."""
        decision = decide(on_karpenters_node(step, target=target))
        assert isinstance(decision, Perform)
        assert decision.effect == ProtectSource(PodReference("web-1-a", "source-uid"), "7", 3600 + 540)
        added = {"karpenter.sh/do-not-disrupt": "4140s"}
        assert isinstance(decide(on_karpenters_node(step, target=target, annotations=added)), Wait)

    def test_gets_no_annotation_before_the_scheduler_knows_the_copy(self):
        """Else it would provide room for neither."""
        decision = decide(
            on_karpenters_node(MigrationStep.PLACING, target=copy(node="", gated=True, ready=False))
        )
        assert isinstance(decision, Perform)
        assert isinstance(decision.effect, RemoveSchedulingGate)

    def test_gets_no_annotation_about_pods_on_other_nodes(self):
        seen = observation(on_eviction(MigrationStep.STARTING, target="new"), target=copy(ready=False))
        assert isinstance(decide(seen), Wait)

    def test_gets_the_source_back_with_a_rollback_if_the_annotation_is_ours(self):
        name = "karpenter.sh/do-not-disrupt"
        ours = {name: "10s", DO_NOT_DISRUPT_ADDED_ANNOTATION: "true"}
        assert name in metadata_to_remove(pod(annotations=ours))[1]
        assert name not in metadata_to_remove(pod(annotations={name: "10s"}))[1]


class TestTheStart:
    def test_ignores_windows(self):
        state = RuntimeState(Policy(windows=(CLOSED,)))
        assert not state.may_start(migration(), NOW)
        assert state.may_start(on_eviction(), NOW)

    def test_comes_before_balancing(self):
        assert traits_of(EVICTION).urgent

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

    def test_is_raised_so_that_it_ends_before_karpenter_removes_the_node(self):
        drain = [on_eviction(name=f"move-{number}") for number in range(6)]
        now = drain[0].created
        assert raised_node_limits(drain, POLICY, now) == {"old": 1}
        soon = {"old": now + timedelta(minutes=2), "new": now}
        assert raised_node_limits(drain, POLICY, now, soon) == {"old": 3}

    def test_is_not_raised_because_a_pods_owner_wants_less_time(self):
        """Who may annotate a namespace must not have more pods leave a node at once than the operator
        allows."""
        start = on_eviction().created
        drain = [on_eviction(name=f"move-{number}", deadline=start) for number in range(10)]
        assert raised_node_limits(drain, POLICY, start) == {"old": 1}

    def test_is_not_raised_for_other_moves(self):
        assert raised_node_limits([migration()], POLICY, NOW) == {}
