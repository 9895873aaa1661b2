"""Changes of the configuration, of nodes and of time, while no new pod fails."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta

from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.config.policy import DefaultRetries
from rescheduler.kube.api_resources import EVENTS
from rescheduler.kube.client import Client
from tests.stories.recovery.program import recovering
from tests.stories.recovery.test_workloads import uid_of
from tests.stories.sandbox import node_of
from tests.unit.recovery.controller.test_steady_state import counting

BY_DEFAULT = (DefaultRetries(namespaces=("moves",), retries=1),)
STUCK = {"blocked": "ContainerCreating"}
"""Such a pod is not reported any more."""


def with_terms(recovery, **terms):
    return replace(recovery.policy, failed_pods=replace(recovery.policy.failed_pods, **terms))


async def until(holds, timeout_s=60):
    """Wait, by default a minute: less than anything else would take to make a difference."""
    async with asyncio.timeout(timeout_s):
        while not holds():  # noqa: ASYNC110 - only asking tells
            await asyncio.sleep(1)


async def failing_for_long(recovery):
    """A DaemonSet's pod on the first node, whose owner says nothing."""
    broken = recovery.sandbox.nodes[0]
    recovery.breaks(broken, **STUCK)
    await recovery.workload("DaemonSet", retries=None)
    pods = await recovery.until_pods(
        lambda pods: pods if len(pods) == 2 and all(map(node_of, pods)) else None
    )
    await asyncio.sleep(180)
    return next(uid_of(pod) for pod in pods if node_of(pod) == broken)


async def test_who_is_asked_about_by_a_new_configuration_is_seen_to_at_once(make_recovery, server):
    recovery = await make_recovery(nodes=2)
    before = await failing_for_long(recovery)
    counted = Counter()
    transport = counting(server, counted)
    try:
        async with recovering(Client(transport), recovery.policy, "moves", recovery.now) as received:
            await asyncio.sleep(120)
            counted.clear()
            received.use(with_terms(recovery, default_retries=BY_DEFAULT))
            await until(lambda: any(call.endswith("/eviction") for call in counted))
            assert not [call for call in counted if call.startswith("GET") and "/pods/" not in call]
            await recovery.until_event("RestartedInPlace")
    finally:
        await transport.close()
    assert before not in map(uid_of, await recovery.pods())


async def test_what_is_no_longer_asked_about_is_no_longer_reported(make_recovery, connect):
    recovery = await make_recovery(nodes=2)
    recovery.with_terms(default_retries=BY_DEFAULT)
    await failing_for_long(recovery)
    async with recovering(connect(), recovery.policy, "moves", recovery.now) as received:
        await until(lambda: [each.message for each in received.failing_pods] == ["no attempts left"], 600)
        received.use(with_terms(recovery, enabled=False))
        await until(lambda: not received.failing_pods)


async def test_a_record_is_kept_as_long_as_the_new_configuration_says(make_recovery, connect):
    recovery = await make_recovery(nodes=2)
    recovery.with_terms(recovery_window=timedelta(days=1))
    recovery.breaks(recovery.sandbox.nodes[0])
    await recovery.workload_on(recovery.sandbox.nodes[0], "Deployment", retries="3")
    async with recovering(connect(), recovery.policy, "moves", recovery.now) as received:
        await recovery.until_well()
        await asyncio.sleep(180)
        assert (await recovery.ledger("Deployment")).lineages
        received.use(with_terms(recovery, recovery_window=timedelta(minutes=1)))
        async with asyncio.timeout(60):
            await recovery.until_forgotten("Deployment")


async def test_a_suspect_node_after_a_restart(make_recovery, connect):
    """The next process knows it for the configured time, and while it exists. Three workloads have left it,
    which is recorded for a day."""
    recovery = await make_recovery(nodes=4)
    other = await recovery.in_another_namespace()
    workloads = ((recovery, "web"), (recovery, "api"), (other, "db"))
    recovery.with_terms(recovery_window=timedelta(days=1), suspect_window=timedelta(minutes=5))
    broken = recovery.sandbox.nodes[0]
    recovery.breaks(broken)
    for tenant, name in workloads:
        await tenant.workload_on(broken, "Deployment", retries="3", name=name)
    async with recovery.recovering():
        for tenant, name in workloads:
            await tenant.until_well(name=name)
    async with recovering(connect(), recovery.policy, "moves", recovery.now) as received:
        await until(lambda: [each.node for each in received.suspect_nodes] == [broken])
        await asyncio.sleep(recovery.policy.failed_pods.suspect_window.total_seconds())
        await until(lambda: not received.suspect_nodes)
        received.use(with_terms(recovery, suspect_window=timedelta(hours=3)))
        await until(lambda: received.suspect_nodes)
        await recovery.client.delete(NODES, broken)
        await until(lambda: not received.suspect_nodes)
    page = await recovery.client.list(EVENTS, namespace="default")
    assert len([each for each in page.items if each["reason"] == "SuspectNode"]) == 1, "reported once"


async def test_a_node_on_which_new_pods_have_started_is_not_suspect_any_more(make_recovery, connect):
    """The report counts the pods that are there now, not those of the last check."""
    recovery = await make_recovery(nodes=4)
    other = await recovery.in_another_namespace()
    broken = recovery.sandbox.nodes[0]
    recovery.breaks(broken)
    workloads = ((recovery, "web"), (recovery, "api"), (other, "db"))
    for tenant, name in workloads:
        await tenant.workload_on(broken, "Deployment", retries="3", name=name)
    async with recovery.recovering():
        for tenant, name in workloads:
            await tenant.until_well(name=name)
    policy = replace(recovery.policy, rescheduling_interval=timedelta(hours=2))
    async with recovering(connect(), policy, "moves", recovery.now) as received:
        await until(lambda: [each.node for each in received.suspect_nodes] == [broken])
        recovery.breaks()
        tenant = other
        for _ in range(2):
            tenant = await tenant.in_another_namespace()
            await tenant.workload_on(broken, "Deployment")
            await tenant.until_well()
        received.use(
            replace(policy, failed_pods=replace(policy.failed_pods, recovery_window=timedelta(hours=9)))
        )
        await until(lambda: not received.suspect_nodes)
