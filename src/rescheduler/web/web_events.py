"""Changes for all open pages: computed once, numbered, kept for a while, and sent as server-sent events.

Nothing is queued per client: a client reads from the one bounded list of events at its own pace. If it has
missed events that were dropped, or reconnects after a restart of the server, it gets `resync`.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from rescheduler.api.daemon_status import Halt, HaltReason, ResourceBalance, SuspectNode
from rescheduler.api.podmigration import Migration
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.daemon.status_writer import balance_of
from rescheduler.kube import errors
from rescheduler.kube.event_recorder import log_event
from rescheduler.strategies.cost_optimization import unschedulable_pods
from rescheduler.web.cluster_grid import GridMarks, LoadHistory, NodeNumbers, cluster_view, nodes_delta
from rescheduler.web.migration_page import migrations_delta, node_drains, pending_pods
from rescheduler.web.node_page import visible_maintenance
from rescheduler.web.page_model import PageModel
from rescheduler.web.plan_api_types import PendingPodView, PlanEvent, ResyncEvent, StatusView
from rescheduler.web.web_viewer import HIDDEN_NAME, Visibility

__all__ = ["EventHub", "PageEvent", "ResyncReason", "status_view", "visible_halt", "visible_status"]

log = logging.getLogger(__name__)

_TICK_S: Final = 1.0
_LONGEST_TICK_S: Final = 5.0
_TICK_SHARE: Final = 10
"""The pause between refreshes, in durations of one refresh: large clusters are refreshed less often."""
_UNWATCHED_SAMPLE_S: Final = 30.0
_MIGRATION_DELAY_S: Final = 0.2
_MOST_EVENTS: Final = 256
_MOST_BYTES: Final = 16 << 20
_MOST_WAITING: Final = 2000
"""The most unschedulable pods to consider. Each viewer sees those of their namespaces."""
_MOST_PENDING: Final = 100
"""The most pending pods that are sent to one viewer."""
_EXAMPLES_OF_HALTS: Final = {HaltReason.FAILURE_RATIO: "; for example ", HaltReason.API_FAILING: ": "}
"""The text in the words of a halt that precedes a failed migration, or the API server's last error."""

Render = Callable[[Visibility], bytes | None]
ResyncReason = Literal["start", "nodes", "missed", "restarted"]


@dataclass(frozen=True, slots=True)
class PageEvent:
    number: int
    name: str
    render: Render
    """Return the data for a viewer; None if they may not see any of it."""
    size: int


class EventHub:
    """The current state of the cluster, and the events that led to it."""

    def __init__(self, page: PageModel, history: LoadHistory | None = None) -> None:
        self.page = page
        self.epoch = secrets.token_hex(8)
        self.history = history or LoadHistory()
        self.revision = 0
        self._events: deque[PageEvent] = deque()
        self._bytes = 0
        self._numbers: NodeNumbers | None = None
        self._snapshot: Snapshot | None = None
        self._encoded: tuple[int, bytes] | None = None
        self._refreshed_s = float("-inf")
        self._sampled_s = float("-inf")
        self._took_s = 0.0
        self._plan_number = 0
        self._status: StatusView | None = None
        self._changed_migrations: dict[str, Migration | None] = {}
        self._refreshing = asyncio.Lock()
        self._planning: asyncio.Task[None] | None = None
        self._is_emission_due = False
        self._news = asyncio.Event()
        self.viewers = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the cluster while the body runs."""
        end = self.page.subscribe(self._on_migration)
        task = asyncio.create_task(self._refresh_for_ever(), name="page events")
        try:
            yield
        finally:
            end()
            tasks = [each for each in (task, self._planning) if each is not None]
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _on_migration(self, key: str, now: Migration | None) -> None:
        """Send changed migrations soon, without waiting for the next check, because users watch them."""
        self._changed_migrations[key] = now
        if self.viewers and not self._is_emission_due:
            self._is_emission_due = True
            asyncio.get_running_loop().call_later(_MIGRATION_DELAY_S, self._emit_migrations)

    async def _refresh_for_ever(self) -> None:
        while True:
            await asyncio.sleep(min(_LONGEST_TICK_S, max(_TICK_S, _TICK_SHARE * self._took_s)))
            if not self.page.is_ready:
                continue
            try:
                if self.viewers:
                    await self.refresh()
                elif self._is_sample_due():
                    self._sampled_s = time.monotonic()
                    self.history.add(await self.page.snapshot(), self.page.state.policy.balance_resources)
            except errors.KubeError as error:
                log_event(log, logging.WARNING, "PageNotRefreshed", f"{error} The page tries again.")
            except Exception:
                log.exception("a bug in rescheduler's web page", extra={"event": "PageNotRefreshed"})
            if not self.viewers:
                # No page is open, and a page that opens later loads everything.
                self._changed_migrations.clear()

    def _is_sample_due(self) -> bool:
        """Return whether the history needs a sample while no page is open. Samples are rare, because each
        reads the whole cluster."""
        return time.monotonic() - self._sampled_s > max(_UNWATCHED_SAMPLE_S, self.history.interval_s)

    async def refresh(self, older_than_s: float = 0.0) -> None:
        """Read the cluster, and emit what has changed since the last time."""
        async with self._refreshing:
            if time.monotonic() - self._refreshed_s < older_than_s:
                return
            self._keep_planned()
            began_s = time.monotonic()
            snapshot = await self.page.snapshot()
            numbers, balance, waiting = await asyncio.to_thread(self._evaluate, snapshot)
            self._emit_nodes(snapshot, numbers, balance)
            self._emit_migrations()
            self._emit_plan()
            self._emit_status(snapshot, waiting)
            self._refreshed_s = time.monotonic()
            self._took_s = self._refreshed_s - began_s

    def _keep_planned(self) -> None:
        """Start a plan while pages are open, but don't wait for it: nodes and moves change meanwhile."""
        if self.viewers and self.page.mode != "file" and (self._planning is None or self._planning.done()):
            self._planning = asyncio.create_task(self._plan(), name="plan of the page")

    async def _plan(self) -> None:
        try:
            await self.page.revision()
        except errors.KubeError as error:
            log_event(log, logging.WARNING, "PageNotPlanned", f"{error} The page tries again.")

    def _evaluate(self, snapshot: Snapshot) -> tuple[NodeNumbers, tuple[ResourceBalance, ...], list[int]]:
        resources = self.page.state.policy.balance_resources
        self.history.add(snapshot, resources)
        latest = self.page.latest
        marks = GridMarks(
            frozenset(each.node for each in self.page.daemon_status().suspects),
            latest.nodes if latest is not None else frozenset(),
        )
        return NodeNumbers.of(snapshot, marks), balance_of(snapshot, resources), unschedulable_pods(snapshot)

    # -- what has changed

    def _emit_nodes(
        self, snapshot: Snapshot, numbers: NodeNumbers, balance: tuple[ResourceBalance, ...]
    ) -> None:
        before, self._numbers, self._snapshot = self._numbers, numbers, snapshot
        if before is None:
            return
        delta = nodes_delta(before, numbers, self.revision + 1, snapshot.taken_at_s, balance)
        if delta is None:
            self._emit_shared("resync", ResyncEvent("nodes", self.epoch, self.revision + 1))
        elif delta.rows:
            self._emit_shared("nodes", delta)

    def _emit_migrations(self) -> None:
        self._is_emission_due = False
        if not self._changed_migrations:
            return
        changed, self._changed_migrations = self._changed_migrations, {}
        policy = self.page.state.policy

        def render(visibility: Visibility) -> bytes | None:
            delta = migrations_delta(changed, policy, visibility)
            return None if delta is None else msgspec.json.encode(delta)

        self._emit("migrations", render, 1024 * len(changed))

    def _emit_plan(self) -> None:
        latest = self.page.latest
        if latest is None or latest.number == self._plan_number:
            return
        self._plan_number = latest.number
        self._emit_shared("plan", PlanEvent(latest.number, len(latest.plan.moves)))

    def _emit_status(self, snapshot: Snapshot, waiting: Sequence[int]) -> None:
        status = status_view(self.page, snapshot, waiting)
        before, self._status = self._status, status
        if before is None or msgspec.structs.replace(before, at=status.at) == status:
            return
        self._emit("status", lambda visibility: msgspec.json.encode(visible_status(status, visibility)), 4096)

    def _emit_shared(self, name: str, data: Any) -> None:
        encoded = msgspec.json.encode(data)
        self._emit(name, lambda visibility: encoded if visibility.nodes else None, len(encoded))

    def _emit(self, name: str, render: Render, size: int) -> None:
        self.revision += 1
        self._events.append(PageEvent(self.revision, name, render, size))
        self._bytes += size
        while len(self._events) > _MOST_EVENTS or (self._bytes > _MOST_BYTES and len(self._events) > 1):
            self._bytes -= self._events.popleft().size
        self._news.set()
        self._news = asyncio.Event()

    # -- what is read

    async def cluster(self) -> bytes:
        """Return the cluster as JSON. It is encoded once for all requests until something changes."""
        await self.refresh(older_than_s=_TICK_S)
        assert self._numbers is not None
        assert self._snapshot is not None
        known = self._encoded
        if known is None or known[0] != self.revision:
            revision, snapshot, numbers = self.revision, self._snapshot, self._numbers
            latest = self.page.latest
            source = latest.usage_source if latest is not None else ""

            def encode() -> bytes:
                balance = balance_of(snapshot, self.page.state.policy.balance_resources)
                view = cluster_view(
                    snapshot,
                    numbers,
                    revision=revision,
                    epoch=self.epoch,
                    balance=balance,
                    usage_source=source,
                )
                return msgspec.json.encode(view)

            known = self._encoded = revision, await asyncio.to_thread(encode)
        return known[1]

    async def status(self, snapshot: Snapshot, visibility: Visibility) -> StatusView:
        waiting = await asyncio.to_thread(unschedulable_pods, snapshot)
        return visible_status(status_view(self.page, snapshot, waiting), visibility)

    def event_id(self, number: int) -> str:
        return f"{self.epoch}-{number}"

    def start_after(self, last_id: str) -> tuple[int, ResyncReason | None]:
        """Return the number after which a client continues, and why it has to load everything again."""
        epoch, _, number = last_id.partition("-")
        if not last_id:
            return self.revision, "start"
        if epoch != self.epoch or not number.isascii() or not number.isdecimal() or len(number) > 18:
            return self.revision, "restarted"
        seen = int(number)
        oldest = self._events[0].number if self._events else self.revision + 1
        if seen > self.revision or seen + 1 < oldest:
            return self.revision, "missed"
        return seen, None

    def after(self, number: int) -> list[PageEvent] | None:
        """Return the events after this one; None if some of them are gone."""
        found = [each for each in self._events if each.number > number]
        if number < self.revision and (not found or found[0].number > number + 1):
            return None
        return found

    async def wait(self, timeout_s: float) -> None:
        """Wait for the next event, or until the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()


def status_view(page: PageModel, snapshot: Snapshot, waiting: Sequence[int]) -> StatusView:
    """Return the status; `waiting` are the rows of the unschedulable pods."""
    state, written, pause, latest = page.state, page.daemon_status(), page.pause, page.latest
    policy, nodes = state.policy, snapshot.nodes
    last = written.last_check.at if written.last_check else None
    migrations = page.migrations()
    pending = pending_pods(
        snapshot, waiting[:_MOST_WAITING], migrations, latest.plan if latest is not None else None
    )
    return StatusView(
        at=page.now(),
        leader=page.leader,
        leads=page.is_leader,
        paused=pause.paused,
        paused_by=pause.by,
        paused_why=pause.why,
        dry_run=policy.dry_run,
        strategies=list(policy.enabled_strategies),
        thresholds={
            "cpu": policy.cpu_threshold,
            "memory": policy.memory_threshold,
            "imbalance": policy.imbalance_threshold,
        },
        max_moves=policy.max_reschedule_pods,
        last_check=last,
        next_check=last + policy.rescheduling_interval if last else None,
        planned_moves=len(latest.plan.moves) if latest else 0,
        running_migrations=sum(not each.is_finished for each in migrations),
        nodes=len(nodes),
        nodes_not_ready=int((~nodes.ready).sum()),
        halts=list(state.halts or written.halts),
        failing=list(written.failing),
        suspects=list(written.suspects),
        maintenance=list(written.maintenance),
        drains=node_drains(snapshot, migrations),
        pending=pending,
        pending_count=len(waiting),
        problems=page.problems,
    )


def visible_status(status: StatusView, visibility: Visibility) -> StatusView:
    """Return the status without the names of what the viewer may not see."""
    pending = [_visible_pending(each, visibility) for each in status.pending if visibility.sees_key(each.pod)]
    count = status.pending_count if visibility.sees_all else len(pending)
    status = msgspec.structs.replace(status, pending=pending[:_MOST_PENDING], pending_count=count)
    if visibility.sees_all and visibility.nodes:
        return status
    failing = [each for each in status.failing if visibility.sees_key(each.pod)]
    return msgspec.structs.replace(
        status,
        failing=failing,
        suspects=[_visible_suspect(each) for each in status.suspects] if visibility.nodes else [],
        maintenance=[visible_maintenance(each, visibility) for each in status.maintenance]
        if visibility.nodes
        else [],
        drains=[msgspec.structs.replace(each, reason="") for each in status.drains]
        if visibility.nodes
        else [],
        halts=[
            visible_halt(each, visibility)
            for each in status.halts
            if not each.namespace or visibility.sees(each.namespace)
        ],
        running_migrations=status.running_migrations if visibility.sees_all else 0,
        paused_why=visibility.visible_text(status.paused_why),
    )


def _visible_pending(each: PendingPodView, visibility: Visibility) -> PendingPodView:
    refusal = each.refusal
    if refusal is None:
        return each
    if "/" in refusal.by and not visibility.sees_key(refusal.by):
        hidden = msgspec.structs.replace(refusal, by=HIDDEN_NAME, detail="")
    else:
        hidden = msgspec.structs.replace(refusal, detail=visibility.visible_text(refusal.detail))
    return msgspec.structs.replace(each, refusal=hidden)


def _visible_suspect(each: SuspectNode) -> SuspectNode:
    return SuspectNode(each.node, each.workloads, HIDDEN_NAME)


def visible_halt(each: Halt, visibility: Visibility) -> Halt:
    """Return the halt without its example, which may be of any namespace."""
    words = each.words
    if each.reason is HaltReason.NODES_NOT_READY and not visibility.nodes:
        words = words.partition(" (")[0]
    elif not each.namespace and each.reason in _EXAMPLES_OF_HALTS and not visibility.sees_all:
        words = words.partition(_EXAMPLES_OF_HALTS[each.reason])[0]
    return msgspec.structs.replace(each, words=visibility.visible_text(words))
