"""One check, one plan: pure, and the same for the same input."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from rescheduler.config.policy import Policy
from rescheduler.model.plan import Handover, Move, Plan, Rejection
from rescheduler.planner.choosing import choose
from rescheduler.planner.handover import ASSUMED_STEERED, Choice
from rescheduler.planner.legs import Leg, Unit
from rescheduler.planner.notes import MOST_LISTED, Notes
from rescheduler.planner.ordering import ordered
from rescheduler.planner.outlook import outlooks
from rescheduler.planner.reasons import Reason
from rescheduler.planner.view import Draft, PlanView
from rescheduler.snapshot.snapshot import NOWHERE, Snapshot
from rescheduler.strategies.fair_shares import NO_QUEUE, Queue
from rescheduler.strategies.strategy import HeatDriven, Strategy
from rescheduler.usage.heat import Heat

__all__ = ["plan", "too_hot"]

_OUTSIDE = (Reason.OUTSIDE_WINDOW, "", "no window is open now: nothing is moved but pods that keep failing")


def plan(  # noqa: PLR0913 - one per circumstance
    snapshot: Snapshot,
    policy: Policy,
    strategies: Sequence[Strategy],
    *,
    heat: Heat | None = None,
    steered: bool | None = None,
    guarded: bool = False,
    queue: Queue = NO_QUEUE,
    held_namespaces: frozenset[str] = frozenset(),
) -> Plan:
    """`heat` is what the checks up to this one have seen; without it, a node is hot as soon as it is.

    `steered` says whether the webhook is installed, without which pods are evicted only where allowed. None
    if nobody knows: then it is assumed, and said so. `guarded` says whether it was seen to keep ReplicaSets
    from creating a pod while they adopt a copy.

    `queue` is what earlier checks have asked for and what has not begun; it takes up room. Pods of
    `held_namespaces` stay where they are.
    """
    in_window = policy.in_window(datetime.fromtimestamp(snapshot.taken_at_s, UTC))
    draft = Draft(
        snapshot,
        policy,
        in_window=in_window,
        steered=steered is not False,
        guarded=guarded,
        queue=queue,
        held_namespaces=held_namespaces,
    )
    if not in_window:
        draft.notes.add(Rejection("", *_OUTSIDE))
    with draft.board.trial():  # chosen on the same board as ordered: the rules remember what they worked out
        chosen = choose(draft, strategies, heat)
    order = ordered(draft.board, chosen.units, draft.limits)
    _note_dropped(draft, order.left)
    moves = tuple(_moves(snapshot, order.waves))
    refused = draft.notes.without(move.pod for move in moves)
    return Plan(
        taken_at_s=snapshot.taken_at_s,
        moves=moves,
        changes=chosen.changes,
        nodes=outlooks(snapshot, order.board.load),
        refused=tuple(refused[:MOST_LISTED]),
        refused_counts=Notes.counts(refused),
        assumptions=(*snapshot.assumptions, *_assumed(draft, order.waves, steered)),
    )


def too_hot(snapshot: Snapshot, policy: Policy, strategies: Iterable[Strategy]) -> list[tuple[str, str]]:
    """What is too hot in this check, by strategy and node: what `Heat.after` counts."""
    draft = Draft(snapshot, policy)
    found: list[tuple[str, str]] = []
    for strategy in strategies:
        if isinstance(strategy, HeatDriven):
            flags = strategy.too_hot(PlanView(draft, strategy)).tolist()
            nodes = snapshot.nodes.records
            found += [(strategy.name, node.name) for node, is_hot in zip(nodes, flags, strict=True) if is_hot]
    return found


def _moves(snapshot: Snapshot, waves: Sequence[Sequence[Unit]]) -> Iterator[Move]:
    for number, wave in enumerate(waves):
        for unit in wave:
            for leg in unit.legs:
                yield _move(snapshot, leg, number)


def _move(snapshot: Snapshot, leg: Leg, wave: int) -> Move:
    pod = snapshot.pods.records[leg.pod]
    return Move(
        pod=pod.key,
        uid=pod.uid,
        source=snapshot.nodes.records[leg.source].name if leg.source != NOWHERE else pod.node,
        target=snapshot.nodes.records[leg.target].name,
        strategy=leg.strategy,
        handover=leg.handover,
        reason=leg.reason,
        gain=leg.gain,
        wave=wave,
        group=leg.group,
        hop=leg.hop,
    )


def _note_dropped(draft: Draft, units: Iterable[Unit]) -> None:
    for leg in (leg for unit in units for leg in unit.legs):
        key = draft.snapshot.pods.records[leg.pod].key
        draft.notes.add(Rejection(key, Reason.NO_ORDER, "", "the moves before it leave no room for it"))


def _assumed(draft: Draft, waves: Iterable[Iterable[Unit]], steered: bool | None) -> Iterator[str]:
    legs = [leg for wave in waves for unit in wave for leg in unit.legs]
    choices = (draft.eligibility[True].choice(leg.pod) for leg in legs)
    yield from sorted({each.assumed for each in choices if isinstance(each, Choice) and each.assumed})
    if steered is None and any(leg.handover is Handover.EVICT for leg in legs):
        yield ASSUMED_STEERED
