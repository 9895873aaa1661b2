"""What is planned, in rows of the snapshot: the form between a strategy's steps and the moves of a plan."""

from dataclasses import dataclass, replace

from rescheduler.model.plan import Handover

__all__ = ["Leg", "Unit"]


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

    @property
    def source_stays(self) -> bool:
        return self.handover.source_stays

    def by_way_of(self, stop: int) -> "tuple[Leg, Leg]":
        """The same in two: what is gained is gained by the second."""
        return (
            replace(self, target=stop, gain=0.0, hop=True),
            replace(self, source=stop),
        )


@dataclass(frozen=True, slots=True)
class Unit:
    """Legs that are under way together: one, or the members of a group."""

    legs: tuple[Leg, ...]

    @property
    def group(self) -> str:
        """Empty for a pod that moves alone."""
        return self.legs[0].group
