"""How good the planner's plans are, and how fast it makes them. Prints tables for docs/benchmarks.md.

    python -m bench.planner [speed] [drift] [hot-spot] [small] [--seed N …]

Times are processor seconds of one whole `plan()` on a snapshot that exists, the best of three, beside a loop
that always does the same: who compares machines, or a busy one with an idle one, compares by that.
"""

import argparse
import gc
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from bench import clusters, figures
from bench.hot_spot import NOW_S, SIZES, hot_spot
from bench.optimum import least_by_counting, least_by_relaxation, least_by_unit, optimum
from rescheduler.cluster.node_record import Taint
from rescheduler.cluster.pod_constraints import (
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from rescheduler.cluster.snapshot import CPU, Snapshot
from rescheduler.config.policy import Policy
from rescheduler.config.policy_blocks import PlacementDriftPolicy, Preference
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.load_balancing import LoadBalancing
from rescheduler.strategies.placement_drift import PlacementDrift
from rescheduler.strategies.strategy import Strategy

__all__ = ["main"]

Floats = npt.NDArray[np.float64]

_BOTH = ("cpu", "memory")
_HOT_SPOT_AIMS = ((_BOTH, 1022, 17.0), (_BOTH, 2000, 0.7), (("cpu",), 1022, 0.35))
_FIXED_SEEDS = (1, 2)
_TARGET_S, _QUIET_LOOP_S = 0.5, 0.036
"""CPU time of a plan, and of the calibration loop on a quiet machine of the kind that the target is for."""
_SMALL = ((5, 30, 4), (8, 60, 6), (12, 120, 8), (16, 160, 10), (20, 200, 10))
_SOLVER_S = 4.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    sections: dict[str, Callable[[list[int]], None]] = {
        "speed": speed,
        "drift": drift,
        "hot-spot": hot_spots,
        "small": small,
    }
    parser.add_argument(
        "sections", nargs="*", metavar="section", help=f"of {', '.join(sections)}: all if none"
    )
    parser.add_argument(
        "--seed", type=int, nargs="+", default=[int(time.time())], help="of the fresh clusters"
    )
    options = parser.parse_args()
    for name in options.sections or sections:
        sections[name](options.seed)


def speed(_seeds: list[int]) -> None:
    print("\n### Planning speed (LoadBalancing by measured usage, default thresholds)\n")
    print("| nodes | pods | 100 moves | 1,000 moves | calibration loop |\n|--:|--:|--:|--:|--:|")
    taken: dict[int, list[tuple[int, float]]] = {100: [], 1000: []}
    for nodes, pods in ((1250, 37_500), (2500, 75_000), (5000, 150_000)):
        snapshot = _big(nodes, pods)
        for moves, found in taken.items():
            found.append((pods, _timed(snapshot, max_reschedule_pods=moves)[1]))
        times = " | ".join(f"{found[-1][1] * 1000:.0f} ms" for found in taken.values())
        print(f"| {nodes:,} | {pods:,} | {times} | {_calibration() * 1000:.0f} ms |", flush=True)
    exponents = {moves: _exponent(found) for moves, found in taken.items()}
    words = ", ".join(f"{exponent:.2f} for {moves:,} moves" for moves, exponent in exponents.items())
    print(f"\nGrowth with the number of pods, as an exponent: {words}.")


_DRIFT_CASES: dict[str, tuple[float, tuple[Preference, ...]]] = {
    "nothing drifted": (0.0, ()),
    "2 % of nodes tainted": (0.02, ()),
    "all preferences, all pods prefer one half": (0.0, tuple(Preference)),
}


def drift(_seeds: list[int]) -> None:
    """PlacementDrift beside LoadBalancing on the same snapshot: times, and the ratio."""
    print("\n### PlacementDrift, 100 moves at most, beside LoadBalancing\n")
    print("| nodes | pods | case | moves | time | LoadBalancing | ratio |\n|--:|--:|---|--:|--:|--:|--:|")
    for nodes, pods in ((1250, 37_500), (5000, 150_000)):
        made = clusters.big_cluster(nodes, pods)
        for case, (tainted, preferences) in _DRIFT_CASES.items():
            snapshot = _drifted(made, tainted, prefer=bool(preferences))
            setting = PlacementDriftPolicy(preferences=preferences)
            found, time_s = _timed(
                snapshot, [PlacementDrift()], placement_drift=setting, max_reschedule_pods=100
            )
            _, beside_s = _timed(snapshot, max_reschedule_pods=100)
            print(
                f"| {nodes:,} | {pods:,} | {case} | {len(found.moves)} | {time_s * 1000:.0f} ms "
                f"| {beside_s * 1000:.0f} ms | {time_s / beside_s:.2f} |",
                flush=True,
            )


def _drifted(made: clusters.BigCluster, tainted: float, *, prefer: bool) -> Snapshot:
    """The same cluster: some nodes with a new taint; or pods that prefer every second node."""
    state = made.state()
    for number, node in enumerate(made.nodes):
        taints = node.taints
        if number % 50 < tainted * 50:
            taints = (*taints, Taint("bench.example.com/drained", effect="NoSchedule"))
        labels = {**node.labels, "bench.example.com/half": str(number % 2)}
        state.apply_node(replace(node, labels=labels, taints=taints))
    if prefer:
        wanted = NodeSelectorTerm((NodeSelectorRequirement("bench.example.com/half", "In", ("1",)),))
        preferred = NodeAffinity(preferred=(PreferredSchedulingTerm(50, wanted),))
        for pod in made.pods:
            if pod.owner is not None and pod.owner.kind != "DaemonSet":
                affinity = replace(pod.affinity.node_affinity, preferred=preferred.preferred)
                state.apply_pod(replace(pod, affinity=replace(pod.affinity, node_affinity=affinity)))
    return state.freeze(clusters.NOW_S)


def _big(nodes: int, pods: int) -> Snapshot:
    made = clusters.big_cluster(nodes, pods)
    state = made.state()
    state.apply_usage(clusters.usage_of(made))
    return state.freeze(clusters.NOW_S)


def _exponent(found: list[tuple[int, float]]) -> float:
    (fewer, first), (more, last) = found[0], found[-1]
    return math.log(last / first) / math.log(more / fewer)


def hot_spots(seeds: list[int]) -> None:
    print("\n### A hot spot: 500 nodes, 10,000 pods; standard deviation of node load after, in % of before\n")
    print(
        "| sizes | seed | resources | moves | cpu | memory | all | target | no plan below | | time "
        "| on a quiet machine | target | |\n|---|--:|---|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|---|"
    )
    rows = []
    for sizes in SIZES:
        for seed in dict.fromkeys((*_FIXED_SEEDS, *seeds)):
            snapshot = hot_spot(seed=seed, sizes=sizes).freeze(NOW_S)
            for resources, moves, target in _HOT_SPOT_AIMS:
                row = _hot_spot_row(snapshot, resources, moves, target)
                rows.append({"sizes": sizes, "seed": seed, "is_fresh": seed in seeds, **row})
                _print_hot_spot(rows[-1])
    figures.record("hot-spot", rows)


def _hot_spot_row(
    snapshot: Snapshot, resources: tuple[str, ...], moves: int, target: float
) -> dict[str, Any]:
    calibration_s = _calibration()
    found, time_s = _timed(snapshot, **_exactly(resources, moves))
    before, after = _loads(found, resources)
    left = math.sqrt(_unevenness(after) / _unevenness(before)) * 100
    bound = _no_plan_below(snapshot, resources, moves)
    quiet_s = time_s / min(calibration_s, _calibration()) * _QUIET_LOOP_S
    return {
        "resources": list(resources),
        "moves": len(found.moves),
        "limit": moves,
        "left_percent": round(left, 3),
        "left_percent_each": [round(each, 3) for each in after.std(axis=0) / before.std(axis=0) * 100],
        "target_percent": target,
        "bound_percent": round(bound, 3),
        "verdict": figures.verdict(left, target, bound),
        "time_s": round(time_s, 3),
        "quiet_s": round(quiet_s, 3),
        "target_s": _TARGET_S,
        "time_verdict": figures.verdict(quiet_s, _TARGET_S),
    }


def _print_hot_spot(row: dict[str, Any]) -> None:
    each = [f"{share:.2f}" for share in row["left_percent_each"]]
    name = f"{row['seed']} (fresh)" if row["is_fresh"] else row["seed"]
    print(
        f"| {row['sizes']} | {name} | {' + '.join(row['resources'])} | {row['moves']:,} of {row['limit']:,} "
        f"| {each[0]} | {each[1] if len(each) > 1 else ''} | {row['left_percent']:.2f} "
        f"| {row['target_percent']} | {row['bound_percent']:.2f} | {row['verdict']} "
        f"| {row['time_s']:.2f} s | {row['quiet_s']:.2f} s | {row['target_s']} s | {row['time_verdict']} |",
        flush=True,
    )


def _no_plan_below(snapshot: Snapshot, resources: tuple[str, ...], moves: int) -> float:
    """Return the best of the bounds for all resources together, in percent of the deviation before."""
    amount, at, count = _numbers(snapshot, resources)
    loads = np.stack([np.bincount(at, column, count) for column in amount.T], axis=1)
    columns = [CPU, CPU + 1][: len(resources)]
    percent = 100 / snapshot.nodes.allocatable[0, columns]
    units = [
        least_by_unit(snapshot.pods.load[:, [column]], count) * each**2
        for column, each in zip(columns, percent, strict=True)
    ]
    bounds = [sum(units), least_by_relaxation(amount, at, moves, nodes=count)]
    if len(resources) == 1:
        bounds.append(least_by_counting(amount[:, 0], at, moves, nodes=count))
    return math.sqrt(max(bounds) / _unevenness(loads)) * 100


def small(seeds: list[int]) -> None:
    print("\n### Small clusters against a mixed-integer solver, for the same number of moves\n")
    print(
        "| nodes | pods | moves | resources | seed | std. dev. before | after | solver | bound "
        "| above the solver's | above the bound | of what can be gained | time | solver's time |"
    )
    print("|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for nodes, pods, moves in _SMALL:
        for resources in (("cpu",), _BOTH):
            for each in (1, *seeds):
                _compare(nodes, pods, moves, resources, each)


def _compare(nodes: int, pods: int, moves: int, resources: tuple[str, ...], seed: int) -> None:
    snapshot = hot_spot(nodes=nodes, pods=pods, seed=seed).freeze(NOW_S)
    found, time_s = _timed(snapshot, **_exactly(resources, moves))
    before, after = (_unevenness(loads) for loads in _loads(found, resources))
    amount, at, _ = _numbers(snapshot, resources)
    began = time.perf_counter()
    best = optimum(amount, at, moves, nodes=nodes, time_s=_SOLVER_S)
    solver_s = time.perf_counter() - began
    deviation = [math.sqrt(each / nodes / len(resources)) for each in (before, after, best.found, best.bound)]
    gained = (before - after) / (before - best.bound)
    print(
        f"| {nodes} | {pods} | {moves} | {' + '.join(resources)} | {seed} "
        f"| {deviation[0]:.2f} | {deviation[1]:.3f} | {deviation[2]:.3f} | {deviation[3]:.3f} "
        f"| {deviation[1] / deviation[2] - 1:+.2%} | {deviation[1] / deviation[3] - 1:+.2%} | {gained:.2%} "
        f"| {time_s * 1000:.0f} ms | {solver_s:.1f} s{'' if best.is_proved else ', not finished'} |",
        flush=True,
    )


def _exactly(resources: tuple[str, ...], moves: int) -> dict[str, Any]:
    """No threshold, no least gain: all that so many moves can do."""
    return {
        "imbalance_threshold": 0.0,
        "min_gain": 0.0,
        "max_reschedule_pods": moves,
        "balance_resources": resources,
    }


def _timed(snapshot: Snapshot, strategies: Sequence[Strategy] = (), **settings: Any) -> tuple[Plan, float]:
    policy = Policy(**settings)
    times = []
    for _ in range(3):
        gc.collect()
        began = time.process_time()
        found = build_plan(snapshot, policy, strategies or [LoadBalancing()])
        times.append(time.process_time() - began)
    return found, min(times)


def _loads(found: Plan, resources: tuple[str, ...]) -> tuple[Floats, Floats]:
    """[node, resource]: before and after, in percent."""
    before = np.array([[node.before[resource] for resource in resources] for node in found.nodes])
    after = np.array([[node.after[resource] for resource in resources] for node in found.nodes])
    return before, after


def _unevenness(loads: Floats) -> float:
    return float(np.square(loads - loads.mean(axis=0)).sum())


def _numbers(snapshot: Snapshot, resources: tuple[str, ...]) -> tuple[Floats, npt.NDArray[np.intp], int]:
    """Pods in percent of a node (all are of one size), where they are, and how many nodes there are."""
    columns = [CPU, CPU + 1][: len(resources)]
    amount = snapshot.pods.load[:, columns] / snapshot.nodes.allocatable[0, columns] * 100
    return amount, snapshot.pods.node.astype(np.intp), len(snapshot.nodes)


def _calibration() -> float:
    """A million additions, the best of three: what this machine does in that time just now."""
    times = []
    for _ in range(3):
        began = time.process_time()
        total = 0
        for number in range(1_000_000):
            total += number
        times.append(time.process_time() - began)
    return min(times)


if __name__ == "__main__":
    main()
