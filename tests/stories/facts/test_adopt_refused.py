"""If creating the copy is refused, the workload is unchanged."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rescheduler.kube import errors
from rescheduler.kube.api_resources import NAMESPACES, ApiResource, Object, merge_patch
from tests.stories.facts import adopt
from tests.stories.facts.admission import policy_refuses, webhook_refuses
from tests.stories.objects import LIMIT_RANGES, RESOURCE_QUOTAS
from tests.stories.observer import observing
from tests.stories.sandbox import MakeSandbox, Sandbox
from tests.stories.waiting import until_object

Eventually = Callable[..., Awaitable[Any]]


async def refused_copy(sandbox: Sandbox) -> errors.KubeError:
    """What the server said, of a copy that it did not create."""
    (source,) = await sandbox.pods()
    handover = await adopt.begin(sandbox.client, adopt.key(source), sandbox.nodes[0])
    async with observing(sandbox.client, sandbox.namespace) as seen:
        with pytest.raises(errors.Permanent) as refused:
            await adopt.create_copy(sandbox.client, handover)
        await adopt.finish(sandbox.client, handover)
    assert seen.created == seen.deleted == []
    assert min(seen.ready) == 1
    return refused.value


def wanted(resource: ApiResource[Object], namespace: str, spec: Object) -> Object:
    metadata = {"namespace": namespace, "name": "limits"}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": spec,
    }


async def test_a_quota_refuses_with_403(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=1)
    await sandbox.deployment(1)
    await sandbox.client.create(
        RESOURCE_QUOTAS, wanted(RESOURCE_QUOTAS, sandbox.namespace, {"hard": {"pods": "1"}})
    )
    await until_object(
        sandbox.client,
        RESOURCE_QUOTAS,
        sandbox.key("limits"),
        lambda quota: quota.get("status", {}).get("used") == {"pods": "1"},
    )
    refused = await refused_copy(sandbox)
    assert refused.code == 403
    assert "exceeded quota: limits, requested: pods=1, used: pods=1, limited: pods=1" in refused.why


@pytest.mark.parametrize(
    ("limit", "code", "why"),
    [
        pytest.param(
            {"min": {"cpu": "200m"}},
            403,
            "minimum cpu usage per Container is 200m",
            id="403 below its minimum",
        ),
        pytest.param(
            {"max": {"cpu": "50m"}},
            422,
            "must be less than or equal to cpu limit of 50m",
            id="422 above its maximum, which also became the limit of a container without one",
        ),
    ],
)
async def test_a_limit_range_refuses_with(
    make_sandbox: MakeSandbox, limit: Object, code: int, why: str
) -> None:
    sandbox = await make_sandbox(nodes=1)
    await sandbox.deployment(1)
    limits = {"limits": [{"type": "Container", **limit}]}
    await sandbox.client.create(LIMIT_RANGES, wanted(LIMIT_RANGES, sandbox.namespace, limits))
    refused = await refused_copy(sandbox)
    assert refused.code == code
    assert why in refused.why


@pytest.mark.control_plane(reason="the simulator has no PodSecurity")
async def test_pod_security_refuses_with_403(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=1)
    await sandbox.deployment(1)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await sandbox.client.patch(NAMESPACES, sandbox.namespace, merge_patch({"metadata": {"labels": labels}}))
    refused = await refused_copy(sandbox)
    assert refused.code == 403
    assert 'violates PodSecurity "restricted:latest"' in refused.why


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(None, 400, id="400 if it names no code"),
        pytest.param(403, 403, id="403 if it says so"),
        pytest.param(422, 422, id="422 if it says so"),
    ],
)
async def test_a_webhook_refuses_with(
    make_sandbox: MakeSandbox, eventually: Eventually, code: int | None, expected: int
) -> None:
    sandbox = await make_sandbox(nodes=1)
    await sandbox.deployment(1)
    async with webhook_refuses(sandbox.client, sandbox.namespace, eventually, code=code):
        refused = await refused_copy(sandbox)
    assert refused.code == expected
    assert 'admission webhook "pods.example.com" denied the request: not today' in refused.why


@pytest.mark.control_plane(reason="the simulator has no admission policies")
async def test_an_admission_policy_refuses_with_422(
    make_sandbox: MakeSandbox, eventually: Eventually
) -> None:
    sandbox = await make_sandbox(nodes=1)
    await sandbox.deployment(1)
    async with policy_refuses(sandbox.client, sandbox.namespace, eventually):
        refused = await refused_copy(sandbox)
    assert refused.code == 422
    assert "not today" in refused.why
