"""What is around failing pods: lost nodes, annotations that make no sense, suspects, other tools' records."""

import json
from typing import Any

import pytest

from kubesim.behaviour import load_behaviour
from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION, FAILED_ATTEMPTS_ANNOTATION
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import merge_patch, strategic_patch
from tests.stories.objects import ready_since
from tests.stories.recovery.test_workloads import uid_of
from tests.stories.recovery.ward import SetWard, Ward, alone
from tests.stories.stage import AT_ONCE, node_of

FOR_EVER = [
    {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute"}
    for why in ("unreachable", "not-ready")
]
"""Tolerations: nobody else takes such a pod from a lost node."""
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


async def lose(ward: Ward, node: str) -> None:
    """Its kubelet is silent from now on, and the node lifecycle controller says so."""
    rules = {"nodes": [{"match": {"name": node}, "dead": [{"after": "0s"}]}], "pods": [AT_ONCE]}
    ward.stage.kubelet.behave(load_behaviour(rules))
    ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    patch = strategic_patch({"status": {"conditions": [ready]}})
    await ward.client.patch(NODES.as_json.status, node, patch)


# -- lost nodes


async def test_a_pod_on_a_lost_node_gets_another_one(set_ward: SetWard) -> None:
    ward: Ward = await set_ward(nodes=4)  # fewer, and to lose one of them would be a reason to halt
    lost = ward.stage.nodes[0]
    await ward.workload_on(lost, "Deployment", retries="1", pod={"tolerations": FOR_EVER})
    await ward.until_well()
    async with ward.recovering():
        await lose(ward, lost)
        await ward.until_pods(lambda pods: len(pods) == 1 and node_of(pods[0]) not in {"", lost})


async def test_stateful_set_pod_on_a_lost_node(set_ward: SetWard) -> None:
    """It is left there until the node is confirmed gone."""
    ward: Ward = await set_ward(nodes=4)
    ward.with_terms(force_on_lost_nodes=True)
    lost = ward.stage.nodes[0]
    await ward.workload_on(lost, "StatefulSet", retries="1", pod={"tolerations": FOR_EVER})
    (before,) = await ward.until_well()
    async with ward.recovering():
        await lose(ward, lost)
        await ward.for_a_while()
        page = await ward.client.list(PODS, namespace=ward.stage.namespace, labels="app=web")
        assert [pod.uid for pod in page.items] == [uid_of(before)]
        await ward.client.patch(NODES, lost, merge_patch({"spec": {"taints": [OUT_OF_SERVICE]}}))
        await ward.until_pods(
            lambda pods: any(uid_of(pod) != uid_of(before) and ready_since(pod) for pod in pods)
        )
    (well,) = await ward.pods()
    assert well["metadata"]["name"] == "web-0"
    assert node_of(well) != lost


@alone
async def test_nothing_is_forced_unless_somebody_allows_it(set_ward: SetWard) -> None:
    ward: Ward = await set_ward(nodes=4)  # fewer, and to lose one of them would be a reason to halt
    lost = ward.stage.nodes[0]
    await ward.workload_on(lost, "Deployment", retries="1", pod={"tolerations": FOR_EVER})
    (before,) = await ward.until_well()
    async with ward.recovering():
        await lose(ward, lost)
        await ward.until_pods(lambda pods: len(pods) == 1 and node_of(pods[0]) not in {"", lost})
        await ward.for_a_while()
        page = await ward.client.list(PODS, namespace=ward.stage.namespace, labels="app=web")
    assert uid_of(before) in {pod.uid for pod in page.items}, "it waits for its kubelet, for ever"


@alone
async def test_pods_stuck_terminating_on_a_lost_node(set_ward: SetWard) -> None:
    """They are removed where that is allowed."""
    ward: Ward = await set_ward(nodes=4)
    ward.with_terms(force_on_lost_nodes=True)
    lost = ward.stage.nodes[0]
    await ward.workload_on(lost, "Deployment", retries="1", pod={"tolerations": FOR_EVER})
    await ward.until_well()
    async with ward.recovering():
        await lose(ward, lost)
        (well,) = await ward.until_well()
        assert node_of(well) != lost
        await ward.until_event("RemovedFromLostNode")


# -- annotations that make no sense


@pytest.mark.parametrize(
    "retries",
    [
        pytest.param("three", id="in words"),
        pytest.param("-1", id="negative"),
    ],
)
async def test_a_number_that_makes_no_sense_is_ignored_and_said_once(set_ward: SetWard, retries: str) -> None:
    ward: Ward = await set_ward(nodes=2)
    broken = ward.stage.nodes[0]
    ward.breaks(broken)
    await ward.workload_on(broken, "Deployment", retries=retries)
    for _ in range(2):
        async with ward.recovering():
            await ward.until_event("SchedulingRetriesIgnored")
            await ward.for_a_while()
    (told,) = await ward.events("SchedulingRetriesIgnored")
    assert (told["involvedObject"]["kind"], told["involvedObject"]["name"]) == ("Deployment", "web")
    assert f'"{retries}"' in told["message"]
    assert await ward.migrations() == []


async def test_that_is_said_even_while_the_workload_has_no_pods(set_ward: SetWard) -> None:
    ward: Ward = await set_ward(nodes=1)
    await ward.workload("Deployment", retries="many", replicas=0)
    async with ward.recovering():
        told = await ward.until_event("SchedulingRetriesIgnored")
    assert (told["involvedObject"]["kind"], told["involvedObject"]["name"]) == ("Deployment", "web")


async def test_a_record_that_can_not_be_read_stops_nobody_and_is_replaced(set_ward: SetWard) -> None:
    ward: Ward = await set_ward(nodes=2)
    broken, good = ward.stage.nodes
    ward.breaks(broken)
    await ward.workload_on(
        broken, "StatefulSet", retries="1", annotations={FAILED_ATTEMPTS_ANNOTATION: '{"v":1,"lines":7}'}
    )
    async with ward.recovering():
        (well,) = await ward.until_well()
        assert node_of(well) == good
        await ward.until_forgotten("StatefulSet")
    assert await ward.events("FailedAttemptsUnreadable")


@alone
async def test_a_record_that_belongs_to_somebody_else_is_none(set_ward: SetWard) -> None:
    """Copied along with a Deployment, as people do it."""
    ward: Ward = await set_ward(nodes=2)
    broken, good = ward.stage.nodes
    failure = {"t": "2026-01-01T00:00:00Z", "node": good, "pod": "somebody"}
    record = {"v": 1, "of": "another", "lines": {"web": {"tries": [failure], "end": failure}}}
    ward.breaks(broken)
    marks = {FAILED_ATTEMPTS_ANNOTATION: json.dumps(record)}
    await ward.workload_on(broken, "Deployment", retries="1", annotations=marks)
    async with ward.recovering():
        (well,) = await ward.until_well()
    assert node_of(well) == good


@alone
async def test_the_record_of_the_older_tool_is_carried_over(set_ward: SetWard) -> None:
    ward: Ward = await set_ward(nodes=3)
    broken, tried, good = ward.stage.nodes
    ward.breaks(broken)
    record = json.dumps({"currentReschedulingTimes": 1, "deployScheduledHosts": [tried]})
    older = {"kse.com/deploy": record, "unrelated": "stays"}
    await ward.workload_on(broken, "Deployment", retries="3", annotations=older)
    async with ward.recovering():
        (well,) = await ward.until_well()
        after = await ward.until_forgotten("Deployment")
    assert node_of(well) == good
    annotations: Any = after["metadata"]["annotations"]
    assert "kse.com/deploy" not in annotations
    assert annotations["unrelated"] == "stays"


# -- no place but where it failed


async def test_only_node_was_tried(set_ward: SetWard) -> None:
    """The pod is not left pending.

    Its own wishes leave it one node: kept off that, it would never run again.
    """
    ward: Ward = await set_ward(nodes=2)
    only = ward.stage.nodes[0]
    ward.breaks(only, evicted={"after": "3s"})
    selector = {"nodeSelector": {"kubernetes.io/hostname": only}}
    await ward.workload("ReplicaSet", retries="3", pod=selector)
    async with ward.recovering():
        await ward.until_pods(
            lambda pods: any(
                AVOIDED_NODES_ANNOTATION in pod["metadata"].get("annotations", {}) for pod in pods
            )
        )
        ward.stage.behave()
        await ward.until_pods(
            lambda pods: any(node_of(pod) == only and pod["status"]["phase"] == "Running" for pod in pods)
        )


# -- nodes


async def test_a_node_on_which_several_workloads_fail_is_suspect(set_ward: SetWard) -> None:
    ward: Ward = await set_ward(nodes=2)
    broken = ward.stage.nodes[0]
    ward.breaks(broken)
    other = await ward.in_another_namespace()
    for tenant, name in ((ward, "web"), (ward, "api"), (other, "db")):
        await tenant.workload_on(broken, "Deployment", retries="1", name=name)
    async with ward.recovering():
        told = await ward.until_event("SuspectNode", node=broken)
        if ward.heard is not None:
            (suspect,) = ward.heard.suspect_nodes
            assert (suspect.node, suspect.workloads) == (broken, 3)
    assert "3 workloads" in told["message"]
