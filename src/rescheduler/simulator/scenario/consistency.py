"""What no part of a scenario can know alone: whether the parts fit together."""

from collections import Counter
from collections.abc import Iterator

from rescheduler.simulator.behaviour.values import NOTHING
from rescheduler.simulator.scenario.shape import Scenario

__all__ = ["contradictions"]


def contradictions(scenario: Scenario) -> Iterator[str]:
    """Each with its path."""
    yield from _twice(scenario)
    nodes = {machine.name for machine in scenario.machines()}
    nodes |= {item["metadata"]["name"] for item in scenario.objects if item["kind"] == "Node"}
    for place, workload in enumerate(scenario.workloads):
        path = f"workloads[{place}].on"
        for name in dict.fromkeys(workload.on):
            if name not in nodes:
                yield f"{path}: {name!r}: there is no such node; there are {_some(sorted(nodes))}"
        if workload.on and workload.kind != "Pod" and scenario.settle == NOTHING:
            yield f"{path}: needs a `settle` that is longer than 0s: until then there are no pods to place"
    for place, event in enumerate(scenario.events):
        action, given = event.action
        if action in ("cordon", "uncordon", "kill", "revive"):
            for name in given:
                if name not in nodes and not set(name) & set("*?["):
                    yield f"events[{place}].{action}: {name!r}: there is no such node"


def _twice(scenario: Scenario) -> Iterator[str]:
    names = Counter(machine.name for machine in scenario.machines())
    for name, count in names.items():
        if count > 1:
            yield f"nodes, pools: {name!r}: {count} nodes of this name"
    workloads = Counter((each.kind, each.namespace, each.name) for each in scenario.workloads)
    for (kind, namespace, name), count in workloads.items():
        if count > 1:
            yield f"workloads: {kind} {namespace}/{name}: given {count} times"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:8]) or "none"
    return f"{shown}, …" if len(names) > 8 else shown
