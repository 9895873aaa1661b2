"""The result of a round, as a table and as a list of all faults."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.e2e.chaos.api_observer import ApiObserver
from tests.e2e.chaos.audit_trail import AuditedRequest
from tests.e2e.chaos.leftover_verdicts import leftovers, unrecovered
from tests.e2e.chaos.object_versions import MigrationState, PodState
from tests.e2e.chaos.removal_verdicts import (
    CheckedRemovals,
    Removal,
    check_preemptions,
    check_removals,
    removals,
)
from tests.e2e.chaos.request_verdicts import unrelated_writes

__all__ = ["Summary", "summarize"]

SURPLUS_WITHIN = timedelta(seconds=5)
_REPLICA_SET_CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"


@dataclass
class Summary:
    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    """What the chaos did, by the name of the action."""
    evictions: Counter[str] = field(default_factory=Counter)
    """Ready pods that rescheduler has removed, by handover."""
    surplus: list[str] = field(default_factory=list)
    """Pods that a ReplicaSet created during a handover and removed again, with the time."""
    surplus_bound: int = 0
    relists: int = 0
    too_few: list[str] = field(default_factory=list)
    races: list[str] = field(default_factory=list)
    harmed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        return [
            *(f"fewer ready pods than promised: {each}" for each in self.too_few),
            *(f"unrelated object harmed: {each}" for each in self.harmed),
            *(f"left over: {each}" for each in self.left),
        ]

    def __str__(self) -> str:
        rows = [
            ("migrations", sum(self.outcomes.values()), _counts(self.outcomes)),
            ("disruptions", sum(self.done.values()), _counts(self.done)),
            ("ready pods removed by rescheduler", sum(self.evictions.values()), _counts(self.evictions)),
            ("surplus pods", len(self.surplus), f"bound to a node: {self.surplus_bound}"),
            ("lists repeated by the observer", self.relists, ""),
            ("removals that left too few ready pods", len(self.too_few), ""),
            ("  of them lost within the same second", len(self.races), "not counted above"),
            ("unrelated objects harmed", len(self.harmed), ""),
            ("leftovers", len(self.left), ""),
        ]
        lines = [f"{name:<38} {count:>5}  {more}".rstrip() for name, count, more in rows]
        return "\n".join([f"round with seed {self.seed}", *lines, *self.faults, *self.races])


def summarize(seed: int, seen: ApiObserver, requests: list[AuditedRequest], done: Counter[str]) -> Summary:
    found = removals(seen, requests)
    checked = check_removals(seen, found)
    surplus = _surplus(seen, checked, found)
    return Summary(
        seed,
        outcomes=Counter(" ".join(filter(None, (each.phase, each.failure))) for each in _last_states(seen)),
        done=done,
        evictions=Counter(each.migration.handover if each.migration else "?" for each in checked),
        surplus=[f"{came:%H:%M:%S.%f} surplus pod {pod.key}" for came, pod in surplus],
        surplus_bound=sum(bool(pod.node) for _, pod in surplus),
        relists=seen.relists,
        too_few=[str(each) for each in checked if each.fault and not each.is_race],
        races=[f"lost within the same second: {each}" for each in checked if each.fault and each.is_race],
        harmed=unrelated_writes(seen, requests) + check_preemptions(found),
        left=leftovers(seen) + unrecovered(seen),
    )


def _last_states(seen: ApiObserver) -> Iterator[MigrationState]:
    for known in seen.migrations.versions.values():
        yield next(each.state for each in reversed(known) if each.state is not None)


def _surplus(
    seen: ApiObserver, checked: list[CheckedRemovals], found: list[Removal]
) -> list[tuple[datetime, PodState]]:
    """Pods that came right after the eviction of a source, and that their ReplicaSet removed again."""
    adopts = [each for each in checked if each.migration and each.migration.handover == "Adopt"]
    copies = {each.migration.copy_uid for each in adopts if each.migration}
    surplus = []
    for dropped in found:
        pod = dropped.pod
        if dropped.by is None or dropped.by.user != _REPLICA_SET_CONTROLLER or pod.uid in copies:
            continue
        came = seen.pods.versions[pod.uid][0].seen_at
        if any(
            each.removal.pod.workload == pod.workload
            and timedelta() <= came - each.removal.seen_at < SURPLUS_WITHIN
            for each in adopts
        ):
            surplus.append((came, pod))
    return surplus


def _counts(counted: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counted.items()))
