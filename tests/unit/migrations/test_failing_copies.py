"""Whether a failing copy is the fault of the pod or of the node: does the source pod run?"""

from datetime import timedelta

import msgspec
import pytest

from rescheduler.api.podmigration import ConditionType
from rescheduler.cluster.pod_record import ContainerStateTerminated, ContainerStateWaiting, ContainerStatus
from rescheduler.migrations.observation import Transition
from rescheduler.migrations.state_machine import advance, decide
from rescheduler.migrations.transition_table import MigrationStep, Trigger
from tests.unit.migrations.observations import NOW, copy, migration, observation, pod

TOO_LATE = NOW + timedelta(hours=1)
CRASHES = (ContainerStatus("main", state=ContainerStateWaiting("CrashLoopBackOff")),)


def crashed(ago, restarts=3):
    """Return the last crash of a pod that runs again."""
    ended = ContainerStateTerminated(exit_code=1, finished_s=int((TOO_LATE - ago).timestamp()))
    return pod(
        marked=True,
        container_statuses=(ContainerStatus("main", restart_count=restarts, last_state=ended),),
    )


@pytest.mark.parametrize(
    ("source", "is_like_source"),
    [
        pytest.param(pod(marked=True), False, id="the pod runs well"),
        pytest.param(pod(marked=True, ready=False), True, id="the pod is not ready either"),
        pytest.param(crashed(timedelta(seconds=5)), True, id="it is ready between two crashes"),
        pytest.param(crashed(timedelta(hours=1)), False, id="it has not crashed for long"),
        pytest.param(crashed(timedelta(seconds=5), restarts=1), False, id="it has crashed once"),
    ],
)
@pytest.mark.parametrize(
    ("containers", "otherwise"),
    [
        pytest.param(CRASHES, "CopyFailing", id="a copy that crashes"),
        pytest.param((), "NotReady", id="a copy that is never ready"),
    ],
)
def test_the_record_says_whether_the_pod_runs_where_it_is(source, is_like_source, containers, otherwise):
    moving = migration(MigrationStep.STARTING)
    if containers:
        begun_lately = msgspec.structs.replace(moving.status, started_at=TOO_LATE)
        moving = msgspec.structs.replace(moving, status=begun_lately)
    target = copy(ready=False, container_statuses=containers)
    seen = observation(moving, source=source, target=target, now=TOO_LATE)
    decision = decide(seen)
    assert isinstance(decision, Transition)
    reported = advance(seen, decision).status.condition(ConditionType.COPY_READY)
    assert (reported.status, reported.reason) == ("False", "FailsLikeSource" if is_like_source else otherwise)


@pytest.mark.parametrize(
    ("reason", "ends"),
    [
        pytest.param("ImageInspectError", True, id="its image can't be inspected"),
        pytest.param("PostStartHookError", True, id="its hook fails"),
        pytest.param("ErrImagePull", False, id="one pull has failed"),
        pytest.param("ContainerCreating", False, id="it is starting"),
    ],
)
def test_a_copy_ends_with_the_errors_that_fail_a_pod(reason, ends):
    containers = (ContainerStatus("main", state=ContainerStateWaiting(reason)),)
    target = copy(ready=False, container_statuses=containers)
    decision = decide(observation(migration(MigrationStep.STARTING), source=pod(marked=True), target=target))
    assert isinstance(decision, Transition) is ends
    if ends:
        assert decision.trigger is Trigger.COPY_FAILING
