"""The records of what is followed as plain objects: migrations, budgets and workloads."""

import logging
from dataclasses import dataclass

from rescheduler.controller.read_once import ReadOnce
from rescheduler.kube.resources import Object
from rescheduler.model.budgets import BudgetRecord, budget_of
from rescheduler.model.migrations import Migration, UnreadableMigration, migration_of
from rescheduler.model.objects import UnreadableObject
from rescheduler.model.selectors import Selector
from rescheduler.model.workloads import WorkloadRecord, workload_of

__all__ = ["Protection", "Records"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Protection:
    """A budget, and which pods of its namespace it covers."""

    budget: BudgetRecord
    pods: Selector


class Records:
    """None for an object that can't be read: it is left alone, and the log says so once per version."""

    def __init__(self) -> None:
        self.migration = ReadOnce(_migration)
        self.protection = ReadOnce(_protection)
        self._workloads: dict[str, ReadOnce[WorkloadRecord]] = {}

    def workload(self, item: Object, kind: str) -> WorkloadRecord:
        """Items of a list don't say their kind."""
        if kind not in self._workloads:
            self._workloads[kind] = ReadOnce(lambda each: workload_of(each, kind))
        return self._workloads[kind](item)


def _migration(item: Object) -> Migration | None:
    try:
        return migration_of(item)
    except UnreadableMigration as error:
        log.warning("%s; it is left alone", error)
        return None


def _protection(item: Object) -> Protection | None:
    try:
        budget = budget_of(item)
    except UnreadableObject as error:
        log.warning("%s; it is taken to select no pod", error)
        return None
    return Protection(budget, budget.pods())
