"""The explanation of a pod and of a node."""

import dataclasses

import pytest

from rescheduler.api.podmigration import Handover
from rescheduler.api.well_known_names import MAINTENANCE_LABEL
from rescheduler.config.policy import Policy
from rescheduler.planner.available_nodes import NodeAvailability, availability_message
from rescheduler.planner.explanation import explain_node, explain_pod
from rescheduler.planner.reasons import Reason
from tests.building import ClusterBuilder, cluster

POLICY = Policy()


def shop() -> ClusterBuilder:
    built = (
        cluster()
        .node("a", cpu="4")
        .node("b", cpu="4")
        .node("full", cpu="1")
        .node("off", cpu="4", cordoned=True)
    )
    built.node("gpu", cpu="4", taints=["gpu=yes:NoSchedule"]).node(
        "old", cpu="4", labels={MAINTENANCE_LABEL: "true"}
    )
    return built.deployment("shop/web", replicas=1, on=["a"], cpu="2")


def forbidden(found: NodeAvailability | None) -> dict[str, list[str]]:
    assert found is not None
    return {each.reason: [name for name, _ in each.nodes] for each in found.forbidden}


def test_a_pod_that_may_move_is_reported_how_and_where():
    found = explain_pod(shop().snapshot(), POLICY, "shop/web-1-0")
    assert found.may_move
    assert (found.node, found.handover, found.why) == (
        "a",
        Handover.ADOPT,
        "its workload tolerates an extra pod temporarily",
    )
    assert found.places is not None
    assert found.places.available == ("b",)


def test_every_other_node_is_named_with_what_forbids_it():
    found = explain_pod(shop().snapshot(), POLICY, "shop/web-1-0").places
    assert forbidden(found) == {
        "node(s) were already running the pod": ["a"],
        "Insufficient cpu": ["full"],
        "node(s) had untolerated taint(s)": ["gpu"],
        "node(s) were being emptied": ["old"],
        "node(s) were unschedulable": ["off"],
    }


def test_a_node_that_several_rules_forbid_stands_under_each():
    built = shop().node("worst", cpu="1", taints=["gpu=yes:NoSchedule"])
    found = forbidden(explain_pod(built.snapshot(), POLICY, "shop/web-1-0").places)
    assert found["Insufficient cpu"] == ["full", "worst"]
    assert found["node(s) had untolerated taint(s)"] == ["gpu", "worst"]


def test_in_words_it_reads_like_the_scheduler_but_with_numbers():
    found = explain_pod(shop().snapshot(), POLICY, "shop/web-1-0").places
    assert found is not None
    reported = availability_message(found)
    assert reported.startswith("1/6 nodes are available: ")
    assert "1 Insufficient cpu (full requests 2000m cpu, 1000m of 1000m free)" in reported
    assert "taint gpu=yes:NoSchedule" in reported


def test_all_that_protects_a_pod_is_reported_also_for_maintenance():
    built = shop().pod("kube-system/dns", on="a", annotations={"karpenter.sh/do-not-disrupt": "true"})
    policy = dataclasses.replace(POLICY, maintenance_includes_system=True)
    found = explain_pod(built.snapshot(), policy, "kube-system/dns")
    assert not found.may_move
    assert [each.reason for each in found.kept_by] == [Reason.DO_NOT_DISRUPT, Reason.EXCLUDED_NAMESPACE]
    assert [each.reason for each in found.kept_in_maintenance_by] == [Reason.DO_NOT_DISRUPT]
    assert found.places is not None
    assert "b" in found.places.available


def test_a_pod_without_a_node_has_no_places():
    found = explain_pod(shop().pod("shop/new").snapshot(), POLICY, "shop/new")
    assert found.places is None
    assert [each.reason for each in found.kept_by] == [Reason.UNSCHEDULED]


def test_a_pod_that_can_not_be_moved_says_why_not():
    built = shop().pod("shop/x", on="a", owner="Rocket/x")
    found = explain_pod(built.snapshot(), POLICY, "shop/x")
    assert (found.handover, found.why) == (None, "its owner is of the unknown kind Rocket.apps")


def test_the_members_of_a_group_are_named():
    built = shop()
    for name in ("x", "y"):
        built.pod(f"shop/{name}", on="a", labels={POLICY.pod_group_label: "gang"})
    found = explain_pod(built.snapshot(), POLICY, "shop/y")
    assert (found.group, found.members) == ("shop/gang", ("shop/x", "shop/y"))


def test_a_pod_or_node_that_is_not_there():
    snapshot = shop().snapshot()
    with pytest.raises(KeyError):
        explain_pod(snapshot, POLICY, "shop/nobody")
    with pytest.raises(KeyError):
        explain_node(snapshot, POLICY, "nowhere")


def test_a_node_is_reported_with_its_loads_and_what_keeps_its_pods():
    built = shop().daemon_set("shop/agent", on=["a"], cpu="1")
    found = explain_node(built.snapshot(), POLICY, "a")
    assert (found.loads["cpu"], found.takes_none) == (75.0, "")
    agent, web = found.pods
    assert [each.reason for each in agent.kept_by] == [Reason.DAEMON_SET_POD]
    assert (web.pod, web.handover, web.kept_by, web.targets) == ("shop/web-1-0", Handover.ADOPT, (), 1)


def test_a_node_is_reported_with_what_could_come():
    found = explain_node(shop().snapshot(), POLICY, "b")
    assert (found.could_come, found.could_come_examples) == (1, ("shop/web-1-0",))
    assert explain_node(shop().snapshot(), POLICY, "full").could_come == 0


@pytest.mark.parametrize(("node", "why"), [("off", "is cordoned"), ("old", "is in maintenance")])
def test_a_node_that_takes_nothing_says_why(node, why):
    found = explain_node(shop().snapshot(), POLICY, node)
    assert (found.takes_none, found.could_come) == (why, 0)


def test_on_a_node_in_maintenance_pods_are_evaluated_as_maintenance_does():
    built = shop().stateful_set("shop/db", replicas=1, on=["old"])
    (pod,) = explain_node(built.snapshot(), POLICY, "old").pods
    assert pod.kept_by == ()
    # Its node is cordoned first, so that its replacement goes elsewhere without a webhook.
    (pod,) = explain_node(built.snapshot(), POLICY, "old", steered=False).pods
    assert pod.kept_by == ()
