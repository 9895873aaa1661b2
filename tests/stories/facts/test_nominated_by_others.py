"""What the scheduler does with a pending pod whose node another client has nominated."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import Object, merge_patch
from tests.stories.sandbox import MakeSandbox, Sandbox, node_of
from tests.stories.waiting import until_object


def cpu(amount: int) -> Object:
    resources = {"requests": {"cpu": str(amount)}}
    return {"containers": [{"name": "main", "image": "shop/web:1", "resources": resources}]}


async def until_pod(sandbox: Sandbox, name: str, holds: object) -> Object:
    return await until_object(sandbox.client, PODS.as_json, sandbox.key(name), holds)  # type: ignore[arg-type]


def is_unschedulable(pod: Object) -> bool:
    return any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions") or ())


def nominated(pod: Object) -> str:
    return str(pod["status"].get("nominatedNodeName", ""))


async def nominate(sandbox: Sandbox, name: str, node: str) -> None:
    patch = merge_patch({"status": {"nominatedNodeName": node}})
    await sandbox.client.patch(PODS.as_json.status, sandbox.key(name), patch)


async def test_a_nomination_keeps_the_room_until_a_try_fails(make_sandbox: MakeSandbox) -> None:
    """The node has 8 cores. Other pods of the same priority don't get what the nominated pod will need."""
    sandbox = await make_sandbox(nodes=1)
    (node,) = sandbox.nodes
    for name in ("first", "second"):
        await sandbox.pod(name, **cpu(3))
        await until_pod(sandbox, name, node_of)
    await sandbox.pod("large", **cpu(7))
    await until_pod(sandbox, "large", is_unschedulable)

    await nominate(sandbox, "large", node)
    await sandbox.pod("small", **cpu(1))
    await until_pod(sandbox, "small", is_unschedulable)
    assert nominated(await until_pod(sandbox, "large", bool)) == node, "nothing made the scheduler try again"

    await sandbox.client.delete(PODS, sandbox.key("first"))
    await until_pod(sandbox, "large", lambda pod: not nominated(pod))  # it was tried, in vain

    await sandbox.client.delete(PODS, sandbox.key("small"))
    await nominate(sandbox, "large", node)
    await sandbox.client.delete(PODS, sandbox.key("second"))
    assert node_of(await until_pod(sandbox, "large", node_of)) == node
