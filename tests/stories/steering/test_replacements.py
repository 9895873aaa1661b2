"""A pod that is evicted to be moved is made anew where it should be, whatever its own wishes are."""

import pytest

from rescheduler.kube.api_resources import REPLICA_SETS
from tests.stories import objects
from tests.stories.migrations.workloads import stateful_set
from tests.stories.stage import node_of
from tests.stories.steering.steered import SetSteered

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

pytestmark = pytest.mark.real_time


async def test_stateful_set_pod(set_steered: SetSteered) -> None:
    """It is created again on the target, and no other pod is touched."""
    steered = await set_steered(nodes=4)
    await stateful_set(steered.stage, 2)
    first, source = sorted(await steered.stage.pods(), key=lambda pod: pod["metadata"]["name"])
    target = await steered.stage.free_node()
    async with steered.serving(), steered.moving(source, to=target):
        other = await steered.evict(first, 2)
        replacement = await steered.evict(source, 2)
    assert replacement["metadata"]["name"] == "web-1"
    assert node_of(replacement) == target != node_of(source)
    steered.must_avoid(replacement, node_of(source))
    steered.must_avoid(other)


async def test_a_replica_set_s_pod_is_replaced_on_the_target(set_steered: SetSteered) -> None:
    steered = await set_steered(nodes=4)
    await steered.stage.deployment(2)
    source = (await steered.stage.pods())[0]
    target = await steered.stage.free_node()
    async with steered.serving(), steered.moving(source, to=target):
        replacement = await steered.evict(source, 2)
    assert node_of(replacement) == target
    steered.must_avoid(replacement, node_of(source))


async def test_source_is_the_emptiest_node(set_steered: SetSteered) -> None:
    """The replacement does not come back.

    The scheduler would put it back: its node is the only one that is empty.
    """
    steered = await set_steered(nodes=2)
    stage = steered.stage
    await stage.deployment(1)
    (source,) = await stage.pods()
    other = next(node for node in stage.nodes if node != node_of(source))
    busy = objects.pod_spec(stage.kubelet.name, cpu="1", nodeName=other)
    await stage.client.create(REPLICA_SETS, objects.replica_set(stage.namespace, "busy", 2, busy))
    await stage.until_ready(2, app="busy")
    async with steered.serving(), steered.moving(source):
        replacement = await steered.evict(source, 1)
    assert node_of(replacement) == other


async def test_alternatives_that_its_owner_requires_keep_their_meaning(set_steered: SetSteered) -> None:
    """It may be on two nodes only: one it leaves, and a third is preferred in vain."""
    steered = await set_steered(nodes=3)
    stage = steered.stage
    source_node, other, forbidden = stage.nodes
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [source_node]}]},
        {"matchExpressions": [{"key": objects.HOSTNAME, "operator": "In", "values": [source_node, other]}]},
    ]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    await stage.cordon(other)
    await stage.deployment(1, pod={"affinity": affinity})
    await stage.cordon(other, on=False)
    (source,) = await stage.pods()
    async with steered.serving(), steered.moving(source, to=forbidden):
        replacement = await steered.evict(source, 1)
    assert node_of(source) == source_node
    assert node_of(replacement) == other


async def test_several_nodes_are_kept_away_from_at_once(set_steered: SetSteered) -> None:
    """Both pods are moved: neither replacement may come to where the other was."""
    steered = await set_steered(nodes=3)
    stage = steered.stage
    await stage.deployment(2)
    first, second = await stage.pods()
    free = await stage.free_node()
    assert len({node_of(first), node_of(second), free}) == 3
    async with steered.serving(), steered.moving(first, second):
        replacements = [await steered.evict(each, 2) for each in (first, second)]
    assert {node_of(each) for each in replacements} == {free}
    for each in replacements:
        steered.must_avoid(each, node_of(first), node_of(second))


async def test_when_nobody_serves_any_more_pods_are_made_and_placed_as_usual(set_steered: SetSteered) -> None:
    """It is registered and gone: it is asked in vain, and all goes on."""
    steered = await set_steered(nodes=2)
    await steered.stage.deployment(1)
    (source,) = await steered.stage.pods()
    async with steered.serving(), steered.probing():
        pass
    replacement = await steered.evict(source, 1)
    assert node_of(replacement)
    steered.must_avoid(replacement)
