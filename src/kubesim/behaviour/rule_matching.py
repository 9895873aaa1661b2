"""Match behaviour rules to the containers and nodes they apply to, and merge them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import NamedTuple, TypeVar

from kubesim.apiserver.api_messages import Object
from kubesim.behaviour.behaviour_rules import (
    ORDINARY,
    Behaviour,
    BlockedRule,
    ContainerRun,
    EvictionRule,
    NodeOutage,
    PodMatch,
    ReadinessRule,
)
from kubesim.behaviour.usage_patterns import DEFAULT_USAGE, NOTHING, UsageLevel, UsageRamp, UsageWave, fits

__all__ = [
    "ContainerBehaviour",
    "ContainerRole",
    "NodeBehaviour",
    "PodContainer",
    "members",
    "of_container",
    "of_node",
]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ContainerBehaviour:
    startup: timedelta
    readiness: ReadinessRule
    run: ContainerRun
    init: ContainerRun
    termination: timedelta
    blocked: BlockedRule | None
    evicted: EvictionRule | None
    cpu: UsageLevel | UsageWave | UsageRamp
    memory: UsageLevel | UsageWave | UsageRamp


@dataclass(frozen=True, slots=True)
class NodeBehaviour:
    outages: tuple[NodeOutage, ...] = ()
    slow: float = 1.0
    cpu: UsageLevel | UsageWave | UsageRamp | None = None
    memory: UsageLevel | UsageWave | UsageRamp | None = None

    def dead(self, elapsed: timedelta) -> bool:
        return any(
            outage.after <= elapsed and (outage.until is None or elapsed < outage.until)
            for outage in self.outages
        )

    def next_change(self, elapsed: timedelta) -> timedelta | None:
        """Return when `dead` may change, counted from the start of the scenario."""
        moments = [moment for outage in self.outages for moment in (outage.after, outage.until)]
        return min((moment for moment in moments if moment is not None and moment > elapsed), default=None)


def of_container(behaviour: Behaviour, pod: Object, container: Object) -> ContainerBehaviour:
    rules = [rule for rule in behaviour.pods if _matches(rule.match, pod, container)]
    rules.append(ORDINARY)
    return ContainerBehaviour(
        startup=_first((rule.startup for rule in rules), NOTHING),
        readiness=_first((rule.readiness for rule in rules), ReadinessRule()),
        run=_first((rule.run for rule in rules), ContainerRun()),
        init=_first((rule.init for rule in rules), ContainerRun()),
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


def _first(candidates: Iterable[_T | None], otherwise: _T) -> _T:
    return next((value for value in candidates if value is not None), otherwise)


class ContainerRole(Enum):
    INIT = "runs to its end before the next one starts"
    SIDECAR = "an init container that goes on beside the others"
    MAIN = "an ordinary container"


class PodContainer(NamedTuple):
    spec: Object
    role: ContainerRole
    how: ContainerBehaviour
    status: Object | None
    """The complete status in the API; None before it was first written."""

    @property
    def status_or_blank(self) -> Object:
        return self.status or _blank(self.spec)


def _blank(container: Object) -> Object:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "state": {"waiting": {"reason": "ContainerCreating"}},
        "lastState": {},
        "ready": False,
        "started": False,
        "restartCount": 0,
    }


def members(pod: Object, behaviour: Behaviour) -> list[PodContainer]:
    """Return the containers in the order in which they start."""
    spec, status = pod["spec"], pod.get("status") or {}
    known = {
        each["name"]: {name: value for name, value in each.items() if value}
        for part in ("initContainerStatuses", "containerStatuses")
        for each in status.get(part) or ()
    }
    found = [(each, _init_role(each)) for each in spec.get("initContainers") or ()]
    found += [(each, ContainerRole.MAIN) for each in spec["containers"]]
    return [
        PodContainer(each, role, of_container(behaviour, pod, each), _whole(each, known.get(each["name"])))
        for each, role in found
    ]


def _whole(container: Object, status: Object | None) -> Object | None:
    """Return the status with the empty fields that saved clusters leave out."""
    return None if status is None else _blank(container) | status


def _init_role(container: Object) -> ContainerRole:
    return ContainerRole.SIDECAR if container.get("restartPolicy") == "Always" else ContainerRole.INIT
