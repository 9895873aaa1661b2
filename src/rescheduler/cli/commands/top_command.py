"""`rescheduler top`."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from rescheduler.cli.cluster_source import EXIT_USAGE_ERROR, ClusterSource, exit_with_error
from rescheduler.cli.command_options import effective_config_options
from rescheduler.cli.execution import Execution, requesting_user, short_collections
from rescheduler.cli.terminal import counted, echo, rounded_duration

if TYPE_CHECKING:
    from rescheduler.api.daemon_status import DaemonStatus, Pause
    from rescheduler.api.podmigration import Migration
    from rescheduler.cli.status_view import MoveRow, NodeRow, TopState
    from rescheduler.cli.top_screen import TopScreen
    from rescheduler.cluster.snapshot import Snapshot
    from rescheduler.config.policy import Policy
    from rescheduler.daemon.checker import Checker, CheckResult
    from rescheduler.daemon.components import Rescheduler
    from rescheduler.kube.client import Client
    from rescheduler.planner.explanation import NodeExplanation, PodExplanation

__all__ = ["LiveTop", "show_while_loading", "top"]

_NAMED = 2
_RECENT = 20
"""The number of finished moves that are shown."""


@click.command()
@effective_config_options
@click.option(
    "--interval",
    type=click.FloatRange(min=1.0, max=3600.0),
    default=5.0,
    show_default=True,
    help="Seconds between two refreshes.",
)
@short_collections()
def top(cluster: ClusterSource, interval: float) -> None:
    """Keys: s sorts, / filters, Enter explains a node and then its pods, p shows the plan, P pauses,
    R resumes, q quits. Tab goes to the moves, where Enter shows one and c cancels it.
    """
    if find_spec("textual") is None:
        exit_with_error(
            "`top` needs Textual, which is not installed. Run: pip install 'kube-rescheduler[top]'",
            EXIT_USAGE_ERROR,
        )
    if not sys.stdout.isatty():
        exit_with_error("`top` needs a terminal. Elsewhere, run: rescheduler status", EXIT_USAGE_ERROR)
    echo("Connecting to the API server…", err=True)
    execution = Execution(cluster, cluster.effective_configuration())

    async def show(client: "Client") -> None:
        from rescheduler.cli.top_screen import TopScreen  # noqa: PLC0415

        await show_while_loading(TopScreen(interval_s=interval), execution, client)

    execution.ask(show)


async def show_while_loading(screen: "TopScreen", execution: Execution, client: "Client") -> None:
    """Show the screen at once, and read the cluster meanwhile, which can take several seconds.

    If the cluster can't be read, the screen is closed, and the error is raised.
    """
    loading = asyncio.create_task(_load(screen, execution, client), name="loading for top")
    loading.add_done_callback(lambda task: None if task.cancelled() else screen.exit())
    try:
        await screen.run_async()
    finally:
        loading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loading


async def _load(screen: "TopScreen", execution: Execution, client: "Client") -> None:
    """Read the cluster and watch it until the task is cancelled; `screen.step` names the current step."""
    from rescheduler.daemon.own_objects import state_namespace  # noqa: PLC0415

    await screen.is_shown.wait()
    screen.step = "Reading nodes, pods and migrations"
    async with execution.watching(client, only=True) as rescheduler:
        home = await state_namespace(client, execution.configuration)
        async with rescheduler.checking() as checker:
            screen.step = "Planning"
            screen.start(LiveTop(rescheduler, checker, home, execution.cluster.address()))
            await asyncio.Event().wait()


class LiveTop:
    """Implements `TopSource` with a live cluster, which it watches, and the user's permissions."""

    def __init__(self, rescheduler: "Rescheduler", checker: "Checker", home: str, address: str = "") -> None:
        """`home` is the namespace of the daemon's state, `address` says which cluster it is."""
        self._address = address
        self._rescheduler = rescheduler
        self._checker = checker
        self._home = home
        self._last: CheckResult | None = None
        self._checking = asyncio.Lock()

    async def current_state(self) -> "TopState":
        from rescheduler.api.daemon_status import UnreadableState  # noqa: PLC0415
        from rescheduler.cli.status_view import TopState  # noqa: PLC0415
        from rescheduler.daemon.own_objects import read_state  # noqa: PLC0415
        from rescheduler.kube import errors  # noqa: PLC0415

        async with self._checking:
            found = self._last = await self._checker.check()
        try:
            pause, status = await read_state(self._rescheduler.client, self._home)
            summary = _summary(pause, status, datetime.now(UTC))
        except (errors.KubeError, UnreadableState) as error:
            summary = (f"The daemon's status can't be read: {error}",)
        policy = self._rescheduler.runtime.current.policy
        cluster = (f"Cluster: {self._address}",) if self._address else ()
        return TopState(
            (*cluster, *summary, _balance_words(found, policy), _plan_words(found)),
            _node_rows(found, policy),
            _move_rows(self._rescheduler, datetime.now(UTC)),
        )

    async def plan(self, width: int) -> Sequence[str]:
        from rescheduler.cli.plan_view import plan_lines  # noqa: PLC0415
        from rescheduler.cli.terminal import Terminal  # noqa: PLC0415

        found = await self._latest()
        return list(plan_lines(found.plan, Terminal(width=width)))

    async def explain_node(self, name: str, width: int) -> Sequence[str]:
        from rescheduler.planner.explanation import explain_node  # noqa: PLC0415

        return await self._explanation(explain_node, name, width)

    async def explain_pod(self, key: str, width: int) -> Sequence[str]:
        from rescheduler.planner.explanation import explain_pod  # noqa: PLC0415

        return await self._explanation(explain_pod, key, width)

    async def show_move(self, key: str, width: int) -> Sequence[str]:
        from rescheduler.cli.migrations_view import LiveSteps, migration_detail_lines  # noqa: PLC0415
        from rescheduler.cli.terminal import Terminal  # noqa: PLC0415
        from rescheduler.migrations.controller.observation_builder import migration_at  # noqa: PLC0415
        from rescheduler.migrations.labels_and_names import copy_name  # noqa: PLC0415

        watched, now = self._rescheduler.watched, datetime.now(UTC)
        item = watched.migrations.informer.get(key)
        known = migration_at(key, watched)
        if item is None or known is None:
            return [f"{key} no longer exists"]
        copy = watched.pods.get(f"{known.namespace}/{copy_name(known)}")
        settle_time = self._rescheduler.runtime.current.policy.settle_time
        live = LiveSteps({} if copy is None else {key: copy}, settle_time)
        return list(migration_detail_lines(item, (), Terminal(width=width), now, live))

    async def pods_on(self, node: str) -> Sequence[str]:
        snapshot = (await self._latest()).snapshot
        row = snapshot.nodes.row.get(node)
        return [] if row is None else [snapshot.pods.records[pod].key for pod in snapshot.pods.on(row)]

    async def pause(self) -> str:
        await self._write(paused=True, why="paused in top")
        return "Paused: the daemon starts no more moves and finishes the running ones."

    async def resume(self) -> str:
        await self._write(paused=False)
        return "Resumed: the next check can move pods."

    async def cancel(self, migration: str) -> str:
        from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS  # noqa: PLC0415
        from rescheduler.kube.leader_election import find_renewed_lease  # noqa: PLC0415
        from rescheduler.migrations.controller.observation_builder import migration_at  # noqa: PLC0415

        known = migration_at(migration, self._rescheduler.watched)
        if known is None or known.is_finished:
            return f"{migration} is already finished"
        client, lease = self._rescheduler.client, self._rescheduler.lease.key
        if await find_renewed_lease(client, [lease]) is None:
            return f"Nothing makes moves now. To cancel it, run: rescheduler migrations {migration} --cancel"
        await client.delete(POD_MIGRATIONS, migration, uid=known.uid)
        return f"Cancelling {migration}: the leader rolls it back, or finishes it."

    async def _write(self, *, paused: bool, why: str = "") -> None:
        from rescheduler.api.daemon_status import Pause  # noqa: PLC0415
        from rescheduler.daemon.own_objects import require_daemon, write_pause  # noqa: PLC0415

        client = self._rescheduler.client
        await require_daemon(client, self._rescheduler.configuration, self._home)
        by = await requesting_user(client)
        await write_pause(client, self._home, Pause(paused=paused, by=by, at=datetime.now(UTC), why=why))

    async def _latest(self) -> "CheckResult":
        if self._last is None:
            await self.current_state()
        assert self._last is not None
        return self._last

    async def _explanation(
        self, explain: "Callable[..., NodeExplanation | PodExplanation]", name: str, width: int
    ) -> Sequence[str]:
        from rescheduler.cli.explain_view import explanation_lines  # noqa: PLC0415
        from rescheduler.cli.terminal import Terminal  # noqa: PLC0415

        snapshot, state = (await self._latest()).snapshot, self._rescheduler.runtime.current
        known = snapshot.nodes.row if "/" not in name else snapshot.pods.row
        if name not in known:
            return [f"{name} no longer exists"]
        found = await asyncio.to_thread(
            explain, snapshot, state.policy, name, steered=state.steers, guarded=state.guards
        )
        return list(explanation_lines(found, found.assumptions, Terminal(width=width)))


def _summary(pause: "Pause", status: "DaemonStatus | None", now: datetime) -> tuple[str, ...]:
    written = ""
    if status is not None and status.updated is not None:
        written = f", status written {rounded_duration(now - status.updated)} ago"
    if status is None:
        lines = ["Daemon: no status yet"]
    elif status.dry_run is not None:
        moves = counted(status.dry_run.moves, "pod")
        lines = [f"Daemon: dry run by {status.leader}, would have moved {moves}{written}"]
    else:
        lines = [f"Daemon: {status.leader}, version {status.version}{written}"]
    lines += [f"Halted: {halt.reason}: {halt.words}" for halt in (status.halts if status else ())]
    if pause.paused and not any(line.startswith("Halted: Paused") for line in lines):
        lines.append(f"Paused by {pause.by}{f': {pause.why}' if pause.why else ''}")
    return tuple(lines)


def _balance_words(check: "CheckResult", policy: "Policy") -> str:
    """Return the spread of the loads that the bars show; the daemon's status would be older."""
    from rescheduler.daemon.status_writer import balance_of  # noqa: PLC0415

    parts = (
        f"{each.resource} {each.least.percent:.0f}% to {each.most.percent:.0f}%, "
        f"spread {each.spread:.0f} points"
        for each in balance_of(check.snapshot, policy.balance_resources)
    )
    return f"Balance: {'; '.join(parts) or 'unknown'}"


def _plan_words(check: "CheckResult") -> str:
    moves = len(check.plan.moves)
    what = counted(moves, "move") if moves else "nothing to move"
    if check.heating:
        what += f" yet (too hot: {', '.join(check.heating[:_NAMED])}{' …' * (len(check.heating) > _NAMED)})"
    return f"Plan: {what}, load by {check.usage_source}, as of {check.began:%H:%M:%S} UTC"


def _node_rows(check: "CheckResult", policy: "Policy") -> "tuple[NodeRow, ...]":
    from rescheduler.cli.status_view import NodeRow  # noqa: PLC0415

    snapshot = check.snapshot
    loads = {node.name: node.before for node in check.plan.nodes}
    return tuple(
        NodeRow(
            node.name,
            loads.get(node.name, {}).get("cpu", 0.0),
            loads.get(node.name, {}).get("memory", 0.0),
            len(snapshot.pods.on(row)),
            _node_state(snapshot, row, policy),
        )
        for row, node in enumerate(snapshot.nodes.records)
    )


def _node_state(snapshot: "Snapshot", row: int, policy: "Policy") -> str:
    from rescheduler.cluster.node_record import in_maintenance  # noqa: PLC0415
    from rescheduler.cluster.snapshot import closed_because  # noqa: PLC0415

    node = snapshot.nodes.records[row]
    if node.is_ready and in_maintenance(node):
        return "in maintenance"  # It is cordoned, too, which says less.
    closed = closed_because(snapshot, policy, row).removeprefix("is ")
    return closed or "Ready"


def _move_rows(rescheduler: "Rescheduler", now: datetime) -> "tuple[MoveRow, ...]":
    watched = rescheduler.watched
    found = [each for item in watched.migrations.informer if (each := watched.records.migration(item))]
    running = sorted(
        (each for each in found if not each.is_finished), key=lambda each: (each.created, each.key)
    )
    finished = sorted(
        (each for each in found if each.is_finished),
        key=lambda each: (each.status.finished_at or each.created, each.key),
        reverse=True,
    )
    live = [_with_live_step(each, rescheduler, now) for each in running]
    return tuple(_move_row(each, now) for each in (*live, *finished[:_RECENT]))


def _with_live_step(migration: "Migration", rescheduler: "Rescheduler", now: datetime) -> "Migration":
    from rescheduler.migrations.labels_and_names import copy_name  # noqa: PLC0415
    from rescheduler.migrations.make_before_break import with_live_step  # noqa: PLC0415

    copy = rescheduler.watched.pods.get(f"{migration.namespace}/{copy_name(migration)}")
    return with_live_step(migration, copy, rescheduler.runtime.current.policy.settle_time, now)


def _move_row(migration: "Migration", now: datetime) -> "MoveRow":
    from rescheduler.cli.status_view import MoveRow  # noqa: PLC0415

    status = migration.status
    since = status.finished_at or migration.created
    age = rounded_duration(now - since)
    return MoveRow(
        migration.key,
        _status_text(migration),
        f"{age} ago" if migration.is_finished else age,
        f"{migration.spec.source_node} → {migration.target_node or 'not chosen yet'}",
        migration.spec.reason,
        migration.is_finished,
    )


def _status_text(migration: "Migration") -> str:
    status = migration.status
    if not migration.is_finished:
        return status.message or status.step or "Queued"
    return f"{status.phase}: {status.message}" if status.failure and status.message else str(status.phase)
