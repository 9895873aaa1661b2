"""A move is validated again on the current cluster before it is executed."""

import dataclasses

import pytest

from rescheduler.api.podmigration import Handover
from rescheduler.api.well_known_names import MAINTENANCE_LABEL
from rescheduler.config.policy import Policy
from rescheduler.planner.plan import Move
from rescheduler.planner.plan_builder import validate_move
from rescheduler.planner.reasons import Reason
from tests.building import ClusterBuilder, cluster

POLICY = Policy()
MOVE = Move(
    pod="shop/web-1-0",
    uid="uid-of-pod-shop-web-1-0",
    source="a",
    target="b",
    strategy="LoadBalancing",
    handover=Handover.ADOPT,
    reason="",
    gain=0.1,
)


def shop() -> ClusterBuilder:
    return cluster().nodes("a", "b", "c", cpu="4").deployment("shop/web", replicas=1, on=["a"], cpu="2")


def test_a_cluster_that_has_not_changed_takes_it():
    assert validate_move(MOVE, shop().snapshot(), POLICY) is None


def web(**parts) -> dict:
    return {"on": "a", "cpu": "2", "owner": "ReplicaSet/web-1", "labels": {"app": "web"}, **parts}


CHANGED = [
    pytest.param(lambda it: it.remove(MOVE.pod), Reason.GONE, id="the pod is gone"),
    pytest.param(lambda it: it.pod(MOVE.pod, **web(uid="new")), Reason.GONE, id="another pod has its name"),
    pytest.param(lambda it: it.pod(MOVE.pod, **web(on="c")), Reason.ELSEWHERE, id="it is elsewhere"),
    pytest.param(
        lambda it: it.pod(MOVE.pod, **web(annotations={"karpenter.sh/do-not-disrupt": "true"})),
        Reason.DO_NOT_DISRUPT,
        id="a protection was added",
    ),
    pytest.param(
        lambda it: it.pod(MOVE.pod, **web(deleted="2026-03-02T12:00:30Z")),
        Reason.TERMINATING,
        id="it is going",
    ),
    pytest.param(
        lambda it: it.deployment("shop/web", replicas=1, on=["a"], status={"updatedReplicas": 0}),
        Reason.ROLLING_OUT,
        id="its workload is rolling out",
    ),
    pytest.param(
        lambda it: it.deployment("shop/web", replicas=2, on=["a", "c"], strategy={"type": "Recreate"}),
        Reason.HANDOVER_IMPOSSIBLE,
        id="it would be moved in another way now",
    ),
    pytest.param(
        lambda it: it.budget("shop/web", selector={"app": "web"}, allowed=0),
        Reason.BUDGET_SPENT,
        id="its budget is spent",
    ),
    pytest.param(
        lambda it: it.pod("shop/big", on="b", cpu="3"), Reason.TARGET_UNFIT, id="its place is taken"
    ),
    pytest.param(lambda it: it.node("b", cordoned=True), Reason.TARGET_UNFIT, id="its target is cordoned"),
    pytest.param(lambda it: it.node("b", ready=False), Reason.TARGET_UNFIT, id="its target is not Ready"),
    pytest.param(
        lambda it: it.node("b", labels={MAINTENANCE_LABEL: "true"}),
        Reason.TARGET_UNFIT,
        id="its target goes into maintenance",
    ),
]


@pytest.mark.parametrize(("change", "reason"), CHANGED)
def test_what_has_changed_is_reported(change, reason):
    found = validate_move(MOVE, change(shop()).snapshot(), POLICY)
    assert found is not None
    assert found.subject == MOVE.pod
    assert found.reason == reason
    assert found.detail


def test_a_target_that_is_gone():
    found = validate_move(dataclasses.replace(MOVE, target="z"), shop().snapshot(), POLICY)
    assert found is not None
    assert (found.reason, found.by) == (Reason.TARGET_UNFIT, "z")


def test_a_place_that_is_taken_is_reported_with_the_rule():
    found = validate_move(MOVE, shop().pod("shop/big", on="b", cpu="3").snapshot(), POLICY)
    assert found is not None
    assert found.detail.startswith("Insufficient cpu requests 2000m")


def test_without_a_target_any_node_will_do():
    anywhere = dataclasses.replace(MOVE, target=None)
    assert validate_move(anywhere, shop().snapshot(), POLICY) is None
    nowhere = shop().node("b", cordoned=True).node("c", cordoned=True)
    found = validate_move(anywhere, nowhere.snapshot(), POLICY)
    assert found is not None
    assert found.reason == Reason.NO_TARGET


def test_what_maintenance_may_move_balance_may_not():
    built = shop().budget("shop/web", selector={"app": "web"}, allowed=0)
    assert validate_move(MOVE, built.snapshot(), POLICY, urgent=True) is None
