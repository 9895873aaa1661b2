"""The past of a scenario: from nothing to the cluster that is there when time starts.

The cluster is made as any is made: an operator creates objects through the API, and the controllers, the
scheduler and the kubelets that will run it do the rest, in virtual time. So everything about it is as they
would have it: names, hashes, revisions, statuses, ages.
"""

import asyncio
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta

from rescheduler.simulator.actors import attach_actors
from rescheduler.simulator.bootstrap import namespace_object
from rescheduler.simulator.clock import LoopClock
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scenario.machines import node_object
from rescheduler.simulator.scenario.operator import Operator, Refused
from rescheduler.simulator.scenario.placing import Placing
from rescheduler.simulator.scenario.shape import Scenario
from rescheduler.simulator.scenario.workload_objects import storage_class, workload_objects
from rescheduler.simulator.scenario.workloads import STANDARD
from rescheduler.simulator.scheduler import Scheduler
from rescheduler.simulator.server import ApiServer
from rescheduler.simulator.virtual_time import run_virtual

__all__ = ["CannotSettle", "settled"]

_ANOTHER_SEED = 1 << 32
"""Names and uids of the past must not come again when time has started."""
_LOOK_EVERY_S = 1.0
_PATIENCE_S = 5.0

_log = logging.getLogger(__name__)


class CannotSettle(ValueError):  # noqa: N818 - says what is the case
    """The API server refuses what the scenario consists of; the message names the object and the reason."""


def settled(scenario: Scenario, now: datetime) -> list[Object]:
    """All objects of the cluster as it is `now`, when time starts. Not within a running event loop.

    Raises `CannotSettle`.
    """
    return run_virtual(_settle(scenario, now))


async def _settle(scenario: Scenario, now: datetime) -> list[Object]:
    server = ApiServer(clock=LoopClock(now - scenario.settle), seed=scenario.seed + _ANOTHER_SEED)
    await _create_all(server, scenario, now - scenario.settle)
    if scenario.settle:
        await _let_it_run(server, scenario, now)
    return list(_everything(server))


async def _create_all(server: ApiServer, scenario: Scenario, now: datetime) -> None:
    operator = Operator(server)
    for content in _contents(scenario, now):
        metadata = content["metadata"]
        try:
            await _create(operator, content)
        except Refused as refused:
            name = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
            raise CannotSettle(f"{content['kind']} {name}: {refused}") from refused


async def _create(operator: Operator, content: Object) -> None:
    """What belongs to a definition that was made a moment ago has to wait until that is established."""
    left_s = _PATIENCE_S
    while True:
        try:
            await operator.create(content)
        except Refused as refused:
            if refused.code != 404 or left_s <= 0:
                raise
            await asyncio.sleep(_LOOK_EVERY_S)
            left_s -= _LOOK_EVERY_S
        else:
            return


def _contents(scenario: Scenario, now: datetime) -> Iterator[Object]:
    for number, machine in enumerate(scenario.machines(), start=1):
        yield node_object(machine, number, now)
    own = [content for content in scenario.objects if content["kind"] == "Namespace"]
    known = {"default", "kube-system", "kube-public", "kube-node-lease"}
    known |= {content["metadata"]["name"] for content in own}
    used = [content["metadata"].get("namespace", "default") for content in scenario.objects]
    used += [workload.namespace for workload in scenario.workloads]
    yield from own
    for name in dict.fromkeys(used):
        if name not in known:
            yield namespace_object(name)
    if _needs_storage_class(scenario):
        yield storage_class()
    for content in scenario.objects:
        if content["kind"] != "Namespace":
            yield content
    for workload in scenario.workloads:
        yield from workload_objects(workload)


def _needs_storage_class(scenario: Scenario) -> bool:
    claims = [claim for workload in scenario.workloads for claim in workload.claims]
    given = {content["metadata"]["name"] for content in scenario.objects if content["kind"] == "StorageClass"}
    return STANDARD not in given and any(claim.storage_class == STANDARD for claim in claims)


async def _let_it_run(server: ApiServer, scenario: Scenario, start: datetime) -> None:
    cluster = server.cluster
    attach_actors(server, scenario.seeded_behaviour(), began=start)
    placing = Placing(cluster, scenario.workloads)
    # Only when all who have a place are there may the scheduler place the others.
    await _until_placed(placing, scenario.settle / 2)
    placing.close()
    Scheduler(cluster)
    await asyncio.sleep((start - cluster.clock.now()).total_seconds())


async def _until_placed(placing: Placing, patience: timedelta) -> None:
    loop = asyncio.get_running_loop()
    end_s = loop.time() + patience.total_seconds()
    while not placing.place():
        if loop.time() >= end_s:
            for place in placing.missing():
                _log.warning("no pod came to take its place: %s", place)
            return
        await asyncio.sleep(_LOOK_EVERY_S)


def _everything(server: ApiServer) -> Iterator[Object]:
    """Definitions first, so that what they define is known."""
    seen = set()
    for kind in sorted(server.kinds, key=lambda kind: kind.name != "CustomResourceDefinition"):
        if kind.stored_as in seen or kind.group == "metrics.k8s.io":
            continue
        seen.add(kind.stored_as)
        for record in server.store.collection(kind).ordered():
            yield {"apiVersion": kind.api_version, "kind": kind.name, **record.object}
