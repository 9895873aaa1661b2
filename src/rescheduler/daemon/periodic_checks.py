"""The checks of whoever leads: one every `reschedulingInterval`, and what becomes of their plans.

A check that is still at work when the next one is due makes that one fall out: it is skipped, not queued. The
moves of a plan may take much longer than the interval. They are not waited for: the next check plans with
them in mind, and its plan takes the place of what of the last one was not begun.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

from rescheduler.api.daemon_status import Halt
from rescheduler.api.structured_log import log_event
from rescheduler.cluster.sources.usage_sources import UsageReader, usage_reader
from rescheduler.config.policy import Policy
from rescheduler.daemon.checker import Checker, CheckResult
from rescheduler.daemon.components import Rescheduler
from rescheduler.daemon.halt_monitor import HaltMonitor
from rescheduler.daemon.listeners import CheckReport, DaemonListener
from rescheduler.kube import errors
from rescheduler.migrations.controller.plan_execution import MoveProgress, PlanExecution
from rescheduler.migrations.controller.podmigration_manifest import interrupted_hops
from rescheduler.planner.maintenance_status import maintenance_status
from rescheduler.planner.plan import Plan
from rescheduler.strategies.node_maintenance import NodeMaintenance

__all__ = ["PeriodicChecks"]

log: Final = logging.getLogger(__name__)


class PeriodicChecks(DaemonListener):
    def __init__(
        self,
        rescheduler: Rescheduler,
        watchman: HaltMonitor,
        listener: DaemonListener,
        usage: UsageReader | None = None,
    ) -> None:
        """`usage` in place of where the policy says that it comes from."""
        self._rescheduler = rescheduler
        self._watchman = watchman
        self._listener = listener
        self._usage = usage
        self._runs: dict[asyncio.Task[None], PlanExecution] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Checks while the body runs. What was asked for by then stays asked for: it is on record."""
        async with self._rescheduler.checking(self._usage) as loop:
            self._resume_hops()
            checks = asyncio.create_task(self._check_for_ever(loop), name="checks")
            try:
                yield
            finally:
                tasks = [checks, *self._runs]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def halted(self, halts: tuple[Halt, ...]) -> None:
        """What was not begun is not even asked for any more. Where only namespaces are held back, the rest of
        a plan goes on: their own migrations don't begin."""
        if any(not halt.namespace for halt in halts):
            self._supersede()

    def configured(self, policy: Policy) -> None:
        """In a dry run not even what was planned before it is begun."""
        if policy.dry_run:
            for run in self._runs.values():
                run.stop()

    async def _check_for_ever(self, loop: Checker) -> None:
        clock = asyncio.get_running_loop()
        due_s = clock.time()
        while True:
            await asyncio.sleep(max(0.0, due_s - clock.time()))
            await self._check(loop)
            interval_s = self._policy.rescheduling_interval.total_seconds()
            due_s += interval_s
            if (late_s := clock.time() - due_s) > 0:
                skipped = int(late_s // interval_s) + 1
                due_s += skipped * interval_s
                self._listener.checks_skipped(skipped, "the check before took too long")

    @property
    def _policy(self) -> Policy:
        return self._rescheduler.configuration.policy

    async def _check(self, loop: Checker) -> None:
        await self._configure(loop)
        self._watchman.look()
        if (no_plan_reason := self._watchman.no_plan_reason) is not None:
            self._listener.checks_skipped(1, no_plan_reason.words)
            self._supersede()
            return
        began_s = asyncio.get_running_loop().time()
        loop.held_namespaces = self._watchman.held_namespaces
        try:
            check = await loop.check()
        except errors.KubeError as error:
            log_event(log, logging.WARNING, "CheckFailed", f"{error} The next check tries again.")
        except Exception:
            log.exception(
                "a fault of the program; the next check tries again", extra={"event": "CheckFailed"}
            )
        else:
            self._take(check, asyncio.get_running_loop().time() - began_s)

    async def _configure(self, loop: Checker) -> None:
        before, now = loop.policy, self._policy
        if before is now:
            return
        loop.policy = now
        is_other_source = (before.usage_source, before.prometheus) != (now.usage_source, now.prometheus)
        if is_other_source and self._usage is None:
            await loop.usage.close()
            loop.usage = usage_reader(now, self._rescheduler.client)

    def _take(self, check: CheckResult, took_s: float) -> None:
        plan = check.plan
        may_begin = not self._watchman.look() and not self._policy.dry_run and not self._watchman.is_ending
        is_carried_out = may_begin and bool(plan.moves or plan.changes)
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
            )
        )
        enabled = NodeMaintenance.name in self._policy.enabled_strategies
        self._listener.maintenance(maintenance_status(check.snapshot, plan, enabled=enabled))
        self._supersede()
        if is_carried_out:
            self._begin(self._run_of(plan), f"plan of check {check.number}")

    def _resume_hops(self) -> None:
        """From their stops, pods that whoever led before has brought there or is bringing."""
        if self._policy.dry_run:
            return
        within = self._policy.migration_timeout
        for hops in interrupted_hops(self._rescheduler.followed, self._rescheduler.now(), within):
            run = self._run_of(hops.plan)
            run.resume_after(hops.first_hop)
            self._begin(run, f"journey of {hops.first_hop}")

    def _run_of(self, plan: Plan) -> PlanExecution:
        rescheduler = self._rescheduler
        return PlanExecution(
            rescheduler.client, rescheduler.followed, plan, _log_cancelled_move, record=rescheduler.record
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
            log_event(log, logging.WARNING, "PlanFailed", f"{error} The next check plans anew.")
        except Exception:
            log.exception("a fault of the program; the next check plans anew", extra={"event": "PlanFailed"})


def _log_cancelled_move(progress: MoveProgress) -> None:
    if progress.given_up:
        move = progress.move
        log_event(log, logging.INFO, "MoveGivenUp", progress.given_up, pod=move.pod, strategy=move.strategy)
