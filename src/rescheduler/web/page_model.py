"""The data that the page shows, from a live cluster or from a saved one.

A process that leads shows the plans of its own checks. Every other process (a standby replica, or
`rescheduler web` on a laptop) plans for itself, but only while a page is open.
"""

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from rescheduler.api.daemon_status import (
    DaemonStatus,
    FailingPod,
    Pause,
    SuspectNode,
    UnreadableState,
    decode_status,
)
from rescheduler.api.podmigration import Migration
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.sources.cluster_kinds import WebhookProbeResult
from rescheduler.config.policy import Policy
from rescheduler.daemon.checker import Checker
from rescheduler.daemon.components import Rescheduler
from rescheduler.daemon.listeners import CheckReport, DaemonListener
from rescheduler.daemon.own_objects import WatchedState
from rescheduler.kube.api_resources import Object
from rescheduler.migrations.labels_and_names import MIGRATION_ID_LABEL, copy_name
from rescheduler.migrations.make_before_break import with_live_step
from rescheduler.migrations.runtime_state import RuntimeState, SteeringStatus
from rescheduler.planner.maintenance_status import maintenance_status
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan
from rescheduler.recovery.failing_pods import find_failing_pods
from rescheduler.recovery.recovery_decision import NotRequested, RetryAllowance
from rescheduler.strategies.node_maintenance import NodeMaintenance
from rescheduler.strategies.strategy_registry import strategies_of, strategies_of_others
from rescheduler.web.plan_page import PlanRevision

__all__ = ["LivePage", "PageModel", "SavedPage"]

PageMode = Literal["cluster", "file", "demo"]
MigrationHandler = Callable[[str, Migration | None], None]
"""Called with the key and the new state; None if it is gone."""

_STATUS_IS_OLD: Final = timedelta(minutes=5)
_MIN_PLAN_INTERVAL_S: Final = 5.0
_SNAPSHOT_AGE_S: Final = 0.5


class PageModel(ABC):
    mode: PageMode
    replica: str = ""
    cluster_name: str = ""

    @property
    @abstractmethod
    def state(self) -> RuntimeState:
        """Return the policy, the webhook's state and the halts."""

    @property
    @abstractmethod
    def steered(self) -> bool | None:
        """Return whether replacements are steered; None if that is not known."""

    @property
    def is_leader(self) -> bool:
        return False

    @property
    def is_ready(self) -> bool:
        """Return whether the cluster has been read."""
        return True

    @property
    def leader(self) -> str:
        return ""

    @property
    def latest(self) -> PlanRevision | None:
        """Return the current plan without waiting; None if there is none yet."""
        return None

    @property
    def namespace(self) -> str:
        """Return the namespace of the pause switch; empty if there is none."""
        return ""

    @abstractmethod
    def now(self) -> datetime: ...

    @abstractmethod
    async def snapshot(self) -> Snapshot:
        """Return the cluster as it is."""

    @abstractmethod
    async def revision(self) -> PlanRevision:
        """Return the current plan; make one if there is none, or if it is old. Raises `KubeError`."""

    @abstractmethod
    def migrations(self) -> Sequence[Migration]: ...

    def migration(self, key: str) -> Migration | None:
        return next((each for each in self.migrations() if each.key == key), None)

    @abstractmethod
    def daemon_status(self) -> DaemonStatus:
        """Return the failing pods, the suspect nodes and the nodes in maintenance."""

    @property
    def pause(self) -> Pause:
        return Pause()

    @property
    def problems(self) -> list[str]:
        """Return the kinds that can't be read now, as messages."""
        return []

    def subscribe(self, handler: MigrationHandler) -> Callable[[], None]:
        """Call `handler` with every change of a migration; return the function that ends it."""
        del handler
        return lambda: None


def observed_status(snapshot: Snapshot, revision: PlanRevision, policy: Policy) -> DaemonStatus:
    """Return what a leader would write about this cluster, for pages of clusters without one."""
    found = find_failing_pods(snapshot, policy.failed_pods)
    failing = [
        FailingPod(
            replica.pod.key,
            replica.pod.node,
            replica.failure.message,
            replica.lineage.count,
            replica.allowance.retries if isinstance(replica.allowance, RetryAllowance) else 0,
        )
        for replica in found.failing.values()
        if not isinstance(replica.decision, NotRequested)
    ]
    enabled = policy.enables(NodeMaintenance.name)
    return DaemonStatus(
        failing=tuple(failing),
        suspects=tuple(
            SuspectNode(node, len(workloads), ", ".join(workloads))
            for node, workloads in found.suspects.items()
        ),
        maintenance=maintenance_status(snapshot, revision.plan, policy, enabled=enabled),
    )


class SavedPage(PageModel):
    """A saved cluster, which never changes."""

    mode = "file"

    def __init__(self, snapshot: Snapshot, policy: Policy, webhook: WebhookProbeResult, name: str) -> None:
        self.cluster_name = name
        self._snapshot = snapshot
        self._steered = webhook.steers
        steering = SteeringStatus(steers=webhook.steers is not False, guards=bool(webhook.guards), problem="")
        self._state = RuntimeState(policy, steering)
        self._revision: PlanRevision | None = None
        self._status = DaemonStatus()
        self._lock = asyncio.Lock()

    @property
    def latest(self) -> PlanRevision | None:
        return self._revision

    @property
    def state(self) -> RuntimeState:
        return self._state

    @property
    def steered(self) -> bool | None:
        return self._steered

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._snapshot.taken_at_s, UTC)

    async def snapshot(self) -> Snapshot:
        return self._snapshot

    async def revision(self) -> PlanRevision:
        async with self._lock:
            if self._revision is None:
                self._revision = await asyncio.to_thread(self.plan)
        return self._revision

    def plan(self) -> PlanRevision:
        """Plan in this thread."""
        state, began_s = self._state, time.perf_counter()
        made = build_plan(
            self._snapshot,
            state.policy,
            strategies_of(state.policy),
            steered=self._steered,
            guarded=state.guards,
            others=strategies_of_others(state.policy),
        )
        found = PlanRevision(1, self._snapshot, made, "page", planning_s=time.perf_counter() - began_s)
        self._status = observed_status(self._snapshot, found, state.policy)
        self._revision = found
        return found

    def migrations(self) -> Sequence[Migration]:
        return ()

    def daemon_status(self) -> DaemonStatus:
        return self._status


class LivePage(PageModel):
    """A live cluster. Give `listener` to the daemon; without one, the page makes its own plans."""

    def __init__(
        self, mode: PageMode, name: str, rescheduler: Rescheduler, state: WatchedState | None = None
    ) -> None:
        """`state` has the pause switch and the leader's status, if it can be read."""
        self.mode = mode
        self.cluster_name = name
        self.replica = rescheduler.lease.identity
        self.rescheduler = rescheduler
        self.listener = _PlanListener(self)
        self._watched_state = state
        self._checker = Checker(
            rescheduler.client, rescheduler.cluster, rescheduler.runtime, now=rescheduler.now
        )
        self._planning = asyncio.Lock()
        self._reading = asyncio.Lock()
        self._seen: Snapshot | None = None
        self._seen_s = 0.0
        self._revision: PlanRevision | None = None
        self._made_s = 0.0
        self._own_status = DaemonStatus()

    async def close(self) -> None:
        await self._checker.close()

    @property
    def state(self) -> RuntimeState:
        return self.rescheduler.runtime.current

    @property
    def steered(self) -> bool | None:
        return self.state.steers

    @property
    def is_leader(self) -> bool:
        return self.listener.is_leader

    def now(self) -> datetime:
        return self.rescheduler.now()

    @property
    def is_ready(self) -> bool:
        cluster = self.rescheduler.cluster
        return bool(cluster.informers) and all(each.is_synced for each in cluster.informers)

    async def snapshot(self) -> Snapshot:
        """Return the cluster as it is, or as it was a moment ago: many requests share one snapshot."""
        async with self._reading:
            if self._seen is None or time.monotonic() - self._seen_s > _SNAPSHOT_AGE_S:
                # A simulated clock can be read on its own loop only.
                now_s = self.now().timestamp()
                self._seen = await asyncio.to_thread(self.rescheduler.cluster.snapshot, now_s)
                self._seen_s = time.monotonic()
            return self._seen

    async def revision(self) -> PlanRevision:
        async with self._planning:
            found = self._revision
            if found is None or time.monotonic() - self._made_s > self._interval_s:
                found = await self._plan()
        return found

    @property
    def _interval_s(self) -> float:
        """Return how old a plan may be. A leader waits longer, because its next check replaces the plan."""
        interval_s = max(_MIN_PLAN_INTERVAL_S, self.state.policy.rescheduling_interval.total_seconds())
        return 3 * interval_s if self.is_leader else interval_s

    async def _plan(self) -> PlanRevision:
        check = await self._checker.check()
        found = self.take(check.snapshot, check.plan, "page")
        found = replace(found, planning_s=check.planning_s, usage_source=check.usage_source)
        self._revision = found
        self._own_status = await asyncio.to_thread(observed_status, check.snapshot, found, self.state.policy)
        return found

    def take(self, snapshot: Snapshot, plan: Plan, origin: Literal["check", "page"]) -> PlanRevision:
        """Show this plan from now on."""
        number = self._revision.number + 1 if self._revision is not None else 1
        self._revision = PlanRevision(number, snapshot, plan, origin)
        self._made_s = time.monotonic()
        return self._revision

    def checked(self, check: CheckReport) -> None:
        """Show the plan of a check of this process."""
        found = self.take(check.snapshot, check.plan, "check")
        self._revision = replace(
            found,
            is_executed=check.is_carried_out,
            planning_s=check.planning_s,
            usage_source=check.usage_source,
        )

    @property
    def latest(self) -> PlanRevision | None:
        return self._revision

    def migrations(self) -> Sequence[Migration]:
        watched = self.rescheduler.watched
        if watched.is_without_migrations:
            return ()
        return [found for item in watched.migrations.informer if (found := self._live(item)) is not None]

    def migration(self, key: str) -> Migration | None:
        watched = self.rescheduler.watched
        return None if watched.is_without_migrations else self._live(watched.migrations.informer.get(key))

    def _live(self, item: Object | None) -> Migration | None:
        """Return the migration with the step that its copy is in, as the commands show it."""
        watched = self.rescheduler.watched
        found = None if item is None else watched.records.migration(item)
        if found is None or found.is_finished:
            return found
        copy = watched.pods.get(f"{found.namespace}/{copy_name(found)}")
        return with_live_step(found, copy, self.state.policy.settle_time, self.now())

    def daemon_status(self) -> DaemonStatus:
        written = self._written_status()
        check = None if written is None else written.last_check
        is_current = check is not None and self.now() - check.at < _STATUS_IS_OLD
        return written if written is not None and is_current else self._own_status

    def _written_status(self) -> DaemonStatus | None:
        if self._watched_state is None:
            return None
        item = self._watched_state.informer.get(self._watched_state.key)
        try:
            return decode_status((item or {}).get("data") or {})
        except UnreadableState:
            return None

    @property
    def leader(self) -> str:
        """Return the holder of the Lease, as far as it is known."""
        return self.rescheduler.lease.holder or self.daemon_status().leader

    @property
    def pause(self) -> Pause:
        return Pause() if self._watched_state is None else self._watched_state.pause

    @property
    def namespace(self) -> str:
        """Return the namespace of the state."""
        return self.rescheduler.lease.key.partition("/")[0]

    @property
    def problems(self) -> list[str]:
        found = [each for each in self.rescheduler.cluster.informers if not each.is_fresh]
        whys = [f": {each.failure}" if each.failure else "" for each in found]
        return [f"{of.resource.plural}: no current data{why}" for of, why in zip(found, whys, strict=True)]

    def subscribe(self, handler: MigrationHandler) -> Callable[[], None]:
        watched = self.rescheduler.watched

        def on_change(old: Object | None, new: Object | None) -> None:
            item = new or old or {}
            handler(f"{item['metadata']['namespace']}/{item['metadata']['name']}", self._live(new))

        def on_pod(_old: PodRecord | None, new: PodRecord | None) -> None:
            # A copy that is scheduled or gets ready is a step of its migration.
            if new is not None and (name := new.labels.get(MIGRATION_ID_LABEL)):
                found = self.migration(f"{new.namespace}/{name}")
                if found is not None and not found.is_finished:
                    handler(found.key, found)

        ends = contextlib.ExitStack()
        ends.callback(watched.migrations.informer.subscribe(on_change))
        ends.callback(watched.pods.informer.subscribe(on_pod))
        return ends.close


class _PlanListener(DaemonListener):
    def __init__(self, page: LivePage) -> None:
        self._page = page
        self.is_leader = False

    def leads(self, leads: bool) -> None:
        self.is_leader = leads

    def checked(self, check: CheckReport) -> None:
        self._page.checked(check)
