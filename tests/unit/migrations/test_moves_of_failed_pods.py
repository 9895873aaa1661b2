"""Moves of failing pods: one target each, and the copy is checked like the source pod."""

import msgspec
import pytest

from rescheduler.api.podmigration import FAILED_PODS, Handover
from rescheduler.cluster.pod_record import ContainerStateWaiting, ContainerStatus
from rescheduler.migrations.observation import Transition, Wait
from rescheduler.migrations.state_machine import decide
from rescheduler.migrations.transition_table import MigrationStep, Trigger
from tests.unit.migrations.observations import NOW, POLICY, copy, migration, observation, pod


def recovering(step, handover=Handover.ADOPT, **more):
    made = migration(step, handover, **more)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, strategy=FAILED_PODS))


def crashing(restarts):
    state = ContainerStateWaiting("CrashLoopBackOff", "back-off")
    return {"container_statuses": (ContainerStatus("main", restart_count=restarts, state=state),)}


@pytest.mark.parametrize("restarts", range(POLICY.failed_pods.restart_threshold))
def test_a_copy_may_crash_a_few_times_like_any_pod(restarts):
    made = copy(ready=False, **crashing(restarts))
    assert isinstance(decide(observation(recovering(MigrationStep.STARTING), target=made)), Wait)


def test_a_copy_that_keeps_crashing_has_failed():
    made = copy(ready=False, **crashing(POLICY.failed_pods.restart_threshold))
    decision = decide(observation(recovering(MigrationStep.STARTING), target=made))
    assert isinstance(decision, Transition)
    assert (decision.trigger, decision.failure) == (Trigger.COPY_FAILING, "CopyFailing")


def test_the_same_target_is_not_tried_again():
    undone = recovering(MigrationStep.ROLLING_BACK, status={"failure": "CopyFailing"})
    decision = decide(observation(undone, source=pod()))
    assert isinstance(decision, Transition)
    assert decision.trigger is Trigger.GIVE_UP


@pytest.mark.parametrize(
    ("restarts", "trigger"),
    [
        pytest.param(1, None, id="is waited for while it may come"),
        pytest.param(5, Trigger.UNREPLACED, id="is not waited for once it keeps failing"),
    ],
)
def test_a_replacement(restarts, trigger):
    moving = recovering(MigrationStep.REPLACING, Handover.EVICT, status={"handed_over_at": NOW})
    replacement = pod("web-1-b", "new-uid", node="new", ready=False, **crashing(restarts))
    decision = decide(observation(moving, source=None, target=replacement))
    assert getattr(decision, "trigger", None) is trigger


def test_a_job_s_replacement_that_is_done_already_was_ready():
    moving = recovering(MigrationStep.REPLACING, Handover.EVICT, status={"handed_over_at": NOW})
    done = pod("web-1-b", "new-uid", node="new", ready=False, phase="Succeeded")
    decision = decide(observation(moving, source=None, target=done))
    assert isinstance(decision, Transition)
    assert decision.trigger is Trigger.REPLACED
