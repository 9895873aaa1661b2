"""The conditions of nodes in maintenance, on the simulated API server."""

import asyncio
import contextlib

import pytest

from kubesim import ApiServer
from kubesim.running_cluster import EPOCH
from kubesim.virtual_time import LoopClock
from rescheduler.api.daemon_status import NodeInMaintenance
from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.api.well_known_names import CORDONED_BY_ANNOTATION, EMPTY_CONDITION
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.daemon.status_writer import MaintenanceConditionWriter
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import EventRecorder
from rescheduler.kube.transport import InProcessTransport
from tests.objects import node_object


@pytest.fixture
def server():
    return ApiServer(clock=LoopClock(EPOCH), seed=1)


@pytest.fixture
def writes():
    return []


@pytest.fixture
async def client(server, writes):
    async def counted(method, target, headers, body):
        if method == "PATCH":
            writes.append(target)
        return await server.handle(method, target, headers, body)

    transport = InProcessTransport(counted)
    yield Client(transport)
    await transport.close()


@pytest.fixture
async def reported(server, client, writes):
    """await report(state, …): reports maintenance; returns the conditions of node `old`, and the Events."""
    async with contextlib.AsyncExitStack() as stack:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, podmigration_crd())
        await asyncio.sleep(1)
        await client.create(NODES.as_json, node_object("old"))
        watched = WatchedObjects(client)
        await stack.enter_async_context(watched.running())
        events = EventRecorder(client, server.clock.now)
        writer = MaintenanceConditionWriter(client, watched, events, server.clock.now)
        await stack.enter_async_context(events.running())
        await stack.enter_async_context(writer.running())

        async def report(*states):
            writer.maintenance(states)
            await asyncio.sleep(5)
            conditions = (await client.get(NODES.as_json, "old"))["status"]["conditions"]
            found = [each for each in conditions if each["type"] == EMPTY_CONDITION]
            reasons = [event["reason"] for event in (await client.list(EVENTS)).items]
            return (found[0] if found else None), sorted(reasons), len(writes)

        yield report


async def test_a_node_that_is_empty_says_so(reported):
    condition, reasons, _ = await reported(NodeInMaintenance("old", 0, (), "empty"))
    assert (condition["status"], condition["reason"], condition["message"]) == ("True", "Empty", "empty")
    assert reasons == ["MaintenanceEmpty"]


async def test_what_blocks_a_node_stands_in_its_condition(reported):
    blocked = NodeInMaintenance(
        "old", 1, ("shop/db-0: Unsteered, nothing keeps it off",), "1 pod is still there"
    )
    condition, reasons, _ = await reported(blocked)
    assert (condition["status"], condition["reason"]) == ("False", "Blocked")
    assert "shop/db-0: Unsteered" in condition["message"]
    assert reasons == ["MaintenanceBlocked"]


async def test_what_has_not_changed_is_not_written_again(reported):
    state = NodeInMaintenance("old", 2, (), "2 pods are still there")
    await reported(state)
    _, reasons, writes = await reported(state)
    assert (reasons, writes) == (["MaintenanceEmptying"], 1)


async def test_every_change_of_state_is_an_event_and_every_pod_that_goes_is_none(reported):
    await reported(NodeInMaintenance("old", 2, (), "2 pods are still there"))
    await reported(NodeInMaintenance("old", 1, (), "1 pod is still there"))
    condition, reasons, _ = await reported(NodeInMaintenance("old", 0, (), "empty"))
    assert reasons == ["MaintenanceEmpty", "MaintenanceEmptying"]
    assert condition["status"] == "True"


async def test_with_the_end_of_maintenance_the_condition_goes(reported):
    await reported(NodeInMaintenance("old", 0, (), "empty"))
    condition, _, _ = await reported()
    assert condition is None


async def test_a_node_that_is_gone_does_no_harm(reported):
    condition, _, _ = await reported(NodeInMaintenance("gone", 0, (), "empty"))
    assert condition is None


async def test_the_mark_of_a_cordon_goes_with_the_cordon(reported, client):
    """A mark without its cordon is removed; the mark of an existing cordon stays."""
    mark = {"metadata": {"annotations": {CORDONED_BY_ANNOTATION: "NodeMaintenance"}}}
    await client.patch(NODES, "old", merge_patch({**mark, "spec": {"unschedulable": True}}))
    await reported()
    assert (await client.get(NODES, "old")).annotations == {CORDONED_BY_ANNOTATION: "NodeMaintenance"}
    await client.patch(NODES, "old", merge_patch({"spec": {"unschedulable": None}}))
    await reported()
    assert (await client.get(NODES, "old")).annotations == {}
