"""Nodes that give a signal are emptied at once; what is left at their deadline, and virtual machines, are
evicted without a move."""

import asyncio
import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from kubesim.apiserver.api_messages import object_response
from kubevalues import parse_selector
from rescheduler.api.well_known_names import EMPTY_CONDITION, MAINTENANCE_LABEL
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.config.policy_blocks import EvacuationSignal
from rescheduler.config.profiles import profiled
from rescheduler.kube.api_resources import EVENTS, merge_patch, strategic_patch
from tests.stories.sandbox import node_of

HOUR = timedelta(hours=1)
SPOT = EvacuationSignal(taint="example.com/spot", deadline=timedelta(minutes=2))
TRIGGERED = (
    'admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: '
    'Eviction triggered evacuation of VMI "shop/vm"'
)


async def interrupt(client, node, *, on=True):
    taints = [{"key": "example.com/spot", "effect": "NoSchedule"}] if on else []
    await client.patch(NODES, node, merge_patch({"spec": {"taints": taints}}))


async def names_on(client, node):
    return [
        pod.name for pod in (await client.list(PODS)).items if pod.node == node and not pod.is_terminating
    ]


@pytest.fixture
def reasons(client):
    async def found(node):
        events = (await client.list(EVENTS)).items
        return {each["reason"] for each in events if each["involvedObject"]["name"] == node}

    return found


async def test_a_spot_interruption_moves_pods_without_waiting_for_the_next_check(
    make_moves, start, client, migrations, eventually, server, reasons
):
    moves = await make_moves(3)
    await moves.sandbox.deployment(2)
    source = node_of((await moves.sandbox.pods())[0])
    running = await start(enabled_strategies=(), evacuate_on=(SPOT,), rescheduling_interval=HOUR)
    await running.until_checked(1)
    began = server.clock.now()
    await interrupt(client, source)

    async def is_empty():
        return not await names_on(client, source)

    await eventually(is_empty, 100)
    assert server.clock.now() - began < SPOT.deadline
    found = await migrations()
    assert {(each.spec.strategy, each.spec.handover) for each in found} == {("Evacuation", "Adopt")}
    assert all(abs(each.spec.deadline - began - SPOT.deadline) < timedelta(seconds=5) for each in found)
    assert (await client.get(NODES, source)).unschedulable
    await eventually(lambda: _has(reasons, source, "MaintenanceEmptying"))


async def _has(reasons, node, reason):
    return reason in await reasons(node)


async def test_a_pod_without_a_target_is_evicted_at_the_deadline_and_not_before(
    make_moves, start, client, eventually, server, reasons
):
    moves = await make_moves(2)
    await moves.sandbox.deployment(1)
    (pod,) = await moves.sandbox.pods()
    source = node_of(pod)
    await moves.sandbox.cordon(*(each for each in moves.sandbox.nodes if each != source))
    await start(enabled_strategies=(), evacuate_on=(SPOT,))
    began = server.clock.now()
    await interrupt(client, source)

    async def is_evicted():
        return not await names_on(client, source)

    await eventually(is_evicted, 300)
    waited = server.clock.now() - began
    assert timedelta(minutes=2) <= waited < timedelta(minutes=2, seconds=40)
    await eventually(lambda: _has(reasons, source, "PodEvicted"))


async def test_a_node_whose_interruption_was_a_false_alarm_keeps_its_pods(
    make_moves, start, client, eventually, reasons
):
    moves = await make_moves(2)
    await moves.sandbox.deployment(1)
    (pod,) = await moves.sandbox.pods()
    source = node_of(pod)
    await moves.sandbox.cordon(*(each for each in moves.sandbox.nodes if each != source))
    running = await start(enabled_strategies=(), evacuate_on=(SPOT,))
    await interrupt(client, source)

    async def is_cordoned():
        return (await client.get(NODES, source)).unschedulable

    await eventually(is_cordoned)
    await interrupt(client, source, on=False)
    await eventually(lambda: _has(reasons, source, "MaintenanceSignalGone"))
    await running.until_checked(len(running.received.checks) + 12)
    assert await names_on(client, source) == [pod["metadata"]["name"]]
    assert not await is_cordoned()


DEADLOCK = EvacuationSignal(condition="KernelDeadlock", deadline=timedelta(minutes=2))


async def deadlock(client, node, *, on=True):
    condition = {"type": "KernelDeadlock", "status": str(on)}
    await client.patch(NODES.status, node, strategic_patch({"status": {"conditions": [condition]}}))


@pytest.mark.parametrize(
    ("signal", "give"),
    [
        pytest.param(SPOT, interrupt, id="a taint", marks=pytest.mark.size),
        pytest.param(DEADLOCK, deadlock, id="a condition"),
    ],
)
async def test_a_signal_that_comes_and_goes_cordons_its_node_once(
    make_moves, start, client, migrations, eventually, signal, give
):
    """While LoadBalancing fills nodes that are in service. First every 2 s, then with enough time between for
    a check that finds no signal."""
    moves = await make_moves(3)
    await moves.sandbox.deployment(4)
    source = node_of((await moves.sandbox.until_ready(4))[0])
    running = await start(
        enabled_strategies=("LoadBalancing",), imbalance_threshold=5.0, evacuate_on=(signal,)
    )
    await running.until_checked(1)
    schedulable = []
    running.daemon.rescheduler.watched.nodes.subscribe(
        lambda _old, new: new and new.name == source and schedulable.append(not new.unschedulable)
    )
    for on_s, off_s, times in ((2, 2, 45), (5, 40, 20)):
        before = len(running.received.checks)
        for _ in range(times):
            await give(client, source)
            await asyncio.sleep(on_s)
            await give(client, source, on=False)
            await asyncio.sleep(off_s)
        minutes = (on_s + off_s) * times / 60
        assert len(running.received.checks) - before < 7 * minutes, "checks don't follow on each other"
    changes = [each for each, _ in itertools.groupby(schedulable)]
    assert changes in ([False], [True, False]), "cordoned once"
    pods = [each.spec.pod.name for each in await migrations() if each.spec.source_node == source]
    assert len(pods) == len(set(pods)) <= 4
    assert not any(each.target_node == source for each in await migrations())
    await eventually(lambda: _is_in_service(client, source), 400)


async def _is_in_service(client, name):
    node = await client.get(NODES, name)
    return not node.unschedulable and node.condition(EMPTY_CONDITION) is None


@pytest.mark.parametrize("pools", [(), ("other", "its-own")], ids=["", "and the node is of another profile"])
async def test_a_node_is_in_service_again_when_no_signals_are_configured_any_more(
    make_moves, start, client, eventually, pools
):
    (node, _) = (await make_moves(2)).sandbox.nodes
    await client.patch(NODES, node, merge_patch({"metadata": {"labels": {"pool": "its-own"}}}))
    first = await start(enabled_strategies=(), evacuate_on=(SPOT,))
    await first.until_checked(1)
    await interrupt(client, node)
    await first.until(lambda: first.daemon.rescheduler.watched.nodes.get(node).unschedulable)
    await first.end()
    second = await start(enabled_strategies=())
    of_pool = [
        replace(second.daemon.runtime.current.policy, node_selector=parse_selector(f"pool={each}"))
        for each in pools
    ]
    if of_pool:
        second.daemon.runtime.update(policy=profiled(of_pool[0], of_pool[1:]))
    await eventually(lambda: _is_in_service(client, node), 500)


async def test_a_budget_holds_at_the_deadline(make_moves, start, client, eventually, server, reasons):
    moves = await make_moves(2)
    await moves.sandbox.deployment(1)
    (pod,) = await moves.sandbox.until_ready(1)
    source = node_of(pod)
    await moves.sandbox.budget(minAvailable=1)
    await moves.sandbox.cordon(*(each for each in moves.sandbox.nodes if each != source))
    await start(enabled_strategies=(), evacuate_on=(SPOT,))
    began = server.clock.now()
    await interrupt(client, source)
    await eventually(lambda: _has(reasons, source, "EvictionRefused"), 300)
    assert server.clock.now() - began >= SPOT.deadline
    assert await names_on(client, source) == [pod["metadata"]["name"]]


@pytest.mark.parametrize("crashes", [False, True], ids=["", "and the daemon crashes"])
async def test_a_signal_that_ends_during_a_move_leaves_nothing_behind(
    make_moves, start, client, migrations, eventually, crashes
):
    """The move goes on: its copy is about to be ready. The node is back in service."""
    moves = await make_moves(2)
    await moves.sandbox.deployment(1)
    (pod,) = await moves.sandbox.until_ready(1)
    source, policy = node_of(pod), {"enabled_strategies": (), "evacuate_on": (SPOT,)}
    running = await start(**policy, settle_time=timedelta(seconds=20))
    await interrupt(client, source)

    async def is_moving():
        return any(each.status.target_pod for each in await migrations())

    await eventually(is_moving)
    await interrupt(client, source, on=False)
    if crashes:
        running.line.is_cut = True
        await start("other", **policy)

    async def is_over():
        is_in_service = await _is_in_service(client, source)
        return is_in_service and all(each.is_finished for each in await migrations())

    await eventually(is_over, 500)
    await moves.sandbox.until_ready(1)
    await moves.until_nothing_left()


async def test_a_virtual_machine_is_left_to_kubevirt_and_counts_as_in_progress(
    make_moves, start, client, server, eventually, reasons, status
):
    moves = await make_moves(2)
    node = moves.sandbox.nodes[0]
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm", "uid": "1"}
    await moves.sandbox.pod(
        "virt-launcher-vm", metadata={"ownerReferences": [{**owner, "controller": True}]}, nodeName=node
    )
    asked = []

    running = await start(enabled_strategies=("NodeMaintenance",))

    async def with_kubevirt(method, target, headers, body):
        if "virt-launcher-vm/eviction" not in target:
            return await server.handle(method, target, headers, body)
        asked.append(target)
        answer = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": 429,
            "message": TRIGGERED,
        }
        return object_response(429, answer, {})

    running.line.handle = with_kubevirt
    await client.patch(NODES, node, merge_patch({"metadata": {"labels": {MAINTENANCE_LABEL: "true"}}}))
    await eventually(lambda: _has(reasons, node, "EvictionInProgress"))
    await eventually(lambda: _asked_again(asked))

    async def reported():
        found = await status()
        return found is not None and found.maintenance

    (state,) = await eventually(reported)
    assert (state.left, state.blocked) == (1, ())
    # KubeVirt has live-migrated the virtual machine.
    running.line.handle = server.handle
    await eventually(lambda: _is_gone(client, node))


async def _asked_again(asked):
    return len(asked) > 2


async def _is_gone(client, node):
    return not await names_on(client, node)
