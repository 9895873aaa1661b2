"""Which PodDisruptionBudgets cover a pod, and what they leave."""

from functools import cached_property

from rescheduler.model.budgets import BudgetRecord
from rescheduler.model.plan import Handover
from rescheduler.model.selectors import Selector
from rescheduler.snapshot.snapshot import Snapshot

__all__ = ["Budgets", "left"]

_NOT_RUNNING_YET = "Pending"


def left(budget: BudgetRecord) -> int:
    """How many disruptions it allows now. One whose status is out of date refuses every eviction."""
    return budget.disruptions_allowed if budget.is_current else 0


def _can_do_without(budget: BudgetRecord) -> bool:
    """Without a pod that is not ready."""
    return budget.always_allows_unhealthy or 0 < budget.desired_healthy <= budget.current_healthy


class Budgets:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._by_class: dict[int, tuple[BudgetRecord, ...]] = {}
        self._read: dict[str, list[tuple[BudgetRecord, Selector]]] = {}
        """By namespace, with the selectors read: only where somebody asks."""

    def covering(self, pod: int) -> tuple[BudgetRecord, ...]:
        row = int(self._snapshot.pods.pod_class[pod])
        if row not in self._by_class:
            shared = self._snapshot.classes[row]
            there = self._in(shared.namespace)
            self._by_class[row] = tuple(
                budget for budget, selector in there if selector.matches(shared.labels)
            )
        return self._by_class[row]

    def guarding(self, pod: int) -> tuple[BudgetRecord, ...]:
        """Those that are asked before it is evicted: none of a pod that has not begun to run.

        Nor the one budget of a pod that is not ready, if it does not need it: as the API server has it.
        """
        covering = self.covering(pod)
        pods = self._snapshot.pods
        if not covering or pods.ready[pod]:
            return covering
        if pods.records[pod].phase == _NOT_RUNNING_YET:
            return ()
        return () if len(covering) == 1 and _can_do_without(covering[0]) else covering

    def spent_by(self, pod: int, handover: Handover) -> BudgetRecord | None:
        """The budget of which moving it takes one disruption, as long as the move is under way.

        Adopt takes none: the ready copy counts as one more, for which the source may go.
        """
        if handover is Handover.ADOPT:
            return None
        return next(iter(self.guarding(pod)), None)

    def _in(self, namespace: str) -> list[tuple[BudgetRecord, Selector]]:
        if namespace not in self._read:
            there = self._by_namespace.get(namespace, ())
            self._read[namespace] = [(budget, budget.pods()) for budget in there]
        return self._read[namespace]

    @cached_property
    def _by_namespace(self) -> dict[str, list[BudgetRecord]]:
        found: dict[str, list[BudgetRecord]] = {}
        for budget in self._snapshot.budgets:
            found.setdefault(budget.namespace, []).append(budget)
        return found
