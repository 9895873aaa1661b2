"""One node with its pods, the search for pods, and the matrix of one pod and all nodes."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Literal, cast

import msgspec

from rescheduler.api.daemon_status import NodeInMaintenance
from rescheduler.api.podmigration import Handover
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import NO_ROW, Ints, Snapshot
from rescheduler.config.policy import Policy
from rescheduler.planner.available_nodes import NodeAvailability
from rescheduler.planner.explanation import ExplainedPod, PodExplanation, explain_node, explain_pod
from rescheduler.planner.maintenance_status import must_leave_node
from rescheduler.planner.plan import Rejection
from rescheduler.planner.reasons import meaning_and_remedy
from rescheduler.rules.rule_check import SchedulerRule
from rescheduler.rules.taint_toleration import shown_taint
from rescheduler.web.api_types import (
    LoadSeries,
    NodeConditionView,
    NodeDetail,
    NodePodView,
    PodList,
    PodMatrix,
    PodSummary,
    RefusalGroup,
    RefusalView,
    RefusedSubject,
    RuleColumn,
    VerdictRow,
)
from rescheduler.web.web_openapi import PodQuery
from rescheduler.web.web_viewer import HIDDEN_NAME, Visibility

__all__ = [
    "HIDDEN_ROOM",
    "find_pods",
    "node_detail",
    "pod_matrix",
    "pod_summary",
    "refusal_view",
    "visible_maintenance",
    "visible_refusal",
    "workload_of",
]

HIDDEN_ROOM: Final = f"makes room for a pod {HIDDEN_NAME}"
_MOST_EXAMPLES: Final = 20
_MOST_DETAILED: Final = 200
"""The most nodes of one row of the matrix whose details are given."""
_OUR_RULES: Final = frozenset({SchedulerRule.NODE_READY, SchedulerRule.ALREADY_HERE, "Planner"})

_Moved = Literal["Adopt", "Copy", "Evict"]


def visible_refusal(each: Rejection, visibility: Visibility) -> Rejection:
    """Return the refusal without the names of objects that the viewer may not see."""
    if not each.by or "/" not in each.by or visibility.sees_key(each.by):
        return replace(each, detail=visibility.visible_text(each.detail))
    return Rejection(each.subject, each.reason, HIDDEN_NAME, "")


def refusal_view(each: Rejection, visibility: Visibility) -> RefusalView:
    shown = visible_refusal(each, visibility)
    meaning, remedy = meaning_and_remedy(shown.reason)
    return RefusalView(str(shown.reason), meaning, remedy, shown.detail, shown.by)


def workload_of(snapshot: Snapshot, row: int) -> str:
    number = int(snapshot.pods.workload[row])
    if number == NO_ROW:
        return ""
    workload = snapshot.workloads[number]
    return f"{workload.kind}/{workload.key}"


def _handover(handover: Handover | None) -> _Moved | None:
    return None if handover is None or handover is Handover.AUTO else cast("_Moved", handover.value)


def _moment(at_s: float | None) -> datetime | None:
    return datetime.fromtimestamp(at_s, UTC) if at_s else None


def _amounts(snapshot: Snapshot, row: Ints) -> dict[str, int]:
    return {name: amount for name, amount in zip(snapshot.resources, row.tolist(), strict=True) if amount}


# --- a node


def node_detail(  # noqa: PLR0913 - one per source
    snapshot: Snapshot,
    policy: Policy,
    name: str,
    visibility: Visibility,
    *,
    history: LoadSeries,
    maintenance: Sequence[NodeInMaintenance] = (),
    steered: bool | None = None,
    guarded: bool = False,
) -> NodeDetail:
    """Return the node; raise `KeyError` if there is no such node."""
    explained = explain_node(snapshot, policy, name, steered=steered, guarded=guarded)
    row = snapshot.nodes.row[name]
    record, nodes = snapshot.nodes.records[row], snapshot.nodes
    pods = [each for each in explained.pods if visibility.sees_key(each.pod)]
    state = next((each for each in maintenance if each.node == name), None)
    if state is not None:
        state = visible_maintenance(state, visibility)
    return NodeDetail(
        name=name,
        labels=dict(record.labels),
        taints=list(map(shown_taint, record.taints)),
        ready=explained.ready,
        schedulable=explained.schedulable,
        in_maintenance=explained.in_maintenance,
        suspect=_visible_workloads(explained.suspicion.workloads if explained.suspicion else (), visibility),
        maintenance=state,
        conditions=_conditions(record),
        created=_moment(record.created_s),
        allocatable=_amounts(snapshot, nodes.allocatable[row]),
        requests=_amounts(snapshot, nodes.requested[row]),
        usage=_amounts(snapshot, nodes.load[row]),
        load=history,
        pods=[_node_pod(snapshot, each, visibility) for each in pods],
        hidden_pods=len(explained.pods) - len(pods),
        could_come=explained.could_come,
        all_asked=explained.all_asked,
        could_come_examples=[each for each in explained.could_come_examples if visibility.sees_key(each)],
        takes_none=explained.takes_none,
        stays=_stays(snapshot, pods, visibility),
        assumptions=_visible_texts((*snapshot.assumptions, *explained.assumptions), visibility),
    )


def visible_maintenance(each: NodeInMaintenance, visibility: Visibility) -> NodeInMaintenance:
    """Return the state without the names of the pods that block it, if the viewer may not see all pods."""
    if visibility.sees_all:
        return each
    return msgspec.structs.replace(each, blocked=(), message=visibility.visible_text(each.message))


def _visible_texts(texts: Iterable[str], visibility: Visibility) -> list[str]:
    return [visibility.visible_text(each) for each in texts]


def _visible_workloads(workloads: Iterable[str], visibility: Visibility) -> list[str]:
    """Return workloads as `Deployment/shop/web`; a hidden name for those that the viewer may not see."""
    return [each if visibility.sees(each.split("/")[1]) else HIDDEN_NAME for each in workloads]


def _conditions(record: NodeRecord) -> list[NodeConditionView]:
    return [
        NodeConditionView(each.type, each.status, each.reason, each.message, _moment(each.since_s))
        for each in record.conditions
    ]


def _node_pod(snapshot: Snapshot, explained: ExplainedPod, visibility: Visibility) -> NodePodView:
    row = snapshot.pods.row[explained.pod]
    pod = snapshot.pods.records[row]
    return NodePodView(
        pod=explained.pod,
        uid=pod.uid,
        workload=workload_of(snapshot, row),
        phase=pod_phase(pod),
        ready=bool(snapshot.pods.ready[row]),
        priority=int(snapshot.pods.priority[row]),
        created=_moment(pod.created_s),
        requests=_amounts(snapshot, snapshot.pods.requests[row]),
        usage=_amounts(snapshot, snapshot.pods.load[row]),
        may_move=not explained.kept_by,
        handover=_handover(explained.handover),
        targets=explained.targets,
        kept_by=[refusal_view(each, visibility) for each in explained.kept_by],
    )


def pod_phase(pod: PodRecord) -> str:
    """Return the phase, as kubectl names it."""
    return "Terminating" if pod.is_terminating else pod.reason or pod.phase


def _stays(snapshot: Snapshot, pods: Iterable[ExplainedPod], visibility: Visibility) -> list[RefusalGroup]:
    by_reason: dict[str, list[Rejection]] = {}
    for pod in pods:
        if not must_leave_node(snapshot.pods.records[snapshot.pods.row[pod.pod]]):
            continue  # A node counts as empty while pods of DaemonSets run on it.
        for each in pod.kept_by[:1]:
            by_reason.setdefault(each.reason, []).append(visible_refusal(each, visibility))
        if not pod.kept_by and not pod.targets:
            by_reason.setdefault("NoTarget", []).append(Rejection(pod.pod, "NoTarget"))
    return [
        refusal_group(reason, found, len(found))
        for reason, found in sorted(by_reason.items(), key=lambda each: (-len(each[1]), each[0]))
    ]


def refusal_group(reason: str, rejections: Sequence[Rejection], count: int) -> RefusalGroup:
    meaning, remedy = meaning_and_remedy(reason)
    examples = [RefusedSubject(each.subject, each.by, each.detail) for each in rejections[:_MOST_EXAMPLES]]
    return RefusalGroup(str(reason), meaning, remedy, count, examples)


# --- pods


def find_pods(snapshot: Snapshot, wanted: PodQuery, visibility: Visibility) -> PodList:
    """Search for pods by parts of their names. Runs in a thread, because there may be 150,000 pods."""
    text = wanted.q.lower()
    found: list[int] = []
    rows: Iterable[int] = range(len(snapshot.pods))
    if wanted.node:
        node = snapshot.nodes.row.get(wanted.node)
        rows = () if node is None else snapshot.pods.on(node).tolist()
    for row in rows:
        pod = snapshot.pods.records[row]
        if (
            (not text or text in pod.key)
            and (not wanted.namespace or pod.namespace == wanted.namespace)
            and visibility.sees(pod.namespace)
        ):
            found.append(row)
    return PodList([pod_summary(snapshot, row) for row in found[: wanted.limit]], len(found))


def pod_summary(snapshot: Snapshot, row: int) -> PodSummary:
    pod = snapshot.pods.records[row]
    return PodSummary(
        pod.key,
        pod.uid,
        pod.node,
        workload_of(snapshot, row),
        pod_phase(pod),
        bool(snapshot.pods.ready[row]),
        pod.uid in snapshot.moving,
    )


def pod_matrix(
    snapshot: Snapshot,
    policy: Policy,
    key: str,
    visibility: Visibility,
    *,
    steered: bool | None = None,
    guarded: bool = False,
) -> PodMatrix:
    """Return the matrix; raise `KeyError` if there is no such pod, or the viewer may not see it."""
    if not visibility.sees_key(key):
        raise KeyError(key)
    explained = explain_pod(snapshot, policy, key, steered=steered, guarded=guarded)
    row = snapshot.pods.row[key]
    columns, rows = _matrix(explained.places, visibility) if visibility.nodes else ([], [])
    recovery = explained.recovery
    return PodMatrix(
        pod=key,
        uid=snapshot.pods.records[row].uid,
        node=explained.node,
        workload=workload_of(snapshot, row),
        may_move=explained.may_move,
        in_window=explained.in_window,
        handover=_handover(explained.handover),
        why=visibility.visible_text(explained.why),
        kept_by=_refusals(explained.kept_by, visibility),
        kept_in_maintenance_by=_refusals(explained.kept_in_maintenance_by, visibility),
        group=explained.group,
        members=list(explained.members),
        node_count=len(snapshot.nodes),
        columns=columns,
        rows=rows,
        trouble=recovery.failure if recovery else "",
        tries=recovery.used if recovery else 0,
        allowed_tries=recovery.retries if recovery else None,
        next=recovery.next if recovery else "",
        assumptions=_visible_texts(_pod_assumptions(snapshot, explained), visibility),
    )


def _pod_assumptions(snapshot: Snapshot, explained: PodExplanation) -> list[str]:
    return [*snapshot.assumptions, *filter(None, (explained.assumed,)), *explained.assumptions]


def _refusals(rejections: Iterable[Rejection], visibility: Visibility) -> list[RefusalView]:
    return [refusal_view(each, visibility) for each in rejections]


def _matrix(
    places: NodeAvailability | None, visibility: Visibility
) -> tuple[list[RuleColumn], list[VerdictRow]]:
    """Group nodes that the same rules refuse into one row: thousands of nodes differ in few ways."""
    if places is None:
        return [], []
    columns = [
        RuleColumn(str(each.rule), each.reason, each.rule not in _OUR_RULES, len(each.nodes))
        for each in places.forbidden
    ]
    verdicts: dict[str, list[tuple[int, str]]] = {name: [] for name in places.available}
    for number, each in enumerate(places.forbidden):
        for name, detail in each.nodes:
            verdicts.setdefault(name, []).append((number, visibility.visible_text(detail)))
    rows: dict[tuple[int, ...], list[str]] = {}
    for name in sorted(verdicts):
        rows.setdefault(tuple(number for number, _ in verdicts[name]), []).append(name)
    return columns, [
        VerdictRow(
            list(forbidden_by),
            names,
            {name: [text for _, text in verdicts[name]] for name in names[:_MOST_DETAILED]}
            if forbidden_by
            else {},
        )
        for forbidden_by, names in sorted(
            rows.items(), key=lambda each: (len(each[0]), -len(each[1]), each[0])
        )
    ]
