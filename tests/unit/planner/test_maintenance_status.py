"""The progress of nodes in maintenance, and what keeps the remaining pods."""

from dataclasses import replace

from rescheduler.api.well_known_names import CORDONED_BY_ANNOTATION, MAINTENANCE_LABEL
from rescheduler.config.policy import Policy
from rescheduler.planner.maintenance_status import NOT_ENABLED, maintenance_status
from rescheduler.planner.plan import MAX_LISTED_REJECTIONS
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.node_maintenance import NodeMaintenance
from tests.building import cluster

POLICY = replace(Policy(), enabled_strategies=("NodeMaintenance",))


def state(built, **more):
    snapshot = built.snapshot()
    made = build_plan(snapshot, POLICY, [NodeMaintenance()])
    return maintenance_status(snapshot, made, POLICY, **more)


class RefusesAll:
    name = "RefusesAll"

    def propose(self, view):
        for pod in range(len(view.snapshot.pods)):
            view.report_staying(pod, "NotNeeded", "it is fine where it is")
        yield from ()


def shop():
    return cluster().node("old", labels={MAINTENANCE_LABEL: "true"}).node("new")


def test_nodes_without_the_label_are_not_spoken_of():
    assert [each.node for each in state(shop())] == ["old"]
    assert state(cluster().node("new")) == ()


def test_pods_that_can_be_moved_are_left_and_nothing_is_blocked():
    (old,) = state(shop().deployment("shop/web", replicas=2, on=["old"]))
    assert (old.left, old.blocked, old.message) == (2, (), "2 pods are still there")


def test_pods_that_belong_to_their_node_or_have_run_to_their_end_do_not_count():
    built = shop().daemon_set("kube-system/agent", on=["old"])
    built.pod("kube-system/proxy", on="old", annotations={"kubernetes.io/config.mirror": "x"})
    built.pod("shop/done", on="old", phase="Succeeded")
    (old,) = state(built)
    assert (old.left, old.message) == (0, "empty")


def test_what_cannot_be_moved_is_named_with_its_reason():
    (old,) = state(shop().deployment("kube-system/dns", replicas=1, on=["old"]))
    assert old.left == 1
    assert "ExcludedNamespace, namespace kube-system is excluded" in old.blocked[0]
    assert old.message == "1 pod is still there, of which 1 can't be moved"


def test_of_many_that_cannot_be_moved_some_are_named_and_the_others_counted():
    (old,) = state(shop().deployment("kube-system/dns", replicas=14, on=["old"]))
    assert len(old.blocked) == 11
    assert old.blocked[-1] == "and 4 more"


def test_a_label_without_the_strategy_is_reported():
    (old,) = state(shop().deployment("shop/web", replicas=1, on=["old"]), enabled=False)
    assert old.message == NOT_ENABLED


def test_a_node_that_a_command_drains_is_not_said_to_be_left_alone():
    """`rescheduler drain` cordons in the name of NodeMaintenance, whether or not the strategy is enabled."""
    old = cluster().node(
        "old",
        labels={MAINTENANCE_LABEL: "true"},
        annotations={CORDONED_BY_ANNOTATION: "NodeMaintenance"},
        cordoned=True,
    )
    (found,) = state(old.node("new").deployment("shop/web", replicas=1, on=["old"]), enabled=False)
    assert found.message == "1 pod is still there"


def test_pods_that_are_already_going_are_distinguished():
    built = shop().pod("shop/going", on="old", deleted="2026-03-02T11:59:59Z")
    (old,) = state(built)
    assert old.message == "1 pod is still there and terminating"
    (old,) = state(built.deployment("shop/web", replicas=1, on=["old"]))
    assert old.message == "2 pods are still there, of which 1 is terminating"


def test_of_named_nodes_it_does_not_matter_whether_they_are_labelled():
    assert [each.node for each in state(shop(), only={"new"})] == ["new"]


def test_a_pod_is_named_even_if_a_plan_refuses_more_than_it_lists():
    built = shop().node("other").deployment("kube-system/zone-dns", replicas=1, on=["old"])
    snapshot = built.deployment("kube-system/agent", replicas=1_001, on=["other"]).snapshot()
    made = build_plan(snapshot, POLICY, [NodeMaintenance(), RefusesAll()])
    assert len(made.refused) == MAX_LISTED_REJECTIONS
    (old,) = maintenance_status(snapshot, made, POLICY)
    assert "zone-dns" in old.blocked[0]
