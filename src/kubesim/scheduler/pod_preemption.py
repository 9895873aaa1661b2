"""Choose the pods to preempt: as few, with as low a priority and as few violated budgets as possible."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kubesim.apiserver.api_messages import Object
from kubesim.scheduler.fit_errors import NO_VICTIMS, FilterRejection
from kubesim.scheduler.node_filtering import Nominations, prepare, refusal_on
from kubesim.scheduler.node_info import NodeInfo, PodInfo
from kubesim.scheduler.scheduler_cache import SchedulerCache
from kubevalues import SelectorError, selector_from_object

__all__ = ["PreemptionCandidate", "PreemptionOutcome", "not_eligible", "preempt"]


class PreemptionCandidate(NamedTuple):
    node: str
    victims: tuple[PodInfo, ...]
    """The pods to remove, the most important first."""
    violations: int
    """How many of them violate a budget."""


class PreemptionOutcome(NamedTuple):
    chosen: PreemptionCandidate | None
    tried: dict[str, tuple[str, ...]]
    """The nodes where preemption does not help, and why."""


def not_eligible(pod: PodInfo, cluster: SchedulerCache, refusal: FilterRejection | None) -> str:
    """Return why the pod may not preempt; `refusal` is the error of its nominated node, if any."""
    if pod.spec.get("preemptionPolicy") == "Never":
        return "not eligible due to preemptionPolicy=Never."
    promised = cluster.nodes.get(pod.nominated_node)
    if promised is None or (refusal is not None and refusal.final):
        return ""
    ending = any(
        other.terminating and other.priority < pod.priority and _was_preempted(other)
        for other in promised.pods.values()
    )
    return "not eligible due to a terminating pod on the nominated node." if ending else ""


def _was_preempted(pod: PodInfo) -> bool:
    return any(
        found.get("type") == "DisruptionTarget" and found.get("reason") == "PreemptionByScheduler"
        for found in pod.status.get("conditions") or ()
    )


def preempt(
    pod: PodInfo,
    cluster: SchedulerCache,
    refusals: Mapping[str, FilterRejection],
    nominations: Nominations,
    budgets: Sequence[Object],
) -> PreemptionOutcome:
    candidates: list[PreemptionCandidate] = []
    tried: dict[str, tuple[str, ...]] = {}
    for name, refusal in refusals.items():
        if refusal.final:
            continue
        found = _victims(pod, cluster.nodes[name], cluster, nominations, budgets)
        if isinstance(found, PreemptionCandidate):
            candidates.append(found)
        else:
            tried[name] = found
    return PreemptionOutcome(min(candidates, key=_cost, default=None), tried)


def _victims(
    pod: PodInfo, node: NodeInfo, cluster: SchedulerCache, nominations: Nominations, budgets: Sequence[Object]
) -> PreemptionCandidate | tuple[str, ...]:
    lesser = [other for other in node.pods.values() if other.priority < pod.priority]
    if not lesser:
        return (NO_VICTIMS,)

    def refused_without(gone: Iterable[PodInfo]) -> FilterRejection | None:
        with cluster.without(gone):
            prepared = prepare(pod, cluster)
            return prepared.refused or refusal_on(node, pod, cluster, nominations, prepared)

    if (refusal := refused_without(lesser)) is not None:
        return refusal.reasons
    protected = _protected(sorted(lesser, key=_importance), budgets)
    gone = {other.key: other for other in lesser}
    # Reprieve protected pods first, then the more important ones.
    for other in sorted(lesser, key=lambda victim: (victim.key not in protected, _importance(victim))):
        rest = [victim for key, victim in gone.items() if key != other.key]
        if refused_without(rest) is None:
            del gone[other.key]
    victims = tuple(sorted(gone.values(), key=_importance))
    return PreemptionCandidate(node.name, victims, sum(victim.key in protected for victim in victims))


def _importance(pod: PodInfo) -> tuple[int, str, str]:
    """Return the sort key, the most important first: by priority, then by start time."""
    return (-pod.priority, pod.status.get("startTime") or "~", pod.key)


def _protected(victims: Iterable[PodInfo], budgets: Sequence[Object]) -> set[str]:
    """Return the pods whose removal would violate a budget, if all were removed in this order."""
    left = [_Budget(budget) for budget in budgets]
    found: set[str] = set()
    for pod in victims:
        for budget in left:
            if budget.covers(pod):
                budget.allowed -= 1
                if budget.allowed < 0:
                    found.add(pod.key)
    return found


class _Budget:
    def __init__(self, budget: Object) -> None:
        status = budget.get("status") or {}
        self.namespace: str = budget["metadata"].get("namespace", "")
        self.allowed: int = status.get("disruptionsAllowed") or 0
        self._gone_already = frozenset(status.get("disruptedPods") or ())
        try:
            self._selector = selector_from_object((budget.get("spec") or {}).get("selector"))
        except SelectorError:
            self._selector = selector_from_object(None)

    def covers(self, pod: PodInfo) -> bool:
        if pod.namespace != self.namespace or pod.name in self._gone_already or not pod.labels:
            return False
        return not self._selector.selects_everything and self._selector.matches(pod.labels)


def _cost(candidate: PreemptionCandidate) -> tuple[int, int, int, int, str]:
    priorities = [victim.priority for victim in candidate.victims]
    # Priorities may be negative: shifted up, many unimportant pods never look cheaper than one.
    total = sum(priority + 2**31 for priority in priorities)
    return (candidate.violations, max(priorities, default=-(2**31)), total, len(priorities), candidate.node)
