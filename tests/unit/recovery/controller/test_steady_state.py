"""Where nothing fails, nothing is asked and nothing is written; and what nobody leads is left alone."""

import asyncio
from collections import Counter

from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import DEPLOYMENTS, LEASES, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from tests.stories.recovery.program import recovering
from tests.stories.recovery.test_circumstances import FOR_EVER, lose
from tests.stories.stage import node_of


def counting(server, counted):
    async def handle(method, target, headers, body):
        path = target.partition("?")[0]
        own = "/leases/" in path or "/configmaps" in path
        if "watch=true" not in target and not own:
            counted[f"{method} {path}{'?dryRun=All' if 'dryRun=All' in target else ''}"] += 1
        await asyncio.sleep(0.001)
        return await server.handle(method, target, headers, body)

    return InProcessTransport(handle)


async def test_healthy_pods_cause_no_requests_check_after_check(set_ward, server):
    """But for probes of the webhook, two every half a minute: only they show that it answers."""
    ward = await set_ward(nodes=4)
    await ward.workload("Deployment", retries="3", replicas=60)
    await ward.workload("StatefulSet", retries="3", name="db", replicas=5)
    await ward.workload("DaemonSet", retries="3", name="agent")
    await ward.until_well(60)
    await ward.until_well(5, "db")
    counted = Counter()
    transport = counting(server, counted)
    try:
        async with recovering(Client(transport), ward.policy, "moves", ward.now):
            await asyncio.sleep(60)
            counted.clear()
            lasted_s = 20 * ward.policy.rescheduling_interval.total_seconds()
            await asyncio.sleep(lasted_s)
            assert counted.pop("POST /api/v1/namespaces/moves/pods?dryRun=All") <= 2 * (lasted_s / 30 + 1)
            assert not counted
    finally:
        await transport.close()


async def test_who_does_not_lead_records_and_restarts_nothing(set_ward, connect):
    """The older tool went on after it had lost its lease."""
    ward = await set_ward(nodes=2)
    broken = ward.stage.nodes[0]
    await ward.workload("DaemonSet", retries="3")
    await ward.workload("Deployment", retries="3", name="api")
    before = {pod["metadata"]["uid"] for pod in await ward.until_well(2)}
    ward.breaks(broken)
    leader = {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "rescheduler", "namespace": "moves"},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 86_400},
    }  # fmt: skip
    await ward.client.create(LEASES, leader)
    async with recovering(connect(), ward.policy, "moves", ward.now):
        await ward.for_a_while()
    assert {pod["metadata"]["uid"] for pod in await ward.pods()} == before
    assert not (await ward.ledger("DaemonSet")).lineages
    assert await ward.migrations() == []


async def test_old_pods_are_kept_off_like_young_ones(set_ward):
    """The older tool left out pods that had run for more than half an hour."""
    ward = await set_ward(nodes=3)
    await ward.workload("StatefulSet", retries="3")
    (old,) = await ward.until_well()
    await asyncio.sleep(2 * 3600)
    ward.breaks(node_of(old))
    async with ward.recovering():
        well = await ward.until_pods(
            lambda pods: next((pod for pod in pods if node_of(pod) not in {"", node_of(old)}), None)
        )
    assert well["metadata"]["name"] == "web-0"


async def test_other_annotations_of_the_workload_are_untouched(set_ward):
    ward = await set_ward(nodes=2)
    broken = ward.stage.nodes[0]
    ward.breaks(broken)
    await ward.workload_on(broken, "Deployment", retries="3", annotations={"owner": "somebody"})
    async with ward.recovering():
        await ward.until_ledger("Deployment", lambda ledger: ledger.lineages)
        after = await ward.until_forgotten("Deployment")
    annotations = after["metadata"]["annotations"]
    assert annotations["owner"] == "somebody"
    assert FAILED_ATTEMPTS_ANNOTATION not in annotations
    assert (await ward.client.get(DEPLOYMENTS, ward.stage.key("web")))["spec"]["replicas"] == 1


async def test_what_can_not_be_removed_from_a_lost_node_is_not_recorded_again_and_again(set_ward, server):
    """Somebody's finalizer holds it, for ever; its successor has long been well."""
    ward = await set_ward(nodes=4)
    ward.with_terms(force_on_lost_nodes=True)
    lost = ward.stage.nodes[0]
    await ward.workload_on(lost, "Deployment", retries="1", pod={"tolerations": FOR_EVER})
    (held,) = await ward.until_well()
    patch = merge_patch({"metadata": {"finalizers": ["example.com/held"]}})
    await ward.client.patch(PODS, ward.stage.key(held["metadata"]["name"]), patch)
    counted = Counter()
    transport = counting(server, counted)
    try:
        async with recovering(Client(transport), ward.policy, "moves", ward.now):
            await lose(ward, lost)
            await ward.until_well()
            await ward.until_forgotten("Deployment")
            counted.clear()
            await asyncio.sleep(1800)
    finally:
        await transport.close()
    assert not [call for call in counted if call.startswith("PATCH") and "deployments" in call]
