"""Which rules speak of this container or this node, and what they say taken together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from rescheduler.simulator.behaviour.patterns import DEFAULT_USAGE, Level, Ramp, Wave
from rescheduler.simulator.behaviour.values import NOTHING, fits
from rescheduler.simulator.behaviour.vocabulary import (
    ORDINARY,
    Behaviour,
    Blocked,
    Eviction,
    Outage,
    PodMatch,
    Readiness,
    Run,
)
from rescheduler.simulator.exchange import Object

__all__ = ["ContainerBehaviour", "NodeBehaviour", "of_container", "of_node"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ContainerBehaviour:
    startup: timedelta
    readiness: Readiness
    run: Run
    init: Run
    termination: timedelta
    blocked: Blocked | None
    evicted: Eviction | None
    cpu: Level | Wave | Ramp
    memory: Level | Wave | Ramp


@dataclass(frozen=True, slots=True)
class NodeBehaviour:
    outages: tuple[Outage, ...] = ()
    slow: float = 1.0
    cpu: Level | Wave | Ramp | None = None
    memory: Level | Wave | Ramp | None = None

    def dead(self, elapsed: timedelta) -> bool:
        return any(
            outage.after <= elapsed and (outage.until is None or elapsed < outage.until)
            for outage in self.outages
        )

    def next_change(self, elapsed: timedelta) -> timedelta | None:
        """When `dead` may answer differently, counted from the scenario's start."""
        moments = [moment for outage in self.outages for moment in (outage.after, outage.until)]
        return min((moment for moment in moments if moment is not None and moment > elapsed), default=None)


def of_container(behaviour: Behaviour, pod: Object, container: Object) -> ContainerBehaviour:
    rules = [rule for rule in behaviour.pods if _matches(rule.match, pod, container)]
    rules.append(ORDINARY)
    return ContainerBehaviour(
        startup=_first((rule.startup for rule in rules), NOTHING),
        readiness=_first((rule.readiness for rule in rules), Readiness()),
        run=_first((rule.run for rule in rules), Run()),
        init=_first((rule.init for rule in rules), Run()),
        termination=_first((rule.termination for rule in rules), NOTHING),
        blocked=_first((rule.blocked for rule in rules), None),
        evicted=_first((rule.evicted for rule in rules), None),
        cpu=_first((rule.usage.cpu for rule in rules if rule.usage), DEFAULT_USAGE),
        memory=_first((rule.usage.memory for rule in rules if rule.usage), DEFAULT_USAGE),
    )


def of_node(behaviour: Behaviour, name: str, labels: Mapping[str, str]) -> NodeBehaviour:
    rules = [
        rule
        for rule in behaviour.nodes
        if fits(name, rule.match.name) and _labels_fit(labels, rule.match.labels)
    ]
    return NodeBehaviour(
        outages=_first((rule.dead for rule in rules), ()),
        slow=_first((rule.slow for rule in rules), 1.0),
        cpu=_first((rule.usage.cpu for rule in rules if rule.usage), None),
        memory=_first((rule.usage.memory for rule in rules if rule.usage), None),
    )


def _matches(match: PodMatch, pod: Object, container: Object) -> bool:
    metadata = pod["metadata"]
    return (
        fits(metadata.get("namespace", ""), match.namespace)
        and fits(pod["spec"].get("nodeName", ""), match.node)
        and fits(container.get("image", ""), match.image)
        and fits(container["name"], match.container)
        and _labels_fit(metadata.get("labels") or {}, match.labels)
    )


def _labels_fit(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(name in labels and fits(labels[name], pattern) for name, pattern in wanted.items())


def _first(said: Iterable[_T | None], otherwise: _T) -> _T:
    return next((value for value in said if value is not None), otherwise)
