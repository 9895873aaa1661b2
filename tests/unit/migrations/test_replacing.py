"""Evict: which pod is the replacement, and what becomes of one that was steered in vain."""

from datetime import timedelta

import msgspec
import pytest

from rescheduler.migrations import effects
from rescheduler.migrations.advance import look
from rescheduler.migrations.replacement import replacement_of
from rescheduler.migrations.scene import Do, Happened, Wait
from rescheduler.migrations.steps import Event, Step
from rescheduler.model.migrations import Condition, ConditionType
from rescheduler.model.plan import Handover
from rescheduler.model.pods import PodCondition
from rescheduler.model.steering import STEERED_BY
from tests.unit.migrations.scenes import NOW, migration, pod, scene

NOW_S = int(NOW.timestamp())
EVICTED = migration(Step.REPLACING, Handover.EVICT, status={"handed_over_at": NOW})
WITHDRAWN = Condition(ConditionType.STEERED, "False", NOW + timedelta(minutes=2), "Withdrawn")


def made(name, after_s=1, **more):
    return pod(name, f"uid-{name}", node="", ready=False, created_s=NOW_S + after_s, **more)


def unschedulable(since_s=1, created_s=1, steered=True):
    told = PodCondition("PodScheduled", "False", "Unschedulable", since_s=NOW_S + since_s)
    marks = {STEERED_BY: "move"} if steered else {}
    return made("web-1-r", created_s, conditions=(told,), marks=marks)


# -- which it is


@pytest.mark.parametrize(
    ("pods", "found"),
    [
        pytest.param([made("a", -10), made("b", 5)], "b", id="what was there before is none"),
        pytest.param([made("a", 5), made("b", 3)], "b", id="the first that came after"),
        pytest.param([made("a", 2), made("web-1-a", 9)], "web-1-a", id="of a StatefulSet: the namesake"),
        pytest.param([made("a", 2), made("b", 3, marks={STEERED_BY: "move"})], "b", id="the steered one"),
        pytest.param([made("a", 2, marks={STEERED_BY: "other"}), made("b", 3)], "b", id="not another's"),
        pytest.param([made("taken", 2)], None, id="not one that another migration has"),
        pytest.param([pod(created_s=NOW_S + 9)], None, id="never the source itself"),
    ],
)  # fmt: skip
def test_the_replacement_is(pods, found):
    chosen = replacement_of(EVICTED, pods, {"uid-taken"})
    assert (None if chosen is None else chosen.name) == found


# -- what becomes of it


def at(seconds, **more):
    return look(scene(EVICTED, source=None, now=NOW + timedelta(seconds=seconds), **more))


def test_one_that_finds_no_place_is_given_a_while_and_then_the_intent_is_withdrawn():
    assert at(30, target=unschedulable()).until == NOW + timedelta(seconds=61)
    assert at(61, target=unschedulable()) == Do(effects.WithdrawSteering())


def test_after_that_it_is_removed_but_never_one_that_was_made_later_or_was_not_steered():
    status = msgspec.structs.replace(EVICTED.status, conditions=(WITHDRAWN,))
    moving = msgspec.structs.replace(EVICTED, status=status)

    def seen(target):
        return look(scene(moving, source=None, now=NOW + timedelta(minutes=3), target=target))

    assert isinstance(seen(unschedulable()).effect, effects.DeleteReplacement)
    assert isinstance(seen(unschedulable(since_s=150, created_s=150)), Wait)
    assert isinstance(seen(unschedulable(steered=False)), Wait)


def test_it_is_not_waited_for_for_ever():
    sight = at(600, target=made("slow"))
    assert isinstance(sight, Happened)
    assert sight.event is Event.UNREPLACED


def test_ready_is_ready_wherever_it_is():
    on_target, elsewhere = at(5, target=pod("b", "b", node="new")), at(5, target=pod("b", "b", node="other"))
    assert on_target.event is elsewhere.event is Event.REPLACED
    assert on_target.reports[0].holds
    assert not elsewhere.reports[0].holds


def test_back_on_the_source_is_missed_and_elsewhere_is_not():
    released = {"labels": {"scheduler.alpha.kubernetes.io/migration-status": "completed"}}

    def end(node):
        moving = migration(Step.RELEASING, Handover.EVICT)
        return look(scene(moving, source=None, target=pod("b", "b", node=node, **released))).event

    assert end("old") is Event.MISSED
    assert end("other") is Event.RELEASED
