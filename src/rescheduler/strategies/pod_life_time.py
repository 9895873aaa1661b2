"""PodLifeTime: replace pods that are older than a given age, each by a pod on another node."""

from collections.abc import Iterator
from datetime import timedelta
from typing import ClassVar, Final

import numpy as np

from kubevalues.duration import short_duration
from rescheduler.cluster.snapshot import NO_ROW
from rescheduler.config.policy_blocks import PodLifeTimePolicy
from rescheduler.strategies.fair_shares import interleave_namespaces
from rescheduler.strategies.strategy import Proposal, ProposedMove, View
from rescheduler.strategies.target_search import (
    PodUnit,
    find_targets,
    in_turn,
    is_wholly_among,
    least_loaded,
    unbound_pods,
)

__all__ = ["PodLifeTime"]

_MOST_ASKED: Final = 3000
"""The most pods per check whose protections are checked: each check takes time."""
_MOST_UNPLACED: Final = 100
"""After this many pods without a target, a check stops searching: each search takes time."""
_MINUTE: Final = timedelta(minutes=1)


class PodLifeTime:
    """Moves pods that are older than `maxPodLifeTime`, the oldest first, to their least loaded target.

    The successor is a new pod, so no pod is moved twice for the same age. A pod moves only if it has a target
    that every rule allows. If there are more pods than a plan has room for, namespaces take turns.
    """

    name: ClassVar[str] = "PodLifeTime"

    def propose(self, view: View) -> Iterator[Proposal]:
        if view.room <= 0 or not len(view.snapshot.nodes):
            return
        expired = _expired_pods(view)
        wanted = set(expired)
        if len(expired) > view.room:
            pods = view.snapshot.pods.records
            expired = interleave_namespaces(expired, lambda pod: pods[pod].namespace)
        unplaced = 0
        seen: set[int] = set()
        for pod in in_turn(view, expired, _MOST_ASKED)[:_MOST_ASKED]:
            if view.room <= 0 or unplaced >= _MOST_UNPLACED:
                return
            if pod in seen or (unit := _movable_unit(view, pod, wanted)) is None:
                continue
            seen.update(unit)
            targets = find_targets(view, [unit], least_loaded).targets
            if len(targets) < len(unit):
                unplaced += 1
                for each in unit:
                    view.report_no_target(each)
                continue
            gain = 1 / len(wanted)
            # In the order in which the targets were found, each move fits.
            yield Proposal(
                tuple(ProposedMove(each, targets[each], _reason(view, each), gain) for each in targets)
            )


def _expired_pods(view: View) -> list[int]:
    """Return the pods that are too old, the oldest first."""
    setting, snapshot = view.policy.pod_life_time, view.snapshot
    latest_s = snapshot.taken_at_s - setting.max_pod_life_time.total_seconds()
    rows = unbound_pods(view)
    # A pod that this plan already moves will be a new pod.
    stays = view.placement.position[rows] == snapshot.pods.node[rows]
    rows = rows[stays & (snapshot.pods.created_s[rows] < latest_s)]
    rows = rows[np.lexsort((rows, snapshot.pods.priority[rows], snapshot.pods.created_s[rows]))]
    return [pod for pod in rows.tolist() if _is_selected(view, pod, setting)]


def _is_selected(view: View, pod: int, setting: PodLifeTimePolicy) -> bool:
    """Return whether the pod is running, and the setting applies to its namespace, labels and owner."""
    record = view.snapshot.pods.records[pod]
    if record.phase != "Running" or (setting.namespaces and record.namespace not in setting.namespaces):
        return False
    if not setting.pod_selector.matches(view.snapshot.classes[view.snapshot.pods.pod_class[pod]].labels):
        return False
    included, excluded = setting.included_owner_kinds, setting.excluded_owner_kinds
    if not included and not excluded:
        return True
    kinds = _owner_kinds(view, pod)
    return kinds.isdisjoint(excluded) and (not included or not kinds.isdisjoint(included))


def _owner_kinds(view: View, pod: int) -> set[str]:
    """Return the kinds of the pod's controller and of its workload, such as ReplicaSet and Deployment."""
    owner, workload = view.snapshot.pods.records[pod].owner, int(view.snapshot.pods.workload[pod])
    if owner is None:
        return {"Pod"}
    group, slash, _ = owner.api_version.partition("/")
    kinds = {owner.kind, f"{owner.kind}.{group}" if slash else owner.kind}
    return kinds if workload == NO_ROW else kinds | {view.snapshot.workloads[workload].kind}


def _movable_unit(view: View, pod: int, wanted: set[int]) -> PodUnit | None:
    """Return the pod and the members of its group; None if one of them may not or need not move."""
    if not view.may_move(pod):
        return None
    unit = view.moves_with(pod)
    if unit == (pod,):
        return unit
    if not is_wholly_among(view, unit, wanted):
        return None
    kept = [each for each in unit if not view.may_move(each)]
    if kept:
        view.report_staying(pod, "GroupIncomplete", f"{view.snapshot.pods.records[kept[0]].key} can't move")
    return None if kept else unit


def _reason(view: View, pod: int) -> str:
    age = timedelta(seconds=view.snapshot.taken_at_s - int(view.snapshot.pods.created_s[pod]))
    most = view.policy.pod_life_time.max_pod_life_time
    return f"it is {short_duration(age // _MINUTE * _MINUTE)} old; maxPodLifeTime is {short_duration(most)}"
