"""Moves of pods that keep failing: one target each, judged by the same measure as the pod that is moved."""

import msgspec
import pytest

from rescheduler.migrations.advance import look
from rescheduler.migrations.scene import Happened, Wait
from rescheduler.migrations.steps import Event, Step
from rescheduler.model.migrations import FAILED_PODS
from rescheduler.model.plan import Handover
from rescheduler.model.pods import ContainerStatus, Waiting
from tests.unit.migrations.scenes import NOW, POLICY, copy, migration, pod, scene


def recovering(step, handover=Handover.ADOPT, **more):
    made = migration(step, handover, **more)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, strategy=FAILED_PODS))


def crashing(restarts):
    state = Waiting("CrashLoopBackOff", "back-off")
    return {"container_statuses": (ContainerStatus("main", restart_count=restarts, state=state),)}


@pytest.mark.parametrize("restarts", range(POLICY.failed_pods.restart_threshold))
def test_a_copy_may_crash_a_few_times_like_any_pod(restarts):
    made = copy(ready=False, **crashing(restarts))
    assert isinstance(look(scene(recovering(Step.STARTING), target=made)), Wait)


def test_a_copy_that_keeps_crashing_has_failed():
    made = copy(ready=False, **crashing(POLICY.failed_pods.restart_threshold))
    sight = look(scene(recovering(Step.STARTING), target=made))
    assert isinstance(sight, Happened)
    assert (sight.event, sight.failure) == (Event.COPY_FAILING, "CopyFailing")


def test_the_same_target_is_not_tried_again():
    undone = recovering(Step.ROLLING_BACK, status={"failure": "CopyFailing"})
    sight = look(scene(undone, source=pod()))
    assert isinstance(sight, Happened)
    assert sight.event is Event.GIVE_UP


@pytest.mark.parametrize(
    ("restarts", "event"),
    [
        pytest.param(1, None, id="is waited for while it may come"),
        pytest.param(5, Event.UNREPLACED, id="is not waited for once it keeps failing"),
    ],
)
def test_a_replacement(restarts, event):
    moving = recovering(Step.REPLACING, Handover.EVICT, status={"handed_over_at": NOW})
    replacement = pod("web-1-b", "new-uid", node="new", ready=False, **crashing(restarts))
    sight = look(scene(moving, source=None, target=replacement))
    assert getattr(sight, "event", None) is event


def test_a_job_s_replacement_that_is_done_already_was_ready():
    moving = recovering(Step.REPLACING, Handover.EVICT, status={"handed_over_at": NOW})
    done = pod("web-1-b", "new-uid", node="new", ready=False, phase="Succeeded")
    sight = look(scene(moving, source=None, target=done))
    assert isinstance(sight, Happened)
    assert sight.event is Event.REPLACED
