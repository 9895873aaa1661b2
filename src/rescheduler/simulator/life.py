"""What makes an API server with objects a cluster: everybody who works in it, put together in one place.

Their order is part of the history: same objects, same scenario, same seed, same history.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from rescheduler.simulator.actors import attach_actors
from rescheduler.simulator.clock import LoopClock
from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.controllers import Controllers
from rescheduler.simulator.controllers.nodes import node_of
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.heartbeats import Heartbeats
from rescheduler.simulator.kubelets import Kubelets
from rescheduler.simulator.scenario import Happening, Scenario
from rescheduler.simulator.scenario.acting import Actor
from rescheduler.simulator.scenario.extenders import ExtenderAt
from rescheduler.simulator.scenario.timeline import Timeline
from rescheduler.simulator.scheduler import Carrier, Extender, Scheduler
from rescheduler.simulator.server import ApiServer

__all__ = ["EPOCH", "Life", "ReachExtender", "bring_to_life", "simulated"]

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""When virtual time starts."""


ReachExtender = Callable[[str, float], Carrier]
"""URL and time-out in seconds → how to ask the extender there."""


class Life(NamedTuple):
    kubelets: Kubelets
    controllers: Controllers
    scheduler: Scheduler
    timeline: Timeline


def bring_to_life(
    server: ApiServer,
    scenario: Scenario | None = None,
    *,
    tell: Callable[[Happening], object] | None = None,
    reach_extender: ReachExtender | None = None,
) -> Life:
    """From now on nodes beat, pods run, controllers and scheduler work, and the scenario takes its course.

    `tell` hears of everything that the scenario does. A node that is not ready already is taken for dead:
    nobody is there who would say that it is well again. Without `reach_extender` (see
    `shells.extender_caller`), extenders count as unreachable.
    """
    scenario = scenario or Scenario()
    began = server.clock.now()
    lost = _lost_nodes(server.cluster)
    kubelets, controllers = attach_actors(server, scenario.seeded_behaviour(), began=began)
    for node in lost:
        kubelets.kill(node)
    Heartbeats(server.cluster, kubelets.is_dead)
    extenders = [_extender(each, reach_extender or _unreachable) for each in scenario.extenders]
    scheduler = Scheduler(server.cluster, extenders=extenders)
    actor = Actor(server, kubelets, scenario.seed)
    timeline = Timeline(scenario, actor, server.clock, began=began, tell=tell)
    return Life(kubelets, controllers, scheduler, timeline)


def simulated(
    objects: Iterable[Object],
    scenario: Scenario | None = None,
    *,
    start: datetime = EPOCH,
    speed: float = 1.0,
    tell: Callable[[Happening], object] | None = None,
) -> ApiServer:
    """A cluster of these objects that lives, on the running event loop's time."""
    scenario = scenario or Scenario()
    server = ApiServer(clock=LoopClock(start, speed=speed), seed=scenario.seed)
    server.load(objects)
    bring_to_life(server, scenario, tell=tell)
    return server


def _extender(said: ExtenderAt, reach: ReachExtender) -> Extender:
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


def _unreachable(url: str, _timeout_s: float) -> Carrier:
    async def carry(verb: str, _arguments: Object) -> object:
        raise OSError(f'Post "{url}/{verb}": no way to call extenders was given to the simulated scheduler')

    return carry


def _lost_nodes(cluster: Cluster) -> list[str]:
    nodes = cluster.store.collection(cluster.kind("v1", "Node")).ordered()
    return [node.name for node in nodes if node_of(node).says("Ready") not in ("", "True")]
