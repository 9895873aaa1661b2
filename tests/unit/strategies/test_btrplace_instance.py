"""BtrPlace's instances, read into a snapshot and planned by NodeMaintenance; a small one in the same form."""

import random
from typing import Any

import pytest

from bench.btrplace import Instance, read_instance, snapshot_of, steps_of, violations
from rescheduler.config.policy import Policy
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.node_maintenance import NodeMaintenance

NODES, PARTS, LEAVING, GROUPS, SIZE = 40, 4, 4, 40, 5


def documents(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an instance in which nodes are off and their VMs wait, and the one in which all run."""
    rng = random.Random(seed)
    of_part = [[*range(part, NODES, PARTS)] for part in range(PARTS)]
    groups = [[*range(number * SIZE, (number + 1) * SIZE)] for number in range(GROUPS)]
    host = {
        vm: node
        for number, vms in enumerate(groups)
        for vm, node in zip(vms, rng.sample(of_part[number % PARTS], SIZE), strict=True)
    }
    off = rng.sample(range(NODES), LEAVING)
    waiting = [vm for vm, node in host.items() if node in off]
    constraints: list[dict[str, Any]] = [{"id": "offline", "node": node} for node in off]
    constraints += [{"id": "online", "node": node} for node in range(NODES) if node not in off]
    constraints += [{"id": "running", "vm": vm} for vm in waiting]
    constraints += [{"id": "spread", "vms": vms} for vms in groups]
    constraints += [{"id": "among", "vms": vms, "parts": of_part} for vms in groups[::3]]
    sizes = {str(vm): rng.choice((100, 200)) for vm in host}
    views = [
        {"id": "ns", "type": "vm", "map": {f"clients.c{vm // SIZE}.VM{vm}": vm for vm in host}},
        {"id": "ns", "type": "node", "map": {f"@N{node}": node for node in range(NODES)}},
        _resource("uCpu", 200, {vm: size // 10 for vm, size in sizes.items()}),
        _resource("memory", 1600, sizes),
    ]

    def document(without: list[int]) -> dict[str, Any]:
        online = {
            str(node): {"sleepingVMs": [], "runningVMs": [vm for vm, on in host.items() if on == node]}
            for node in range(NODES)
            if node not in without
        }
        return {"model": {"mapping": {"onlineNodes": online}, "views": views}, "constraints": constraints}

    return document(off), document([])


def _resource(name: str, capacity: int, vms: dict[str, int]) -> dict[str, Any]:
    nodes = {str(node): capacity for node in range(NODES)}
    return {"id": "shareableResource", "rcId": name, "nodes": nodes, "vms": vms}


@pytest.mark.parametrize("seed", range(5))
def test_every_vm_of_a_leaving_node_gets_a_place_within_the_constraints(seed: int) -> None:
    instance = read_instance(*documents(seed))
    policy = Policy(enabled_strategies=(NodeMaintenance.name,), max_reschedule_pods=len(instance.vms))
    plan = build_plan(snapshot_of(instance), policy, [NodeMaintenance()])
    steps = steps_of(plan)
    assert {vm for vm, _, _ in steps} == instance.must_run
    assert violations(instance, steps) == []


def small() -> Instance:
    return Instance(
        nodes={"n0": (2, 2), "n1": (2, 2), "n2": (2, 2), "n3": (1, 2)},
        vms={"a": (1, 1), "b": (1, 1), "c": (2, 1)},
        hosts={"a": "n0", "b": "n1", "c": "n2"},
        leaving={"n0"},
        must_run={"a"},
        spread=[["a", "b"]],
        among=[["b", "c"]],
        part_of={"n0": 0, "n1": 0, "n2": 0, "n3": 1},
    )


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        pytest.param([("a", "n0", "n3")], None, id="a place that breaks nothing"),
        pytest.param([], "a is on n0", id="a VM that stays on a leaving node"),
        pytest.param([("a", "n0", "n1")], "a comes to another of its group on n1", id="a broken spread"),
        pytest.param([("a", "n0", "n2")], "a has no room on n2", id="a full node"),
        pytest.param(
            [("a", "n0", "n3"), ("b", "n1", "n3")], "the group of b is in several parts", id="among"
        ),
        pytest.param([("a", "n1", "n3")], "a is not on n1", id="a source that the VM is not on"),
    ],
)
def test_the_check_of_a_plan_finds(steps: list[tuple[str, str, str]], fault: str | None) -> None:
    faults = violations(small(), steps)
    assert fault in faults if fault else faults == []


def test_instances_of_different_numbers_are_rejected() -> None:
    with pytest.raises(ValueError, match="different numbers"):
        read_instance(documents(1)[0], documents(2)[1])
