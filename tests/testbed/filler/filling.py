"""Write the planned objects: each pod is created on its node, then gets a running status."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from kubesim.behaviour import Behaviour, HostFacts, StatusUpdate, advance, load_behaviour
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import NAMESPACES as NAMESPACE_OBJECTS
from rescheduler.kube.api_resources import REPLICA_SETS, key_of, merge_patch
from rescheduler.kube.client import Client
from tests.testbed.fake_kubelet import NodeShape
from tests.testbed.fake_kubelet.nodes import node_address, node_object
from tests.testbed.filler.contents import NAMESPACES, Workload, pod_object, replica_set_object

__all__ = ["fill", "make_namespaces", "make_nodes", "make_owner", "started_status"]

AT_ONCE = 6
_STARTED: Behaviour = load_behaviour({"pods": [{"startup": "0s"}]})


async def make_namespaces(client: Client) -> None:
    for name in NAMESPACES:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(NAMESPACE_OBJECTS, body)


async def make_nodes(
    client: Client, shapes: Iterable[NodeShape], kubelet: str, at_once: int = AT_ONCE
) -> None:
    async def make(shape: NodeShape) -> None:
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(NODES.as_json, node_object(shape, kubelet, datetime.now(UTC)))

    await _each(shapes, make, at_once)


async def fill(
    client: Client,
    workloads: Iterable[Workload],
    *,
    owners: bool = False,
    at_once: int = AT_ONCE,
    reported: Callable[[int], None] = lambda _made: None,
) -> None:
    """Create every pod of these workloads, with ReplicaSets if `owners`; report the number to `reported`.

    What is there already is left as it is, so a fill that was interrupted can be taken up again.

    With owners the controller manager must not run meanwhile: it would make the missing pods itself.
    """

    async def make(workload: Workload) -> None:
        uid = await make_owner(client, workload) if owners else ""
        for ordinal in range(len(workload.nodes)):
            with contextlib.suppress(errors.AlreadyExists):
                await _make_pod(client, pod_object(workload, ordinal, uid))
            reported(1)

    await _each(workloads, make, at_once)


async def make_owner(client: Client, workload: Workload) -> str:
    try:
        owner = await client.create(REPLICA_SETS, replica_set_object(workload))
    except errors.AlreadyExists:
        owner = await client.get(REPLICA_SETS, key_of(workload.namespace, workload.name))
    return str(owner["metadata"]["uid"])


async def _make_pod(client: Client, wanted: dict[str, Any]) -> None:
    pod = await client.create(PODS.as_json, wanted)
    status = started_status(pod, HostFacts(node_address(pod["spec"]["nodeName"])), datetime.now(UTC))
    key = key_of(pod["metadata"]["namespace"], pod["metadata"]["name"])
    await client.patch(PODS.as_json.status, key, merge_patch({"status": status}))


def started_status(pod: dict[str, Any], host: HostFacts, now: datetime) -> dict[str, Any]:
    """The very status that a fake kubelet would come to: when one takes over, it finds nothing to do."""
    step = advance(pod, _STARTED, now, host)
    assert isinstance(step.action, StatusUpdate)
    return step.action.status


async def _each(items: Iterable[Any], make: Callable[[Any], Any], at_once: int) -> None:
    waiting: Iterator[Any] = iter(items)

    async def work() -> None:
        for item in waiting:  # shared: each takes the next one
            await make(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
