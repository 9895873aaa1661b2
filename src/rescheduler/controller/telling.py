"""What happens in the daemon, told to whoever wants to know: the log, the status, metrics, Events.

    daemon ──▶ Told ──▶ Several(Told, Told, …)

Everything is told on the event loop, after it happened; whoever listens must be quick and must not raise.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rescheduler.config.policy import Policy
from rescheduler.kube.call import Call
from rescheduler.model.migrations import Migration
from rescheduler.model.plan import Plan
from rescheduler.model.status import FailingPod, Halt, NodeInMaintenance, SuspectNode
from rescheduler.snapshot.snapshot import Snapshot

__all__ = ["Checked", "Several", "Told"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One check, and what it decided."""

    number: int
    """From 1, since the start of the process."""
    at: datetime
    took_s: float
    """From looking to having a plan, of which …"""
    planning_s: float
    """… the planner took so long, in a thread of its own."""
    snapshot: Snapshot
    plan: Plan
    usage_source: str
    is_carried_out: bool
    """False in a dry run, and during a halt."""


class Told:
    """Hears everything, and does nothing about it: whoever wants to know overrides what it is about."""

    def leads(self, leads: bool) -> None:
        """Whether this process acts, from now on."""

    def checked(self, check: Checked) -> None: ...

    def checks_skipped(self, count: int, why: str) -> None:
        """They would have been due while another one lasted, or nothing could be known."""

    def halted(self, halts: tuple[Halt, ...]) -> None:
        """All that hold now, also for one namespace only; empty when all moves may begin. Told when they
        change."""

    def migration_changed(self, before: Migration | None, now: Migration | None) -> None:
        """Any change of any migration: no `before` for a new one, no `now` for one that is gone.

        Told by every process, whether it leads or not, and at the start for all that are there.
        """

    def configured(self, policy: Policy) -> None:
        """From now on this holds. Told at the start, too."""

    def configuration_refused(self, why: str) -> None:
        """A change of the file is kept out; what held before still does."""

    def requested(self, call: Call, code: int, seconds: float) -> None:
        """One request to the API server; `code` is 0 if no answer came."""

    def failing(self, pods: Sequence[FailingPod]) -> None:
        """All that fail now."""

    def suspects(self, nodes: Sequence[SuspectNode]) -> None:
        """All that are suspect now."""

    def maintenance(self, nodes: Sequence[NodeInMaintenance]) -> None:
        """All that are in maintenance now."""


def _forwarding(name: str) -> Callable[..., None]:
    def forward(self: "Several", *arguments: Any) -> None:
        for each in self.listeners:
            getattr(each, name)(*arguments)

    return forward


class Several(Told):
    """Passes everything on, in this order."""

    def __init__(self, listeners: Iterable[Told]) -> None:
        self.listeners = list(listeners)


for _name in [name for name in vars(Told) if not name.startswith("_")]:
    setattr(Several, _name, _forwarding(_name))
