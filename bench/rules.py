"""What asking the rules costs on a big cluster, against one plain numpy pass over its nodes in the same run.

    python -m bench.rules [--nodes 5000] [--pods 150000] [--seed 1]

The pass compares two columns of all nodes: any check of every node costs at least that.
Times are processor time; of many pods of one kind, the median.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from bench.clusters import NOW_S, big_cluster
from rescheduler.cluster.snapshot import NO_ROW, PodClass, Snapshot
from rescheduler.rules.placement import Placement

__all__ = ["main"]

SAMPLE = 300


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.rules", description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    snapshot = big_cluster(asked.nodes, asked.pods, seed=asked.seed).state().freeze(NOW_S)
    print(f"{len(snapshot.nodes)} nodes, {len(snapshot.pods)} pods, {len(snapshot.classes)} classes")
    unit = plain_pass(snapshot)
    print(f"{'a plain pass over the nodes':44}{unit:10.1f} µs")
    rng = random.Random(asked.seed)
    for name, micros in measured(snapshot, rng):
        print(f"{name:44}{micros:10.1f} µs{micros / unit:10.1f} x")
    return 0


def plain_pass(snapshot: Snapshot) -> float:
    free = np.ascontiguousarray((snapshot.nodes.allocatable - snapshot.nodes.requested).T)
    return median_micros(lambda _: (free[0] >= 500) & (free[1] >= 1 << 30), range(SAMPLE))


def measured(snapshot: Snapshot, rng: random.Random) -> Iterable[tuple[str, float]]:
    yield "Board(snapshot)", median_micros(lambda _: Placement(snapshot), range(5))
    placement = Placement(snapshot)
    kinds: dict[str, Callable[[PodClass], bool]] = {
        "plain": lambda each: not between_pods(each) and not each.volumes,
        "spread or affinity": between_pods,
        "with claims": lambda each: bool(each.volumes) and not between_pods(each),
    }
    for kind, includes in kinds.items():
        pods = sample(snapshot, includes, rng)
        first = micros_each(lambda pod: placement.fits(pod, source_stays=True), pods)
        yield f"fits, {kind}: the very first", first[0]
        yield f"fits, {kind}: first of its class", statistics.median(first)
        yield f"fits, {kind}: later", median_micros(lambda pod: placement.fits(pod, source_stays=True), pods)
        yield (
            f"fits, {kind}: without its source",
            median_micros(lambda pod: placement.fits(pod, source_stays=False), pods),
        )
        yield (
            f"fits_on, {kind}",
            median_micros(
                lambda pod: placement.fits_on(pod, pod % len(snapshot.nodes), source_stays=True), pods
            ),
        )
        with placement.trial():
            yield (
                f"move, {kind}",
                median_micros(lambda pod: placement.move(pod, pod % len(snapshot.nodes)), pods),
            )


def between_pods(pod_class: PodClass) -> bool:
    affinity = pod_class.affinity
    return bool(
        pod_class.constraints.spread or affinity.pod_affinity.required or affinity.pod_anti_affinity.required
    )


def sample(snapshot: Snapshot, includes: Callable[[PodClass], bool], rng: random.Random) -> Sequence[int]:
    """Pods of as many different classes."""
    of_kind = {number for number, each in enumerate(snapshot.classes) if includes(each)}
    placed = [pod for pod in range(len(snapshot.pods)) if snapshot.pods.node[pod] != NO_ROW]
    by_class = {int(snapshot.pods.pod_class[pod]): pod for pod in placed}
    found = [pod for number, pod in sorted(by_class.items()) if number in of_kind]
    return rng.sample(found, min(SAMPLE, len(found)))


def median_micros(act: Callable[[int], object], over: Iterable[int]) -> float:
    return statistics.median(micros_each(act, over))


def micros_each(act: Callable[[int], object], over: Iterable[int]) -> list[float]:
    found = []
    for each in over:
        start = time.process_time_ns()
        act(each)
        found.append((time.process_time_ns() - start) / 1000)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
