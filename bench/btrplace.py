"""NodeMaintenance on BtrPlace's published instances: 250 of 5,000 servers leave, 30,000 VMs.

    python -m bench.btrplace FOLDER      # li-r6-p5000-c100-0.json.gz, nr-r6-p5000-c100-0.json.gz, …

The instances are those of BtrPlace's TDSC benchmark (github.com/btrplace/workloads-tdsc), which states no
licence, so they are not part of this repository. In an `nr` instance the servers that leave are already off
and their VMs wait without a server. The `li` instance of the same number has the same servers, VMs and
placement with every server on, so it says where those VMs come from.

A VM becomes a pod, `spread` a required anti-affinity by hostname, and `among` (all VMs within one of 20
parts) a required affinity by a node label of the part. The moves are checked one by one against the published
constraints by a few lines that know nothing of the planner.
"""

import argparse
import gzip
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.decode import machine
from rescheduler.api.well_known_names import MAINTENANCE_LABEL
from rescheduler.cluster.cluster_state import ClusterState
from rescheduler.cluster.node_record import NodeCondition, NodeRecord
from rescheduler.cluster.object_meta import OwnerReference
from rescheduler.cluster.pod_constraints import Affinity, LabelSelector, PodAffinity, PodAffinityTerm
from rescheduler.cluster.pod_record import PodCondition, PodRecord, PodShape
from rescheduler.cluster.resource_amounts import Resources
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.config.policy import Policy
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.node_maintenance import NodeMaintenance

__all__ = ["Instance", "read_instance", "snapshot_of", "violations"]

NOW_S = 1_780_000_000
HOSTNAME, PART = "kubernetes.io/hostname", "btrplace.example.com/part"
MILLIS_PER_UNIT, BYTES_PER_UNIT = 10, 2**20
AT_MOST_S = 5.0
PUBLISHED = "published: 180 s, 30 s in partitions of 2,500 servers"


@dataclass(slots=True)
class Instance:
    """What an instance says, by the names that all instances of one number share."""

    nodes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Capacity: cpu and memory."""
    vms: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Consumption: cpu and memory."""
    hosts: dict[str, str] = field(default_factory=dict)
    """By VM: the node that it runs on before."""
    leaving: set[str] = field(default_factory=set)
    must_run: set[str] = field(default_factory=set)
    spread: list[list[str]] = field(default_factory=list)
    """No two of these VMs on one node, at any time."""
    among: list[list[str]] = field(default_factory=list)
    """All of these VMs in one part, at any time."""
    part_of: dict[str, int] = field(default_factory=dict)
    """By node."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.btrplace", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="of the instances, as *.json.gz")
    parser.add_argument("--gate", action="store_true", help="exit 1 if the aim is missed")
    options = parser.parse_args(arguments)
    found = sorted(options.folder.glob("nr-*.json.gz")) if options.folder else []
    if not found:
        print("bench.btrplace: no instances; download github.com/btrplace/workloads-tdsc and name its folder")
        return 0 if options.folder is None else 1
    print(machine())
    reached = [_measure(path) for path in found]
    print("all aims reached" if all(reached) else f"to reach: all placed, no violation, {AT_MOST_S:.0f} s")
    return 1 if options.gate and not all(reached) else 0


def _measure(path: Path) -> bool:
    before = path.with_name(path.name.replace("nr-", "li-", 1).replace("-c33-", "-c100-"))
    instance = read_instance(_document(path), _document(before))
    snapshot = snapshot_of(instance)
    policy = Policy(enabled_strategies=(NodeMaintenance.name,), max_reschedule_pods=len(instance.vms))
    began, began_busy = time.perf_counter(), time.process_time()
    plan = build_plan(snapshot, policy, [NodeMaintenance()])
    took_s, busy_s = time.perf_counter() - began, time.process_time() - began_busy
    placed = {move.pod.partition("/")[2] for move in plan.moves if not move.hop} & instance.must_run
    faults = violations(instance, steps_of(plan))
    print(
        f"{path.name}: {len(instance.leaving)} of {len(instance.nodes)} nodes leave, "
        f"{len(instance.vms)} VMs, {len(instance.spread)} spread and {len(instance.among)} among\n"
        f"{len(placed)} of {len(instance.must_run)} placed, {len(faults)} violations, "
        f"{len(plan.moves)} moves in {1 + max(move.wave for move in plan.moves)} waves, "
        f"planned in {took_s:.1f} s, {busy_s:.1f} s busy ({PUBLISHED})"
    )
    for fault in faults[:5]:
        print(f"  {fault}")
    return placed == instance.must_run and not faults and busy_s < AT_MOST_S


def _document(path: Path) -> dict[str, Any]:
    with gzip.open(path) as file:
        document: dict[str, Any] = json.load(file)
    return document


def read_instance(document: Mapping[str, Any], before: Mapping[str, Any]) -> Instance:
    """Read an instance; `before` has the same VMs and says where all of them run."""
    views = document["model"]["views"]
    vm, node = _names(views, "vm"), _names(views, "node")
    amounts = {view["rcId"]: view for view in views if view["id"] == "shareableResource"}
    cpu, memory = amounts["uCpu"], amounts["memory"]
    instance = Instance(
        nodes={name: (cpu["nodes"][str(each)], memory["nodes"][str(each)]) for each, name in node.items()},
        vms={name: (cpu["vms"][str(each)], memory["vms"][str(each)]) for each, name in vm.items()},
        hosts=_hosts(before),
    )
    if not _hosts(document).items() <= instance.hosts.items():
        raise ValueError(
            "the two instances place the same VMs on different nodes: they are of different numbers"
        )
    for each in document["constraints"]:
        kind = each["id"]
        if kind == "offline":
            instance.leaving.add(node[each["node"]])
        elif kind == "running":
            instance.must_run.add(vm[each["vm"]])
        elif kind in ("spread", "among"):
            getattr(instance, kind).append(sorted(vm[number] for number in each["vms"]))
            for part, nodes in enumerate(each.get("parts", ())):
                instance.part_of.update((node[number], part) for number in nodes)
        elif kind != "online":
            raise ValueError(f"constraint {kind!r} is not known")
    return instance


def _names(views: Iterable[Mapping[str, Any]], kind: str) -> dict[int, str]:
    return {
        number: name.removeprefix("@").lower()
        for view in views
        if view["id"] == "ns" and view["type"] == kind
        for name, number in view["map"].items()
    }


def _hosts(document: Mapping[str, Any]) -> dict[str, str]:
    views = document["model"]["views"]
    vm, node = _names(views, "vm"), _names(views, "node")
    online = document["model"]["mapping"]["onlineNodes"]
    return {vm[each]: node[int(number)] for number, on in online.items() for each in on["runningVMs"]}


def snapshot_of(instance: Instance) -> Snapshot:
    state = ClusterState()
    for name, (cpu, memory) in instance.nodes.items():
        labels = {HOSTNAME: name, PART: f"{instance.part_of.get(name, '')}"}
        if name in instance.leaving:
            labels[MAINTENANCE_LABEL] = "true"
        allocatable = Resources(
            cpu_millis=cpu * MILLIS_PER_UNIT, memory_bytes=memory * BYTES_PER_UNIT, pods=110
        )
        ready = (NodeCondition("Ready", "True"),)
        state.apply_node(
            NodeRecord(name=name, uid=name, labels=labels, allocatable=allocatable, conditions=ready)
        )
    for pod in _pods(instance):
        state.apply_pod(pod)
    return state.freeze(NOW_S)


def _pods(instance: Instance) -> Iterator[PodRecord]:
    apart = {vm: f"spread-{number}" for number, group in enumerate(instance.spread) for vm in group}
    near = {vm: f"among-{number}" for number, group in enumerate(instance.among) for vm in group}
    for vm, (cpu, memory) in instance.vms.items():
        labels: dict[str, str] = {}
        terms: dict[str, PodAffinity] = {}
        for label, group, topology in (("spread", apart.get(vm), HOSTNAME), ("among", near.get(vm), PART)):
            if group is not None:
                labels[label] = group
                selector = LabelSelector(match_labels=((label, group),))
                terms[label] = PodAffinity(required=(PodAffinityTerm(topology, selector),))
        requests = Resources(cpu_millis=cpu * MILLIS_PER_UNIT, memory_bytes=memory * BYTES_PER_UNIT)
        owner = apart.get(vm) or vm.rpartition(".")[0]
        yield PodRecord(
            key=f"btrplace/{vm}",
            namespace="btrplace",
            uid=vm,
            created_s=NOW_S - 86_400,
            labels=labels,
            owners=(OwnerReference("ReplicaSet", owner, owner, "apps/v1", controller=True),),
            node=instance.hosts[vm],
            shape=PodShape(requests=requests, scheduler_name="default-scheduler", restart_policy="Always"),
            affinity=Affinity(
                pod_affinity=terms.get("among", PodAffinity()),
                pod_anti_affinity=terms.get("spread", PodAffinity()),
            ),
            requests=requests,
            phase="Running",
            conditions=(PodCondition("Ready", "True"),),
        )


def steps_of(plan: Plan) -> list[tuple[str, str, str]]:
    """Return VM, source and target of each move, in the plan's order."""
    return [(move.pod.partition("/")[2], move.source, str(move.target)) for move in plan.moves]


def violations(instance: Instance, steps: Iterable[tuple[str, str, str]]) -> list[str]:
    """Check the published constraints after each step; a VM runs on both nodes until its step is done."""
    runs_on = {vm: {node} for vm, node in instance.hosts.items()}
    group_of = {
        kind: {vm: group for group in getattr(instance, kind) for vm in group} for kind in ("spread", "among")
    }
    used: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for vm, node in instance.hosts.items():
        used[node].update(dict(enumerate(instance.vms[vm])))
    faults: list[str] = []
    for vm, source, target in steps:
        if runs_on[vm] != {source}:
            faults.append(f"{vm} is not on {source}")
        runs_on[vm].add(target)
        used[target].update(dict(enumerate(instance.vms[vm])))
        if target in instance.leaving or any(
            used[target][index] > capacity for index, capacity in enumerate(instance.nodes[target])
        ):
            faults.append(f"{vm} has no room on {target}")
        others = [other for other in group_of["spread"].get(vm, ()) if other != vm]
        if any(target in runs_on[other] for other in others):
            faults.append(f"{vm} comes to another of its group on {target}")
        members = group_of["among"].get(vm, ())
        if len({instance.part_of[node] for member in members for node in runs_on[member]}) > 1:
            faults.append(f"the group of {vm} is in several parts")
        runs_on[vm].discard(source)
        used[source].subtract(dict(enumerate(instance.vms[vm])))
    faults += [f"{vm} is on {node}" for vm, on in runs_on.items() for node in on & instance.leaving]
    faults += [f"{vm} does not run" for vm in instance.vms if len(runs_on.get(vm, ())) != 1]
    return faults


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
