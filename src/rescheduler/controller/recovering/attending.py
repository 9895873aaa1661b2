"""One family: look at all its pods together, put on record what is new, then do what is to be done.

    look ─▶ failures that nobody else records ─┐
         ─▶ copies that failed, too ───────────┼─▶ one write of the ledger ─▶ restart, remove, tell
         ─▶ lines that have recovered ─────────┘

First on record, then acted upon: whoever takes over after a crash finds the try counted, and does what was
still to be done. Moves are not made here: the strategy FailedPods proposes them, and `recording` counts them.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from rescheduler.config.policy import Policy
from rescheduler.controller.known_cluster import KnownCluster
from rescheduler.controller.recovering.copies import with_failed_copies
from rescheduler.controller.recovering.families import Families
from rescheduler.controller.recovering.ledgers import Ledgers
from rescheduler.controller.recovering.protection import protects
from rescheduler.controller.recovering.removing import Remover
from rescheduler.controller.recovering.stuck import (
    is_left_to_its_migration,
    is_stuck,
    stuck_at_s,
    with_nodes_forgotten,
)
from rescheduler.controller.recovering.telling import Telling
from rescheduler.kube.client import Client
from rescheduler.model.pods import PodRecord
from rescheduler.recovery.decision import Exhausted, ForceRemove, Note, RestartInPlace
from rescheduler.recovery.examining import Case, Examination
from rescheduler.recovery.ledger import Ledger
from rescheduler.recovery.lines import has_identity, revision_of

__all__ = ["Attending"]

_BY_US: Final = (RestartInPlace, ForceRemove)
"""What is done here, and not by a migration or by the pod's own controller."""
_ON_RECORD: Final = (*_BY_US, Note, Exhausted)
_ASK_AGAIN_S: Final = 30.0
"""While nothing may be begun."""


class Attending:
    def __init__(
        self,
        client: Client,
        cluster: KnownCluster,
        policy: Callable[[], Policy],
        telling: Telling,
        now: Callable[[], datetime],
        *,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_act` is False while nothing is to be begun."""
        self._cluster = cluster
        self._policy = policy
        self._telling = telling
        self._now = now
        self._may_act = may_act
        self._families = Families(cluster)
        self._ledgers = Ledgers(client, cluster)
        self._remover = Remover(client, cluster.followed)

    async def attend(self, key: str) -> tuple[Examination | None, float | None]:
        """What was seen, and when to look again if nothing changes before. Raises `KubeError`."""
        if self._policy().dry_run or not self._may_act():
            # Nobody tells us when that is over.
            seen = self._look(key)
            return seen, None if seen is None else self._now().timestamp() + _ASK_AGAIN_S
        seen = await self._ledgers.change(lambda: self._look(key), self._wanted)
        if seen is None:
            return None, None
        self._telling.tell(seen)
        for case in seen.cases:
            if isinstance(case.decision, _BY_US) and self._is_ours(case):
                await self._act(case)
        for pod in self._stuck(seen):
            if not is_left_to_its_migration(pod, self._cluster.followed):
                await self._remover.remove_unplaced(pod, self._families)
        return seen, self._look_again_s(seen)

    def _look(self, key: str) -> Examination | None:
        return self._families.examine(key, self._policy().failed_pods, self._now().timestamp())

    # -- what is to be on record

    def _wanted(self, seen: Examination) -> Ledger:
        now_s = self._now().timestamp()
        # First what is over: a line that fails anew begins anew.
        ledger = with_failed_copies(seen.ledger.without(seen.recovered), seen.cases, self._cluster.followed)
        for case in seen.cases:
            if _is_to_be_recorded(case) and self._is_ours(case):
                failure = case.failure(now_s)
                ledger = ledger.with_failure(case.name, failure, case.retries, revision_of(case.pod))
        for pod in self._stuck(seen):
            ledger = with_nodes_forgotten(ledger, pod)
        return ledger

    def _is_ours(self, case: Case) -> bool:
        return not protects(self._cluster, self._policy(), case.pod)

    # -- what is to be done

    async def _act(self, case: Case) -> None:
        match case.decision:
            case RestartInPlace() if not case.pod.is_terminating:
                if await self._remover.restart(case.pod):
                    self._telling.restarted(case)
            case ForceRemove() if await self._remover.remove_from_lost_node(case.pod):
                self._telling.removed(case)

    def _stuck(self, seen: Examination) -> list[PodRecord]:
        patience, now_s = self._policy().steer_timeout, self._now().timestamp()
        return [
            pod
            for pod in self._families.pods_of(seen.holder)
            if is_stuck(pod, patience, now_s) and not self._families.excludes_nodes_itself(pod)
        ]

    def _look_again_s(self, seen: Examination) -> float | None:
        patience, now_s = self._policy().steer_timeout, self._now().timestamp()
        times = [stuck_at_s(pod, patience) for pod in self._families.pods_of(seen.holder)]
        ahead = [each for each in (*times, seen.look_again_s) if each is not None and each > now_s]
        return min(ahead, default=None)


def _is_to_be_recorded(case: Case) -> bool:
    if isinstance(case.decision, ForceRemove) and not has_identity(case.pod):
        # It is on its way out, and its place is taken: to clean up after it is no rescheduling.
        return False
    return isinstance(case.decision, _ON_RECORD) and not case.is_on_record
