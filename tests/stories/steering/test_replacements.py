"""The replacement of an evicted pod is created on the target node, whatever its own preferences are."""

import pytest

from rescheduler.kube.api_resources import REPLICA_SETS
from tests.stories import objects
from tests.stories.migrations.workloads import stateful_set
from tests.stories.sandbox import node_of
from tests.stories.steering.steered import MakeSteered

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

pytestmark = pytest.mark.real_time


async def test_stateful_set_pod(make_steered: MakeSteered) -> None:
    """It is created again on the target, and no other pod is touched."""
    steered = await make_steered(nodes=4)
    await stateful_set(steered.sandbox, 2)
    first, source = sorted(await steered.sandbox.pods(), key=lambda pod: pod["metadata"]["name"])
    target = await steered.sandbox.free_node()
    async with steered.serving(), steered.moving(source, to=target):
        other = await steered.evict(first, 2)
        replacement = await steered.evict(source, 2)
    assert replacement["metadata"]["name"] == "web-1"
    assert node_of(replacement) == target != node_of(source)
    steered.must_avoid(replacement, node_of(source))
    steered.must_avoid(other)


async def test_a_replica_set_s_pod_is_replaced_on_the_target(make_steered: MakeSteered) -> None:
    steered = await make_steered(nodes=4)
    await steered.sandbox.deployment(2)
    source = (await steered.sandbox.pods())[0]
    target = await steered.sandbox.free_node()
    async with steered.serving(), steered.moving(source, to=target):
        replacement = await steered.evict(source, 2)
    assert node_of(replacement) == target
    steered.must_avoid(replacement, node_of(source))


@pytest.mark.full
async def test_source_is_the_emptiest_node(make_steered: MakeSteered) -> None:
    """The replacement does not come back.

    The scheduler would put it back: its node is the only one that is empty.
    """
    steered = await make_steered(nodes=2)
    sandbox = steered.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    other = next(node for node in sandbox.nodes if node != node_of(source))
    busy = objects.pod_spec(sandbox.kubelet.name, cpu="1", nodeName=other)
    await sandbox.client.create(REPLICA_SETS, objects.replica_set(sandbox.namespace, "busy", 2, busy))
    await sandbox.until_ready(2, app="busy")
    async with steered.serving(), steered.moving(source):
        replacement = await steered.evict(source, 1)
    assert node_of(replacement) == other


@pytest.mark.full
async def test_alternatives_that_its_owner_requires_keep_their_meaning(make_steered: MakeSteered) -> None:
    """It may be on two nodes only: one it leaves, and preferring a third has no effect."""
    steered = await make_steered(nodes=3)
    sandbox = steered.sandbox
    source_node, other, forbidden = sandbox.nodes
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [source_node]}]},
        {"matchExpressions": [{"key": objects.HOSTNAME, "operator": "In", "values": [source_node, other]}]},
    ]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    await sandbox.cordon(other)
    await sandbox.deployment(1, pod={"affinity": affinity})
    await sandbox.cordon(other, on=False)
    (source,) = await sandbox.pods()
    async with steered.serving(), steered.moving(source, to=forbidden):
        replacement = await steered.evict(source, 1)
    assert node_of(source) == source_node
    assert node_of(replacement) == other


@pytest.mark.full
async def test_several_nodes_are_kept_away_from_at_once(make_steered: MakeSteered) -> None:
    """Both pods are moved: neither replacement may come to where the other was."""
    steered = await make_steered(nodes=3)
    sandbox = steered.sandbox
    await sandbox.deployment(2)
    first, second = await sandbox.pods()
    free = await sandbox.free_node()
    assert len({node_of(first), node_of(second), free}) == 3
    async with steered.serving(), steered.moving(first, second):
        replacements = [await steered.evict(each, 2) for each in (first, second)]
    assert {node_of(each) for each in replacements} == {free}
    for each in replacements:
        steered.must_avoid(each, node_of(first), node_of(second))


async def test_without_a_webhook_pods_are_created_and_scheduled_as_usual(
    make_steered: MakeSteered,
) -> None:
    """It is registered but gone: calls to it fail, and everything continues."""
    steered = await make_steered(nodes=2)
    await steered.sandbox.deployment(1)
    (source,) = await steered.sandbox.pods()
    async with steered.serving(), steered.probing():
        pass
    replacement = await steered.evict(source, 1)
    assert node_of(replacement)
    steered.must_avoid(replacement)
