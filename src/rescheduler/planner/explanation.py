"""Explain a pod or a node as data: may it move, why not, where could it go, what forbids each other node."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import numpy as np

from rescheduler.api.podmigration import Handover
from rescheduler.cluster.node_autoscalers import NO_REMOVAL, NodeRemoval
from rescheduler.cluster.node_record import NodeEvacuation, evacuation_of, in_maintenance
from rescheduler.cluster.snapshot import (
    NO_ROW,
    Flags,
    Snapshot,
    closed_because,
    open_nodes,
    profile_of,
)
from rescheduler.config.policy import Policy
from rescheduler.planner.available_nodes import NodeAvailability, node_availability
from rescheduler.planner.handover_choice import ASSUMED_STEERED, HandoverChoice
from rescheduler.planner.move_sequence import PodGroups, group_too_large
from rescheduler.planner.plan import Rejection, node_load_percentages, percent_of_allocatable
from rescheduler.planner.plan_builder import assumed_shutdowns
from rescheduler.planner.protections.eligibility import Eligibility
from rescheduler.planner.reasons import Reason
from rescheduler.recovery.failed_pods_strategy import (
    RecoveryExplanation,
    SuspectNodeExplanation,
    explain_failing_pod,
    explain_suspect_node,
)
from rescheduler.rules.placement import Placement

__all__ = [
    "ExplainedPod",
    "NodeExplanation",
    "PodExplanation",
    "explain_node",
    "explain_pod",
]


@dataclass(frozen=True, slots=True)
class PodExplanation:
    pod: str
    node: str
    """Empty if it has none."""
    handover: Handover | None
    """The handover of a move; None if the pod can't be moved."""
    why: str
    """The reason for this handover, or for none."""
    assumed: str
    """The assumptions of the choice of the handover."""
    kept_by: tuple[Rejection, ...]
    """The protections from moves for balance, spread or cost."""
    kept_in_maintenance_by: tuple[Rejection, ...]
    """The protections that apply even if its node has to be emptied."""
    group: str
    """The group that the pod moves with; empty without one."""
    members: tuple[str, ...]
    """All pods of the group."""
    places: NodeAvailability | None
    """The nodes that could take the pod alone, and what forbids the others; None if the pod is on no node."""
    recovery: RecoveryExplanation | None = None
    """Whether the pod keeps failing, and what is done about it; None if it does not fail."""
    kept_from_recovery_by: tuple[Rejection, ...] = ()
    """The protections that keep FailedPods from moving it."""
    assumptions: tuple[str, ...] = ()
    """The assumptions about the cluster."""
    in_window: bool = True
    """Whether moves may start at all at this time."""

    @property
    def may_move(self) -> bool:
        return not self.kept_by


@dataclass(frozen=True, slots=True)
class ExplainedPod:
    """A pod on the node that is explained."""

    pod: str
    handover: Handover | None
    kept_by: tuple[Rejection, ...]
    targets: int
    """How many nodes could take the pod; 0 also for pods that are kept."""


@dataclass(frozen=True, slots=True)
class NodeExplanation:
    node: str
    ready: bool
    schedulable: bool
    in_maintenance: bool
    loads: dict[str, float]
    """Percent of allocatable, by resource."""
    pods: tuple[ExplainedPod, ...]
    could_come: int
    """How many pods of other nodes may be moved and fit here; a lower bound unless `all_asked`."""
    all_asked: bool
    could_come_examples: tuple[str, ...]
    takes_none: str
    """Why no moved pod comes here: "is cordoned"; empty if the node takes some."""
    assumptions: tuple[str, ...] = ()
    """The assumptions about the cluster."""
    in_window: bool = True
    """Whether moves may start at all at this time."""
    suspicion: SuspectNodeExplanation | None = None
    """Why the node is suspect; None if it is not."""
    evacuation: NodeEvacuation | None = None
    """Why the node is evacuated, and until when; None if it is not."""
    removal: NodeRemoval = NO_REMOVAL
    """Which component removes the node once it is empty, or why none does."""


_EXAMPLES = 10
_MOST_ASKED = 2000
"""The most pods of other nodes that are checked."""


def explain_pod(
    snapshot: Snapshot, policy: Policy, key: str, *, steered: bool | None = None, guarded: bool = False
) -> PodExplanation:
    """Explain a pod; `steered` and `guarded` as for a plan. Raises `KeyError` if it doesn't exist."""
    row = snapshot.pods.row[key]
    pod = snapshot.pods.records[row]
    policy = profile_of(snapshot, policy, pod.namespace, pod.node)
    usual, urgent, recovering = (
        Eligibility(
            snapshot,
            policy,
            urgent=is_urgent,
            steered=steered is not False,
            guarded=guarded,
            recovering=is_recovering,
        )
        for is_urgent, is_recovering in ((False, False), (True, False), (True, True))
    )
    recovery = explain_failing_pod(snapshot, policy, row)
    choice = urgent.choice(row)  # also with handovers that only maintenance accepts
    groups = PodGroups(snapshot, policy.pod_group_label)
    group = groups.of(row)
    found = None
    if snapshot.pods.node[row] != NO_ROW:
        # Pods that can't move get this answer, too. Without a handover, assume that the source stays.
        stays = choice.handover.source_stays if isinstance(choice, HandoverChoice) else True
        found = node_availability(
            Placement(snapshot), row, source_stays=stays, open_to=open_nodes(snapshot, policy)
        )
    return PodExplanation(
        pod=key,
        node=pod.node,
        handover=choice.handover if isinstance(choice, HandoverChoice) else None,
        why=choice.why if isinstance(choice, HandoverChoice) else choice.detail,
        assumed=choice.assumed if isinstance(choice, HandoverChoice) else "",
        kept_by=(*usual.refusals(row), *_kept_by_group(groups, pod.key, row, usual, policy)),
        kept_in_maintenance_by=tuple(urgent.refusals(row)),
        group=group,
        members=tuple(snapshot.pods.records[each].key for each in groups.members(group)) if group else (),
        places=found,
        recovery=recovery,
        kept_from_recovery_by=tuple(recovering.refusals(row)) if recovery and recovery.needs_move else (),
        assumptions=(
            *_assumed(steered, isinstance(choice, HandoverChoice) and choice.handover is Handover.EVICT),
            *(assumed_shutdowns([pod]) if isinstance(choice, HandoverChoice) else ()),
        ),
        in_window=_in_window(snapshot, policy),
    )


def _kept_by_group(
    groups: PodGroups, pod: str, row: int, eligibility: Eligibility, policy: Policy
) -> Iterator[Rejection]:
    """Yield the rejections that follow from the other members of its group."""
    group = groups.of(row)
    members = groups.members(group)
    if len(members) < 2:
        return
    others = (eligibility.refusal(each) for each in members if each != row)
    if (kept := next((each for each in others if each is not None), None)) is not None:
        detail = f"{kept.subject} can't move ({kept.reason}: {kept.detail})"
        yield Rejection(pod, Reason.GROUP_INCOMPLETE, group, detail)
    if detail := group_too_large(len(members), policy):
        yield Rejection(pod, Reason.GROUP_TOO_LARGE, group, detail)


def _in_window(snapshot: Snapshot, policy: Policy) -> bool:
    return policy.in_window(datetime.fromtimestamp(snapshot.taken_at_s, UTC))


def explain_node(
    snapshot: Snapshot, policy: Policy, name: str, *, steered: bool | None = None, guarded: bool = False
) -> NodeExplanation:
    """Explain a node; `steered` and `guarded` as for a plan. Raises `KeyError` if it doesn't exist."""
    row = snapshot.nodes.row[name]
    nodes = snapshot.nodes
    record = nodes.records[row]
    evacuation = evacuation_of(record, policy.evacuate_on, snapshot.taken_at_s)
    urgent = in_maintenance(record) or evacuation is not None or not nodes.schedulable[row]
    # A node in maintenance is cordoned before its pods move.
    cordoned = ~nodes.schedulable
    cordoned[row] |= in_maintenance(record)
    eligible = partial(
        Eligibility, snapshot, steered=steered is not False, guarded=guarded, cordoned=cordoned
    )
    leaving = _by_profile(snapshot, policy, partial(eligible, urgent=urgent))
    arriving = _by_profile(snapshot, policy, partial(eligible, urgent=False))
    placement, open_to = Placement(snapshot), open_nodes(snapshot, policy)
    closed = closed_because(snapshot, policy, row)
    coming, all_asked = ([], True) if closed else _could_come(snapshot, placement, row, arriving)
    pods = tuple(
        _explained_pod(leaving(pod), placement, pod, open_to) for pod in snapshot.pods.on(row).tolist()
    )
    handovers = [
        *(each.handover for each in pods if not each.kept_by),
        *(arriving(pod).handover(pod) for pod in coming),
    ]
    return NodeExplanation(
        node=name,
        ready=bool(nodes.ready[row]),
        schedulable=bool(nodes.schedulable[row]),
        in_maintenance=in_maintenance(record),
        loads=node_load_percentages(snapshot, row),
        pods=pods,
        could_come=len(coming),
        all_asked=all_asked,
        could_come_examples=tuple(snapshot.pods.records[pod].key for pod in coming[:_EXAMPLES]),
        takes_none=closed,
        assumptions=_assumed(steered, Handover.EVICT in handovers),
        in_window=_in_window(snapshot, policy),
        suspicion=explain_suspect_node(snapshot, policy, name),
        evacuation=evacuation,
        removal=snapshot.autoscalers().as_configured(policy.node_autoscaler).removal_of(record),
    )


def _assumed(steered: bool | None, is_evicted: bool) -> tuple[str, ...]:
    return (ASSUMED_STEERED,) if steered is None and is_evicted else ()


def _by_profile(
    snapshot: Snapshot, policy: Policy, make: Callable[[Policy], Eligibility]
) -> Callable[[int], Eligibility]:
    """Return a function that finds the eligibility of a pod by the policy of its profile."""
    made = [(each, make(each)) for each in policy.every_profile]

    def of(row: int) -> Eligibility:
        pod = snapshot.pods.records[row]
        profile = profile_of(snapshot, policy, pod.namespace, pod.node)
        return next(found for each, found in made if each is profile)

    return of


def _explained_pod(eligibility: Eligibility, placement: Placement, pod: int, open_to: Flags) -> ExplainedPod:
    kept_by = tuple(eligibility.refusals(pod))
    choice = eligibility.choice(pod)
    handover = choice.handover if isinstance(choice, HandoverChoice) else None
    targets = 0
    if not kept_by and handover is not None:
        targets = int(np.count_nonzero(placement.fits(pod, source_stays=handover.source_stays) & open_to))
    return ExplainedPod(placement.snapshot.pods.records[pod].key, handover, kept_by, targets)


def _could_come(
    snapshot: Snapshot, placement: Placement, node: int, eligibility: Callable[[int], Eligibility]
) -> tuple[list[int], bool]:
    """Return pods that could come, from the most loaded nodes first, and whether all pods were checked."""
    fullness = percent_of_allocatable(snapshot.nodes.load, snapshot.nodes.allocatable)[:, :2].max(axis=1)
    found: list[int] = []
    asked = 0
    for other in np.argsort(-fullness, kind="stable").tolist():
        for pod in snapshot.pods.on(other).tolist() if other != node else ():
            if asked >= _MOST_ASKED:
                return found, False
            asked += 1
            if eligibility(pod).refusal(pod) is None:
                stays = eligibility(pod).handover(pod).source_stays
                if placement.fits_on(pod, node, source_stays=stays):
                    found.append(pod)
    return found, True
