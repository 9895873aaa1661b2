"""Without failures nothing is read and nothing is written; without the Lease nothing is touched."""

import asyncio
from collections import Counter

from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import DEPLOYMENTS, LEASES, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from tests.stories.recovery.program import recovering
from tests.stories.recovery.test_circumstances import FOR_EVER, lose
from tests.stories.sandbox import node_of


def counting(server, counted):
    async def handle(method, target, headers, body):
        path = target.partition("?")[0]
        own = "/leases/" in path or "/configmaps" in path
        if "watch=true" not in target and not own:
            counted[f"{method} {path}{'?dryRun=All' if 'dryRun=All' in target else ''}"] += 1
        await asyncio.sleep(0.001)
        return await server.handle(method, target, headers, body)

    return InProcessTransport(handle)


async def test_healthy_pods_cause_no_requests_check_after_check(make_recovery, server):
    """But for probes of the webhook, two every half a minute: only they show that it answers."""
    recovery = await make_recovery(nodes=4)
    await recovery.workload("Deployment", retries="3", replicas=60)
    await recovery.workload("StatefulSet", retries="3", name="db", replicas=5)
    await recovery.workload("DaemonSet", retries="3", name="agent")
    await recovery.until_well(60)
    await recovery.until_well(5, "db")
    counted = Counter()
    transport = counting(server, counted)
    try:
        async with recovering(Client(transport), recovery.policy, "moves", recovery.now):
            await asyncio.sleep(60)
            counted.clear()
            lasted_s = 20 * recovery.policy.rescheduling_interval.total_seconds()
            await asyncio.sleep(lasted_s)
            assert counted.pop("POST /api/v1/namespaces/moves/pods?dryRun=All") <= 2 * (lasted_s / 30 + 1)
            assert not counted
    finally:
        await transport.close()


async def test_who_does_not_lead_records_and_restarts_nothing(make_recovery, connect):
    """The older tool went on after it had lost its lease."""
    recovery = await make_recovery(nodes=2)
    broken = recovery.sandbox.nodes[0]
    await recovery.workload("DaemonSet", retries="3")
    await recovery.workload("Deployment", retries="3", name="api")
    before = {pod["metadata"]["uid"] for pod in await recovery.until_well(2)}
    recovery.breaks(broken)
    leader = {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "rescheduler", "namespace": "moves"},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 86_400},
    }  # fmt: skip
    await recovery.client.create(LEASES, leader)
    async with recovering(connect(), recovery.policy, "moves", recovery.now):
        await recovery.for_a_while()
    assert {pod["metadata"]["uid"] for pod in await recovery.pods()} == before
    assert not (await recovery.ledger("DaemonSet")).lineages
    assert await recovery.migrations() == []


async def test_old_pods_are_kept_off_like_young_ones(make_recovery):
    """The older tool left out pods that had run for more than half an hour."""
    recovery = await make_recovery(nodes=3)
    await recovery.workload("StatefulSet", retries="3")
    (old,) = await recovery.until_well()
    await asyncio.sleep(2 * 3600)
    recovery.breaks(node_of(old))
    async with recovery.recovering():
        well = await recovery.until_pods(
            lambda pods: next((pod for pod in pods if node_of(pod) not in {"", node_of(old)}), None)
        )
    assert well["metadata"]["name"] == "web-0"


async def test_other_annotations_of_the_workload_are_untouched(make_recovery):
    recovery = await make_recovery(nodes=2)
    broken = recovery.sandbox.nodes[0]
    recovery.breaks(broken)
    await recovery.workload_on(broken, "Deployment", retries="3", annotations={"owner": "somebody"})
    async with recovery.recovering():
        await recovery.until_ledger("Deployment", lambda ledger: ledger.lineages)
        after = await recovery.until_forgotten("Deployment")
    annotations = after["metadata"]["annotations"]
    assert annotations["owner"] == "somebody"
    assert FAILED_ATTEMPTS_ANNOTATION not in annotations
    assert (await recovery.client.get(DEPLOYMENTS, recovery.sandbox.key("web")))["spec"]["replicas"] == 1


async def test_what_can_not_be_removed_from_a_lost_node_is_not_recorded_again_and_again(
    make_recovery, server
):
    """A finalizer holds it forever; its successor has long been running."""
    recovery = await make_recovery(nodes=4)
    recovery.with_terms(force_on_lost_nodes=True)
    lost = recovery.sandbox.nodes[0]
    await recovery.workload_on(lost, "Deployment", retries="1", pod={"tolerations": FOR_EVER})
    (held,) = await recovery.until_well()
    patch = merge_patch({"metadata": {"finalizers": ["example.com/held"]}})
    await recovery.client.patch(PODS, recovery.sandbox.key(held["metadata"]["name"]), patch)
    counted = Counter()
    transport = counting(server, counted)
    try:
        async with recovering(Client(transport), recovery.policy, "moves", recovery.now):
            await lose(recovery, lost)
            await recovery.until_well()
            await recovery.until_forgotten("Deployment")
            counted.clear()
            await asyncio.sleep(1800)
    finally:
        await transport.close()
    assert not [call for call in counted if call.startswith("PATCH") and "deployments" in call]
