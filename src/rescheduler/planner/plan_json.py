"""Plans as JSON: what `plan -o json` prints, `--save` writes and `apply` reads.

The field names are a public contract; `docs/plan.schema.json` is generated from these types. Fields may be
added, but none changes its meaning or disappears without a new `apiVersion`. A plan that is read may be
executed, so it is rejected as a whole if any part of it is invalid.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from kubevalues.bounded_yaml import json_error_text
from rescheduler.api.podmigration import Handover
from rescheduler.cluster.node_record import NodeChange
from rescheduler.planner.plan import Move, NodeLoadChange, Plan, PlannedNodeChange, PlannedRoom, Rejection

__all__ = [
    "API_VERSION",
    "KIND",
    "ChangeForm",
    "LoadForm",
    "MoveForm",
    "NodeForm",
    "PlanForm",
    "RefusalForm",
    "RoomForm",
    "SpreadForm",
    "SummaryForm",
    "UnreadablePlan",
    "plan_from_json",
    "plan_to_json",
    "summary_of",
]

API_VERSION: Final = "rescheduler.dev/v1alpha1"
KIND: Final = "Plan"

PodKey = Annotated[str, Meta(pattern="^[^/]+/[^/]+$", description="namespace/name")]
Text = Annotated[str, Meta(min_length=1)]
Percent = Annotated[float, Meta(description="percent of allocatable")]


class _Form(msgspec.Struct, rename="camel"):
    pass


class RoomForm(_Form, forbid_unknown_fields=True):
    """Room for a pod that waits to be scheduled."""

    pod: PodKey
    uid: Annotated[str, Meta(min_length=1)]
    node: Text


class MoveForm(_Form, forbid_unknown_fields=True):
    """Move one pod to another node. Moves are executed in this order, or wave by wave."""

    pod: PodKey
    uid: Annotated[
        str, Meta(min_length=1, description="of the pod; another pod with the same name is not moved")
    ]
    source: Annotated[Text, Meta(description="the node it is on")] = msgspec.field(name="from")
    target: Annotated[Text | None, Meta(description="null: chosen when the move is executed")] = (
        msgspec.field(name="to")
    )
    strategy: Text
    handover: Annotated[
        Literal["Adopt", "Copy", "Evict"],
        Meta(description="Adopt and Copy start the successor first; Evict does not"),
    ]
    reason: Annotated[str, Meta(description="for people, with numbers")]
    gain: Annotated[float, Meta(description="relative to what the strategy improves: 0.05 is 5 %")]
    wave: Annotated[
        int, Meta(ge=1, description="moves of one wave may run at the same time; the first wave is 1")
    ] = 1
    group: Annotated[str, Meta(description="pods of one group move together or not at all")] = ""
    hop: Annotated[bool, Meta(description="an intermediate stop: a later move with the same uid follows")] = (
        False
    )
    rooms: Annotated[
        list[RoomForm], Meta(description="pending pods that this move, with others, makes room for")
    ] = []


class ChangeForm(_Form, forbid_unknown_fields=True):
    """Cordon or uncordon a node."""

    node: Text
    change: NodeChange
    strategy: Text
    reason: str = ""


class LoadForm(_Form):
    before: Percent
    after: Annotated[float, Meta(description="percent of allocatable, after all moves")]


class NodeForm(_Form, omit_defaults=True):
    """Show the load of one node before and after the plan."""

    name: Text
    cpu: LoadForm | None = None
    memory: LoadForm | None = None
    pods: LoadForm | None = None
    others: Annotated[dict[str, LoadForm], Meta(description="further resources, by name")] = {}


class RefusalForm(_Form, omit_defaults=True):
    """A pod or a node that the plan does not change although a strategy asked; or the whole plan."""

    pod: PodKey | None = None
    node: Text | None = None
    reason: Annotated[str, Meta(description="for programs; docs/reasons.md lists the values")] = ""
    detail: Annotated[str, Meta(description="for people")] = ""
    by: Annotated[str, Meta(description="the object that is the cause, if it is not the subject itself")] = ""


class SpreadForm(_Form):
    """Distribution over all nodes, in percent of allocatable."""

    mean: float
    deviation: Annotated[float, Meta(description="standard deviation")]
    lowest: float
    highest: float


class OutlookForm(_Form):
    before: SpreadForm
    after: SpreadForm


class SummaryForm(_Form):
    """Totals. A plan lists a limited number of refusals; this counts them all."""

    moves: int = 0
    waves: int = 0
    by_strategy: dict[str, int] = {}
    refused: Annotated[dict[str, int], Meta(description="number of pods and nodes, by reason")] = {}
    load: Annotated[dict[str, OutlookForm], Meta(description="by resource")] = {}
    assumptions: Annotated[
        list[str], Meta(description="what the plan assumes because the input does not say")
    ] = []


class PlanForm(_Form):
    """The moves that one check proposes, and the loads that it expects."""

    api_version: Literal["rescheduler.dev/v1alpha1"]
    kind: Literal["Plan"]
    taken_at: Annotated[str, Meta(description="when the cluster was read, in RFC 3339")]
    moves: list[MoveForm]
    changes: list[ChangeForm] = []
    nodes: list[NodeForm] = []
    refused: list[RefusalForm] = []
    summary: SummaryForm = msgspec.field(default_factory=SummaryForm)


T = TypeVar("T")

_NAMED = ("cpu", "memory", "pods")
"""The resources that have a field of their own in a node's entry."""
_DIGITS = 3
_MOST_FAULTS = 20


class UnreadablePlan(ValueError):  # noqa: N818 - says what the content is
    """The file is not a plan that can be executed; `faults` has all faults, each with its path."""

    def __init__(self, source: str, faults: Iterable[str]) -> None:
        self.source = source
        self.faults = tuple(faults)
        more = [f"and {len(self.faults) - _MOST_FAULTS} more"] if len(self.faults) > _MOST_FAULTS else []
        listed = "\n  ".join([*self.faults[:_MOST_FAULTS], *more])
        super().__init__(
            f"{source} is not a valid plan:\n  {listed}\nSave a plan with: rescheduler plan --save FILE"
        )


# --- out


def plan_to_json(plan: Plan) -> dict[str, Any]:
    form = PlanForm(
        API_VERSION,
        KIND,
        _moment(plan.taken_at_s),
        [_move_form(each) for each in plan.moves],
        [ChangeForm(each.node, each.change, each.strategy, each.reason) for each in plan.changes],
        [_node_form(each) for each in plan.nodes],
        [_refusal_form(each) for each in plan.refused],
        summary_of(plan),
    )
    content: dict[str, Any] = msgspec.to_builtins(form)
    return content


def summary_of(plan: Plan) -> SummaryForm:
    resources = dict.fromkeys(name for node in plan.nodes for name in node.before)
    return SummaryForm(
        moves=len(plan.moves),
        waves=len({move.wave for move in plan.moves}),
        by_strategy=dict(Counter(move.strategy for move in plan.moves)),
        refused=dict(plan.refused_counts or Counter(each.reason for each in plan.refused)),
        load={name: _outlook(plan.nodes, name) for name in resources},
        assumptions=list(plan.assumptions),
    )


def _move_form(move: Move) -> MoveForm:
    return MoveForm(
        move.pod,
        move.uid,
        move.source,
        move.target,
        move.strategy,
        move.handover.value,  # type: ignore[arg-type] # `Auto` is for settings, and never in a move
        move.reason,
        move.gain,
        move.wave + 1,
        move.group,
        move.hop,
        [RoomForm(room.pod, room.uid, room.node) for room in move.rooms],
    )


def _node_form(node: NodeLoadChange) -> NodeForm:
    loads = {
        name: LoadForm(round(before, _DIGITS), round(node.after.get(name, before), _DIGITS))
        for name, before in node.before.items()
    }
    named = {name: loads.pop(name) for name in _NAMED if name in loads}
    return NodeForm(node.name, **named, others=loads)


def _refusal_form(each: Rejection) -> RefusalForm:
    subject = {"pod" if "/" in each.subject else "node": each.subject or None}
    return RefusalForm(**subject, reason=each.reason, detail=each.detail, by=each.by)


def _outlook(nodes: Sequence[NodeLoadChange], resource: str) -> OutlookForm:
    before = [node.before[resource] for node in nodes if resource in node.before]
    after = [node.after.get(resource, node.before[resource]) for node in nodes if resource in node.before]
    return OutlookForm(_spread(before), _spread(after))


def _spread(loads: list[float]) -> SpreadForm:
    # Not by `statistics`, which takes a hundred times as long for digits that are not shown.
    mean = math.fsum(loads) / len(loads)
    deviation = math.sqrt(math.fsum((load - mean) ** 2 for load in loads) / len(loads))
    numbers = (mean, deviation, min(loads), max(loads))
    return SpreadForm(*(round(number, _DIGITS) for number in numbers))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


# --- in


def plan_from_json(raw: bytes, *, source: str) -> Plan:
    """Decode a plan; raise `UnreadablePlan`."""
    try:
        content = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadablePlan(source, [json_error_text("", error)]) from error
    faults: list[str] = []
    form = _form(content, faults)
    if form is None or faults:
        raise UnreadablePlan(source, faults)
    taken_at_s = _seconds(form.taken_at, faults)
    faults += _contradictions(form.moves)
    if faults:
        raise UnreadablePlan(source, faults)
    return Plan(
        taken_at_s=taken_at_s,
        moves=tuple(map(_move, form.moves)),
        changes=tuple(
            PlannedNodeChange(each.node, each.change, each.strategy, each.reason) for each in form.changes
        ),
        nodes=tuple(map(_node, form.nodes)),
        refused=tuple(map(_rejection, form.refused)),
        refused_counts=form.summary.refused,
        assumptions=tuple(form.summary.assumptions),
    )


_LISTS: dict[str, type[msgspec.Struct]] = {
    "moves": MoveForm,
    "changes": ChangeForm,
    "nodes": NodeForm,
    "refused": RefusalForm,
}


def _form(content: dict[str, Any], faults: list[str]) -> PlanForm | None:
    """Decode entry by entry first, so that one fault doesn't hide another."""
    for name, kind in _LISTS.items():
        entries = content.get(name, [])
        for place, entry in enumerate(entries if isinstance(entries, list) else ()):
            try:
                msgspec.convert(entry, kind)
            except msgspec.ValidationError as error:
                faults.append(json_error_text(f"{name}[{place}]", error))
    try:
        return msgspec.convert(content, PlanForm)
    except msgspec.ValidationError as error:
        fault = json_error_text("", error)
        if fault not in faults:
            faults.append(fault)
        return None


def _seconds(moment: str, faults: list[str]) -> float:
    try:
        found = datetime.fromisoformat(moment)
    except ValueError:
        faults.append(f'takenAt: "{moment}" is not an RFC 3339 time')
        return 0.0
    if found.tzinfo is None:
        faults.append(f'takenAt: "{moment}" has no time zone')
    return found.timestamp()


def _contradictions(moves: Sequence[MoveForm]) -> Iterator[str]:
    """Yield contradictions: the plan was edited, or it is damaged."""
    stops: dict[str, MoveForm] = {}
    for place, move in enumerate(moves):
        path = f"moves[{place}]"
        if move.target == move.source:
            yield f"{path}.to: {move.target} is the node that the pod is already on"
        if not math.isfinite(move.gain):
            yield f"{path}.gain: must be a finite number"
        if place and move.wave < moves[place - 1].wave:
            yield f"{path}.wave: {move.wave} after wave {moves[place - 1].wave}"
        before = stops.get(move.uid)
        if before is not None and not (before.hop and before.target == move.source):
            yield f"{path}.uid: an earlier move already moves the pod {move.pod}, and not to {move.source}"
        stops[move.uid] = move
    for move in stops.values():
        if move.hop:
            yield f"moves: {move.pod} hops to {move.target}, and no later move continues from there"


def _move(form: MoveForm) -> Move:
    return Move(
        pod=form.pod,
        uid=form.uid,
        source=form.source,
        target=form.target,
        strategy=form.strategy,
        handover=Handover(form.handover),
        reason=form.reason,
        gain=form.gain,
        wave=form.wave - 1,
        group=form.group,
        hop=form.hop,
        rooms=tuple(PlannedRoom(room.pod, room.uid, room.node) for room in form.rooms),
    )


def _node(form: NodeForm) -> NodeLoadChange:
    named = {name: load for name in _NAMED if (load := getattr(form, name)) is not None}
    loads: dict[str, LoadForm] = {**named, **form.others}
    return NodeLoadChange(
        form.name,
        {name: load.before for name, load in loads.items()},
        {name: load.after for name, load in loads.items()},
    )


def _rejection(form: RefusalForm) -> Rejection:
    return Rejection(form.pod or form.node or "", form.reason, form.by, form.detail)
