"""MakeRoom on the shape of a production cluster: pods that wait for 8 GPUs, and the moves that place them.

The cluster is that of `bench.openb`: almost half of the GPUs are free, scattered over many nodes. Beside the
moves stands a bound that no algorithm can beat: an 8-GPU pod needs a node to itself, and of each node the
pods must leave that hold what it lacks, the largest first. As many of the cheapest nodes are counted as pods
were placed. The bound ignores where the pods that leave could go.
"""

import argparse
import sys
import time
from collections.abc import Mapping

import msgspec
import numpy as np

from bench.decode import machine
from bench.openb import GPU_MILLI, NOW_S, Ints, drifted, pod_record, tables
from rescheduler.cluster.pod_record import PodCondition, PodRecord
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.config.policy import Policy
from rescheduler.config.policy_blocks import MakeRoomPolicy
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.make_room import MakeRoom

ASKS = np.array([64_000, 262_144, 8_000])
"""One of the trace's own pods: 64 cores, 256 GiB, 8 GPUs."""
AT_MOST = 1.25
"""Moves, as a multiple of the bound."""
_WAITS = PodCondition("PodScheduled", "False", "Unschedulable", "Insufficient gpu-milli", NOW_S - 3600)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.pending_gpus", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pods", type=int, default=50, help="that wait for 8 GPUs")
    parser.add_argument("--max-moves", type=int, default=10, help="makeRoom.maxMoves")
    parser.add_argument("--gate", action="store_true", help="exit 1 if the aim is missed")
    options = parser.parse_args(arguments)
    print(machine())

    nodes, node_counts, pods, pod_counts = tables()
    snapshot = drifted(
        np.repeat(nodes, node_counts, axis=0),
        np.repeat(pods, pod_counts, axis=0),
        options.seed,
        [_pending(number) for number in range(options.pods)],
    )
    policy = Policy(
        enabled_strategies=(MakeRoom.name,),
        max_reschedule_pods=len(snapshot.pods),
        make_room=MakeRoomPolicy(max_moves=options.max_moves),
    )
    gpus = snapshot.resources.index(GPU_MILLI)
    at_once = int((_free(snapshot)[:, gpus] >= ASKS[2]).sum())
    began, began_busy = time.perf_counter(), time.process_time()
    made = build_plan(snapshot, policy, [MakeRoom()])
    took_s, busy_s = time.perf_counter() - began, time.process_time() - began_busy

    rooms = {room.pod: room.node for move in made.moves for room in move.rooms}
    bound = _fewest_moves(snapshot, gpus, len(rooms))
    before, after = _scattered(snapshot, gpus, {}), _scattered(snapshot, gpus, _targets(made))
    moves = len(made.moves)
    print(
        f"openb, seed {options.seed}: {options.pods} pods wait for 8 GPUs; {at_once} nodes have 8 free\n"
        f"room made for {len(rooms)} with {moves} moves, {moves / max(len(rooms), 1):.2f} each; "
        f"at least {bound} are needed ({moves / max(bound, 1):.2f} times that)\n"
        f"free GPUs on nodes with less than 8: {before:.0f} before, {after:.0f} after "
        f"({(before - after) / max(moves, 1):.1f} per move; "
        f"{(before - after) / max(bound, 1):.1f} with the fewest moves that any plan needs)\n"
        f"planned in {took_s:.1f} s, {busy_s:.1f} s busy"
    )
    is_reached = len(rooms) >= options.pods - at_once and moves <= AT_MOST * bound
    print("all aims reached" if is_reached else f"to reach: every pod, at most {AT_MOST} times the bound")
    return 1 if options.gate and not is_reached else 0


def _pending(number: int) -> PodRecord:
    pod = pod_record(f"train-{number:03}", "", ASKS)
    return msgspec.structs.replace(pod, owners=(), phase="Pending", conditions=(_WAITS,))


def _free(snapshot: Snapshot) -> Ints:
    return snapshot.nodes.allocatable - snapshot.nodes.requested


def _fewest_moves(snapshot: Snapshot, gpus: int, rooms: int) -> int:
    """How many pods have to leave at least, if so many nodes are chosen as well as possible."""
    amounts = snapshot.pods.requests[:, [0, 1, gpus]]
    asks = np.array([ASKS[0], ASKS[1] * 2**20, ASKS[2]])
    free = _free(snapshot)[:, [0, 1, gpus]]
    fits = (snapshot.nodes.allocatable[:, [0, 1, gpus]] >= asks).all(axis=1)
    needed = sorted(
        max(
            _largest_first(amounts[snapshot.pods.on(node), part], asks[part] - free[node, part])
            for part in range(3)
        )
        for node in np.flatnonzero(fits).tolist()
    )
    already = sum(count == 0 for count in needed)
    return sum(needed[already : already + rooms])


def _largest_first(amounts: Ints, lacking: int) -> int:
    given = np.cumsum(-np.sort(-amounts))
    return 0 if lacking <= 0 else int((given < lacking).sum()) + 1


def _targets(plan: Plan) -> dict[str, str]:
    found = {move.pod: str(move.target) for move in plan.moves}
    return found | {room.pod: room.node for move in plan.moves for room in move.rooms}


def _scattered(snapshot: Snapshot, gpus: int, targets: Mapping[str, str]) -> float:
    """GPUs that are free on nodes where less than 8 are."""
    pods, nodes = snapshot.pods, snapshot.nodes
    free = _free(snapshot)[:, gpus].copy()
    for key, target in targets.items():
        pod = pods.row[key]
        if pods.node[pod] >= 0:
            free[pods.node[pod]] += pods.requests[pod, gpus]
        free[nodes.row[target]] -= pods.requests[pod, gpus]
    return float(free[free < ASKS[2]].sum()) / 1000


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
