"""What the scheduler, the kubelets' nodes and the API server do with pods by themselves."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import Object, strategic_patch
from rescheduler.kube.client import Client
from tests.stories.facts import adopt
from tests.stories.fixtures import Cluster
from tests.stories.sandbox import MakeSandbox, node_of
from tests.stories.waiting import until_object
from tests.testbed import Extender
from tests.testbed.ports import free_ports

NOT_READY = "node.kubernetes.io/not-ready"


# -- extenders that fail

Extend = Callable[..., Awaitable[None]]


@pytest.fixture
async def extend(cluster: Cluster) -> AsyncIterator[Extend]:
    """await extend(…): from now on the scheduler asks an extender that does not answer."""

    async def restart(**options: object) -> None:
        (port,) = free_ports(1)
        await cluster.configure_extenders(Extender(f"http://127.0.0.1:{port}", **options))  # type: ignore[arg-type]

    yield restart
    await cluster.configure_extenders()


async def test_while_an_extender_that_filters_fails_nothing_is_scheduled(
    make_sandbox: MakeSandbox, extend: Extend
) -> None:
    sandbox = await make_sandbox(nodes=1)
    await extend(filter_verb="filter", ignorable=False)
    await sandbox.pod("waiting")
    waiting = await until_object(
        sandbox.client, PODS.as_json, sandbox.key("waiting"), lambda pod: pod["status"].get("conditions")
    )
    (condition,) = waiting["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "SchedulerError"
    assert re.fullmatch(
        r'Post "http://127\.0\.0\.1:\d+/filter": dial tcp 127\.0\.0\.1:\d+: connect: connection refused',
        condition["message"],
    )


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"filter_verb": "filter", "ignorable": True}, id="filters but is ignorable"),
        pytest.param({"prioritize_verb": "prioritize", "ignorable": False}, id="only prioritizes"),
    ],
)
async def test_a_failing_extender_does_no_harm_if_it(
    make_sandbox: MakeSandbox, extend: Extend, options: dict[str, object]
) -> None:
    sandbox = await make_sandbox(nodes=1)
    await extend(**options)
    await sandbox.pod("bound")
    await until_object(sandbox.client, PODS.as_json, sandbox.key("bound"), node_of)


# -- labels that no template has


async def test_at_binding_the_pod_gets_the_topology_labels_of_its_node(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=1)
    created = await sandbox.pod("web")
    assert set(created["metadata"]["labels"]) == {"app"}
    bound = await until_object(sandbox.client, PODS.as_json, adopt.key(created), node_of)
    node = await sandbox.client.get(NODES.as_json, node_of(bound))
    for label in ("topology.kubernetes.io/zone", "topology.kubernetes.io/region"):
        assert bound["metadata"]["labels"][label] == node["metadata"]["labels"][label]


# -- new nodes


@pytest.fixture
async def node(client: Client, namespace: str) -> AsyncIterator[Object]:
    """A new node without a kubelet."""
    name = f"node-of-{namespace}"
    yield await client.create(NODES.as_json, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    await client.delete(NODES, name)


def taints(node: Object) -> dict[str, str]:
    return {taint["key"]: taint["effect"] for taint in node["spec"].get("taints") or ()}


async def test_a_new_node_is_tainted_until_it_is_ready(client: Client, node: Object) -> None:
    assert taints(node) == {NOT_READY: "NoSchedule"}
    name = node["metadata"]["name"]
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    await client.patch(NODES.status, name, strategic_patch({"status": {"conditions": [ready]}}))
    await until_object(client, NODES.as_json, name, lambda found: not taints(found))


# -- resize in place


async def test_resized_pod(make_sandbox: MakeSandbox) -> None:
    """The requests of a running pod may change, and its copy has the new ones."""
    sandbox = await make_sandbox(nodes=2)
    await sandbox.deployment(1)
    (before,) = await sandbox.pods()
    container = {"name": "main", "resources": {"requests": {"cpu": "250m"}}}
    resized = await sandbox.client.patch(
        PODS.sub("resize"), adopt.key(before), strategic_patch({"spec": {"containers": [container]}})
    )
    assert resized["metadata"]["uid"] == before["metadata"]["uid"]
    assert resized["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "250m", "memory": "64Mi"}
    handover = await adopt.begin(sandbox.client, adopt.key(before), await sandbox.free_node())
    template = handover.replica_set["spec"]["template"]["spec"]["containers"][0]
    assert template["resources"]["requests"]["cpu"] == "100m"
    copy = await adopt.create_copy(sandbox.client, handover)
    assert copy["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "250m"
    await adopt.finish(sandbox.client, handover)
