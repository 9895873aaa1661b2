"""Nodes on which several different workloads fail: it is hardly the fault of all of them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rescheduler.config.policy import FailedPods
from rescheduler.recovery.ledger import Ledger

__all__ = ["Failure", "failures_in", "suspects"]


@dataclass(frozen=True, slots=True)
class Failure:
    node: str
    workload: str
    """`Deployment/shop/web`."""
    at_s: float


def failures_in(ledger: Ledger, workload: str) -> Iterator[Failure]:
    for line in ledger.lines.values():
        for each in line.failures:
            if each.node:
                yield Failure(each.node, workload, each.at_s)


def suspects(failures: Iterable[Failure], terms: FailedPods, now_s: float) -> Mapping[str, tuple[str, ...]]:
    """The workloads that failed there lately, by node; both sorted."""
    found: dict[str, set[str]] = {}
    for each in failures:
        if now_s - each.at_s < terms.suspect_window.total_seconds():
            found.setdefault(each.node, set()).add(each.workload)
    return {
        node: tuple(sorted(workloads))
        for node, workloads in sorted(found.items())
        if len(workloads) >= terms.suspect_after
    }
