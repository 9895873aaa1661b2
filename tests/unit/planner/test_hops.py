"""Pods whose target becomes free later: moved directly, or with a hop."""

from collections.abc import Iterator

import pytest

from rescheduler.cluster.node_record import NodeChange
from rescheduler.config.policy import Policy
from rescheduler.planner.plan import Move
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.strategy import NodeProposal, Proposal, ProposedMove, View
from tests.building import ClusterBuilder, cluster
from tests.replay import replay

GROUP = "scheduling.x-k8s.io/pod-group"


class Routes:
    """Sends pods from node to node, each a station further whenever it is asked. Cordons what is left."""

    name = "Routes"
    urgent = False

    def __init__(self, routes: dict[str, str], *, cordons: str = "") -> None:
        self._routes = {f"shop/{pod}": route.split() for pod, route in routes.items()}
        self._cordons = cordons

    def propose(self, view: View) -> Iterator[Proposal | NodeProposal]:
        pods, nodes = view.snapshot.pods.row, view.snapshot.nodes
        for pod, route in self._routes.items():
            row = pods[pod]
            node = nodes.records[view.placement.position[row]].name
            here = route.index(node) if node in route else len(route)
            if view.may_move(row) and here + 1 < len(route):
                yield Proposal((ProposedMove(row, nodes.row[route[here + 1]], f"leaves {route[here]}", 0.1),))
        if self._cordons and not view.placement.pods_on(nodes.row[self._cordons]):
            yield NodeProposal(nodes.row[self._cordons], NodeChange.CORDON, "left")


def planned(built: ClusterBuilder, *routes: Routes, **settings: object) -> tuple[Move, ...]:
    policy = Policy(**settings)
    found = build_plan(built.snapshot(), policy, routes)
    assert replay(built.objects, found, policy) == []
    return found.moves


def ways(moves: tuple[Move, ...]) -> list[str]:
    return [f"{move.pod[5:]} {move.source} {move.target}{' hop' * move.hop}" for move in moves]


def full(**places: str) -> ClusterBuilder:
    """Pods that fill a node each, on some of the nodes a to e."""
    built = cluster()
    for node in "abcde":
        built.node(node, cpu="1")
    for pod, node in places.items():
        built.pod(f"shop/{pod}", on=node, cpu="1")
    return built


def test_a_pod_goes_straight_to_where_it_ends():
    (move,) = planned(full(x="a"), Routes({"x": "a b c"}))
    assert (move.source, move.target, move.gain, move.hop) == ("a", "c", 0.1, False)
    assert move.reason == "leaves a; c instead of b: leaves b"


def test_its_reason_names_why_it_left_and_the_last_change_of_mind():
    (move,) = planned(full(x="a"), Routes({"x": "a b c d"}))
    assert move.reason == "leaves a; d instead of c: leaves c"


def test_a_pod_waits_for_others_rather_than_to_stop():
    assert ways(planned(full(x="a", y="c"), Routes({"x": "a b c", "y": "c d"}))) == ["y c d", "x a c"]


def test_a_pod_stops_where_it_was_to_go_first_if_it_cannot_be_there_straight():
    moves = planned(full(x="a", y="c"), Routes({"x": "a b c", "y": "c a"}))
    assert ways(moves) == ["x a b hop", "y c a", "x b c"]
    assert [move.gain for move in moves] == [0.0, 0.1, 0.1]


def test_a_stop_counts_as_a_move():
    routes = Routes({"x": "a b c", "y": "c a"})
    assert ways(planned(full(x="a", y="c"), routes, max_reschedule_pods=2)) == ["x a b", "y c a"]


def test_a_pod_that_comes_home_does_not_leave():
    assert planned(full(x="a"), _Back({"x": "a b"})) == ()


class _Back(Routes):
    """Then moves the pod back from its last node."""

    def propose(self, view: View) -> Iterator[Proposal | NodeProposal]:
        yield from super().propose(view)
        for pod, route in self._routes.items():
            row, nodes = view.snapshot.pods.row[pod], view.snapshot.nodes.row
            if view.placement.position[row] == nodes[route[-1]] and view.may_move(row):
                yield Proposal((ProposedMove(row, nodes[route[0]], "goes home", 0.1),))


def test_a_pod_that_was_to_stop_goes_on_if_it_can_go_straight_then():
    moves = planned(full(x="a", y="c"), Routes({"x": "a b c d", "y": "c a"}))
    assert ways(moves) == ["x a d", "y c a"]


def test_a_pod_that_has_to_be_evicted_does_not_stop():
    built = full(y="c").stateful_set("shop/db", replicas=2, on=["a", "e"], cpu="1")
    assert ways(planned(built, Routes({"db-0": "a b c", "y": "c a"}))) == ["db-0 a b", "y c a"]


@pytest.mark.parametrize(
    ("members", "found"),
    [
        pytest.param(1, ["x-1-0 a c"], id="but the only one of a group moves by itself"),
        pytest.param(2, [], id="some of a group don't move"),
    ],
)
def test_a_group_moves_once(members, found):
    built = full().deployment("shop/x", replicas=members, on=["a", "d"], cpu="1", labels={GROUP: "ring"})
    assert ways(planned(built, Routes({"x-1-0": "a b c"}))) == found


def test_no_node_is_closed_that_a_pod_stops_on():
    """Nodes are cordoned before anything moves."""
    built, policy = full(x="a", y="c"), Policy()
    found = build_plan(built.snapshot(), policy, [Routes({"x": "a b c", "y": "c a"}, cordons="b")])
    assert ways(found.moves) == ["x a b hop", "y c a", "x b c"]
    assert found.changes == ()
    straight = build_plan(built.snapshot(), policy, [Routes({"x": "a b d"}, cordons="b")])
    assert [change.node for change in straight.changes] == ["b"]


def test_nothing_moves_on_where_the_plan_is_full():
    (move,) = planned(full(x="a"), Routes({"x": "a b c"}), max_reschedule_pods=1)
    assert move.target == "b"


def test_strategies_that_contradict_each_other_leave_it_at_what_was_chosen_first():
    (move,) = planned(full(x="a"), Routes({"x": "a b"}), Routes({"x": "b c"}), Routes({"x": "c d b"}))
    assert (move.target, move.reason) == ("b", "leaves a")
