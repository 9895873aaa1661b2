"""What changes although nothing fails that did not before: the configuration, nodes, and the time."""

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
"""Of such a pod nothing more is heard."""


def with_terms(recovery, **terms):
    return replace(recovery.policy, failed_pods=replace(recovery.policy.failed_pods, **terms))


async def until(holds, timeout_s=60):
    """By default within a minute: sooner than anything else would make a difference."""
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
        async with recovering(Client(transport), recovery.policy, "moves", recovery.now) as heard:
            await asyncio.sleep(120)
            counted.clear()
            heard.use(with_terms(recovery, default_retries=BY_DEFAULT))
            await until(lambda: any(call.endswith("/eviction") for call in counted))
            assert not [call for call in counted if call.startswith("GET") and "/pods/" not in call]
            await recovery.until_event("RestartedInPlace")
    finally:
        await transport.close()
    assert before not in map(uid_of, await recovery.pods())


async def test_who_is_no_longer_asked_about_is_no_longer_told_of(make_recovery, connect):
    recovery = await make_recovery(nodes=2)
    recovery.with_terms(default_retries=BY_DEFAULT)
    await failing_for_long(recovery)
    async with recovering(connect(), recovery.policy, "moves", recovery.now) as heard:
        await until(lambda: [each.message for each in heard.failing_pods] == ["no attempts left"], 600)
        heard.use(with_terms(recovery, enabled=False))
        await until(lambda: not heard.failing_pods)


async def test_a_record_is_kept_as_long_as_the_new_configuration_says(make_recovery, connect):
    recovery = await make_recovery(nodes=2)
    recovery.with_terms(recovery_window=timedelta(days=1))
    recovery.breaks(recovery.sandbox.nodes[0])
    await recovery.workload_on(recovery.sandbox.nodes[0], "Deployment", retries="3")
    async with recovering(connect(), recovery.policy, "moves", recovery.now) as heard:
        await recovery.until_well()
        await asyncio.sleep(180)
        assert (await recovery.ledger("Deployment")).lineages
        heard.use(with_terms(recovery, recovery_window=timedelta(minutes=1)))
        async with asyncio.timeout(60):
            await recovery.until_forgotten("Deployment")


async def test_a_node_is_suspect_for_the_next_program_too_no_longer_than_set_nor_than_it_is_there(
    make_recovery, connect
):
    """Three workloads have left it, which is remembered for a day."""
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
    async with recovering(connect(), recovery.policy, "moves", recovery.now) as heard:
        await until(lambda: [each.node for each in heard.suspect_nodes] == [broken])
        await asyncio.sleep(recovery.policy.failed_pods.suspect_window.total_seconds())
        await until(lambda: not heard.suspect_nodes)
        heard.use(with_terms(recovery, suspect_window=timedelta(hours=3)))
        await until(lambda: heard.suspect_nodes)
        await recovery.client.delete(NODES, broken)
        await until(lambda: not heard.suspect_nodes)
    page = await recovery.client.list(EVENTS, namespace="default")
    assert len([each for each in page.items if each["reason"] == "SuspectNode"]) == 1, "told once"
