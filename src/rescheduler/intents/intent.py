"""What the next pod of a workload should know: where it should rather go, and where it must not.

Derived from two records, and never stored: migrations that are under way (`from_migrations`), and failed
attempts on workloads (`from_attempts`).
"""

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
    """Nodes that it must not come to."""
    cause: str
    """The migration that it follows from, by its name; empty if it follows from failed attempts."""
    is_answered: bool = False
    """Whether its pod is there already: others of the same workload come first."""
    tried: tuple[str, ...] = ()
    """Nodes where it kept failing: it stays away from them as long as there is any other place."""

    @property
    def excluded(self) -> tuple[str, ...]:
        return tuple(sorted({*self.avoid, *self.tried}))
