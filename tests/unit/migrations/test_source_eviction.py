"""Before the source pod is evicted: the request is recorded, and no pod is preempted."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from rescheduler.api.podmigration import Handover
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_constraints import SchedulingConstraints, Toleration
from rescheduler.cluster.pod_record import PodCondition
from rescheduler.migrations import effects
from rescheduler.migrations.observation import Perform, Transition, Wait
from rescheduler.migrations.source_eviction import depends_on_webhook, evicting, with_eviction_requested
from rescheduler.migrations.state_machine import advance, decide
from rescheduler.migrations.transition_table import MigrationStep
from tests.unit.migrations.observations import (
    LATER,
    NOW,
    copy,
    migration,
    node,
    observation,
    pod,
    replica_set,
)

VICTIMS = "shop/db-0 on n3"


def at_eviction(**more):
    return observation(migration(MigrationStep.EVICTING), source=pod(marked=True), target=copy(), **more)


@pytest.mark.parametrize(
    ("after_s", "effect"),
    [
        pytest.param(0, effects.EvictSource, id="in a quiet move, that of the step will do"),
        pytest.param(8, effects.EvictSource, id="eight seconds later, if the API server is slow, too"),
        pytest.param(9, effects.RecordEviction, id="after waiting for a budget, it is recorded again"),
        pytest.param(-1, effects.RecordEviction, id="nor does one count that is still to come"),
    ],
)
def test_the_time_of_the_request_is_on_record(after_s, effect):
    decision = decide(at_eviction(now=LATER + timedelta(seconds=after_s)))
    assert isinstance(decision, Perform)
    assert type(decision.effect) is effect


def test_what_is_recorded_suffices():
    late = at_eviction(now=NOW + timedelta(minutes=5))
    again = decide(replace(late, migration=with_eviction_requested(late)))
    assert isinstance(again, Perform)
    assert type(again.effect) is effects.EvictSource


def test_what_could_preempt_others_is_not_evicted_without_a_guard():
    assert depends_on_webhook(at_eviction(may_preempt=VICTIMS))
    assert not depends_on_webhook(at_eviction())
    seen = evicting(
        observation(
            migration(MigrationStep.EVICTING),
            source=pod(),
            target=copy(),
            may_preempt=VICTIMS,
            webhook_problem="it is dead",
        )
    )
    assert isinstance(seen, Transition)
    assert seen.failure == "SurplusWouldPreempt"
    assert VICTIMS in seen.message
    assert "it is dead" in seen.message


def test_a_guard_that_others_depend_on_is_given_time_to_hear_of_it():
    waits = decide(at_eviction(may_preempt=VICTIMS, is_guarded=True))
    assert isinstance(waits, Wait)
    assert waits.until == LATER + timedelta(milliseconds=500)
    decision = decide(at_eviction(may_preempt=VICTIMS, is_guarded=True, now=LATER + timedelta(seconds=1)))
    assert isinstance(decision, Perform)
    assert type(decision.effect) is effects.EvictSource


def test_a_copy_whose_room_was_taken_is_not_let_loose_on_the_scheduler():
    held = copy(node="", gated=True, nominated_node="new")
    seen = decide(observation(migration(MigrationStep.PLACING), target=held, may_preempt=VICTIMS))
    assert isinstance(seen, Transition)
    assert seen.failure == "TargetDidNotFit"
    assert VICTIMS in seen.message


def test_a_pod_that_tolerates_a_cordon_is_not_evicted_from_a_cordoned_node_unsteered():
    shape = msgspec.structs.replace(
        pod().shape, constraints=SchedulingConstraints(tolerations=(Toleration(operator="Exists"),))
    )
    tolerant = msgspec.structs.replace(pod(), shape=shape)
    cordoned = {"old": NodeRecord("old", unschedulable=True), "new": node("new")}
    moving = migration(MigrationStep.EVICTING, Handover.EVICT)
    seen = evicting(
        observation(moving, source=tolerant, nodes=cordoned, webhook_problem="it does not answer")
    )
    assert isinstance(seen, Transition)
    assert seen.failure == "Unsteered"
    assert "it does not answer" in seen.message


@pytest.mark.parametrize(
    ("after_s", "waits"),
    [
        pytest.param(4, True, id="right after a refusal it waits"),
        pytest.param(29, True, id="until the ReplicaSet had time to create what it needs"),
        pytest.param(30, False, id="then it is put on record again"),
    ],
)
def test_a_refused_eviction_that_depends_on_the_guard_waits_until_it_guards_again(after_s, waits):
    decision = decide(
        at_eviction(may_preempt=VICTIMS, is_guarded=True, now=LATER + timedelta(seconds=after_s))
    )
    assert isinstance(decision, Wait) is waits
    if not waits:
        assert type(decision.effect) is effects.RecordEviction


@pytest.mark.parametrize("handover", [Handover.ADOPT, Handover.COPY])
@pytest.mark.parametrize(
    ("min_ready_s", "ready_for_s", "evicts"),
    [
        pytest.param(0, 10, False, id="within settleTime"),
        pytest.param(0, 11, True, id="after settleTime"),
        pytest.param(60, 60, False, id="within minReadySeconds"),
        pytest.param(60, 61, True, id="after minReadySeconds"),
    ],
)
def test_a_copy_that_was_not_ready_meanwhile_settles_again(handover, min_ready_s, ready_for_s, evicts):
    """The eviction waited for its budget, and the copy was not ready in between: the budget counts it as soon
    as it is ready, load balancers and the Deployment do not."""
    ready_at = LATER + timedelta(seconds=20)
    conditions = (PodCondition("Ready", "True", since_s=int(ready_at.timestamp())),)
    now = ready_at + timedelta(seconds=ready_for_s)
    owner = None if handover is Handover.COPY else replica_set(min_ready_s=min_ready_s)
    bare, owners = ({"owner": None}, {"owners": ()}) if owner is None else ({}, {})
    moving = migration(MigrationStep.EVICTING, handover, status={"eviction_requested_at": now}, **bare)
    serving = msgspec.structs.replace(copy(), conditions=conditions)
    decision = decide(
        observation(moving, source=pod(marked=True, **owners), target=serving, owner=owner, now=now)
    )
    if evicts or (handover is Handover.COPY and ready_for_s > 10):
        assert isinstance(decision, Perform)
        assert type(decision.effect) is effects.EvictSource
    else:
        assert isinstance(decision, Wait)
        rest = max(min_ready_s if owner is not None else 0, 10)
        assert decision.until == ready_at + timedelta(seconds=rest + 1)


def test_the_source_left_after_the_eviction_was_requested_at_the_earliest():
    """It may have waited long for its budget, and is gone before its deletion was observed."""
    requested_at = LATER + timedelta(minutes=5)
    moving = migration(MigrationStep.EVICTING, status={"eviction_requested_at": requested_at})
    seen = observation(moving, source=None, target=copy(), now=requested_at + timedelta(seconds=1))
    decision = decide(seen)
    assert isinstance(decision, Transition)
    assert advance(seen, decision).status.handed_over_at == requested_at


@pytest.mark.parametrize("is_terminating", [True, False], ids=["terminating", "disrupted"])
def test_the_source_left_when_it_was_last_seen_to_leave(is_terminating):
    """The answer to the eviction was lost, and the source was gone when the migration was observed again."""
    requested_at, left_at = LATER, LATER + timedelta(seconds=9)
    left_s = int(left_at.timestamp())
    disrupted = PodCondition("DisruptionTarget", "True", "EvictionByEvictionAPI", since_s=left_s)
    leaving = msgspec.structs.replace(
        pod(marked=True),
        conditions=(disrupted,),
        deleted_s=left_s + 30 if is_terminating else None,
        deletion_grace_s=30 if is_terminating else None,
    )
    moving = migration(MigrationStep.EVICTING, status={"eviction_requested_at": requested_at})
    seen = observation(
        moving, source=None, last_seen_source=leaving, target=copy(), now=left_at + timedelta(minutes=1)
    )
    decision = decide(seen)
    assert isinstance(decision, Transition)
    assert advance(seen, decision).status.handed_over_at == left_at
