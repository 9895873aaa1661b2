"""NodeMaintenance at scale: 250 of 5,000 nodes to empty, every pod bound by spread and anti-affinity.

30,000 pods in workloads of 3 to 12, spread over five zones (`maxSkew` 1), no two of a workload on one node;
nodes are three quarters full. The moves are checked one by one, by a few lines that know nothing of the
planner: room, anti-affinity and spread when a copy comes, and spread when all is done.
"""

import argparse
import random
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from bench.decode import machine
from rescheduler.api.well_known_names import MAINTENANCE_LABEL
from rescheduler.cluster.cluster_state import ClusterState
from rescheduler.cluster.node_record import NodeCondition, NodeRecord
from rescheduler.cluster.object_meta import OwnerReference
from rescheduler.cluster.pod_constraints import (
    Affinity,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    SchedulingConstraints,
    TopologySpreadConstraint,
)
from rescheduler.cluster.pod_record import PodCondition, PodRecord, PodShape
from rescheduler.cluster.resource_amounts import Resources
from rescheduler.config.policy import Policy
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.node_maintenance import NodeMaintenance

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = 5
NOW_S = 1_780_000_000
GIB = 2**30
CPU_MILLIS, MEMORY = 16_000, 64 * GIB
FULL = 0.75
SIZES = ((500, 2), (1000, 4), (1500, 6), (2000, 8), (2000, 4), (3000, 16), (4000, 8))
"""Of pods, in thousandths of a cpu and GiB."""


@dataclass(slots=True)
class Cluster:
    state: ClusterState = field(default_factory=ClusterState)
    zone_of: dict[str, int] = field(default_factory=dict)
    free: dict[str, list[int]] = field(default_factory=dict)
    """By node: cpu and memory."""
    pods: dict[str, tuple[str, int, int, str]] = field(default_factory=dict)
    """Workload, cpu, memory and node."""
    leaving: set[str] = field(default_factory=set)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.maintenance", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=30_000)
    parser.add_argument("--leaving", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gate", action="store_true", help="exit 1 if the aim is missed")
    options = parser.parse_args(arguments)
    print(machine())

    cluster = made(options.nodes, options.pods, options.leaving, random.Random(options.seed))
    to_move = sum(node in cluster.leaving for *_, node in cluster.pods.values())
    snapshot = cluster.state.freeze(NOW_S)
    policy = Policy(enabled_strategies=(NodeMaintenance.name,), max_reschedule_pods=len(cluster.pods))
    began, began_busy = time.perf_counter(), time.process_time()
    found = build_plan(snapshot, policy, [NodeMaintenance()])
    took_s, busy_s = time.perf_counter() - began, time.process_time() - began_busy

    placed = len({move.uid for move in found.moves if not move.hop})
    faults = violations(cluster, found)
    print(
        f"{options.leaving} of {options.nodes} nodes leave, {len(cluster.pods)} pods, seed {options.seed}:\n"
        f"{placed} of {to_move} pods placed ({placed / to_move:.2%}), {len(faults)} violations, "
        f"planned in {took_s:.1f} s, {busy_s:.1f} s busy ({1 + found.moves[-1].wave} waves)"
    )
    for fault in faults[:5]:
        print(f"  {fault}")
    reached = placed == to_move and not faults
    print("all aims reached" if reached else "to reach: every pod placed, no violation")
    return 1 if options.gate and not reached else 0


def made(nodes: int, pods: int, leaving: int, rng: random.Random) -> Cluster:
    cluster = Cluster()
    names = [f"node-{number:05}" for number in range(nodes)]
    cluster.leaving.update(rng.sample(names, leaving))
    by_zone: defaultdict[int, list[str]] = defaultdict(list)
    for number, name in enumerate(names):
        zone = number % ZONES
        by_zone[zone].append(name)
        cluster.zone_of[name] = zone
        cluster.free[name] = [CPU_MILLIS, MEMORY]
        cluster.state.apply_node(_node(name, zone, in_maintenance=name in cluster.leaving))
    scale = FULL * nodes * CPU_MILLIS / (pods * sum(cpu for cpu, _ in SIZES) / len(SIZES))
    number = 0
    while len(cluster.pods) < pods:
        number += 1
        replicas = min(rng.randint(3, 12), pods - len(cluster.pods))
        cpu, memory = rng.choice(SIZES)
        _workload(cluster, by_zone, f"work-{number}", replicas, (int(cpu * scale), memory * GIB), rng)
    return cluster


def _workload(
    cluster: Cluster,
    by_zone: dict[int, list[str]],
    name: str,
    replicas: int,
    asks: tuple[int, int],
    rng: random.Random,
) -> None:
    shape = _shape(name, *asks)
    first, taken = rng.randrange(ZONES), set[str]()
    for replica in range(replicas):
        node = ""
        while not node or node in taken or any(a > b for a, b in zip(asks, cluster.free[node], strict=True)):
            node = rng.choice(by_zone[(first + replica) % ZONES])
        taken.add(node)
        for resource, amount in enumerate(asks):
            cluster.free[node][resource] -= amount
        pod = _pod(name, replica, node, shape)
        cluster.pods[pod.key] = (name, *asks, node)
        cluster.state.apply_pod(pod)


def _node(name: str, zone: int, *, in_maintenance: bool) -> NodeRecord:
    labels = {ZONE: f"zone-{zone}", HOSTNAME: name} | ({MAINTENANCE_LABEL: "true"} if in_maintenance else {})
    allocatable = Resources(cpu_millis=CPU_MILLIS, memory_bytes=MEMORY, pods=110)
    ready = (NodeCondition("Ready", "True"),)
    return NodeRecord(name=name, uid=name, labels=labels, allocatable=allocatable, conditions=ready)


def _shape(name: str, cpu_millis: int, memory: int) -> tuple[PodShape, Affinity]:
    selector = LabelSelector(match_labels=(("app", name),))
    spread = TopologySpreadConstraint(1, ZONE, "DoNotSchedule", selector)
    apart = PodAffinity(required=(PodAffinityTerm(HOSTNAME, selector),))
    shape = PodShape(
        constraints=SchedulingConstraints(spread=(spread,)),
        requests=Resources(cpu_millis=cpu_millis, memory_bytes=memory),
        scheduler_name="default-scheduler",
        restart_policy="Always",
    )
    return shape, Affinity(pod_anti_affinity=apart)


def _pod(name: str, replica: int, node: str, shape: tuple[PodShape, Affinity]) -> PodRecord:
    return PodRecord(
        key=f"bench/{name}-{replica}",
        namespace="bench",
        uid=f"{name}-{replica}",
        created_s=NOW_S - 86_400,
        labels={"app": name},
        owners=(OwnerReference("ReplicaSet", name, name, "apps/v1", controller=True),),
        node=node,
        shape=shape[0],
        affinity=shape[1],
        requests=shape[0].requests,
        phase="Running",
        conditions=(PodCondition("Ready", "True"),),
    )


def violations(cluster: Cluster, found: Plan) -> list[str]:
    """Every copy comes while its source is still there, one move after the other."""
    free = {node: list(amounts) for node, amounts in cluster.free.items()}
    on_node: Counter[tuple[str, str]] = Counter()
    in_zone: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for workload, _, _, node in cluster.pods.values():
        on_node[workload, node] += 1
        in_zone[workload][cluster.zone_of[node]] += 1
    faults: list[str] = []
    for move in found.moves:
        workload, cpu, memory, _ = cluster.pods[move.pod]
        target, zones = str(move.target), in_zone[workload]
        zone, left = cluster.zone_of[target], free[target]
        emptiest = min(zones[each] for each in range(ZONES))
        if target in cluster.leaving or left[0] < cpu or left[1] < memory:
            faults.append(f"{move.pod} does not fit on {target}")
        if on_node[workload, target]:
            faults.append(f"{move.pod} comes to another of its kind on {target}")
        if zones[zone] + 1 - emptiest > 1:
            faults.append(f"{move.pod} is one too many in zone {zone}")
        for node, by in ((target, 1), (move.source, -1)):
            free[node][0] -= by * cpu
            free[node][1] -= by * memory
            on_node[workload, node] += by
            zones[cluster.zone_of[node]] += by
    for workload, zones in in_zone.items():
        counts = [zones[zone] for zone in range(ZONES)]
        if max(counts) - min(counts) > 1:
            faults.append(f"{workload} is no longer spread evenly: {counts}")
    return faults


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
