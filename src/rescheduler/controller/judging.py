"""The check before anything is touched: is the move still a good one, how is it made, and where does it go?

Asked of the present cluster, with everything in it that is under way: a copy that is not bound yet counts
where it will be. The planner's rules decide; what passes by itself postpones a move, what doesn't refuses it.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, TypedDict

import numpy as np

from rescheduler.config.policy import Policy
from rescheduler.controller.followed import Followed, said
from rescheduler.controller.known_cluster import KnownCluster
from rescheduler.controller.observing import migration_at, running, target_of
from rescheduler.controller.pod_priorities import PodPriorities
from rescheduler.controller.webhook_presence import Presence
from rescheduler.migrations.scene import Answer, Verdict
from rescheduler.model.migrations import FAILED_PODS, MANUAL, Migration, OwnerReference, Phase
from rescheduler.model.plan import Handover, Move, Rejection
from rescheduler.model.pods import PodRecord
from rescheduler.planner.eligibility import Eligibility
from rescheduler.planner.handover import Choice
from rescheduler.planner.open_nodes import open_nodes
from rescheduler.planner.outlook import percent
from rescheduler.planner.preemption import Preemption
from rescheduler.planner.reasons import Reason
from rescheduler.planner.recheck import still_good
from rescheduler.rules.board import Board
from rescheduler.snapshot.snapshot import CPU, MEMORY, NOWHERE, Snapshot

__all__ = ["CONTINUES", "INCLUDES_SYSTEM", "PASSING", "Judging", "as_wished"]

CONTINUES: Final = "rescheduler.dev/continues"
"""Annotation of a migration that takes a pod on from a stop: the name of the one that brought it there."""

INCLUDES_SYSTEM: Final = "rescheduler.dev/includes-system"
"""Annotation of a migration; `true` if whoever drains a node wants pods of the system to go, too."""

PASSING: Final = frozenset({Reason.BUDGET_SPENT, Reason.ROLLING_OUT, Reason.SIBLING_NOT_READY})
_FOR_ROOM: Final = frozenset({Reason.TARGET_UNFIT, Reason.NO_TARGET})
"""Passing too, if somebody is about to leave."""

_KINDS: Final = ("Pod", "ReplicaSet", "Deployment", "StatefulSet", "Job")


def as_wished(policy: Policy, handover: Handover = Handover.AUTO) -> Policy:
    """What keeps the program from moving pods too often does not keep a person from it."""
    wished = policy.handovers
    if handover is not Handover.AUTO:
        wished = {**wished, **dict.fromkeys(_KINDS, handover)}
    return replace(policy, min_pod_age=timedelta(), pod_cooldown=timedelta(), handovers=wished)


class _Terms(TypedDict):
    urgent: bool
    recovering: bool
    steered: bool
    guarded: bool


class Judging:
    """`judge`, `may_preempt` and `no_room` are what the controller asks."""

    def __init__(
        self,
        cluster: KnownCluster,
        policy: Policy,
        urgent_strategies: Iterable[str],
        webhook: Presence,
        now: Callable[[], datetime],
    ) -> None:
        """`urgent_strategies` are those whose pods have to go: some of what protects pods does not hold."""
        self._cluster = cluster
        self._policy = policy
        self._urgent = frozenset({*urgent_strategies, MANUAL})
        self._webhook = webhook
        self._now = now
        self._approved: dict[str, tuple[str, str]] = {}
        """Pod and target of those that were approved a moment ago, by key: not on record yet."""
        self._priorities = PodPriorities(cluster.followed.pods.informer)

    def use(self, policy: Policy, urgent_strategies: Iterable[str]) -> None:
        """From the next question on."""
        self._policy = policy
        self._urgent = frozenset({*urgent_strategies, MANUAL})

    def judge(self, migration: Migration) -> Verdict:
        snapshot = self._without(migration, self._cluster.present())
        row = snapshot.pods.row.get(migration.pod_key)
        if row is None or snapshot.pods.records[row].uid != migration.spec.pod.uid:
            return _refused(Rejection(migration.pod_key, Reason.GONE, "", "there is no such pod any more"))
        pod = snapshot.pods.records[row]
        policy = self._policy_for(migration)
        terms: _Terms = {
            "urgent": migration.spec.strategy in self._urgent,
            "recovering": migration.spec.strategy == FAILED_PODS,
            "steered": self._webhook.steers,
            "guarded": self._webhook.guards,
        }
        eligibility = Eligibility(snapshot, policy, **terms)
        choice = eligibility.choice(row)
        if not isinstance(choice, Choice):
            return self._no(migration, snapshot, Rejection(pod.key, choice.reason, choice.by, choice.detail))
        board = self._with_others(migration, Board(snapshot))
        move = _move(migration, choice.handover)
        rejection = still_good(move, snapshot, policy, **terms, board=board)
        if rejection is not None:
            return self._no(migration, snapshot, rejection)
        target = move.target or _best(board, row, choice.handover)
        self._approved[migration.key] = pod.key, target
        return Verdict(Answer.APPROVED, choice.handover, target, _owner(pod), message=choice.why)

    def may_preempt(self, migration: Migration) -> str:
        """Whom one more pod like the source could preempt now, in words; empty if nobody. While the copy is
        not placed yet, that is the copy itself: not to be scheduled if its room was taken."""
        pod = self._cluster.followed.pods.get(migration.pod_key)
        if pod is None or pod.shape.never_preempts or not self._priorities.any_below(pod.priority):
            return ""
        snapshot = self._cluster.present()
        row = snapshot.pods.row.get(migration.pod_key)
        if row is None or snapshot.pods.records[row].uid != migration.spec.pod.uid:
            return ""
        copy = migration.status.target_pod
        pending = snapshot.pods.row.get(f"{migration.namespace}/{copy.name}") if copy is not None else None
        if pending is None or snapshot.pods.node[pending] != NOWHERE:
            pending = NOWHERE
        return Preemption(snapshot, unreserved=pending).by_another(row)

    def no_room(self, migration: Migration) -> str:
        """Why the replacement of its pod would find no node now, in words; empty if it would find one.

        The eviction may have waited long for its budget. Then the pod would be gone and its replacement
        pending, or it would preempt others. Its own node does not count: it is to go elsewhere.
        """
        snapshot = self._without(migration, self._cluster.present())
        row = snapshot.pods.row.get(migration.pod_key)
        if row is None or snapshot.pods.records[row].uid != migration.spec.pod.uid:
            return ""
        board = self._with_others(migration, Board(snapshot))
        fits = board.fits(row, source_stays=False) & open_nodes(snapshot)
        source = snapshot.nodes.row.get(migration.spec.source_node)
        if source is not None:
            fits[source] = False
        return "" if fits.any() else "no other node has room for its replacement any more"

    def _policy_for(self, migration: Migration) -> Policy:
        if migration.spec.strategy == MANUAL:
            return as_wished(self._policy, migration.spec.handover)
        item = self._cluster.followed.migrations.get(migration.key) or {}
        if said(item, "metadata", "annotations", CONTINUES):
            # It rests where it is going, not at its stop.
            return as_wished(self._policy)
        if said(item, "metadata", "annotations", INCLUDES_SYSTEM) == "true":
            return replace(self._policy, maintenance_includes_system=True)
        return self._policy

    def _without(self, migration: Migration, snapshot: Snapshot) -> Snapshot:
        """Its own migration is no reason for a pod not to be moved. Another one that has begun is; one that
        begins in the same moment is kept off by the lock."""
        uid = migration.spec.pod.uid
        seen = self._cluster.followed
        of_pod = seen.migrations.find("pod", (migration.namespace, migration.spec.pod.name))
        others = (found for item in of_pod if (found := seen.records.migration(item)) is not None)
        if any(
            each.key != migration.key and each.spec.pod.uid == uid and self._has_begun(each)
            for each in others
        ):
            return snapshot
        return replace(snapshot, moving=snapshot.moving - {uid})

    def _has_begun(self, migration: Migration) -> bool:
        phase = migration.status.phase
        return phase is Phase.IN_PROGRESS or (phase is Phase.PENDING and migration.key in self._approved)

    def _with_others(self, migration: Migration, board: Board) -> Board:
        """With the copies that are still to come: whoever is approved now must find room beside them."""
        pods, nodes = board.snapshot.pods, board.snapshot.nodes
        for pod, target in self._under_way(migration, board.snapshot):
            row, node = pods.row.get(pod), nodes.row.get(target)
            if row is not None and node is not None:
                board.place(row, node)
        return board

    def _under_way(self, migration: Migration, snapshot: Snapshot) -> list[tuple[str, str]]:
        """Pods, and where their copies or replacements will be, as far as those are not seen there yet. What
        stands for a pod that was evicted is its replacement: that may wait for the scheduler."""
        seen = self._cluster.followed
        self._approved = {
            key: at
            for key, at in self._approved.items()
            if key != migration.key
            and (known := migration_at(key, seen)) is not None
            and known.status.phase is Phase.PENDING
        }
        on_record = [
            (_stand_in(each, snapshot, seen), each.target_node)
            for each in running(seen)
            if each.key != migration.key and not self._is_bound(each, snapshot)
        ]
        return [*on_record, *self._approved.values()]

    def _is_bound(self, migration: Migration, snapshot: Snapshot) -> bool:
        """As the snapshot has it, which may be a moment older than the caches."""
        copy = target_of(migration, self._cluster.followed)
        row = None if copy is None else snapshot.pods.row.get(copy.key)
        return row is not None and bool(snapshot.pods.node[row] != NOWHERE)

    def _no(self, migration: Migration, snapshot: Snapshot, rejection: Rejection) -> Verdict:
        is_patient = self._now() - migration.created < self._policy.migration_timeout
        if is_patient and self._passes(snapshot, rejection):
            return Verdict(Answer.POSTPONED, reason=rejection.reason, message=_words(rejection))
        return _refused(rejection)

    def _passes(self, snapshot: Snapshot, rejection: Rejection) -> bool:
        """Whether it may well be otherwise in a moment."""
        if rejection.reason in PASSING:
            return True
        if rejection.reason not in _FOR_ROOM:
            return False
        leaving = {pod.node for pod in snapshot.pods.records if pod.is_terminating and pod.node}
        return rejection.by in leaving if rejection.by else bool(leaving)


def _stand_in(migration: Migration, snapshot: Snapshot, seen: Followed) -> str:
    """The key of a pod of the size of its copy or replacement."""
    successor = None if migration.pod_key in snapshot.pods.row else target_of(migration, seen)
    return migration.pod_key if successor is None else successor.key


def _move(migration: Migration, present: Handover) -> Move:
    spec = migration.spec
    return Move(
        pod=migration.pod_key,
        uid=spec.pod.uid,
        source=spec.source_node,
        target=spec.target_node or None,
        strategy=spec.strategy,
        handover=present if spec.handover is Handover.AUTO else spec.handover,
        reason=spec.reason,
        gain=0.0,
    )


def _best(board: Board, row: int, handover: Handover) -> str:
    """The emptiest of those that can take it, and that leave no spread constraint worse if there are such."""
    nodes = board.snapshot.nodes
    fits = board.fits(row, source_stays=handover.source_stays) & open_nodes(board.snapshot)
    even = fits & board.keeps_even(row)
    candidates = np.flatnonzero(even if even.any() else fits)
    fullness = percent(board.load, nodes.allocatable)[:, [CPU, MEMORY]].max(axis=1)
    best = min(candidates.tolist(), key=lambda node: (float(fullness[node]), node))
    return nodes.records[best].name


def _owner(pod: PodRecord) -> OwnerReference | None:
    owner = pod.owner
    if owner is None:
        return None
    return OwnerReference(owner.api_version, owner.kind, owner.name, owner.uid)


def _refused(rejection: Rejection) -> Verdict:
    return Verdict(Answer.REFUSED, reason=rejection.reason, message=_words(rejection))


def _words(rejection: Rejection) -> str:
    return rejection.detail or rejection.reason
