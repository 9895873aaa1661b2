"""Check once every `reschedulingInterval` while this process leads, and execute the plans.

If a check is still running when the next is due, the next is skipped. Moves may take much longer than the
interval: the next check takes them into account, and its plan replaces those that have not started. In a dry
run, nothing moves: `DryRunTally` counts what would have moved, so that you can decide whether to end it.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from rescheduler.api.daemon_status import DryRunEvidence
from rescheduler.api.podmigration import Migration, MigrationPhase
from rescheduler.api.well_known_names import CONTINUES_ANNOTATION, NEXT_HOP_ANNOTATION
from rescheduler.cluster.node_record import NodeRecord, evacuation_of
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.sources.watched_objects import WatchedObjects, nested_field
from rescheduler.cluster.trusted_usage import UsageReader
from rescheduler.config.policy import Policy
from rescheduler.daemon.checker import Checker, CheckResult
from rescheduler.daemon.components import Rescheduler
from rescheduler.daemon.halt_monitor import HaltMonitor
from rescheduler.daemon.listeners import CheckReport, DaemonListener
from rescheduler.daemon.node_evictions import evacuation_deadlines
from rescheduler.kube import errors
from rescheduler.kube.event_recorder import log_event
from rescheduler.migrations.controller.plan_execution import MoveProgress, PlanExecution
from rescheduler.migrations.runtime_state import RuntimeState
from rescheduler.planner.maintenance_status import maintenance_status
from rescheduler.planner.plan import Move, Plan, spread_changes
from rescheduler.strategies.node_maintenance import NodeMaintenance

__all__ = [
    "DryRunTally",
    "PeriodicChecks",
]

log: Final = logging.getLogger(__name__)


_WINDOW: Final = timedelta(days=7)
_GONE_AFTER: Final = timedelta(minutes=30)
_HOUR_S: Final = 3600
_MIN_PAUSE_S: Final = 10.0
"""The shortest time between two checks that signals start, because a signal may come and go every second."""
_MAX_PENDING: Final = 1_000
"""The most pairs of strategy and node that are kept: 300 kB of a ConfigMap, which holds a megabyte."""

_Number = Annotated[int, Meta(ge=0, le=2**40)]


class _Pending(msgspec.Struct, frozen=True):
    """The pods of one node that one strategy would have moved."""

    pods: _Number
    planned_s: _Number
    """When a check planned them last, in seconds since 1970."""


class _TallyRecord(msgspec.Struct):
    since: Annotated[datetime, Meta(tz=True)] | None = None
    pending: dict[str, _Pending] = {}
    """The pods that are counted, by strategy and source node."""
    counted: dict[_Number, _Number] = {}
    """Pods by the hour, in seconds since 1970, in which they were counted."""


class DryRunTally:
    """The number of pods that plans of a dry run would have moved within a week.

    Nothing moves in a dry run, so every check plans the same moves again, or similar ones: loads vary, and
    with them which pod of a node is planned. So moves are counted by strategy and source node, and a check
    counts only the pods that it plans beyond those that are already counted. If no check has planned any for
    half an hour, later ones count again.
    """

    def __init__(self) -> None:
        self._record = _TallyRecord()

    def note(self, plan: Plan, snapshot: Snapshot, resources: Sequence[str], now: datetime) -> DryRunEvidence:
        """Count the pods of this plan, and return the evidence so far."""
        record, oldest, now_s = self._record, now - _WINDOW, int(now.timestamp())
        since = record.since = min(max(record.since or now, oldest), now)
        record.counted = {
            hour_s: pods
            for hour_s, pods in record.counted.items()
            if oldest.timestamp() <= hour_s <= now_s and hour_s % _HOUR_S == 0
        }
        hour_s = now_s // _HOUR_S * _HOUR_S
        record.counted[hour_s] = record.counted.get(hour_s, 0) + self._note_pending(plan, now_s)
        ready = [
            each
            for each in plan.nodes
            if (row := snapshot.nodes.row.get(each.name)) is not None and snapshot.nodes.ready[row]
        ]
        return DryRunEvidence(since, sum(record.counted.values()), spread_changes(ready, resources))

    def _note_pending(self, plan: Plan, now_s: int) -> int:
        """Return how many pods the plan moves beyond those that are counted already."""
        earliest_s = now_s - _GONE_AFTER.total_seconds()
        pending = {
            key: each for key, each in self._record.pending.items() if earliest_s <= each.planned_s <= now_s
        }
        added = 0
        planned = Counter(f"{move.strategy} {move.source}" for move in plan.moves if not move.hop)
        for key, pods in planned.items():
            before = pending.pop(key).pods if key in pending else 0
            added += max(0, pods - before)
            pending[key] = _Pending(max(pods, before), now_s)
        self._record.pending = dict(list(pending.items())[-_MAX_PENDING:])
        return added

    def encoded(self) -> str:
        """Return what `restore` reads."""
        return msgspec.json.encode(self._record).decode()

    def restore(self, text: str) -> None:
        """Continue the count of an earlier process; text that can't be read loses only that count."""
        try:
            self._record = msgspec.json.decode(text, type=_TallyRecord)
        except (msgspec.DecodeError, RecursionError):
            return

    def clear(self) -> None:
        """Reset all counts for the next dry run."""
        self._record = _TallyRecord()


class PeriodicChecks:
    def __init__(
        self,
        rescheduler: Rescheduler,
        halt_monitor: HaltMonitor,
        listener: DaemonListener,
        usage: UsageReader | None = None,
        tally: DryRunTally | None = None,
    ) -> None:
        """Create the checks; `usage` replaces the source that the policy names."""
        self._rescheduler = rescheduler
        self._halt_monitor = halt_monitor
        self._listener = listener
        self._usage = usage
        self._tally = tally or DryRunTally()
        self._runs: dict[asyncio.Task[None], PlanExecution] = {}
        self._node_signalled = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Check while the body runs. Migrations that were created remain when it ends."""
        async with self._rescheduler.checking(self._usage) as checker:
            self._resume_hops()
            unsubscribe = self._rescheduler.runtime.subscribe(self._state_changed)
            unsubscribe_nodes = self._rescheduler.watched.nodes.subscribe(self._on_node)
            checks = asyncio.create_task(self._run_checks(checker), name="checks")
            try:
                yield
            finally:
                unsubscribe()
                unsubscribe_nodes()
                tasks = [checks, *self._runs]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _state_changed(self, before: RuntimeState, after: RuntimeState) -> None:
        if after.policy.dry_run:
            # A dry run does not even start what was planned before it.
            for run in self._runs.values():
                run.stop()
        if after.cluster_halts and after.halt_keys != before.halt_keys:
            # If only namespaces are halted, the plan goes on: their own migrations don't start.
            self._supersede()

    async def _run_checks(self, checker: Checker) -> None:
        clock = asyncio.get_running_loop()
        due_s = earliest_s = clock.time()
        while True:
            is_woken = await self._is_woken_before(due_s, earliest_s)
            if is_woken:
                due_s = clock.time()
            await self._check(checker)
            if is_woken:
                earliest_s = clock.time() + _MIN_PAUSE_S
            interval_s = self._policy.rescheduling_interval.total_seconds()
            due_s += interval_s
            if (late_s := clock.time() - due_s) > 0:
                skipped = int(late_s // interval_s) + 1
                due_s += skipped * interval_s
                self._listener.checks_skipped(skipped, "the previous check took too long")

    async def _is_woken_before(self, due_s: float, earliest_s: float) -> bool:
        """Wait for the next check; return True at once if a node has to be evacuated, which may be urgent."""
        try:
            async with asyncio.timeout_at(due_s):
                await self._node_signalled.wait()
                await asyncio.sleep(earliest_s - asyncio.get_running_loop().time())
        except TimeoutError:
            return False
        finally:
            self._node_signalled.clear()
        return True

    def _on_node(self, old: NodeRecord | None, new: NodeRecord | None) -> None:
        signals, now_s = self._policy.evacuate_on, self._rescheduler.now().timestamp()
        if new is None or not signals or evacuation_of(new, signals, now_s) is None:
            return
        if old is None or evacuation_of(old, signals, now_s) is None:
            self._node_signalled.set()

    @property
    def _policy(self) -> Policy:
        return self._rescheduler.runtime.current.policy

    async def _check(self, checker: Checker) -> None:
        self._halt_monitor.evaluate()
        if (no_plan_reason := self._rescheduler.runtime.current.no_plan_reason) is not None:
            self._listener.checks_skipped(1, no_plan_reason.words)
            self._supersede()
            return
        began_s = asyncio.get_running_loop().time()
        try:
            check = await checker.check()
        except errors.KubeError as error:
            log_event(log, logging.WARNING, "CheckFailed", f"{error} The next check tries again.")
        except Exception:
            log.exception("a bug in rescheduler; the next check tries again", extra={"event": "CheckFailed"})
        else:
            self._take(check, asyncio.get_running_loop().time() - began_s)

    def _take(self, check: CheckResult, took_s: float) -> None:
        plan = check.plan
        self._halt_monitor.evaluate()
        state = self._rescheduler.runtime.current
        evidence = None
        if state.policy.dry_run:
            evidence = self._tally.note(plan, check.snapshot, state.policy.balance_resources, check.began)
        is_carried_out = state.may_act and bool(plan.moves or plan.changes)
        self._listener.checked(
            CheckReport(
                number=check.number,
                at=check.began,
                took_s=took_s,
                planning_s=check.planning_s,
                snapshot=check.snapshot,
                plan=plan,
                usage_source=check.usage_source,
                is_carried_out=is_carried_out,
                heating=check.heating,
                dry_run=evidence,
            )
        )
        enabled = state.policy.enables(NodeMaintenance.name)
        self._listener.maintenance(maintenance_status(check.snapshot, plan, state.policy, enabled=enabled))
        self._supersede()
        if is_carried_out:
            deadlines = evacuation_deadlines(check.snapshot, state.policy)
            self._begin(self._run_of(plan, deadlines), f"plan of check {check.number}")

    def _resume_hops(self) -> None:
        """Request the second hop of pods whose first hop an earlier leader requested."""
        if self._policy.dry_run:
            return
        within = self._policy.migration_timeout
        for hops in interrupted_hops(self._rescheduler.watched, self._rescheduler.now(), within):
            run = self._run_of(hops.plan)
            run.resume_after(hops.first_hop)
            self._begin(run, f"second hop after {hops.first_hop}")

    def _run_of(self, plan: Plan, deadlines: Mapping[str, datetime] | None = None) -> PlanExecution:
        rescheduler = self._rescheduler
        return PlanExecution(
            rescheduler.client,
            rescheduler.watched,
            plan,
            _log_cancelled_move,
            record=rescheduler.record,
            deadlines=deadlines,
        )

    def _begin(self, run: PlanExecution, name: str) -> None:
        task = asyncio.create_task(self._carry_out(run), name=name)
        self._runs[task] = run
        task.add_done_callback(self._runs.pop)

    def _supersede(self) -> None:
        for run in self._runs.values():
            run.supersede()

    async def _carry_out(self, run: PlanExecution) -> None:
        try:
            await run.run()
        except errors.KubeError as error:
            log_event(log, logging.WARNING, "PlanFailed", f"{error} The next check makes a new plan.")
        except Exception:
            log.exception(
                "a bug in rescheduler; the next check makes a new plan", extra={"event": "PlanFailed"}
            )


def _log_cancelled_move(progress: MoveProgress) -> None:
    if progress.cancelled_because:
        move = progress.move
        log_event(
            log,
            logging.INFO,
            "MoveCancelled",
            progress.cancelled_because,
            pod=move.pod,
            strategy=move.strategy,
        )


class InterruptedHops(NamedTuple):
    """A move of two hops whose second hop is not requested yet."""

    plan: Plan
    first_hop: str
    """The key of its migration."""


def interrupted_hops(watched: WatchedObjects, now: datetime, within: timedelta) -> Iterator[InterruptedHops]:
    """Yield moves of two hops whose first hop is running or finished within this time, in a fixed order.

    The second hop can't be requested before the first has finished, because the name and uid of the pod are
    not known until then. So an annotation of the first PodMigration names the final target, and the process
    that leads when the first hop finishes requests the second. Older ones are planned again like any pod.
    """
    items = list(watched.migrations.informer)
    continued = {
        (item["metadata"]["namespace"], nested_field(item, "metadata", "annotations", CONTINUES_ANNOTATION))
        for item in items
    }
    for item in sorted(items, key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"])):
        node = nested_field(item, "metadata", "annotations", NEXT_HOP_ANNOTATION)
        migration = watched.records.migration(item) if node else None
        if migration is None or (migration.namespace, migration.name) in continued:
            continue
        # Members of a group move together, so one of them alone is not continued.
        if not migration.spec.group and _may_arrive(migration, now - within):
            yield InterruptedHops(_plan_of_both_hops(migration, node), migration.key)


def _may_arrive(migration: Migration, after: datetime) -> bool:
    """Return whether the first hop is running, or completed after this time."""
    status = migration.status
    if not migration.is_finished:
        return True
    return (
        status.phase is MigrationPhase.COMPLETED
        and status.finished_at is not None
        and status.finished_at > after
    )


def _plan_of_both_hops(migration: Migration, node: str) -> Plan:
    spec = migration.spec

    def hop(source: str, target: str, *, is_first: bool) -> Move:
        return Move(
            pod=migration.pod_key,
            uid=spec.pod.uid,
            source=source,
            target=target,
            strategy=spec.strategy,
            handover=spec.handover,
            reason=spec.reason,
            gain=0.0,
            wave=0 if is_first else 1,
            hop=is_first,
        )

    hops = (
        hop(spec.source_node, spec.target_node, is_first=True),
        hop(spec.target_node, node, is_first=False),
    )
    return Plan(taken_at_s=migration.created.timestamp(), moves=hops)
