"""The plan of `undo`: whatever the history says, it moves only what every plan may move."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.well_known_names import MAINTENANCE_LABEL
from rescheduler.config.policy import Policy
from rescheduler.daemon.manual_plans import ReturnMove, build_undo_plan
from rescheduler.migrations.controller.revalidation import policy_for_manual_move
from tests.building import cluster
from tests.replay import replay

POLICY = policy_for_manual_move(dataclasses.replace(Policy(), excluded_namespaces=("kube-system",)))


def built():
    return (
        cluster()
        .nodes("a", "b", "full", cpu="4")
        .node("cordoned", cpu="4", cordoned=True)
        .node("lost", cpu="4", ready=False)
        .node("drained", cpu="4", labels={MAINTENANCE_LABEL: "true"})
        .deployment("shop/web", replicas=2, on=["b", "b"], cpu="1")
        .deployment("shop/large", replicas=1, on=["full"], cpu="4")
        .deployment("kube-system/dns", replicas=1, on=["b"], cpu="1")
        .daemon_set("shop/agent", on=["b"])
    )


def undo(*returns):
    """Each is the key of a pod and the node to go back to."""
    made = built()
    uids = {pod.key: pod.uid for pod in made.snapshot().pods.records}
    wanted = [ReturnMove(pod, uids.get(pod, "none"), node, "shop/m-1") for pod, node in returns]
    plan = build_undo_plan(made.snapshot(), POLICY, wanted, steered=True, guarded=False)
    assert replay(made.objects, plan, POLICY) == []
    return plan


def test_a_pod_goes_back_and_the_reason_names_the_move():
    (move,) = undo(("shop/web-1-0", "a")).moves
    assert (move.source, move.target, move.strategy, move.reason) == ("b", "a", "Manual", "undo of m-1")


@pytest.mark.parametrize(
    ("pod", "node", "reason", "words"),
    [
        pytest.param("shop/gone", "a", "Gone", "no longer exists", id="a pod that is gone"),
        pytest.param("shop/web-1-0", "none", "TargetUnfit", "node none no", id="a node that is gone"),
        pytest.param("shop/web-1-0", "cordoned", "TargetUnfit", "cordoned is cordoned", id="a cordoned node"),
        pytest.param("shop/web-1-0", "drained", "TargetUnfit", "undrain drained`", id="a drained node"),
        pytest.param("shop/web-1-0", "lost", "TargetUnfit", "not Ready", id="a node that is not Ready"),
        pytest.param("shop/web-1-0", "full", "TargetUnfit", "Insufficient cpu", id="a full node"),
        pytest.param("kube-system/dns-1-0", "a", "ExcludedNamespace", "", id="an excluded namespace"),
        pytest.param("shop/agent-b", "a", "DaemonSetPod", "", id="a pod of a DaemonSet"),
    ],
)  # fmt: skip
def test_what_no_plan_may_move_stays_with_the_reason(pod, node, reason, words):
    """A forged entry of the journal can name any pod and any node."""
    plan = undo((pod, node))
    assert plan.moves == ()
    (refused,) = plan.refused
    assert (refused.subject, refused.reason) == (pod, reason)
    assert words in refused.detail
    assert plan.refused_counts == {reason: 1}


def test_a_pod_that_is_back_already_stays():
    plan = undo(("shop/web-1-0", "b"))
    assert (plan.moves, plan.refused) == ((), ())


_PODS = st.sampled_from(
    ["shop/web-1-0", "shop/web-1-1", "shop/large-1-0", "kube-system/dns-1-0", "shop/agent-b", "shop/gone"]
)
_NODES = st.sampled_from(["a", "b", "full", "cordoned", "lost", "none"])


@given(st.lists(st.tuples(_PODS, _NODES), max_size=6, unique_by=lambda each: each[0]))
def test_whatever_the_history_says_the_plan_can_be_executed(returns):
    """`undo` itself replays the plan under all the rules."""
    moved = {move.pod for move in undo(*returns).moves}
    assert moved <= {"shop/web-1-0", "shop/web-1-1", "shop/large-1-0"}
