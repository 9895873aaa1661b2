"""Failing pods and lost nodes, invalid annotations, suspect nodes, and records of other tools."""

import json
from typing import Any

import pytest

from kubesim.behaviour import load_behaviour
from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION, FAILED_ATTEMPTS_ANNOTATION
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import merge_patch, strategic_patch
from tests.stories.objects import ready_since
from tests.stories.recovery.recovery_sandbox import MakeRecovery, RecoverySandbox, alone
from tests.stories.recovery.test_workloads import uid_of
from tests.stories.sandbox import AT_ONCE, node_of

FOR_EVER = [
    {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute"}
    for why in ("unreachable", "not-ready")
]
"""Tolerations: no controller removes such a pod from a lost node."""
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


async def lose(recovery: RecoverySandbox, node: str) -> None:
    """Its kubelet is silent from now on, and the node lifecycle controller says so."""
    rules = {"nodes": [{"match": {"name": node}, "dead": [{"after": "0s"}]}], "pods": [AT_ONCE]}
    recovery.sandbox.kubelet.behave(load_behaviour(rules))
    ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    patch = strategic_patch({"status": {"conditions": [ready]}})
    await recovery.client.patch(NODES.as_json.status, node, patch)


# -- lost nodes


async def test_a_pod_on_a_lost_node_gets_another_one(make_recovery: MakeRecovery) -> None:
    recovery: RecoverySandbox = await make_recovery(
        nodes=4
    )  # fewer, and to lose one of them would be a reason to halt
    lost = recovery.sandbox.nodes[0]
    await recovery.workload_on(lost, "Deployment", retries="1", pod={"tolerations": FOR_EVER})
    await recovery.until_well()
    async with recovery.recovering():
        await lose(recovery, lost)
        await recovery.until_pods(lambda pods: len(pods) == 1 and node_of(pods[0]) not in {"", lost})


async def test_stateful_set_pod_on_a_lost_node(make_recovery: MakeRecovery) -> None:
    """It is left there until the node is confirmed gone."""
    recovery: RecoverySandbox = await make_recovery(nodes=4)
    recovery.with_terms(force_on_lost_nodes=True)
    lost = recovery.sandbox.nodes[0]
    await recovery.workload_on(lost, "StatefulSet", retries="1", pod={"tolerations": FOR_EVER})
    (before,) = await recovery.until_well()
    async with recovery.recovering():
        await lose(recovery, lost)
        await recovery.for_a_while()
        page = await recovery.client.list(PODS, namespace=recovery.sandbox.namespace, labels="app=web")
        assert [pod.uid for pod in page.items] == [uid_of(before)]
        await recovery.client.patch(NODES, lost, merge_patch({"spec": {"taints": [OUT_OF_SERVICE]}}))
        await recovery.until_pods(
            lambda pods: any(uid_of(pod) != uid_of(before) and ready_since(pod) for pod in pods)
        )
    (well,) = await recovery.pods()
    assert well["metadata"]["name"] == "web-0"
    assert node_of(well) != lost


@alone
async def test_nothing_is_forced_unless_the_policy_allows_it(make_recovery: MakeRecovery) -> None:
    recovery: RecoverySandbox = await make_recovery(
        nodes=4
    )  # fewer, and to lose one of them would be a reason to halt
    lost = recovery.sandbox.nodes[0]
    await recovery.workload_on(lost, "Deployment", retries="1", pod={"tolerations": FOR_EVER})
    (before,) = await recovery.until_well()
    async with recovery.recovering():
        await lose(recovery, lost)
        await recovery.until_pods(lambda pods: len(pods) == 1 and node_of(pods[0]) not in {"", lost})
        await recovery.for_a_while()
        page = await recovery.client.list(PODS, namespace=recovery.sandbox.namespace, labels="app=web")
    assert uid_of(before) in {pod.uid for pod in page.items}, "it waits for its kubelet, forever"


@alone
async def test_pods_stuck_terminating_on_a_lost_node(make_recovery: MakeRecovery) -> None:
    """They are removed where that is allowed."""
    recovery: RecoverySandbox = await make_recovery(nodes=4)
    recovery.with_terms(force_on_lost_nodes=True)
    lost = recovery.sandbox.nodes[0]
    await recovery.workload_on(lost, "Deployment", retries="1", pod={"tolerations": FOR_EVER})
    await recovery.until_well()
    async with recovery.recovering():
        await lose(recovery, lost)
        (well,) = await recovery.until_well()
        assert node_of(well) != lost
        await recovery.until_event("RemovedFromLostNode")


# -- annotations that are invalid


@pytest.mark.parametrize(
    "retries",
    [
        pytest.param("three", id="in words"),
        pytest.param("-1", id="negative"),
    ],
)
async def test_a_number_that_is_invalid_is_ignored_and_said_once(
    make_recovery: MakeRecovery, retries: str
) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=2)
    broken = recovery.sandbox.nodes[0]
    recovery.breaks(broken)
    await recovery.workload_on(broken, "Deployment", retries=retries)
    for _ in range(2):
        async with recovery.recovering():
            await recovery.until_event("SchedulingRetriesIgnored")
            await recovery.for_a_while()
    (reported,) = await recovery.events("SchedulingRetriesIgnored")
    assert (reported["involvedObject"]["kind"], reported["involvedObject"]["name"]) == ("Deployment", "web")
    assert f'"{retries}"' in reported["message"]
    assert await recovery.migrations() == []


async def test_that_is_said_even_while_the_workload_has_no_pods(make_recovery: MakeRecovery) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=1)
    await recovery.workload("Deployment", retries="many", replicas=0)
    async with recovery.recovering():
        reported = await recovery.until_event("SchedulingRetriesIgnored")
    assert (reported["involvedObject"]["kind"], reported["involvedObject"]["name"]) == ("Deployment", "web")


async def test_an_unreadable_ledger_stops_no_recovery_and_is_replaced(
    make_recovery: MakeRecovery,
) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=2)
    broken, good = recovery.sandbox.nodes
    recovery.breaks(broken)
    await recovery.workload_on(
        broken, "StatefulSet", retries="1", annotations={FAILED_ATTEMPTS_ANNOTATION: '{"v":1,"lines":7}'}
    )
    async with recovery.recovering():
        (well,) = await recovery.until_well()
        assert node_of(well) == good
        await recovery.until_forgotten("StatefulSet")
        await recovery.until_event("FailedAttemptsUnreadable")


@alone
async def test_a_ledger_of_another_workload_does_not_count(make_recovery: MakeRecovery) -> None:
    """Copied along with a Deployment, as people do it."""
    recovery: RecoverySandbox = await make_recovery(nodes=2)
    broken, good = recovery.sandbox.nodes
    failure = {"t": "2026-01-01T00:00:00Z", "node": good, "pod": "somebody"}
    record = {"v": 1, "of": "another", "lines": {"web": {"tries": [failure], "end": failure}}}
    recovery.breaks(broken)
    marks = {FAILED_ATTEMPTS_ANNOTATION: json.dumps(record)}
    await recovery.workload_on(broken, "Deployment", retries="1", annotations=marks)
    async with recovery.recovering():
        (well,) = await recovery.until_well()
    assert node_of(well) == good


@alone
async def test_the_record_of_the_older_tool_is_carried_over(make_recovery: MakeRecovery) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=3)
    broken, tried, good = recovery.sandbox.nodes
    recovery.breaks(broken)
    record = json.dumps({"currentReschedulingTimes": 1, "deployScheduledHosts": [tried]})
    older = {"kse.com/deploy": record, "unrelated": "stays"}
    await recovery.workload_on(broken, "Deployment", retries="3", annotations=older)
    async with recovery.recovering():
        (well,) = await recovery.until_well()
        after = await recovery.until_forgotten("Deployment")
    assert node_of(well) == good
    annotations: Any = after["metadata"]["annotations"]
    assert "kse.com/deploy" not in annotations
    assert annotations["unrelated"] == "stays"


# -- no place but where it failed


async def test_only_node_was_tried(make_recovery: MakeRecovery) -> None:
    """The pod is not left pending.

    Its own constraints leave it one node: kept off that, it would never run again.
    """
    recovery: RecoverySandbox = await make_recovery(nodes=2)
    only = recovery.sandbox.nodes[0]
    recovery.breaks(only, evicted={"after": "3s"})
    selector = {"nodeSelector": {"kubernetes.io/hostname": only}}
    await recovery.workload("ReplicaSet", retries="3", pod=selector)
    async with recovery.recovering():
        await recovery.until_pods(
            lambda pods: any(
                AVOIDED_NODES_ANNOTATION in pod["metadata"].get("annotations", {}) for pod in pods
            )
        )
        recovery.sandbox.behave()
        await recovery.until_pods(
            lambda pods: any(node_of(pod) == only and pod["status"]["phase"] == "Running" for pod in pods)
        )


# -- nodes


async def test_a_node_on_which_several_workloads_fail_is_suspect(make_recovery: MakeRecovery) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=2)
    broken = recovery.sandbox.nodes[0]
    recovery.breaks(broken)
    other = await recovery.in_another_namespace()
    for tenant, name in ((recovery, "web"), (recovery, "api"), (other, "db")):
        await tenant.workload_on(broken, "Deployment", retries="1", name=name)
    async with recovery.recovering():
        reported = await recovery.until_event("SuspectNode", node=broken)
        if recovery.received is not None:
            (suspect,) = recovery.received.suspect_nodes
            assert (suspect.node, suspect.workloads) == (broken, 3)
    assert "3 workloads" in reported["message"]
