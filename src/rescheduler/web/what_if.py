"""Plan again with changes: other thresholds, drained nodes, pinned pods, additional nodes. Pure.

The request is part of the link to its result: `encode_request` makes a short code of it, so that the server
need not store requests.
"""

import base64
import binascii
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np

from rescheduler.api.podmigration import MANUAL, Handover
from rescheduler.api.well_known_names import MAINTENANCE_LABEL
from rescheduler.cluster.node_record import UNSCHEDULABLE_TAINT, NodeRecord
from rescheduler.cluster.pod_record import belongs_to_node
from rescheduler.cluster.snapshot import NO_ROW, Ints, NodeTable, Snapshot
from rescheduler.cluster.snapshot_tables import group_by_node
from rescheduler.config.config_validation import contradictions, did_you_mean, known_strategies
from rescheduler.config.policy import Policy
from rescheduler.config.profiles import enable_in_all, replace_settings
from rescheduler.daemon.checker import MoveUnderWay, expected_snapshot
from rescheduler.daemon.manual_plans import manual_move_refusals
from rescheduler.migrations.controller.revalidation import policy_for_manual_move
from rescheduler.migrations.runtime_state import RuntimeState
from rescheduler.planner.explanation import explain_pod
from rescheduler.planner.plan import Move, Plan, Rejection
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.node_maintenance import NodeMaintenance
from rescheduler.strategies.strategy_registry import strategies_of, strategies_of_others
from rescheduler.web.plan_api_types import PinnedPod, SimilarNodes, WhatIfRequest
from rescheduler.web.web_viewer import Visibility

__all__ = [
    "Hypothesis",
    "InvalidWhatIf",
    "decode_request",
    "encode_request",
    "plan_what_if",
    "with_maintenance",
]

_HOSTNAME: Final = "kubernetes.io/hostname"
_MAX_REQUEST_BYTES: Final = 64 << 10
_MAX_ADDED: Final = 500


class InvalidWhatIf(ValueError):  # noqa: N818 - says what the request is
    """The request names something that does not exist, or contradicts itself; the message says what."""


def encode_request(request: WhatIfRequest) -> str:
    packed = zlib.compress(msgspec.json.encode(request), 9)
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def decode_request(code: str) -> WhatIfRequest:
    """Decode a request; raise `InvalidWhatIf` for anything that `encode_request` would not return."""
    try:
        packed = base64.b64decode(code + "=" * (-len(code) % 4), altchars=b"-_", validate=True)
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(packed, _MAX_REQUEST_BYTES)
        if not unpacker.eof:
            raise InvalidWhatIf("the code of the link is too long or incomplete: copy the whole link")
        return msgspec.json.decode(raw, type=WhatIfRequest)
    except (binascii.Error, zlib.error, ValueError, msgspec.DecodeError, RecursionError) as error:
        if isinstance(error, InvalidWhatIf):
            raise
        raise InvalidWhatIf("the code of the link is invalid: copy the whole link") from error


@dataclass(frozen=True, slots=True, eq=False)
class Hypothesis:
    """The result: a plan for a cluster that may differ from the current one."""

    snapshot: Snapshot
    plan: Plan
    refused_pins: tuple[Rejection, ...]
    added: tuple[str, ...]
    notes: tuple[str, ...]


def plan_what_if(
    snapshot: Snapshot,
    state: RuntimeState,
    request: WhatIfRequest,
    visibility: Visibility,
    *,
    steered: bool | None,
) -> Hypothesis:
    """Plan again; `steered` as for a plan. Raises `InvalidWhatIf`.

    This takes about a second for a large cluster, so it runs in a thread.
    """
    _require_known_names(snapshot, request, visibility)
    policy = _policy(state.policy, request)
    state = replace(state, policy=policy)
    added = _added_records(snapshot, request.add_nodes)
    changed = _with_nodes(snapshot, added) if added else snapshot
    changed = with_maintenance(changed, request.drain)
    pins, refused = _pins(changed, state, request.pin)
    expected = _with_pins(changed, pins)
    made = build_plan(
        expected,
        policy,
        strategies_of(policy),
        steered=steered,
        guarded=state.guards,
        others=strategies_of_others(policy),
    )
    return Hypothesis(
        changed,
        _with_first_wave(made, pins),
        tuple(refused),
        tuple(record.name for record, _ in added),
        tuple(_notes(request)),
    )


def _notes(request: WhatIfRequest) -> Sequence[str]:
    found = []
    if request.add_nodes:
        found.append("Added nodes are empty except for the DaemonSet pods of the node that they are like.")
    if request.drain:
        found.append("Drained nodes count as in maintenance: they are cordoned, and all movable pods leave.")
    return found


def _require_known_names(snapshot: Snapshot, request: WhatIfRequest, visibility: Visibility) -> None:
    nodes = [*request.drain, *(each.node for each in request.pin), *(each.like for each in request.add_nodes)]
    for name in nodes:
        if name not in snapshot.nodes.row:
            hint = did_you_mean(name, snapshot.nodes.row) if visibility.nodes else ""
            raise InvalidWhatIf(f"node {name} not found{hint}")
    for each in request.pin:
        if each.pod not in snapshot.pods.row or not visibility.sees_key(each.pod):
            raise InvalidWhatIf(f"pod {each.pod} not found")
    if len({each.pod for each in request.pin}) < len(request.pin):
        raise InvalidWhatIf("a pod is pinned twice")
    if sum(each.count for each in request.add_nodes) > _MAX_ADDED:
        raise InvalidWhatIf(f"more than {_MAX_ADDED} added nodes")


def _policy(policy: Policy, request: WhatIfRequest) -> Policy:
    """Return the policy of the cluster with the settings of the request."""
    changes: dict[str, Any] = {
        "cpu_threshold": request.cpu_threshold,
        "memory_threshold": request.memory_threshold,
        "imbalance_threshold": request.imbalance_threshold,
        "max_reschedule_pods": request.max_moves,
        "enabled_strategies": request.strategies and tuple(dict.fromkeys(request.strategies)),
    }
    changed = replace_settings(
        policy, **{name: value for name, value in changes.items() if value is not None}
    )
    if request.drain:
        changed = enable_in_all(changed, NodeMaintenance.name)
    known = known_strategies()
    for name in changed.enabled_strategies:
        if name not in known:
            raise InvalidWhatIf(f"unknown strategy {name}{did_you_mean(name, known)}")
    if faults := list(contradictions(changed, set())):
        raise InvalidWhatIf("; ".join(map(str, faults)))
    return changed


# --- other nodes


def _added_records(snapshot: Snapshot, wanted: Sequence[SimilarNodes]) -> list[tuple[NodeRecord, int]]:
    """Return the new nodes, each with the row of the node that it is like."""
    found: list[tuple[NodeRecord, int]] = []
    names = set(snapshot.nodes.row)
    for each in wanted:
        row = snapshot.nodes.row[each.like]
        model = snapshot.nodes.records[row]
        number = 0
        for _ in range(each.count):
            number += 1
            while (name := f"{model.name}-new-{number}") in names:
                number += 1
            names.add(name)
            found.append((_similar(model, name), row))
    return sorted(found, key=lambda pair: pair[0].name)


def _similar(model: NodeRecord, name: str) -> NodeRecord:
    labels = {key: value for key, value in model.labels.items() if key != MAINTENANCE_LABEL}
    if _HOSTNAME in labels:
        labels[_HOSTNAME] = name
    return msgspec.structs.replace(
        model,
        name=name,
        uid=f"added-{name}",
        labels=labels,
        annotations={},
        unschedulable=False,
        taints=tuple(each for each in model.taints if each.key != UNSCHEDULABLE_TAINT),
        volumes_in_use=(),
        volumes_attached=(),
    )


def _with_nodes(snapshot: Snapshot, added: Sequence[tuple[NodeRecord, int]]) -> Snapshot:
    """Return the snapshot with more nodes, on which only DaemonSet pods like those of their models run."""
    before = snapshot.nodes
    records = sorted([*before.records, *(record for record, _ in added)], key=lambda record: record.name)
    row = {record.name: number for number, record in enumerate(records)}
    moved_to = np.array([row[record.name] for record in before.records], dtype=np.int32)
    models = {row[record.name]: model for record, model in added}
    own = {model: _bound_amounts(snapshot, model) for model in set(models.values())}

    def spread(column: Ints, of_new: dict[int, Ints]) -> Ints:
        wider = np.zeros((len(records), *column.shape[1:]), dtype=column.dtype)
        wider[moved_to] = column
        for number, value in of_new.items():
            wider[number] = value
        wider.setflags(write=False)
        return wider

    nodes = NodeTable(
        records=tuple(records),
        row=row,
        allocatable=spread(before.allocatable, {new: before.allocatable[old] for new, old in models.items()}),
        requested=spread(before.requested, {new: own[old][0] for new, old in models.items()}),
        load=spread(before.load, {new: own[old][1] for new, old in models.items()}),
        ready=spread(before.ready, {new: before.ready[old] for new, old in models.items()}),  # type: ignore[arg-type]
        schedulable=spread(before.schedulable, dict.fromkeys(models, np.True_)),  # type: ignore[arg-type]
        metrics=before.metrics,
    )
    node = np.where(snapshot.pods.node == NO_ROW, NO_ROW, moved_to[snapshot.pods.node]).astype(np.int32)
    by_node, first_on = group_by_node(node, len(records))
    for column in (node, by_node, first_on):
        column.setflags(write=False)
    return replace(
        snapshot, nodes=nodes, pods=replace(snapshot.pods, node=node, by_node=by_node, first_on=first_on)
    )


def _bound_amounts(snapshot: Snapshot, node: int) -> tuple[Ints, Ints]:
    """Return requests and load of the pods that every such node has."""
    rows = [row for row in snapshot.pods.on(node).tolist() if belongs_to_node(snapshot.pods.records[row])]
    return snapshot.pods.requests[rows].sum(axis=0), snapshot.pods.load[rows].sum(axis=0)


def with_maintenance(snapshot: Snapshot, names: Sequence[str]) -> Snapshot:
    """Return the snapshot as if these nodes had the maintenance label."""
    if not names:
        return snapshot
    records = list(snapshot.nodes.records)
    for name in names:
        row = snapshot.nodes.row[name]
        labels = {**records[row].labels, MAINTENANCE_LABEL: "true"}
        records[row] = msgspec.structs.replace(records[row], labels=labels)
    return replace(snapshot, nodes=replace(snapshot.nodes, records=tuple(records)))


# --- pinned pods


def _pins(
    snapshot: Snapshot, state: RuntimeState, wanted: Sequence[PinnedPod]
) -> tuple[list[Move], list[Rejection]]:
    """Return the moves that put pods where they are wanted, and why others can't go there."""
    moves: list[Move] = []
    refused: list[Rejection] = []
    for each in wanted:
        found = manual_move_refusals(_with_pins(snapshot, moves), each.pod, each.node, state)
        if found:
            refused += found
            continue
        policy = policy_for_manual_move(state.policy)
        explained = explain_pod(snapshot, policy, each.pod, steered=state.steers, guarded=state.guards)
        pod = snapshot.pods.records[snapshot.pods.row[each.pod]]
        moves.append(
            Move(
                pod=each.pod,
                uid=pod.uid,
                source=pod.node,
                target=each.node,
                strategy=MANUAL,
                handover=explained.handover or Handover.EVICT,
                reason="requested by a user",
                gain=0.0,
            )
        )
    return moves, refused


def _with_pins(snapshot: Snapshot, pins: Sequence[Move]) -> Snapshot:
    if not pins:
        return snapshot
    under_way = [MoveUnderWay(move.pod, move.uid, move.target or "") for move in pins]
    moving = snapshot.moving | {move.uid for move in pins}
    return replace(expected_snapshot(snapshot, under_way), moving=moving)


def _with_first_wave(made: Plan, pins: Sequence[Move]) -> Plan:
    if not pins:
        return made
    later = tuple(replace(move, wave=move.wave + 1) for move in made.moves)
    return replace(made, moves=(*pins, *later))
