"""The chapters of the demo with their goals, and the daemon, webhook and monitor that run in its cluster."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any, Final

from kubesim.scenario import Scenario, parse_scenario
from rescheduler.api.migration_journal import ready_seconds_lost
from rescheduler.api.podmigration import (
    Handover,
    Migration,
    MigrationPhase,
    UnreadableMigration,
    decode_migration,
)
from rescheduler.api.podmigration_crd import POD_MIGRATION_PLURAL
from rescheduler.api.well_known_names import GROUP, POD_MIGRATION_KIND, VERSION
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.config.policy import Configuration, FailedPodsPolicy, Policy, UsageSource, ZeroBudget
from rescheduler.daemon.daemon_process import Daemon, DaemonOptions
from rescheduler.daemon.listeners import DaemonListener
from rescheduler.install.cluster_installation import install_definition
from rescheduler.install.component_manifests import objects_that_the_webhook_writes
from rescheduler.install.install_options import with_install_id
from rescheduler.kube.api_resources import (
    CONFIG_MAPS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    Object,
    api_resource,
)
from rescheduler.kube.client import Client, RequestObserver
from rescheduler.kube.informer import Informer
from rescheduler.migrations.labels_and_names import copy_name
from rescheduler.migrations.make_before_break import with_live_step
from rescheduler.planner.maintenance_status import must_leave_node
from rescheduler.steering.steering_server import SteeringServer, SteeringServerOptions
from rescheduler.steering.webhook.eviction_guard import EvictionSettings
from rescheduler.steering.webhook.webhook_configurations import UrlAddress, webhook_configurations

__all__ = [
    "CHAPTERS",
    "DEMO_CONFIGURATION",
    "DEMO_LENGTH_S",
    "DEMO_NAMESPACE",
    "ClusterMonitor",
    "DemoChapter",
    "demo_scenario",
    "install_prerequisites",
    "running_daemon",
    "running_webhook",
]


class ClusterMonitor:
    """Watches the cluster as any client can, and sees every change of a budget or a migration."""

    def __init__(
        self,
        client: Client,
        on_change: Callable[[Migration | None, Migration], None],
        now: Callable[[], datetime],
    ) -> None:
        """`on_change` is called with every change of a migration; `now` is the time in the cluster."""
        self._now = now
        self.nodes: Informer[NodeRecord] = Informer(client, NODES)
        self.pods: Informer[PodRecord] = Informer(client, PODS)
        self._budgets: Informer[Object] = Informer(client, POD_DISRUPTION_BUDGETS)
        self._migrations: Informer[Object] = Informer(
            client, api_resource(GROUP, VERSION, POD_MIGRATION_PLURAL, POD_MIGRATION_KIND)
        )
        self._on_change = on_change
        self.violated: dict[str, str] = {}
        """Budgets that were violated, with the number of healthy pods."""
        self.spread_at_first = 0.0

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        informers: tuple[Informer[Any], ...] = (self.nodes, self.pods, self._budgets, self._migrations)
        async with contextlib.AsyncExitStack() as stack:
            for informer in informers:
                await stack.enter_async_context(informer.running())
            await asyncio.gather(*(informer.synced() for informer in informers))
            self.spread_at_first = self.spread()
            stack.callback(self._budgets.subscribe(self._on_budget))
            stack.callback(self._migrations.subscribe(self._on_migration))
            yield

    # -- changes

    def _on_budget(self, _old: Object | None, new: Object | None) -> None:
        status = (new or {}).get("status") or {}
        healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        if new is not None and healthy < wanted:
            self.violated[new["metadata"]["name"]] = f"{healthy} of {wanted} pods"

    def _on_migration(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (now := _migration_or_none(new)) is not None:
            self._on_change(_migration_or_none(old) if old is not None else None, now)

    # -- current state

    @property
    def migrations(self) -> list[Migration]:
        """Return all migrations, newest last."""
        found = [each for item in self._migrations if (each := _migration_or_none(item)) is not None]
        return sorted(found, key=lambda each: (each.created, each.key))

    @property
    def running_migrations(self) -> list[Migration]:
        """Return the unfinished migrations, each with the step that its copy is in."""
        settle_time = DEMO_CONFIGURATION.policy.settle_time
        return [
            with_live_step(
                each, self.pods.get(f"{each.namespace}/{copy_name(each)}"), settle_time, self._now()
            )
            for each in self.migrations
            if not each.is_finished
        ]

    @property
    def moved(self) -> dict[Handover, int]:
        """Return the number of completed migrations by handover."""
        counts: dict[Handover, int] = {}
        for each in self.migrations:
            if each.status.phase is MigrationPhase.COMPLETED and each.status.handover is not None:
                counts[each.status.handover] = counts.get(each.status.handover, 0) + 1
        return counts

    def ready_seconds_lost(self, handover: Handover) -> float:
        return sum(ready_seconds_lost(each) for each in self.migrations if each.status.handover is handover)

    def spread(self) -> float:
        """Return the spread of the cpu requests of schedulable nodes, in percentage points of allocatable."""
        loads = []
        for node in self.nodes:
            if node.is_ready and not node.unschedulable and node.allocatable.cpu_millis:
                here = [pod for pod in self.pods if pod.node == node.name and not pod.is_finished]
                used = sum(pod.requests.cpu_millis for pod in here)
                loads.append(100.0 * used / node.allocatable.cpu_millis)
        return max(loads) - min(loads) if loads else 0.0

    def movable_on(self, node: str) -> list[str]:
        return sorted(pod.key for pod in self.pods if pod.node == node and must_leave_node(pod))

    def unready(self, namespace: str) -> list[str]:
        return sorted(pod.key for pod in self.pods if pod.namespace == namespace and not pod.is_ready)

    def is_cordoned(self, name: str) -> bool:
        node = self.nodes.get(name)
        return node is not None and node.unschedulable


def _migration_or_none(item: Object) -> Migration | None:
    try:
        return decode_migration(item)
    except UnreadableMigration:
        return None


DEMO_LENGTH_S: Final = 120.0

_MAINTENANCE_NODE: Final = "worker-3"
_BROKEN_NODE: Final = "worker-4"

DEMO_CONFIGURATION: Final = Configuration(
    policy=Policy(
        rescheduling_interval=timedelta(seconds=4),
        enabled_strategies=("NodeMaintenance", "LoadBalancing"),
        usage_source=UsageSource.REQUESTS,
        min_pod_age=timedelta(),
        pod_cooldown=timedelta(seconds=30),
        settle_time=timedelta(seconds=2),
        move_under_zero_budget=ZeroBudget.ALWAYS,
        failed_pods=FailedPodsPolicy(restart_threshold=1, recovery_window=timedelta(minutes=1)),
    )
)
"""A configuration that is faster than in production and moves pods even under exhausted budgets."""


@dataclass(frozen=True, slots=True)
class DemoChapter:
    begins_s: float
    title: str
    words: str
    check: Callable[[ClusterMonitor], str]
    """Return what is missing for the goal; empty if it is reached."""


def demo_scenario() -> Scenario:
    return parse_scenario(files(__package__).joinpath("story.yaml").read_bytes(), source="story.yaml")


def _is_balanced(monitor: ClusterMonitor) -> str:
    most = DEMO_CONFIGURATION.policy.imbalance_threshold
    spread = monitor.spread()
    return (
        ""
        if spread <= most
        else f"the cpu loads of nodes are still {spread:.0f} points apart, more than {most:.0f}"
    )


def _is_drained(monitor: ClusterMonitor) -> str:
    left = monitor.movable_on(_MAINTENANCE_NODE)
    if left:
        return f"{', '.join(left)} still on {_MAINTENANCE_NODE}"
    return "" if monitor.is_cordoned(_MAINTENANCE_NODE) else f"{_MAINTENANCE_NODE} is not cordoned"


def _has_recovered(monitor: ClusterMonitor) -> str:
    unready = monitor.unready("reports")
    if unready:
        return f"{', '.join(unready)} not ready"
    if monitor.is_cordoned(_MAINTENANCE_NODE):
        return f"{_MAINTENANCE_NODE} is still cordoned"
    if wrong := _is_balanced(monitor):
        return wrong
    there = [pod for pod in monitor.movable_on(_BROKEN_NODE) if pod.startswith("reports/")]
    return f"{', '.join(there)} still on {_BROKEN_NODE}" if there else ""


CHAPTERS: Final = (
    DemoChapter(
        0.0,
        "An unbalanced cluster",
        "worker-1 and worker-2 are busy, worker-6 is idle. The budgets of checkout and search allow no "
        "disruption. Their pods can still move: each copy is ready before the pod is evicted.",
        _is_balanced,
    ),
    DemoChapter(
        40.0,
        f"{_MAINTENANCE_NODE} goes into maintenance",
        "The node gets the maintenance label, and it is cordoned and drained. A database pod is evicted "
        "within its budget, and its replacement is steered to the target node.",
        _is_drained,
    ),
    DemoChapter(
        68.0,
        f"Pods crash on {_BROKEN_NODE}",
        'The renderer pods crash there. The workload allows three retries (scheduling-retries: "3"), so they '
        f"are rescheduled to another node. {_MAINTENANCE_NODE} returns to service.",
        _has_recovered,
    ),
)

DEMO_NAMESPACE: Final = "rescheduler"


@contextlib.asynccontextmanager
async def running_daemon(
    client: Client,
    now: Callable[[], datetime],
    *listeners: DaemonListener,
    configuration: Configuration = DEMO_CONFIGURATION,
    me: str = "demo",
) -> AsyncIterator[Daemon]:
    """Run the same as `rescheduler run` while the body runs."""

    def connect(observer: RequestObserver) -> Client:
        return Client(client.transport, observer=observer)

    options = DaemonOptions(lease_at=f"{DEMO_NAMESPACE}/rescheduler", now=now, listeners=listeners, me=me)
    daemon = Daemon(connect, configuration, options)
    ended = asyncio.Event()
    running = asyncio.create_task(daemon.run_until(ended), name="daemon")
    try:
        yield daemon
    finally:
        ended.set()
        await running


async def install_prerequisites(client: Client) -> None:
    """Install the parts of `rescheduler manifests` that the demo needs."""
    await client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DEMO_NAMESPACE}}
    )
    await install_definition(client)


@contextlib.asynccontextmanager
async def running_webhook(client: Client, evictions: EvictionSettings | None = None) -> AsyncIterator[None]:
    """Run the same as `rescheduler webhook` on loopback; without `evictions`, it doesn't guard evictions."""
    port = _free_port()
    address = UrlAddress(f"https://127.0.0.1:{port}")
    steering, guard = webhook_configurations(address)
    for kind, item in zip(
        (SECRETS, CONFIG_MAPS), objects_that_the_webhook_writes(DEMO_NAMESPACE), strict=True
    ):
        await client.create(kind, item)
    await client.create(MUTATING_WEBHOOKS, with_install_id(steering, DEMO_NAMESPACE))
    await client.create(VALIDATING_WEBHOOKS, with_install_id(guard, DEMO_NAMESPACE))
    options = SteeringServerOptions(
        DEMO_NAMESPACE, address, host="127.0.0.1", port=port, extender_port=0, evictions=evictions
    )
    webhook = SteeringServer(client, options)
    async with webhook.running():
        await webhook.registered()
        yield


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
