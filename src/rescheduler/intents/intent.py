"""What the next pod of a workload should know: where it should rather go, and where it must not."""

from dataclasses import dataclass

from rescheduler.model.migrations import OwnerReference

__all__ = ["Intent"]


@dataclass(frozen=True, slots=True)
class Intent:
    namespace: str
    workload: OwnerReference
    """The controller that makes the pod."""
    pod_name: str | None
    """Whose successor is meant; None, any pod of the workload, where successors have other names."""
    prefer: str
    """A node; empty if any will do."""
    avoid: tuple[str, ...]
    cause: str
    """The migration that it follows from, by its name."""
    is_answered: bool = False
    """Whether its pod is there already: others of the same workload come first."""
