"""Turn an API server with objects into a running cluster: kubelets, controllers, scheduler and scenario.

The order in which they start is fixed: the same objects, scenario and seed give the same history.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.api_server import ApiServer
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.cluster_components import ControllerManager, attach_components
from kubesim.controllers.node_matching import node_of
from kubesim.kubelets import Kubelets
from kubesim.node_heartbeats import Heartbeats
from kubesim.scenario import Scenario, TimelineEntry
from kubesim.scenario.event_execution import EventExecutor
from kubesim.scenario.scenario_timeline import ScenarioTimeline
from kubesim.scenario.scenario_values import ScenarioExtender
from kubesim.scheduler import Extender, ExtenderTransport, Scheduler
from kubesim.virtual_time import LoopClock

__all__ = ["EPOCH", "ExtenderConnector", "RunningCluster", "simulated_server", "start_cluster"]

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""The start of virtual time."""


ExtenderConnector = Callable[[str, float], ExtenderTransport]
"""Returns the transport to the extender at a URL, with a time-out in seconds."""


class RunningCluster(NamedTuple):
    kubelets: Kubelets
    controllers: ControllerManager
    scheduler: Scheduler
    timeline: ScenarioTimeline


def start_cluster(
    server: ApiServer,
    scenario: Scenario | None = None,
    *,
    on_event: Callable[[TimelineEntry], object] | None = None,
    reach_extender: ExtenderConnector | None = None,
) -> RunningCluster:
    """Start heartbeats, kubelets, controllers, the scheduler and the events of the scenario.

    `on_event` is called after every event of the scenario. The kubelet of a node that is not ready already
    is stopped, as it would report the node ready. Without `reach_extender` (see `sockets.outbound_calls`),
    extenders are unreachable.
    """
    scenario = scenario or Scenario()
    began = server.clock.now()
    lost = _lost_nodes(server.cluster)
    kubelets, controllers = attach_components(server, scenario.seeded_behaviour(), began=began)
    for node in lost:
        kubelets.kill(node)
    Heartbeats(server.cluster, kubelets.is_dead)
    extenders = [_extender(each, reach_extender or _unreachable) for each in scenario.extenders]
    scheduler = Scheduler(server.cluster, extenders=extenders)
    executor = EventExecutor(server, kubelets, scenario.seed)
    timeline = ScenarioTimeline(scenario, executor, server.clock, began=began, on_event=on_event)
    return RunningCluster(kubelets, controllers, scheduler, timeline)


def simulated_server(
    objects: Iterable[Object],
    scenario: Scenario | None = None,
    *,
    start: datetime = EPOCH,
    speed: float = 1.0,
    on_event: Callable[[TimelineEntry], object] | None = None,
) -> ApiServer:
    """Start a cluster with these objects on the running event loop, and return its API server."""
    scenario = scenario or Scenario()
    server = ApiServer(clock=LoopClock(start, speed=speed), seed=scenario.seed)
    server.load(objects)
    start_cluster(server, scenario, on_event=on_event)
    return server


def _extender(given: ScenarioExtender, reach: ExtenderConnector) -> Extender:
    return Extender(
        name=given.url,
        carry=reach(given.url, given.timeout.total_seconds()),
        filter_verb=given.filter,
        prioritize_verb=given.prioritize,
        weight=given.weight,
        ignorable=given.ignorable,
        node_cache_capable=given.names_only,
        managed_resources=frozenset(given.managed_resources),
    )


def _unreachable(url: str, _timeout_s: float) -> ExtenderTransport:
    async def carry(verb: str, _arguments: Object) -> object:
        raise OSError(f'Post "{url}/{verb}": the simulated scheduler has no connection to extenders')

    return carry


def _lost_nodes(cluster: SimulatedCluster) -> list[str]:
    nodes = cluster.store.collection(cluster.kind("v1", "Node")).ordered()
    return [node.name for node in nodes if node_of(node).condition_status("Ready") not in ("", "True")]
