"""Whose fault is it that a copy does not run: does the pod itself run where it is?"""

from datetime import timedelta

import msgspec
import pytest

from rescheduler.migrations.advance import advanced, look
from rescheduler.migrations.scene import Happened
from rescheduler.migrations.steps import Step
from rescheduler.model.migrations import ConditionType
from rescheduler.model.pods import ContainerStatus, Terminated, Waiting
from tests.unit.migrations.scenes import NOW, copy, migration, pod, scene

TOO_LATE = NOW + timedelta(hours=1)
CRASHES = (ContainerStatus("main", state=Waiting("CrashLoopBackOff")),)


def crashed(ago, restarts=3):
    """Of a pod that runs again."""
    ended = Terminated(exit_code=1, finished_s=int((TOO_LATE - ago).timestamp()))
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
    moving = migration(Step.STARTING)
    if containers:
        begun_lately = msgspec.structs.replace(moving.status, started_at=TOO_LATE)
        moving = msgspec.structs.replace(moving, status=begun_lately)
    target = copy(ready=False, container_statuses=containers)
    seen = scene(moving, source=source, target=target, now=TOO_LATE)
    sight = look(seen)
    assert isinstance(sight, Happened)
    told = advanced(seen, sight).status.condition(ConditionType.COPY_READY)
    assert (told.status, told.reason) == ("False", "FailsLikeSource" if is_like_source else otherwise)
