"""A pod that is evicted to be moved is placed where it should be, by a scheduler that asks us."""

from datetime import timedelta

from rescheduler.config.policy import Policy
from rescheduler.kube.resources import REPLICA_SETS
from rescheduler.model.migrations import ConditionType, Phase
from tests.e2e.extender.extended import Extended, SetExtended
from tests.e2e.facts import objects
from tests.e2e.facts.stage import node_of
from tests.e2e.migrations.moving import Moves
from tests.e2e.migrations.workloads import stateful_set


async def test_a_replica_set_s_pod_is_replaced_on_the_target(set_extended: SetExtended) -> None:
    extended = await set_extended(nodes=4)
    await extended.stage.deployment(2)
    source = (await extended.stage.pods())[0]
    target = await extended.stage.free_node()
    async with extended.serving(), extended.moving(source, to=target):
        replacement = await extended.evict(source, 2)
    assert node_of(replacement) == target
    assert "affinity" not in replacement["spec"]
    assert "annotations" not in replacement["metadata"]


async def test_a_stateful_set_pod_is_recreated_on_the_target_and_no_other_is_kept_away(
    set_extended: SetExtended,
) -> None:
    extended = await set_extended(nodes=4)
    await stateful_set(extended.stage, 2)
    _, source = sorted(await extended.stage.pods(), key=lambda pod: pod["metadata"]["name"])
    target = await extended.stage.free_node()
    async with extended.serving(), extended.moving(source, to=target):
        replacement = await extended.evict(source, 2)
    assert replacement["metadata"]["name"] == "web-1"
    assert node_of(replacement) == target


async def test_it_does_not_come_back_even_where_nothing_else_is_to_be_preferred(
    set_extended: SetExtended,
) -> None:
    """The scheduler would put it back: its node is the only one that is empty."""
    extended = await set_extended(nodes=2)
    stage = extended.stage
    await stage.deployment(1)
    (source,) = await stage.pods()
    other = next(node for node in stage.nodes if node != node_of(source))
    busy = objects.pod_spec(stage.kubelet.name, cpu="1", nodeName=other)
    await stage.client.create(REPLICA_SETS, objects.replica_set(stage.namespace, "busy", 2, busy))
    await stage.until_ready(2, app="busy")
    async with extended.serving(), extended.moving(source):
        replacement = await extended.evict(source, 1)
    assert node_of(replacement) == other


async def test_without_the_extender_pods_are_placed_as_usual(set_extended: SetExtended) -> None:
    """It is configured and gone: the scheduler asks in vain and goes on."""
    extended = await set_extended(nodes=2)
    await extended.stage.deployment(1)
    (source,) = await extended.stage.pods()
    async with extended.serving(), extended.probing():
        pass
    replacement = await extended.evict(source, 1)
    assert node_of(replacement)


async def test_several_nodes_are_kept_away_from_at_once(set_extended: SetExtended) -> None:
    extended = await set_extended(nodes=3)
    await extended.stage.deployment(2)
    first, second = await extended.stage.pods()
    free = await extended.stage.free_node()
    async with extended.serving(), extended.moving(first, second):
        replacements = [await extended.evict(each, 2) for each in (first, second)]
    assert {node_of(each) for each in replacements} == {free}


def moves(extended: Extended) -> Moves:
    policy = Policy(
        settle_time=timedelta(seconds=1), steer_timeout=timedelta(seconds=2), scheduler_extender=True
    )
    return Moves(extended.stage, policy=policy)


async def test_a_stateful_set_pod_is_moved_by_eviction_to_the_target_that_was_chosen(
    set_extended: SetExtended,
) -> None:
    extended = await set_extended(nodes=4)
    await stateful_set(extended.stage, 2)
    await extended.stage.budget(minAvailable=1)
    source = (await extended.stage.pods())[-1]
    target = await extended.stage.free_node()
    async with extended.serving(), extended.probing():
        migration = await moves(extended).move(source, target)
        ready = await extended.stage.until_ready(2)
    assert migration.status.phase is Phase.COMPLETED, migration.status
    steering = migration.status.condition(ConditionType.STEERED)
    assert steering is not None
    assert steering.status == "True"
    assert target in map(node_of, ready)


async def test_one_that_finds_no_other_place_is_let_go_back_and_that_is_said(
    set_extended: SetExtended,
) -> None:
    extended = await set_extended(nodes=2)
    stage = extended.stage
    await stateful_set(stage, 1)
    (source,) = await stage.pods()
    other = next(node for node in stage.nodes if node != node_of(source))
    await stage.cordon(other)
    async with extended.serving(), extended.probing():
        migration = await moves(extended).move(source, other)
        (back,) = await stage.until_ready(1)
    assert migration.status.phase is Phase.FAILED, migration.status
    assert node_of(back) == node_of(source)
