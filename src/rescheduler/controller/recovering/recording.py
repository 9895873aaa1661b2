"""Counts a try before it is made: what PlanRun asks before it creates the migration of a failing pod.

A process that ends between the two has counted a try which another process then makes: the failure is known
by the pod's uid, so it is not counted twice.
"""

from collections.abc import Callable
from datetime import datetime

from rescheduler.config.policy import Policy
from rescheduler.controller.known_cluster import KnownCluster
from rescheduler.controller.recovering.copies import with_failed_copies
from rescheduler.controller.recovering.families import Families
from rescheduler.controller.recovering.job_rules import forbids_eviction
from rescheduler.controller.recovering.ledgers import Ledgers
from rescheduler.kube.client import Client
from rescheduler.model.migrations import FAILED_PODS
from rescheduler.model.plan import Handover, Move
from rescheduler.model.pods import PodRecord
from rescheduler.recovery import decision
from rescheduler.recovery.examining import Case, Examination
from rescheduler.recovery.ledger import Ledger, Line
from rescheduler.recovery.lines import revision_of

__all__ = ["Recording"]


class _Refused(Exception):  # noqa: N818 - says what happened to the move
    """Why the move must not be made, in words."""


class Recording:
    def __init__(
        self,
        client: Client,
        cluster: KnownCluster,
        policy: Callable[[], Policy],
        now: Callable[[], datetime],
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._now = now
        self._families = Families(cluster)
        self._ledgers = Ledgers(client, cluster)

    async def record(self, move: Move, planned_s: float) -> str:
        """Empty if the move may be made, and is on record; else why not. Raises `KubeError`.

        Moves of other strategies are none of its business.
        """
        if move.strategy != FAILED_PODS:
            return ""
        pod = self._cluster.followed.pods.get(move.pod)
        if pod is None or pod.uid != move.uid:
            return "the pod is gone"
        if move.handover is Handover.EVICT and (why := self._job_forbids(pod)):
            return why
        key = self._families.key_of(pod)
        try:
            seen = await self._ledgers.change(
                lambda: self._look(key), lambda seen: self._with_try(seen, move, planned_s)
            )
        except _Refused as refused:
            return str(refused)
        return "" if seen is not None else "its workload is gone"

    def _look(self, key: str) -> Examination | None:
        return self._families.examine(key, self._policy().failed_pods, self._now().timestamp())

    def _with_try(self, seen: Examination, move: Move, planned_s: float) -> Ledger:
        case = next((case for case in seen.cases if case.pod.uid == move.uid), None)
        if case is None:
            raise _Refused("the pod is not failing any more")
        if not isinstance(case.decision, decision.Move):
            raise _Refused(f"it is not to be moved: {_words(case)}")
        ledger = with_failed_copies(seen.ledger, seen.cases, self._cluster.followed)
        revision = revision_of(case.pod)
        line = ledger.line(case.name, revision)
        if line.end is not None and line.count >= case.retries:
            raise _Refused("its tries are used up: its last copy has failed, too")
        if move.target in line.nodes:
            if _failed_since(line, move.target, planned_s):
                raise _Refused(f"it has failed on {move.target} since the plan was made")
            # Whoever plans knows: there is no other node left for it.
            ledger = ledger.forgiving(case.name)
        failure = case.failure(self._now().timestamp())
        return ledger.with_failure(case.name, failure, case.retries, revision)

    def _job_forbids(self, pod: PodRecord) -> str:
        if pod.owner is None or pod.owner.kind != "Job":
            return ""
        job = self._families.item("Job", f"{pod.namespace}/{pod.owner.name}")
        return "" if job is None else forbids_eviction(job)


def _failed_since(line: Line, node: str | None, moment_s: float) -> bool:
    return any(each.node == node and each.at_s >= moment_s for each in line.tries)


def _words(case: Case) -> str:
    match case.decision:
        case decision.Leave(why=why) | decision.NotAllowed(why=why):
            return why
        case decision.Exhausted():
            return "its tries are used up"
        case other:
            return type(other).__name__
