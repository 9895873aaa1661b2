"""Evict: which pod is the replacement, and what happens if it could not be steered."""

from datetime import timedelta

import msgspec
import pytest

from rescheduler.api.podmigration import (
    MAX_SIBLINGS,
    ConditionType,
    Handover,
    MigrationCondition,
    PodReference,
)
from rescheduler.api.well_known_names import STEERED_BY_ANNOTATION
from rescheduler.cluster.pod_record import PodCondition
from rescheduler.config.policy import Policy
from rescheduler.migrations import effects
from rescheduler.migrations.labels_and_names import recorded_siblings, replacement_of
from rescheduler.migrations.observation import Perform, Transition, Wait
from rescheduler.migrations.state_machine import advance, decide
from rescheduler.migrations.transition_table import MigrationStep, Trigger
from tests.unit.migrations.observations import NOW, migration, observation, pod, replica_set

NOW_S = int(NOW.timestamp())
EVICTED = migration(
    MigrationStep.REPLACING,
    Handover.EVICT,
    status={"handed_over_at": NOW, "siblings": ("uid-old", "uid-older")},
)
WITHDRAWN = MigrationCondition(ConditionType.STEERED, "False", NOW + timedelta(minutes=2), "Withdrawn")


def made(name, after_s=1, **more):
    return pod(name, f"uid-{name}", node="", ready=False, created_s=NOW_S + after_s, **more)


def unschedulable(since_s=1, created_s=1, steered=True):
    reported = PodCondition("PodScheduled", "False", "Unschedulable", since_s=NOW_S + since_s)
    marks = {STEERED_BY_ANNOTATION: "move"} if steered else {}
    return made("web-1-r", created_s, conditions=(reported,), annotations=marks)


# -- which it is


@pytest.mark.parametrize(
    ("pods", "found"),
    [
        pytest.param([made("old"), made("b")], "b", id="what was there before is none, also if as old"),
        pytest.param([made("older", 9), made("b", -9)], "b", id="new is new, whatever the clocks say"),
        pytest.param([made("a", -3), made("b", 3)], "b", id="rather one that came after than before"),
        pytest.param([made("a", 5), made("b", 3)], "b", id="the first that came after"),
        pytest.param([made("a", 2), made("web-1-a", 9)], "web-1-a", id="of a StatefulSet: the namesake"),
        pytest.param(
            [made("a", 2), made("b", 3, annotations={STEERED_BY_ANNOTATION: "move"})],
            "b",
            id="the steered one",
        ),
        pytest.param(
            [made("a", 2, annotations={STEERED_BY_ANNOTATION: "other"}), made("b", 3)],
            "b",
            id="not another's",
        ),
        pytest.param([made("taken", 2)], None, id="not one that another migration has"),
        pytest.param([pod(created_s=NOW_S + 9)], None, id="never the source itself"),
    ],
)  # fmt: skip
def test_the_replacement_is(pods, found):
    chosen = replacement_of(EVICTED, pods, {"uid-taken"})
    assert (None if chosen is None else chosen.name) == found


def test_of_a_large_workload_the_older_pods_are_known_by_their_age():
    crowd = [made(f"p{number}", -number) for number in range(3 * MAX_SIBLINGS)]
    recorded = recorded_siblings(crowd)
    assert len(recorded) == MAX_SIBLINGS
    status = msgspec.structs.replace(EVICTED.status, siblings=recorded)
    moving = msgspec.structs.replace(EVICTED, status=status)
    assert replacement_of(moving, crowd, ()) is None
    assert replacement_of(moving, [*crowd, made("b", -1)], ()).name == "b"
    assert replacement_of(moving, [*crowd[MAX_SIBLINGS:], made("b", 1)], ()).name == "b", "all of them gone"


def test_who_was_there_is_on_record_before_the_eviction_and_what_came_with_it_is_not():
    before, new = made("a"), made("b")
    protected = observation(migration(MigrationStep.PROTECTING, Handover.EVICT), siblings=(before,))
    recorded = advance(protected, Transition(Trigger.PROTECTED))
    assert recorded.status.siblings == ("uid-a",)
    accepted = observation(recorded, siblings=(before, made("c")))
    assert advance(accepted, Transition(Trigger.SOURCE_LEFT)).status.siblings == ("uid-a", "uid-c")
    seen_later = observation(recorded, source=None, siblings=(before, new))
    assert advance(seen_later, Transition(Trigger.SOURCE_LEFT)).status.siblings == ("uid-a",)


def test_the_webhook_is_given_a_moment_to_observe_it_before_the_eviction():
    def seen(seconds, *, steered):
        moving = migration(MigrationStep.PROTECTING, Handover.EVICT)
        now = NOW + timedelta(seconds=seconds)
        return decide(observation(moving, owner=replica_set(replicas=1), is_steered=steered, now=now))

    assert seen(0.5, steered=True).until == NOW + timedelta(seconds=1)
    assert seen(1, steered=True).trigger is Trigger.PROTECTED
    assert seen(0.5, steered=False).trigger is Trigger.PROTECTED


# -- what becomes of it


def at(seconds, **more):
    return decide(observation(EVICTED, source=None, now=NOW + timedelta(seconds=seconds), **more))


def test_one_that_finds_no_place_is_given_a_while_and_then_the_intent_is_withdrawn():
    assert at(30, target=unschedulable()).until == NOW + timedelta(seconds=61)
    assert at(61, target=unschedulable()) == Perform(effects.WithdrawSteering())


def test_one_that_an_extender_steers_has_no_mark_and_is_not_left_waiting_either():
    by_extender = Policy(scheduler_extender=True)
    assert at(61, target=unschedulable(steered=False), policy=by_extender) == Perform(
        effects.WithdrawSteering()
    )


def test_an_unsteerable_replacement_is_removed():
    """A pod that was created later, or was not steered, is never removed."""
    status = msgspec.structs.replace(EVICTED.status, conditions=(WITHDRAWN,))
    moving = msgspec.structs.replace(EVICTED, status=status)

    def seen(target):
        return decide(observation(moving, source=None, now=NOW + timedelta(minutes=3), target=target))

    assert isinstance(seen(unschedulable()).effect, effects.DeleteReplacement)
    assert isinstance(seen(unschedulable(since_s=150, created_s=150)), Wait)
    assert isinstance(seen(unschedulable(steered=False)), Wait)


def test_it_is_not_waited_for_for_ever():
    decision = at(600, target=made("slow"))
    assert isinstance(decision, Transition)
    assert decision.trigger is Trigger.UNREPLACED


@pytest.mark.parametrize("ahead", [-900, 900], ids=["ours is behind", "ours is ahead"])
def test_it_is_awaited_for_as_long_as_configured_when_the_clocks_differ(ahead):
    """A source that the API server ended before us left at a time of its clock, and we wait by ours.

    Found by the campaign: a daemon whose clock was ten minutes ahead gave the move up (NotReplaced) in the
    moment in which it saw that the source was gone, and no longer steered the replacement.
    """
    left_at = NOW - timedelta(seconds=ahead)
    status = msgspec.structs.replace(EVICTED.status, handed_over_at=left_at)
    moving = msgspec.structs.replace(EVICTED, status=status)

    def after(seconds):
        moment = NOW + timedelta(seconds=seconds)
        return decide(observation(moving, source=None, now=moment, target=made("slow")))

    assert isinstance(after(599), Wait)
    assert after(600).trigger is Trigger.UNREPLACED


def test_ready_is_ready_wherever_it_is():
    on_target, elsewhere = at(5, target=pod("b", "b", node="new")), at(5, target=pod("b", "b", node="other"))
    assert on_target.trigger is elsewhere.trigger is Trigger.REPLACED
    assert on_target.reports[0].holds
    assert not elsewhere.reports[0].holds


def test_back_on_the_source_is_missed_and_elsewhere_is_not():
    released = {"labels": {"scheduler.alpha.kubernetes.io/migration-status": "completed"}}

    def end(node):
        moving = migration(MigrationStep.RELEASING, Handover.EVICT)
        return decide(observation(moving, source=None, target=pod("b", "b", node=node, **released))).trigger

    assert end("old") is Trigger.MISSED
    assert end("other") is Trigger.RELEASED


# -- whether it comes at all


def scaled(kind="StatefulSet", **more):
    """What is seen after the eviction of `web-1-4`."""
    spec = msgspec.structs.replace(EVICTED.spec, pod=PodReference("web-1-4", "source-uid"))
    moving = msgspec.structs.replace(EVICTED, spec=spec)
    return decide(observation(moving, source=None, owner=replica_set(kind=kind, **more)))


@pytest.mark.parametrize(
    ("owner", "comes"),
    [
        pytest.param({"replicas": 5}, True, id="a StatefulSet that still has that number"),
        pytest.param({"replicas": 4}, False, id="a StatefulSet of fewer pods"),
        pytest.param({"replicas": 3, "first_ordinal": 2}, True, id="one whose first pod is number 2"),
        pytest.param({"replicas": 2, "first_ordinal": 2}, False, id="one of fewer, whose first is number 2"),
        pytest.param({"replicas": 5, "first_ordinal": 5}, False, id="one that now begins after it"),
        pytest.param({"replicas": 1, "kind": "ReplicaSet"}, True, id="a ReplicaSet knows no numbers"),
        pytest.param({"replicas": 0, "kind": "ReplicaSet"}, False, id="a ReplicaSet scaled to nothing"),
        pytest.param({"replicas": 0, "kind": "Job"}, True, id="a Job is not scaled"),
    ],
)
def test_a_replacement_that_is_no_longer_wanted_is_not_waited_for(owner, comes):
    decision = scaled(**owner)
    assert isinstance(decision, Wait) if comes else decision.trigger is Trigger.UNREPLACED


def test_the_end_says_that_it_was_scaled_down():
    moving = migration(MigrationStep.RELEASING, Handover.EVICT)
    decision = decide(observation(moving, source=None, owner=replica_set(replicas=0)))
    assert (decision.trigger, decision.failure) == (Trigger.MISSED, "ScaledDown")
