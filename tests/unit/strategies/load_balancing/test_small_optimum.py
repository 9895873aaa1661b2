"""With few pods, the plan is as good as the best set of moves of that size."""

from itertools import combinations, product

import numpy as np
import numpy.typing as npt
from hypothesis import assume, given, settings
from hypothesis import strategies as some

from rescheduler.config.policy import Policy
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.load_balancing import LoadBalancing
from rescheduler.strategies.load_balancing.assignment import NEGLIGIBLE
from tests.building import ClusterBuilder, cluster

Floats = npt.NDArray[np.float64]

CPUS = 16
WITHIN = 1.02
"""How much further from the mean, at most, than the best."""


def built(pods: list[tuple[int, int]], nodes: int) -> ClusterBuilder:
    """Pods of so many tenths of a cpu, each on the node of that number."""
    builder = cluster()
    for number in range(nodes):
        builder.node(f"n{number}", cpu=str(CPUS))
    for number, (tenths, node) in enumerate(pods):
        builder.pod(f"shop/p{number}", on=f"n{node}", cpu=f"{tenths}00m", memory="0")
    return builder


def unevenness(pods: list[tuple[int, int]], nodes: int) -> float:
    load: Floats = np.zeros(nodes)
    for tenths, node in pods:
        load[node] += tenths * 10 / CPUS
    return float(np.square(load - load.mean()).sum())


def least(pods: list[tuple[int, int]], nodes: int, moves: int) -> float:
    """Return the best of all ways to move up to so many pods."""
    found = unevenness(pods, nodes)
    for chosen in combinations(range(len(pods)), moves):
        for targets in product(range(nodes), repeat=moves):
            moved = [*pods]
            for pod, target in zip(chosen, targets, strict=True):
                moved[pod] = (pods[pod][0], target)
            found = min(found, unevenness(moved, nodes))
    return found


def after(found: Plan) -> float:
    loads = np.array([node.after["cpu"] for node in found.nodes])
    return float(np.square(loads - loads.mean()).sum())


@settings(max_examples=40, deadline=None)
@given(
    pods=some.lists(some.tuples(some.integers(1, 40), some.integers(0, 2)), min_size=2, max_size=7),
    moves=some.integers(1, 2),
)
def test_no_set_of_moves_is_better(pods: list[tuple[int, int]], moves: int) -> None:
    policy = Policy(
        imbalance_threshold=0.0, min_gain=0.0, max_reschedule_pods=moves, balance_resources=("cpu",)
    )
    found = build_plan(built(pods, 3).snapshot(), policy, [LoadBalancing()])

    # With moves to spare, all has come to rest where no single move and no exchange gains any more.
    assume(len(found.moves) == moves)
    # A difference for which no pod would be moved is no difference.
    allowed = least(pods, 3, min(moves, len(pods))) * WITHIN**2 + (moves + 1) * NEGLIGIBLE + 3 * 0.08**2
    assert after(found) <= allowed
