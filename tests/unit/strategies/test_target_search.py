"""Targets for many pods at once: the hardest to place first, and others make room."""

from rescheduler.api.well_known_names import MAINTENANCE_LABEL
from rescheduler.config.policy import Policy
from rescheduler.planner.strategy_view import PlanDraft, PlanView
from rescheduler.strategies.node_maintenance import NodeMaintenance
from rescheduler.strategies.target_search import find_targets, least_loaded, tightest_fit
from tests.building import cluster

LEAVING = {MAINTENANCE_LABEL: "true"}
ONLY_B = {"nodeSelector": {"kubernetes.io/hostname": "b"}}


def view_of(made):
    return PlanView(PlanDraft(made.snapshot(), Policy()), NodeMaintenance())


def places(made, choose, keys):
    """Return the targets by name, in the order in which they were found, and the pods without one."""
    view = view_of(made)
    pods, nodes = view.snapshot.pods, view.snapshot.nodes
    before = view.placement.position.tolist()
    found = find_targets(view, [(pods.row[f"shop/{key}"],) for key in keys], choose)
    assert view.placement.position.tolist() == before, "nothing has moved yet"
    named = {pods.records[pod].name: nodes.records[node].name for pod, node in found.targets.items()}
    return list(named.items()), [pods.records[pod].name for unit in found.without_target for pod in unit]


def test_who_can_go_to_one_node_only_chooses_first():
    made = cluster().nodes("a", "b", cpu="2").node("old", labels=LEAVING).pod("shop/load", on="a", cpu="500m")
    made.pod("shop/easy", on="old", cpu="1500m").pod("shop/picky", on="old", cpu="1500m", spec=ONLY_B)
    assert places(made, least_loaded, ["easy", "picky"]) == ([("picky", "b"), ("easy", "a")], [])


def test_the_largest_choose_before_the_small():
    made = cluster().node("a", cpu="2").node("b", cpu="4").node("old", labels=LEAVING, cpu="16")
    made.pod("shop/a-small", on="old", cpu="1").pod("shop/large", on="old", cpu="4")
    assert places(made, least_loaded, ["a-small", "large"]) == ([("large", "b"), ("a-small", "a")], [])


def test_who_took_the_only_place_of_another_gives_way():
    # The larger ones choose first and both take b, of which the smaller need a part.
    made = cluster().node("a", cpu="4").node("b", cpu="9").node("c", cpu="3").node("old", labels=LEAVING)
    for name, cpu, nodes in (("x", "4", "ab"), ("w", "4", "ab"), ("y", "3", "bc"), ("z", "3", "bc")):
        made.pod(f"shop/{name}", on="old", cpu=cpu, spec=_only(*nodes))
    found, without_target = places(made, least_loaded, ["x", "y", "z", "w"])
    assert without_target == []
    assert len(found) == 4


def test_a_node_keeps_its_gap_for_a_large_pod_when_packing():
    made = cluster().node("a", cpu="2").node("b", cpu="8").node("old", labels=LEAVING)
    made.pod("shop/small", on="old", cpu="1")
    assert places(made, tightest_fit, ["small"]) == ([("small", "a")], [])
    assert places(made, least_loaded, ["small"]) == ([("small", "b")], [])


def test_a_pod_without_a_place_is_reported():
    made = cluster().node("a", cpu="1").node("old", labels=LEAVING).pod("shop/large", on="old", cpu="4")
    assert places(made, tightest_fit, ["large"]) == ([], ["large"])


def _only(*nodes):
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}]}
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
