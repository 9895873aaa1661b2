"""What is planned, in rows of the snapshot: the form between a strategy's steps and the moves of a plan."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rescheduler.model.plan import Handover

__all__ = ["Leg", "Unit", "legs_in"]


@dataclass(frozen=True, slots=True)
class Leg:
    """One pod from one node to another."""

    pod: int
    source: int
    target: int
    handover: Handover
    strategy: str
    reason: str
    gain: float
    group: str = ""
    hop: bool = False
    left_for: str = ""
    """The reason that it left for, where `reason` also says why it goes on to there."""

    @property
    def source_stays(self) -> bool:
        return self.handover.source_stays

    def by_way_of(self, stop: int) -> "tuple[Leg, Leg]":
        """The same in two: what is gained is gained by the second."""
        return (
            replace(self, target=stop).as_hop(),
            replace(self, source=stop),
        )

    def straight_to(self, onward: "Leg", instead: str) -> "Leg":
        """This one and the next as one: for what it left for, and for what speaks for that target. `instead`
        says of which."""
        left_for = self.left_for or self.reason
        reason = f"{left_for}; {instead}: {onward.reason}"
        return replace(self, target=onward.target, reason=reason, left_for=left_for)

    def as_hop(self) -> "Leg":
        """As the first of two."""
        return replace(self, gain=0.0, hop=True)


@dataclass(frozen=True, slots=True)
class Unit:
    """Legs that are under way together: one, or the members of a group."""

    legs: tuple[Leg, ...]

    @property
    def group(self) -> str:
        """Empty for a pod that moves alone."""
        return self.legs[0].group


def legs_in(units: Iterable[Unit]) -> int:
    return sum(len(unit.legs) for unit in units)
