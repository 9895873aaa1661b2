"""The snapshot of a big cluster: from cached records, and after single changes.

    python -m bench.snapshot [--nodes 5000] [--pods 150000] [--repeat 3]

Times are of the processor and the best of several, beside a loop that never changes: what can be compared
between machines is the ratio to it. Memory is that of this process, records included.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable
from resource import RUSAGE_SELF, getrusage

import msgspec

from bench.clusters import NOW_S, BigCluster, big_cluster, usage_of
from bench.decode import calibration, resident_bytes
from rescheduler.cluster.cluster_state import ClusterState
from rescheduler.cluster.snapshot import Snapshot

CHANGES = 1_000


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.snapshot", description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args(arguments)
    loop_ms = min(calibration() for _ in range(options.repeat))
    print(f"machine: {loop_ms:.0f} ms for a loop of 5 million additions")
    began = time.process_time()
    cluster = big_cluster(options.nodes, options.pods)
    records = resident_bytes()
    print(
        f"{len(cluster.nodes)} nodes, {len(cluster.pods)} pods, {len(cluster.workloads)} workloads "
        f"in {len(cluster.namespaces)} namespaces, {len(cluster.storage)} objects about storage: made in "
        f"{time.process_time() - began:.1f} s, {records >> 20} MB"
    )
    states: list[ClusterState] = []

    def from_records() -> None:
        states[:] = [cluster.state()]
        states[0].freeze(NOW_S)

    show("from cached records to a snapshot", best_ms(from_records, options.repeat), loop_ms)
    state = states[0]
    kept = resident_bytes()
    measure_changes(state, cluster, options.repeat, loop_ms)
    snapshot = state.freeze(NOW_S)
    peak = getrusage(RUSAGE_SELF).ru_maxrss << 10
    print(f"{len(snapshot.classes)} classes, {len(snapshot.workloads)} workloads with pods")
    print(f"columns of a snapshot: {columns_bytes(snapshot) / 2**20:.1f} MB")
    print(
        f"state and snapshot keep {(kept - records) / len(cluster.pods):.0f} B per pod; peak {peak >> 20} MB"
    )
    return 0


def measure_changes(state: ClusterState, cluster: BigCluster, repeat: int, loop_ms: float) -> None:
    pods = cluster.pods[:: max(1, len(cluster.pods) // CHANGES)]
    nodes = [node.name for node in cluster.nodes]

    def status_only() -> None:
        for number, pod in enumerate(pods):
            state.apply_pod(msgspec.structs.replace(pod, resource_version=str(number)))

    def to_another_node() -> None:
        for number, pod in enumerate(pods):
            state.apply_pod(msgspec.structs.replace(pod, node=nodes[number % len(nodes)]))

    def removed_and_added() -> None:
        for pod in pods:
            state.remove_pod(pod.key)
        for pod in pods:
            state.apply_pod(pod)

    for title, change, count in (
        ("one pod changed", status_only, len(pods)),
        ("one pod on another node", to_another_node, len(pods)),
        ("one pod gone or come", removed_and_added, 2 * len(pods)),
    ):
        each_us = best_ms(change, repeat) * 1000 / count
        print(f"{title:36}{each_us:9.1f} µs {each_us / 1000 / loop_ms:11.6f}")
    show("frozen again, nothing changed", best_ms(lambda: state.freeze(NOW_S), repeat), loop_ms)
    show("frozen again, pods changed", best_ms(lambda: state.freeze(NOW_S), repeat, status_only), loop_ms)
    show(
        "frozen again, pods gone and come",
        best_ms(lambda: state.freeze(NOW_S), repeat, removed_and_added),
        loop_ms,
    )
    usage = usage_of(cluster)
    show("usage of all pods", best_ms(lambda: state.apply_usage(usage), repeat), loop_ms)
    show("frozen again, all measured", best_ms(lambda: state.freeze(NOW_S), repeat), loop_ms)


def best_ms(work: Callable[[], object], repeat: int, before: Callable[[], object] | None = None) -> float:
    found = []
    for _ in range(repeat):
        if before is not None:
            before()
        gc.collect()
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found) * 1000


def show(title: str, took_ms: float, loop_ms: float) -> None:
    print(f"{title:36}{took_ms:9.1f} ms {took_ms / loop_ms:11.2f} loops", flush=True)


def columns_bytes(snapshot: Snapshot) -> int:
    tables = (snapshot.nodes, snapshot.pods)
    names = [(table, name) for table in tables for name in table.__slots__]
    return sum(getattr(getattr(table, name), "nbytes", 0) for table, name in names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
