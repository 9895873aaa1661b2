"""An autoscaler counts every pod that its workload's selector matches, the copy as well."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from rescheduler.kube.api_resources import DEPLOYMENTS, Object, api_resource
from tests.stories.facts import adopt
from tests.stories.sandbox import MakeSandbox, Sandbox
from tests.stories.waiting import until_object

AUTOSCALERS = api_resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
REPLICAS = 2
USED, TARGET = 60, 50
ReportUsage = Callable[[Any], AbstractAsyncContextManager[Any]]


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


async def first_decision(sandbox: Sandbox, serve_usage: ReportUsage) -> int:
    """How many replicas the autoscaler asks for when it looks for the first time."""
    async with serve_usage(sandbox.kubelet):
        await sandbox.client.create(AUTOSCALERS, autoscaler(sandbox.namespace))
        scaled = await until_object(
            sandbox.client,
            DEPLOYMENTS,
            sandbox.key("web"),
            lambda found: found["spec"]["replicas"] != REPLICAS,
        )
        await sandbox.client.delete(AUTOSCALERS, sandbox.key("web"))
    return int(scaled["spec"]["replicas"])


@pytest.mark.parametrize(
    ("with_copy", "wanted"),
    [
        pytest.param(False, 3, id="2 pods at 120 % of the target, so 3"),
        pytest.param(True, 4, id="3 pods at 120 % of the target while there is a copy, so 4"),
    ],
)
async def test_an_autoscaler_wants_replicas_for(
    make_sandbox: MakeSandbox, serve_usage: ReportUsage, with_copy: bool, wanted: int
) -> None:
    sandbox = await make_sandbox(nodes=3)
    sandbox.behave({"usage": {"cpu": f"{USED}%"}})
    await sandbox.deployment(REPLICAS)
    if with_copy:
        source = (await sandbox.pods())[0]
        handover = await adopt.begin(sandbox.client, adopt.key(source), await sandbox.free_node())
        await adopt.bring_up(sandbox.client, handover)
    assert await first_decision(sandbox, serve_usage) == wanted
    if with_copy:
        await adopt.finish(sandbox.client, handover)
