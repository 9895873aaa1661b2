"""One namespace can't use up the moves of other namespaces or of nodes in maintenance."""

import asyncio
import json
from datetime import timedelta

import pytest

from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION, MAINTENANCE_LABEL
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.api_resources import DEPLOYMENTS, EVENTS, merge_patch
from tests.stories.recovery.recovery_sandbox import CRASH
from tests.stories.sandbox import AT_ONCE, node_of

GREEDY = "999999999"


@pytest.fixture
async def greedy(make_recovery):
    """Thirty pods of one namespace crash wherever they are, and ask to be moved forever."""
    recovery = await make_recovery(
        nodes=6, enabled_strategies=("NodeMaintenance",), max_concurrent_per_workload=1
    )
    recovery.sandbox.behave({"match": {"labels": {"crashes": "yes"}, "container": "*"}, **AT_ONCE, **CRASH})
    return recovery


async def crash(recovery, *names, replicas):
    for name in names:
        made = recovery.described("Deployment", retries=GREEDY, name=name, replicas=replicas)
        made["spec"]["template"]["metadata"]["labels"]["crashes"] = "yes"
        await recovery.client.create(DEPLOYMENTS, made)


@pytest.mark.size
async def test_a_node_in_maintenance_is_emptied_while_one_namespace_asks_for_every_move(greedy):
    other = await greedy.in_another_namespace()
    old = greedy.sandbox.nodes[0]
    await other.workload_on(old, "Deployment", retries=None, name="calm", replicas=8)
    await crash(greedy, "a", "b", "c", replicas=10)
    async with greedy.recovering():
        await greedy.until_event("SchedulingRetriesCapped")
        await asyncio.sleep(timedelta(minutes=10).total_seconds())
        await greedy.client.patch(
            NODES, old, merge_patch({"metadata": {"labels": {MAINTENANCE_LABEL: "true"}}})
        )
        async with asyncio.timeout(timedelta(minutes=10).total_seconds()):
            await other.until_pods(
                lambda pods: len(pods) == 8 and old not in set(map(node_of, pods)), name="calm"
            )


async def test_forged_records_make_no_node_suspect_and_are_reported_if_they_are_too_large(greedy):
    good = greedy.sandbox.nodes[0]
    for number in range(4):
        made = await greedy.workload("Deployment", retries="3", name=f"forger-{number}")
        tries = [{"t": "9999-12-31T23:59:59Z", "node": good, "pod": "any"}] * (1 if number else 3500)
        record = {"v": 1, "of": made["metadata"]["uid"], "lines": {"x": {"tries": tries}}}
        mark = {"metadata": {"annotations": {FAILED_ATTEMPTS_ANNOTATION: json.dumps(record)}}}
        await greedy.client.patch(DEPLOYMENTS, f"moves/forger-{number}", merge_patch(mark))
    async with greedy.recovering():
        await greedy.until_event("FailedAttemptsUnreadable")
        await asyncio.sleep(120)
        assert greedy.received.suspect_nodes == ()
    events = (await greedy.client.list(EVENTS)).items
    assert not [each for each in events if each["reason"] == "SuspectNode"]
