"""How all families do: who fails, who is given up, and which nodes are suspect. Kept from look to look."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rescheduler.config.policy import FailedPods
from rescheduler.model.status import FailingPod, SuspectNode
from rescheduler.recovery.decision import Exhausted, Leave, NotAllowed
from rescheduler.recovery.examining import Case, Examination
from rescheduler.recovery.suspects import next_change_s, suspects, witness_of

__all__ = ["RecoveryReport", "Suspect", "Wards"]


@dataclass(frozen=True, slots=True)
class Suspect:
    node: str
    workloads: tuple[str, ...]
    """`Deployment/shop/web`: those that have failed there of late."""


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    failing: tuple[FailingPod, ...] = ()
    """Those that somebody asked to recover, by name; those that are given up included."""
    exhausted: tuple[str, ...] = ()
    """Pods that have had all their tries: `namespace/name`."""
    suspects: tuple[Suspect, ...] = ()
    changes_s: float | None = None
    """When time alone may make a difference to the suspects; None if it won't."""

    @property
    def suspect_nodes(self) -> tuple[SuspectNode, ...]:
        return tuple(
            SuspectNode(each.node, len(each.workloads), ", ".join(each.workloads)) for each in self.suspects
        )


class Wards:
    """What was last seen of each family that is not well."""

    def __init__(self) -> None:
        self._seen: dict[str, Examination] = {}

    def learn(self, key: str, seen: Examination | None) -> bool:
        """Whether that changes anything for a report."""
        before = self._seen.pop(key, None)
        if seen is not None and (seen.cases or seen.ledger.lines):
            self._seen[key] = seen
        after = self._seen.get(key)
        if before is None or after is None:
            return before is not after
        return _of_interest(before) != _of_interest(after)

    def report(
        self,
        terms: FailedPods,
        made_s: Mapping[str, float],
        observed: Mapping[str, Collection[str]],
        now_s: float,
    ) -> RecoveryReport:
        """`made_s`: when each node was made. `observed`: as for `witness_of`."""
        cases = [case for _, seen in sorted(self._seen.items()) for case in seen.cases if _is_asked_for(case)]
        witnesses = [witness_of(seen, observed, now_s) for seen in self._seen.values()]
        found = suspects(witnesses, made_s, terms, now_s)
        return RecoveryReport(
            failing=tuple(_failing(case) for case in cases),
            exhausted=tuple(case.pod.key for case in cases if isinstance(case.decision, Exhausted)),
            suspects=tuple(Suspect(node, workloads) for node, workloads in found.items()),
            changes_s=next_change_s(witnesses, terms, now_s),
        )


def _of_interest(seen: Examination) -> tuple[object, ...]:
    return seen.cases, seen.ledger, seen.well_on


def _is_asked_for(case: Case) -> bool:
    return not isinstance(case.decision, NotAllowed)


def _failing(case: Case) -> FailingPod:
    match case.decision:
        case Exhausted():
            message = "no try is left"
        case Leave(why=why):
            message = why
        case _:
            message = ""
    return FailingPod(
        pod=case.pod.key,
        node=case.pod.node,
        why=case.trouble.words,
        tries=case.line.count,
        allowed=case.retries,
        message=message,
    )
