"""What a rule is once it knows the pod: something to ask about nodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rescheduler.rules.refusal import Refusal
from rescheduler.snapshot.snapshot import Flags

__all__ = ["Check", "Fixed", "InTurn", "nowhere"]


class Check(Protocol):
    """One rule, ready for the pods of one class. Both answers agree, for every node, at any time."""

    def fits(self) -> Flags:
        """[node], of all nodes at once. Not to be written to."""
        ...

    def refusal(self, node: int) -> Refusal | None:
        """Of one node, with the reason."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """A rule whose answer no move changes."""

    passes: Flags
    explain: Callable[[int], Refusal]
    """Called only for nodes that don't pass."""

    def fits(self) -> Flags:
        return self.passes

    def refusal(self, node: int) -> Refusal | None:
        return None if self.passes[node] else self.explain(node)


@dataclass(frozen=True, slots=True)
class InTurn:
    """Several conditions of one rule: all must hold, and the first that doesn't is told."""

    checks: Sequence[Check]

    def fits(self) -> Flags:
        found: Flags = np.logical_and.reduce([check.fits() for check in self.checks])
        return found

    def refusal(self, node: int) -> Refusal | None:
        for check in self.checks:
            if (refusal := check.refusal(node)) is not None:
                return refusal
        return None


def nowhere(nodes: int, refusal: Refusal) -> Fixed:
    """The pod can't go anywhere, whatever the node."""
    return Fixed(np.zeros(nodes, np.bool_), lambda _: refusal)
