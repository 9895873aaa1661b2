"""Growth up to the largest clusters that providers offer: snapshot, freeze, plan, check, memory.

    python -m bench.scale [--nodes 65000 --pods 650000]

Each size is measured in a process of its own, from generated records with measured usage. Times are processor
seconds. A check is what the daemon does once per interval; beside it stands the longest time that a task on
the event loop waited for its turn meanwhile. Growth is an exponent: 1 if twice the cluster takes twice the
time.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import math
import subprocess
import sys
import time
from resource import RUSAGE_SELF, getrusage

from bench import figures
from bench.clusters import NOW_S, big_cluster, usage_of
from bench.decode import calibration, machine
from bench.event_loop import measure
from rescheduler.config.policy import Policy
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.load_balancing import LoadBalancing

SIZES = ((1_250, 37_500), (5_000, 150_000), (15_000, 450_000), (65_000, 650_000))
CHECKS = 3
"""The first ones only gather usage."""
AT_MOST_GROWTH, AT_MOST_CHECK_S, AT_MOST_MB, AT_MOST_WAIT_MS = 1.1, 10.0, 3_000, 100
COLUMNS = ("snapshot_s", "freeze_s", "plan_s", "check_s")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, help="measure one size in this process, and print it as JSON")
    parser.add_argument("--pods", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.nodes:
        with contextlib.redirect_stdout(sys.stderr):
            found = one_size(options.nodes, options.pods or 10 * options.nodes)
        print(json.dumps(found))
        return 0
    print(machine())
    print(
        "\n| nodes | pods | records → snapshot | freeze | 1,000 moves | one check | longest wait | peak "
        "| calibration loop |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    sizes = []
    for nodes, pods in SIZES:
        command = [sys.executable, "-m", "bench.scale", f"--nodes={nodes}", f"--pods={pods}"]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        size = json.loads(output)
        sizes.append(size)
        times = " | ".join(f"{size[column]:.2f} s" for column in COLUMNS)
        print(
            f"| {nodes:,} | {pods:,} | {times} | {size['wait_ms']:.0f} ms | {size['peak_mb']:,} MB "
            f"| {size['loop_ms']:.0f} ms |",
            flush=True,
        )
    return judge(sizes)


def one_size(nodes: int, pods: int) -> dict[str, float]:
    cluster = big_cluster(nodes, pods)
    usage = usage_of(cluster)
    gc.collect()
    gc.freeze()
    began_s = time.process_time()
    state = cluster.state()
    state.freeze(NOW_S)
    snapshot_s = time.process_time() - began_s
    state.apply_usage(usage)
    state.freeze(NOW_S)
    began_s = time.process_time()
    snapshot = state.freeze(NOW_S)
    freeze_s = time.process_time() - began_s
    began_s = time.process_time()
    plan = build_plan(snapshot, Policy(max_reschedule_pods=1_000), [LoadBalancing()])
    plan_s = time.process_time() - began_s
    assert len(plan.moves) == 1_000, len(plan.moves)
    del plan, snapshot, state, usage
    check_s, wait_s = asyncio.run(measure(cluster, CHECKS))
    return {
        "nodes": nodes,
        "pods": pods,
        "snapshot_s": snapshot_s,
        "freeze_s": freeze_s,
        "plan_s": plan_s,
        "check_s": check_s,
        "wait_ms": wait_s * 1000,
        "peak_mb": getrusage(RUSAGE_SELF).ru_maxrss >> 10,
        "loop_ms": calibration(),
    }


def judge(sizes: list[dict[str, float]]) -> int:
    smallest, largest = sizes[0], sizes[-1]
    growth = {
        column: math.log(largest[column] / smallest[column]) / math.log(largest["nodes"] / smallest["nodes"])
        for column in COLUMNS
    }
    aims = [
        (f"growth of {column.removesuffix('_s')}", value, AT_MOST_GROWTH) for column, value in growth.items()
    ]
    aims += [
        ("a check, in s", largest["check_s"], AT_MOST_CHECK_S),
        ("peak, in MB", largest["peak_mb"], AT_MOST_MB),
        ("longest wait, in ms", largest["wait_ms"], AT_MOST_WAIT_MS),
    ]
    print(f"\n| {largest['nodes']:,} nodes, growth as an exponent | | target | |\n|---|--:|--:|---|")
    for name, value, target in aims:
        print(f"| {name} | {value:,.2f} | {target:,} | {figures.verdict(value, target)} |")
    figures.record("scale", [*sizes, {"growth": growth}])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
