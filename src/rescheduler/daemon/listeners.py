"""Pass what happens in the daemon to listeners: the log, Events, the status and metrics.

    daemon ──▶ ListenerFanout ──▶ DaemonLog, DaemonEvents, StatusWriter, …

Listeners are called on the event loop after something has happened; they must be quick and must not raise.
The Events are about the ConfigMap `rescheduler-state`.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rescheduler.api.daemon_status import DryRunEvidence, Halt, HaltReason, NodeInMaintenance
from rescheduler.api.podmigration import Migration
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.config.policy import Policy
from rescheduler.daemon.own_objects import STATE_CONFIG_MAP, WatchedState
from rescheduler.kube.api_resources import ApiCall
from rescheduler.kube.event_recorder import EventRecorder, InvolvedObject, log_event
from rescheduler.planner.plan import Plan
from rescheduler.planner.reasons import Reason
from rescheduler.recovery.controller.recovery_report import FailureListener

__all__ = [
    "TRACE_RECEIVERS",
    "CheckReport",
    "DaemonEvents",
    "DaemonListener",
    "DaemonLog",
    "ListenerFanout",
]

TRACE_RECEIVERS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Environment variables of OpenTelemetry. If neither is set, nothing of OpenTelemetry is imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """One check and its decisions."""

    number: int
    """The number of the check since the start of the process, from 1."""
    at: datetime
    took_s: float
    """Seconds from reading the cluster to the finished plan."""
    planning_s: float
    """The part of these seconds that the planner took, in its own thread."""
    snapshot: Snapshot
    plan: Plan
    usage_source: str
    is_carried_out: bool
    """False in a dry run, and during a halt."""
    heating: tuple[str, ...] = ()
    """Nodes that are too hot, but not for enough checks to move pods."""
    dry_run: DryRunEvidence | None = None
    """The evidence of the dry run so far; None if this is no dry run."""


class DaemonListener(FailureListener):
    """Receives every event and ignores it; a subclass overrides the methods that it needs."""

    def leads(self, leads: bool) -> None:
        """Receive whether this process leads from now on."""

    def checked(self, check: CheckReport) -> None: ...

    def checks_skipped(self, count: int, why: str) -> None:
        """Receive that checks were skipped because another one was running, or because of a halt."""

    def halted(self, halts: tuple[Halt, ...]) -> None:
        """Receive all current halts when they change, also those of one namespace; empty if none is left."""

    def migration_changed(self, before: Migration | None, now: Migration | None) -> None:
        """Receive any change of any migration: no `before` for a new one, no `now` for a deleted one.

        Every process calls it, whether it leads or not, and at the start for all existing migrations.
        """

    def migration_step(self, before: Migration, after: Migration) -> None:
        """Receive that this process brought a migration to another step, or recognised that it is there.

        Most steps are not written to the status.
        """

    def configured(self, policy: Policy) -> None:
        """Receive the policy that applies from now on; also called at the start."""

    def configuration_refused(self, why: str) -> None:
        """Receive that a changed configuration file was refused; the previous configuration still applies."""

    def requested(self, call: ApiCall, code: int, seconds: float) -> None:
        """Receive a request to the API server; `code` is 0 if there was no response."""

    def node_evicted(self, cause: str, result: str) -> None:
        """Receive the result of an eviction without a move, of a pod whose node is being emptied."""

    def notified(self, sink: str, result: str) -> None:
        """Receive that a notification was `sent`, `retried` or `dropped`."""

    def maintenance(self, nodes: Sequence[NodeInMaintenance]) -> None:
        """Receive all nodes that are in maintenance now."""


def _forwarding(name: str) -> Callable[..., None]:
    def forward(self: "ListenerFanout", *arguments: Any) -> None:
        for each in self.listeners:
            getattr(each, name)(*arguments)

    return forward


class ListenerFanout(DaemonListener):
    """Passes every event to all listeners, in their order."""

    def __init__(self, listeners: Iterable[DaemonListener]) -> None:
        self.listeners = list(listeners)


for _name in [name for name in dir(DaemonListener) if not name.startswith("_")]:
    setattr(ListenerFanout, _name, _forwarding(_name))

log: Final = logging.getLogger("rescheduler.daemon")

_MOST_NAMED: Final = 5


class DaemonLog(DaemonListener):
    def __init__(self) -> None:
        self._halts: frozenset[tuple[HaltReason, str]] = frozenset()
        self._is_dry_run = False
        self._planned: tuple[object, ...] = ()
        self._failed_strategies: frozenset[str] = frozenset()

    def leads(self, leads: bool) -> None:
        if leads:
            log_event(log, logging.INFO, "Leading", "this process holds the Lease and moves pods")
        else:
            log_event(log, logging.INFO, "StandingBy", "this process lost the Lease and moves no pods")

    def checked(self, check: CheckReport) -> None:
        """Log a plan once, even if later checks make the same plan because its moves don't start.

        The first check is always logged: it shows that the daemon works, also if there is nothing to move.
        """
        plan = check.plan
        planned = (*((move.uid, move.target) for move in plan.moves), *plan.changes)
        is_new = bool(planned) and (check.is_carried_out or planned != self._planned)
        self._planned = planned
        level = logging.INFO if is_new or check.number == 1 else logging.DEBUG
        count = len(plan.moves)
        words = f"{count} {'move' if count == 1 else 'moves'} planned"
        if planned and not check.is_carried_out:
            words += ", not executed: " + ("dry run" if self._is_dry_run else "halted")
        log_event(
            log,
            level,
            "CheckDone",
            words,
            check=check.number,
            moves=count,
            refused=sum(plan.refused_counts.values()),
            seconds=round(check.took_s, 3),
            planning=round(check.planning_s, 3),
            usage=check.usage_source,
        )
        if check.heating:
            named = ", ".join(check.heating[:_MOST_NAMED])
            more = f" and {len(check.heating) - _MOST_NAMED} more" * (len(check.heating) > _MOST_NAMED)
            words = f"too hot, but pods move only after hotChecks checks in a row: {named}{more}"
            log_event(log, logging.INFO, "NodesHeating", words, check=check.number)
        failures = {each.by: each.detail for each in plan.refused if each.reason == Reason.STRATEGY_FAILED}
        for name in sorted(failures.keys() - self._failed_strategies):
            log_event(log, logging.ERROR, "StrategyFailed", failures[name], strategy=name)
        self._failed_strategies = frozenset(failures)
        for move in plan.moves:
            log_event(
                log,
                level,
                "MovePlanned",
                move.reason,
                pod=move.pod,
                source=move.source,
                target=move.target or "",
                strategy=move.strategy,
                handover=str(move.handover),
                wave=move.wave + 1,
            )
        for change in plan.changes:
            log_event(
                log,
                level,
                "NodeChangePlanned",
                change.reason,
                node=change.node,
                change=str(change.change),
                strategy=change.strategy,
            )

    def checks_skipped(self, count: int, why: str) -> None:
        log_event(log, logging.WARNING, "CheckSkipped", why, checks=count)

    def halted(self, halts: tuple[Halt, ...]) -> None:
        for halt in halts:
            if (halt.reason, halt.namespace) not in self._halts:
                of = f" of namespace {halt.namespace}" if halt.namespace else ""
                words = f"{halt.words}. No move{of} starts. Ends {halt.ends}."
                log_event(log, logging.WARNING, "Halted", words, **_halt_fields(halt.reason, halt.namespace))
        now = frozenset((halt.reason, halt.namespace) for halt in halts)
        for reason, namespace in sorted(self._halts - now):
            log_event(
                log,
                logging.INFO,
                "HaltEnded",
                "the cause of the halt is gone",
                **_halt_fields(reason, namespace),
            )
        self._halts = now

    def configured(self, policy: Policy) -> None:
        self._is_dry_run = policy.dry_run
        log_event(
            log,
            logging.INFO,
            "Configured",
            "the new configuration applies from the next check",
            strategies=",".join(policy.enabled_strategies),
            dry_run=policy.dry_run,
            interval=policy.rescheduling_interval.total_seconds(),
        )

    def configuration_refused(self, why: str) -> None:
        log_event(
            log, logging.ERROR, "ConfigurationRefused", f"{why}\nThe previous configuration still applies."
        )


def _halt_fields(reason: HaltReason, namespace: str) -> dict[str, str]:
    return {"reason": str(reason), **({"namespace": namespace} if namespace else {})}


class DaemonEvents(DaemonListener):
    """Writes Events of the daemon while `is_on`, which is set while this process leads."""

    def __init__(self, events: EventRecorder, state: WatchedState) -> None:
        self.is_on = False
        self._events = events
        self._state = state
        self._halts: tuple[Halt, ...] = ()
        self._announced: set[tuple[HaltReason, str]] = set()

    def leads(self, leads: bool) -> None:
        self.is_on = leads
        if leads:
            self._events.record(self._subject, "Leading", "this replica holds the Lease and moves pods")
            self.halted(self._halts)

    def halted(self, halts: tuple[Halt, ...]) -> None:
        self._halts = halts
        if not self.is_on:
            return
        now = {(halt.reason, halt.namespace) for halt in halts}
        for halt in halts:
            if (halt.reason, halt.namespace) not in self._announced:
                message = f"{halt.reason}: {halt.words}. Ends {halt.ends}"
                self._events.record(self._subject, "Halted", message, warning=True)
        for reason, namespace in sorted(self._announced - now):
            of = f" of namespace {namespace}" if namespace else ""
            self._events.record(self._subject, "HaltEnded", f"{reason}{of} has ended")
        self._announced = now

    def configuration_refused(self, why: str) -> None:
        if self.is_on:
            self._events.record(self._subject, "ConfigurationRefused", why, warning=True)

    @property
    def _subject(self) -> InvolvedObject:
        return InvolvedObject("v1", "ConfigMap", self._state.namespace, STATE_CONFIG_MAP, self._state.uid)
