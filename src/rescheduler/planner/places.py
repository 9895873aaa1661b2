"""Where a pod could go, and what forbids each other node: like the scheduler's message, but complete."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rescheduler.rules.board import Board
from rescheduler.rules.refusal import Rule

__all__ = ["Forbidden", "Places", "in_words", "places"]

Flags = npt.NDArray[np.bool_]

_PLANNER = "Planner"
_CLOSED = "node(s) take no moved pods"
_SHOWN = 3
"""Nodes whose details are put into words."""


@dataclass(frozen=True, slots=True)
class Forbidden:
    """One reason, and all nodes that it holds for."""

    rule: str
    """Named as the scheduler's plugin, or `Planner`."""
    reason: str
    """In the scheduler's own words: "Insufficient cpu"."""
    nodes: tuple[tuple[str, str], ...]
    """Names, each with numbers and names of its own: "asks 2000m, 1500m of 8000m free"."""


@dataclass(frozen=True, slots=True)
class Places:
    nodes: int
    available: tuple[str, ...]
    forbidden: tuple[Forbidden, ...]
    """Most nodes first. A node that several rules forbid stands under each."""


def places(board: Board, pod: int, *, source_stays: bool, open_to: Flags) -> Places:
    """`open_to` are the nodes that the planner sends pods to."""
    records = board.snapshot.nodes.records
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    here = int(board.position[pod])
    fits = board.fits(pod, source_stays=source_stays) & open_to
    for node in np.flatnonzero(~fits).tolist():
        name = records[node].name
        if node == here:
            found.setdefault((Rule.ALREADY_HERE, "node(s) it is on already"), []).append((name, ""))
            continue
        refusals = board.refusals(pod, node, source_stays=source_stays)
        for refusal in refusals:
            for reason in refusal.reasons:
                found.setdefault((refusal.rule, reason), []).append((name, refusal.detail))
        if not refusals:
            # Cordoned by the plan itself, or in maintenance: no rule of the scheduler forbids it.
            found.setdefault((_PLANNER, _CLOSED), []).append((name, ""))
    forbidden = [Forbidden(*at, tuple(nodes)) for at, nodes in found.items()]
    forbidden.sort(key=lambda each: (-len(each.nodes), each.rule, each.reason))
    return Places(len(records), tuple(records[row].name for row in np.flatnonzero(fits)), tuple(forbidden))


def in_words(found: Places) -> str:
    """One line: "0/12 nodes are available: 3 Insufficient cpu (n1 asks 2000m, …), 9 node(s) …"."""
    parts = ", ".join(f"{len(each.nodes)} {each.reason}{_examples(each)}" for each in found.forbidden)
    return f"{len(found.available)}/{found.nodes} nodes are available: {parts}"


def _examples(each: Forbidden) -> str:
    told = [f"{name} {detail}" for name, detail in each.nodes[:_SHOWN] if detail]
    if not told:
        return ""
    more = ["…"] if len(each.nodes) > _SHOWN else []
    return f" ({'; '.join([*told, *more])})"
