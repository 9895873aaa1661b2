"""The bounds that the benchmarks print are never above the best plan there is."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

from bench.optimum import least_by_counting, least_by_relaxation, least_by_unit

NODES = 3
PODS = some.lists(
    some.tuples(some.integers(1, 9), some.integers(1, 9), some.integers(0, NODES - 1)), min_size=1, max_size=5
)


def unevenness(amount: np.ndarray, at: tuple[int, ...]) -> float:
    loads = np.stack([np.bincount(at, column, NODES) for column in amount.T], axis=1)
    return float(np.square(loads - loads.mean(axis=0)).sum())


@settings(max_examples=15, deadline=None)
@given(PODS, some.integers(1, 5))
def test_no_plan_is_below_a_bound(pods: list[tuple[int, int, int]], moves: int) -> None:
    amount, home = np.array([pod[:2] for pod in pods]), np.array([pod[2] for pod in pods], np.intp)
    every = list(product(range(NODES), repeat=len(pods)))
    within = [at for at in every if (np.array(at) != home).sum() <= moves]
    best = min(unevenness(amount, at) for at in within)
    assert least_by_relaxation(amount.astype(float), home, moves, nodes=NODES) <= best + 1e-6
    assert least_by_unit(amount, NODES) <= min(unevenness(amount, at) for at in every) + 1e-6
    cpu = amount[:, :1]
    assert (
        least_by_counting(cpu[:, 0].astype(float), home, moves, nodes=NODES)
        <= min(unevenness(cpu, at) for at in within) + 1e-6
    )


def test_the_relaxation_reaches_the_best_plan_where_a_pod_need_not_be_split() -> None:
    """Two pods of 10 on one node: one of them has to leave, and nothing better is possible."""
    amount, home = np.array([[10.0], [10.0]]), np.zeros(2, np.intp)
    assert abs(least_by_relaxation(amount, home, 1, nodes=2)) < 1e-3
    assert least_by_relaxation(amount, home, 1, nodes=4) > 0
