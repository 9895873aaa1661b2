"""What MakeRoom promises in every cluster, and that no cheaper set of moves exists in small ones."""

import random
import time

import numpy as np
import pytest

from rescheduler.config.policy import Policy
from rescheduler.planner.plan_builder import build_plan
from rescheduler.planner.strategy_view import PlanDraft, PlanView
from rescheduler.rules.placement import Placement
from rescheduler.strategies.make_room import MakeRoom
from rescheduler.strategies.make_room.room_search import RoomSearch, SearchLimits
from tests.battery.executing import executed, present
from tests.battery.pod_constraints import apart, spread
from tests.building import cluster
from tests.replay import replay
from tests.unit.strategies.make_room.test_make_room import DISABLED, waiting

POLICY = Policy(enabled_strategies=("MakeRoom",), min_replicas_for_evict=1)
MOST = 3
ZONE = "topology.kubernetes.io/zone"


def random_cluster(seed):
    """Three or four small nodes that are nearly full, and one pod too many."""
    chance = random.Random(seed)
    names = "abcd"[: chance.choice((3, 4))]
    made = cluster()
    for name in names:
        made.node(name, cpu=str(chance.choice((4, 5))), labels={ZONE: "xy"[ord(name) % 2]})
    for number in range(11):
        node, cpu = chance.choice(names), chance.choice((1, 1, 1, 2, 2, 3))
        if _used(made, node) + cpu > _size(made, node):
            continue
        parts = {"cpu": str(cpu), "priority": chance.choice((0, 0, 5, 10))}
        if chance.random() < 0.2:
            parts["labels"] = DISABLED
        if chance.random() < 0.3:
            parts["pod_spec"] = {"nodeSelector": {ZONE: chance.choice("xy")}}
            if chance.random() < 0.5:
                parts["pod_spec"] = apart("new")
        kind = made.stateful_set if chance.random() < 0.2 else made.deployment
        spec = parts.pop("pod_spec", {})
        if "nodeSelector" in spec and spec["nodeSelector"][ZONE] != "xy"[ord(node) % 2]:
            spec = {}
        kind(f"shop/w{number}", on=[node], spec=None, pod_spec=spec, **parts)
    constraint = chance.choice(({}, {}, apart("w1"), apart("w2", ZONE), spread("w3")))
    cpu = chance.choice((3, 3, 4))
    return waiting(made, "shop/new", cpu=str(cpu), priority=5, labels={"app": "new"}, spec=constraint)


def _used(made, node):
    pods = [item for item in made.objects if item["kind"] == "Pod" and item["spec"]["nodeName"] == node]
    return sum(int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for pod in pods)


def _size(made, node):
    (found,) = [item for item in made.objects if item["kind"] == "Node" and item["metadata"]["name"] == node]
    return int(found["status"]["allocatable"]["cpu"])


def fewest_moves(made):
    """By trying everything: one move after the other, each as the planner would allow it, none to the node
    that is to be freed."""
    view = PlanView(PlanDraft(made.snapshot(), POLICY), MakeRoom())
    pods = view.snapshot.pods
    new = pods.row["shop/new"]
    movable = [
        pod for pod in range(len(pods)) if pod != new and pods.priority[pod] <= 5 and view.may_move(pod)
    ]
    nodes = range(len(view.snapshot.nodes))

    def fewest(node, left, unmoved):
        if view.placement.fits_on(new, node, source_stays=False):
            return 0
        best = None
        for pod in unmoved if left else ():
            for target in np.flatnonzero(view.targets(pod)).tolist():
                if target == node:
                    continue
                with view.placement.trial():
                    view.placement.move(pod, target)
                    found = fewest(node, (left if best is None else best - 1) - 1, unmoved - {pod})
                if found is not None and (best is None or found + 1 < best):
                    best = found + 1
        return best

    found = [fewest(node, MOST, frozenset(movable)) for node in nodes]
    return min((moves for moves in found if moves is not None), default=None)


@pytest.mark.parametrize("block", range(3))
def test_no_set_with_fewer_moves_exists(block):
    """Against every possible sequence of at most three moves."""
    compared = 0
    for seed in range(block * 10, block * 10 + 10):
        made = random_cluster(seed)
        view = PlanView(PlanDraft(made.snapshot(), POLICY), MakeRoom())
        search = RoomSearch(view)
        found = search.find(search.demand_of(view.snapshot.pods.row["shop/new"]), SearchLimits(moves=MOST))
        assert (None if found is None else len(found.moves)) == fewest_moves(made), f"seed {seed}"
        compared += bool(found is not None and found.moves)
    assert compared > 0


@pytest.mark.parametrize("block", range(3))
def test_every_set_makes_the_pod_fit_and_moves_nobody_of_higher_priority(block):
    seen = 0
    for seed in range(1000 + block * 20, 1000 + block * 20 + 20):
        made = random_cluster(seed)
        plan = build_plan(made.snapshot(), POLICY, [MakeRoom()])
        assert replay(present(made.objects), plan, POLICY) == []
        before = made.snapshot().pods
        assert all(before.priority[before.row[move.pod]] <= 5 for move in plan.moves)
        if not plan.moves:
            continue
        seen += 1
        after = executed(made, plan).snapshot()
        ((_, node),) = {(room.pod, room.node) for move in plan.moves for room in move.rooms}
        fits = Placement(after).fits(after.pods.row["shop/new"], source_stays=False)
        assert fits[after.nodes.row[node]], f"seed {seed}"
    assert seen > 1


@pytest.mark.size
def test_ten_pods_among_150_000_get_room_within_seconds():
    """On 5,000 nodes that are 97 % full, four pods have to leave for each."""
    chance = random.Random(1)
    made = cluster()
    for number in range(5000):
        made.node(f"n{number:04}", cpu="32", memory="128Gi", labels={ZONE: "abc"[number % 3]})
    for number in range(1500):
        cpu = chance.choice((500, 800, 1000, 1200, 1600))
        on = [f"n{(number * 100 + place) % 5000:04}" for place in range(100)]
        made.deployment(f"shop/w{number}", replicas=100, on=on, cpu=f"{cpu}m", memory="1Gi")
    for number in range(10):
        waiting(made, f"shop/new-{number}", cpu="10", memory="4Gi")
    policy = Policy(enabled_strategies=("MakeRoom",), max_reschedule_pods=200)
    snapshot = made.snapshot()
    began_s = time.process_time()
    plan = build_plan(snapshot, policy, [MakeRoom()])
    took_s = time.process_time() - began_s
    assert len({room.pod for move in plan.moves for room in move.rooms}) == 10
    assert took_s < 5
