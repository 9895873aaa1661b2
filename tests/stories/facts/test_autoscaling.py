"""An autoscaler counts every pod that its workload's selector matches, the copy as well."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from rescheduler.kube.api_resources import DEPLOYMENTS, Object, api_resource
from tests.stories.facts import adopt
from tests.stories.stage import SetStage, Stage
from tests.stories.waiting import until_object

AUTOSCALERS = api_resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
REPLICAS = 2
USED, TARGET = 60, 50
TellUsage = Callable[[Any], AbstractAsyncContextManager[Any]]


def autoscaler(namespace: str) -> Object:
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": TARGET}}
    return {
        "apiVersion": AUTOSCALERS.api_version,
        "kind": AUTOSCALERS.kind,
        "metadata": {"namespace": namespace, "name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": cpu}],
        },
    }


async def first_decision(stage: Stage, tell_usage: TellUsage) -> int:
    """How many replicas the autoscaler asks for when it looks for the first time."""
    async with tell_usage(stage.kubelet):
        await stage.client.create(AUTOSCALERS, autoscaler(stage.namespace))
        scaled = await until_object(
            stage.client,
            DEPLOYMENTS,
            stage.key("web"),
            lambda found: found["spec"]["replicas"] != REPLICAS,
        )
        await stage.client.delete(AUTOSCALERS, stage.key("web"))
    return int(scaled["spec"]["replicas"])


@pytest.mark.parametrize(
    ("with_copy", "wanted"),
    [
        pytest.param(False, 3, id="2 pods at 120 % of the target, so 3"),
        pytest.param(True, 4, id="3 pods at 120 % of the target while there is a copy, so 4"),
    ],
)
async def test_an_autoscaler_wants_replicas_for(
    set_stage: SetStage, tell_usage: TellUsage, with_copy: bool, wanted: int
) -> None:
    stage = await set_stage(nodes=3)
    stage.behave({"usage": {"cpu": f"{USED}%"}})
    await stage.deployment(REPLICAS)
    if with_copy:
        source = (await stage.pods())[0]
        handover = await adopt.begin(stage.client, adopt.key(source), await stage.free_node())
        await adopt.bring_up(stage.client, handover)
    assert await first_decision(stage, tell_usage) == wanted
    if with_copy:
        await adopt.finish(stage.client, handover)
