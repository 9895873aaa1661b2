"""Check that a ReplicaSet never has more than one extra pod per running migration of its pods."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from tests.e2e.chaos.api_observer import ApiObserver
from tests.e2e.chaos.object_versions import MigrationState, PodState, Version, WorkloadState

__all__ = ["extra_pods"]

SETTLES_WITHIN = timedelta(seconds=5)
"""Within this time a ReplicaSet has removed what is too much, after it was scaled down or a move ended."""


def extra_pods(seen: ApiObserver) -> Iterator[str]:
    """Return each ReplicaSet that had more pods than replicas and running migrations, with the time.

    Pods that are leaving don't count: they are removed already.
    """
    counts = _PodCounts(seen)
    for moment, what in sorted(_changes(seen), key=lambda change: change[0].revision):
        yield from counts.apply(moment, what)


def _changes(seen: ApiObserver) -> Iterator[tuple[Version, str]]:
    histories = {"pod": seen.pods, "workload": seen.workloads, "migration": seen.migrations}
    for kind, history in histories.items():
        for uid, known in history.versions.items():
            yield from ((version, f"{kind} {uid}") for version in known)


class _PodCounts:
    def __init__(self, seen: ApiObserver) -> None:
        pods = {
            uid: [each.state for each in known if each.state] for uid, known in seen.pods.versions.items()
        }
        self._owner_of = {uid: _replica_set(states) for uid, states in pods.items()}
        """The ReplicaSet of each pod: that of its source, for the copy of a migration."""
        for known in seen.migrations.versions.values():
            for state in (each.state for each in known if each.state):
                if state.copy_uid and state.pod_uid in self._owner_of:
                    self._owner_of[state.copy_uid] = self._owner_of[state.pod_uid]
        self._pods: defaultdict[str, set[str]] = defaultdict(set)
        self._running: defaultdict[str, set[str]] = defaultdict(set)
        self._workloads: dict[str, WorkloadState] = {}
        self._since: dict[str, datetime] = {}
        """When each ReplicaSet last had a reason to have more: it was larger, or more pods were moving."""

    def apply(self, version: Version, what: str) -> Iterator[str]:
        kind, _, uid = what.partition(" ")
        owner = self._note(kind, uid, version.state)
        replica_set = self._workloads.get(owner)
        if replica_set is None or replica_set.kind != "ReplicaSet" or replica_set.is_leaving:
            return
        allowed = replica_set.replicas + len(self._running[owner])
        if kind != "pod" or len(self._pods[owner]) <= allowed:
            self._since[owner] = version.seen_at
        elif version.seen_at - self._since.get(owner, version.seen_at) > SETTLES_WITHIN:
            yield (
                f"{version.seen_at:%H:%M:%S.%f} revision {version.revision}: {replica_set.key} has "
                f"{len(self._pods[owner])} pods, {replica_set.replicas} replicas and "
                f"{len(self._running[owner])} running migrations"
            )

    def _note(self, kind: str, uid: str, state: PodState | WorkloadState | MigrationState | None) -> str:
        """Apply a change, and return the ReplicaSet that it is about."""
        if kind == "workload":
            if isinstance(state, WorkloadState):
                self._workloads[uid] = state
            else:
                self._workloads.pop(uid, None)
            return uid
        if kind == "pod":
            owner = self._owner_of.get(uid, "")
            is_there = isinstance(state, PodState) and not state.is_leaving and not state.is_over
            (self._pods[owner].add if is_there else self._pods[owner].discard)(uid)
            return owner
        if isinstance(state, MigrationState) and not state.is_finished:
            owner = self._owner_of.get(state.pod_uid, "")
            self._running[owner].add(uid)
            return owner
        for owner, running in self._running.items():
            if uid in running:
                running.discard(uid)
                return owner
        return ""


def _replica_set(states: list[PodState]) -> str:
    return next((uid for each in states for kind, uid in each.owners if kind == "ReplicaSet"), "")
