"""Evacuation: nodes that give a signal of `evacuateOn` are emptied like nodes in maintenance."""

from datetime import timedelta

import pytest

from rescheduler.api.well_known_names import CORDONED_BY_ANNOTATION, EMPTY_CONDITION, MAINTENANCE_LABEL
from rescheduler.cluster.node_record import NodeChange, evacuation_of
from rescheduler.config.move_limits import Window
from rescheduler.config.policy import Policy
from rescheduler.config.policy_blocks import EvacuationSignal, EvacuationUrgency
from rescheduler.daemon.node_evictions import EvictionCause, due_evictions, evacuation_deadlines
from rescheduler.planner.explanation import explain_node
from rescheduler.planner.maintenance_status import maintenance_status
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.strategy_registry import strategies_of
from tests.building import NOW, cluster, node_record
from tests.objects import node_object

SPOT = EvacuationSignal(taint="example.com/spot", deadline=timedelta(minutes=2))
BROKEN = EvacuationSignal(condition="KernelDeadlock", urgency=EvacuationUrgency.NORMAL)
POLICY = Policy(evacuate_on=(SPOT, BROKEN), enabled_strategies=())
INTERRUPTED = {"taints": ["example.com/spot=:NoSchedule"]}
DEADLOCKED = {
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "KernelDeadlock", "status": "True", "lastTransitionTime": "2026-03-02T11:59:00Z"},
        ]
    }
}


def planned(made, policy=POLICY):
    return build_plan(made.snapshot(), policy, strategies_of(policy))


@pytest.mark.parametrize("parts", [INTERRUPTED, DEADLOCKED], ids=["a taint", "a condition"])
def test_a_node_that_gives_a_signal_is_cordoned_and_emptied(parts):
    made = cluster().node("a").node("old", **parts).deployment("shop/web", replicas=2, on=["old"])
    found = planned(made)
    assert [(each.node, each.change, each.strategy) for each in found.changes] == [
        ("old", NodeChange.CORDON, "Evacuation")
    ]
    assert {(each.source, each.target, each.strategy) for each in found.moves} == {("old", "a", "Evacuation")}


def test_no_pod_is_sent_to_a_node_that_gives_a_signal():
    made = cluster().node("a", **INTERRUPTED).node("old", labels={MAINTENANCE_LABEL: "true"})
    tolerant = {"tolerations": [{"operator": "Exists"}]}
    made.deployment("shop/web", on=["old"], pod_spec=tolerant)
    policy = Policy(evacuate_on=(SPOT,), enabled_strategies=("NodeMaintenance",))
    assert planned(made, policy).moves == ()
    assert explain_node(made.snapshot(), policy, "a").takes_none == "is evacuated (taint example.com/spot)"


@pytest.mark.parametrize(
    ("parts", "moves"),
    [pytest.param(INTERRUPTED, 1, id="high urgency"), pytest.param(DEADLOCKED, 0, id="normal urgency")],
)
def test_only_high_urgency_ignores_windows(parts, moves):
    made = cluster().node("a").node("old", **parts).deployment("shop/web", on=["old"])
    policy = Policy(evacuate_on=(SPOT, BROKEN), enabled_strategies=(), windows=_closed())
    found = planned(made, policy)
    assert len(found.moves) == moves
    assert [each.node for each in found.changes] == ["old"], "cordoned in both cases"


def _closed():
    """A window that is not open at noon."""
    return (Window(from_=60, to=120),)


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59Z", "2026-03-02T12:00:05Z", "0001-01-01T00:00:00Z"])
def test_a_signal_of_a_time_that_can_not_be_counts_from_now(moment):
    """A kubelet writes the conditions of its node itself. One node must neither stop all checks, nor be
    evicted without a move because of its clock."""
    deadlock = {"type": "KernelDeadlock", "status": "True", "lastTransitionTime": moment}
    status = {"conditions": [{"type": "Ready", "status": "True"}, deadlock]}
    made = cluster().node("a").node("old", status=status).deployment("shop/web", on=["old"])
    signal = EvacuationSignal(condition="KernelDeadlock", deadline=timedelta(minutes=2))
    policy = Policy(evacuate_on=(signal,), enabled_strategies=())
    snapshot, plan = made.snapshot(), planned(made, policy)
    assert {each.timestamp() for each in evacuation_deadlines(snapshot, policy).values()} == {NOW + 120}
    assert [each.at_s - snapshot.taken_at_s for each in due_evictions(snapshot, policy)] == [120]
    assert [each.node for each in maintenance_status(snapshot, plan, policy)] == ["old"]
    assert len(plan.moves) == 1


def test_signals_of_all_nodes_are_a_false_alarm():
    """Else a fault in what watches the nodes would cordon all of them, and evict every pod at the deadline,
    with nowhere to go."""
    made = (
        cluster().nodes("a", "b", "c", **INTERRUPTED).deployment("shop/web", replicas=3, on=["a", "b", "c"])
    )
    snapshot, plan = made.snapshot(), planned(made)
    assert (plan.changes, plan.moves) == ((), ())
    assert due_evictions(snapshot, POLICY) == []
    assert evacuation_deadlines(snapshot, POLICY) == {}
    (state, *_) = maintenance_status(snapshot, plan, POLICY)
    assert state.message.startswith(
        "not evacuated, because every node gives a signal (taint example.com/spot)"
    )
    rest = cluster().nodes("a", "b", **INTERRUPTED).node("c").deployment("shop/web", on=["a"])
    assert len(planned(rest).changes) == 2
    assert len(due_evictions(rest.snapshot(), POLICY)) == 1


def test_a_cordon_of_another_client_outlasts_the_signal():
    made = cluster().node("a", cordoned=True, **INTERRUPTED).node("b").deployment("shop/web", on=["a"])
    assert (len(planned(made).moves), planned(made).changes) == (1, ())
    assert planned(cluster().node("a", cordoned=True).node("b")).changes == ()


OURS = {CORDONED_BY_ANNOTATION: "Evacuation"}


def gone_since(moment):
    return {"conditions": [{"type": EMPTY_CONDITION, "status": "Unknown", "reason": "SignalGone",
                            "lastTransitionTime": moment}]}  # fmt: skip


def test_a_node_is_opened_again_when_the_signal_is_gone_for_five_minutes():
    long_ago, a_moment_ago = gone_since("2026-03-02T11:55:00Z"), gone_since("2026-03-02T11:55:01Z")
    made = cluster().node("back", cordoned=True, annotations=OURS, status=long_ago)
    made.node("soon", cordoned=True, annotations=OURS, status=a_moment_ago)
    made.node("still", cordoned=True, annotations=OURS, status=long_ago, **INTERRUPTED)
    made.node("kept", cordoned=True, annotations=OURS, labels={MAINTENANCE_LABEL: "true"})
    assert [(each.node, each.change) for each in planned(made).changes] == [("back", NodeChange.UNCORDON)]


def test_a_node_stays_cordoned_until_it_is_reported_that_its_signal_is_gone():
    emptying = {"type": EMPTY_CONDITION, "status": "False", "reason": "Emptying"}
    made = cluster().node("a", cordoned=True, annotations=OURS, status={"conditions": [emptying]})
    made.node("b", cordoned=True, annotations=OURS, status=gone_since("2026-03-02T12:00:05Z"))
    assert planned(made).changes == ()


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({}, id="no daemon reports it"),
        pytest.param({"status": gone_since("2026-03-03T12:00:00Z")}, id="a clock was a day ahead"),
        pytest.param({"status": gone_since(None)}, id="the time is missing"),
    ],
)
def test_a_node_of_which_the_five_minutes_would_never_be_over_is_opened_at_once(parts):
    """`apply` cordons nodes, too, and reports nothing. A condition that is there is not written again, also
    if the clock of the daemon that wrote it was wrong."""
    made = cluster().node("a", cordoned=True, annotations=OURS, **parts)
    assert [(each.node, each.change) for each in planned(made).changes] == [("a", NodeChange.UNCORDON)]


# -- deadlines


def evacuation(signals=(SPOT,), **parts):
    return evacuation_of(node_record(node_object("old", **parts)), signals, NOW)


def test_the_deadline_counts_from_when_the_taint_was_added():
    taint = {"key": "example.com/spot", "effect": "NoExecute", "timeAdded": "2026-03-02T11:59:30Z"}
    assert evacuation(taints=[taint]).deadline_s == NOW - 30 + 120


def test_the_deadline_of_a_taint_without_a_time():
    """It counts from when the node was first seen with the taint."""
    assert evacuation(**INTERRUPTED).deadline_s == NOW + 120
    seen = {"type": EMPTY_CONDITION, "status": "False", "lastTransitionTime": "2026-03-02T11:59:00Z"}
    assert evacuation(**INTERRUPTED, status={"conditions": [seen]}).deadline_s == NOW + 60


def test_a_signal_that_comes_again_has_its_whole_deadline():
    """Else a node whose taint comes and goes would be emptied by plain evictions."""
    assert evacuation(**INTERRUPTED, status=gone_since("2026-03-02T11:56:00Z")).deadline_s == NOW + 120


def test_a_node_in_maintenance_has_no_deadline_from_before_the_signal():
    seen = {"type": EMPTY_CONDITION, "status": "False", "lastTransitionTime": "2026-03-02T10:00:00Z"}
    found = evacuation(**INTERRUPTED, status={"conditions": [seen]}, labels={MAINTENANCE_LABEL: "true"})
    assert found.deadline_s == NOW + 120


def test_the_earliest_deadline_of_several_signals_counts():
    soon = EvacuationSignal(taint="example.com/soon", deadline=timedelta(seconds=30))
    found = evacuation((SPOT, soon), taints=["example.com/spot=:NoSchedule", "example.com/soon=:NoSchedule"])
    assert found.deadline_s == NOW + 30
    assert found.reason == "taint example.com/spot, taint example.com/soon"


def test_a_signal_without_a_deadline_never_evicts_without_a_move():
    assert evacuation((BROKEN,), **DEADLOCKED).deadline_s is None
    made = cluster().node("a").node("old", **DEADLOCKED).deployment("shop/web", on=["old"])
    assert due_evictions(made.snapshot(), POLICY) == []
    assert evacuation_deadlines(made.snapshot(), POLICY) == {}


def test_which_pods_are_due_at_the_deadline():
    """Pods that have a controller and are not excluded."""
    made = cluster().node("a").node("old", **INTERRUPTED)
    made.deployment("shop/web", on=["old"]).pod("shop/bare", on="old")
    made.deployment("kube-system/dns", on=["old"]).daemon_set("shop/agent", on=["old"])
    made.deployment("shop/kept", on=["old"], annotations={"karpenter.sh/do-not-disrupt": "true"})
    item = next(each for each in made.objects if each["metadata"]["name"] == "kept-1-0")
    item["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    made.apply(item)
    found = due_evictions(made.snapshot(), POLICY)
    assert [(each.pod, each.at_s, each.cause) for each in found] == [
        ("shop/web-1-0", NOW + 120, EvictionCause.DEADLINE)
    ]


def test_virtual_machines_are_due_at_once_on_every_node_that_is_emptied():
    made = cluster().nodes("a").node("old", labels={MAINTENANCE_LABEL: "true"})
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm", "uid": "1"}
    made.pod("shop/launcher", on="old", metadata={"ownerReferences": [{**owner, "controller": True}]})
    (due,) = due_evictions(made.snapshot(), Policy())
    assert (due.pod, due.at_s, due.cause) == ("shop/launcher", NOW, EvictionCause.HANDLED)
    assert due_evictions(made.snapshot(), Policy(), maintained=False) == []
    status = maintenance_status(made.snapshot(), planned(made), Policy(), enabled=True)
    assert (status[0].left, status[0].blocked) == (1, ()), "it is on its way, not blocked"


def test_the_status_names_signal_and_deadline():
    made = cluster().node("a").node("old", **INTERRUPTED).deployment("shop/web", on=["old"])
    (status,) = maintenance_status(made.snapshot(), planned(made), POLICY, enabled=False)
    assert status.message == (
        "evacuated (taint example.com/spot), pods are evicted at 12:02:00 UTC: 1 pod is still there"
    )
