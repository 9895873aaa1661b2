"""What makes an API server with objects a cluster: everybody who works in it, put together in one place.

Their order is part of the history: same objects, same scenario, same seed, same history.
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
"""When virtual time starts."""


ExtenderConnector = Callable[[str, float], ExtenderTransport]
"""URL and time-out in seconds → how to ask the extender there."""


class RunningCluster(NamedTuple):
    kubelets: Kubelets
    controllers: ControllerManager
    scheduler: Scheduler
    timeline: ScenarioTimeline


def start_cluster(
    server: ApiServer,
    scenario: Scenario | None = None,
    *,
    tell: Callable[[TimelineEntry], object] | None = None,
    reach_extender: ExtenderConnector | None = None,
) -> RunningCluster:
    """From now on nodes beat, pods run, controllers and scheduler work, and the scenario takes its course.

    `tell` hears of everything that the scenario does. A node that is not ready already is taken for dead:
    nobody is there who would say that it is well again. Without `reach_extender` (see
    `sockets.outbound_calls`), extenders count as unreachable.
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
    actor = EventExecutor(server, kubelets, scenario.seed)
    timeline = ScenarioTimeline(scenario, actor, server.clock, began=began, tell=tell)
    return RunningCluster(kubelets, controllers, scheduler, timeline)


def simulated_server(
    objects: Iterable[Object],
    scenario: Scenario | None = None,
    *,
    start: datetime = EPOCH,
    speed: float = 1.0,
    tell: Callable[[TimelineEntry], object] | None = None,
) -> ApiServer:
    """A cluster of these objects that lives, on the running event loop's time."""
    scenario = scenario or Scenario()
    server = ApiServer(clock=LoopClock(start, speed=speed), seed=scenario.seed)
    server.load(objects)
    start_cluster(server, scenario, tell=tell)
    return server


def _extender(said: ScenarioExtender, reach: ExtenderConnector) -> Extender:
    return Extender(
        name=said.url,
        carry=reach(said.url, said.timeout.total_seconds()),
        filter_verb=said.filter,
        prioritize_verb=said.prioritize,
        weight=said.weight,
        ignorable=said.ignorable,
        node_cache_capable=said.names_only,
        managed_resources=frozenset(said.managed_resources),
    )


def _unreachable(url: str, _timeout_s: float) -> ExtenderTransport:
    async def carry(verb: str, _arguments: Object) -> object:
        raise OSError(f'Post "{url}/{verb}": no way to call extenders was given to the simulated scheduler')

    return carry


def _lost_nodes(cluster: SimulatedCluster) -> list[str]:
    nodes = cluster.store.collection(cluster.kind("v1", "Node")).ordered()
    return [node.name for node in nodes if node_of(node).says("Ready") not in ("", "True")]
