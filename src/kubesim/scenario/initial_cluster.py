"""Build the cluster that exists when a scenario starts.

The objects are created through the API, and the simulated controllers, scheduler and kubelets run in virtual
time until the cluster has settled. So names, hashes, revisions, statuses and ages are as in a real history.
Pods with a given place are bound by a scheduler with fixed assignments.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.api_server import ApiServer
from kubesim.apiserver.object_store import StoredObject
from kubesim.apiserver.simulated_cluster import SimulatedCluster, namespace_object
from kubesim.cluster_components import attach_components
from kubesim.scenario.event_execution import OperatorRefused, ScenarioOperator
from kubesim.scenario.scenario_file import Scenario
from kubesim.scenario.scenario_objects import STANDARD, ScenarioWorkload, node_object
from kubesim.scenario.workload_manifests import storage_class, workload_objects
from kubesim.scheduler import DEFAULT_NAME, Scheduler
from kubesim.scheduler.node_info import PodInfo
from kubesim.scheduler.scheduler_writes import SchedulerWrites
from kubesim.scheduler.scheduling_queue import SchedulerState
from kubesim.virtual_time import LoopClock, run_virtual

__all__ = ["InitialPlacement", "ScenarioNotSettled", "initial_objects", "settling_seed"]

Key = tuple[str, str, str]
"""Kind, namespace and name of a workload."""


class InitialPlacement:
    """Binds the pods of workloads to the nodes that the scenario names, whether they fit or not."""

    def __init__(self, cluster: SimulatedCluster, workloads: Iterable[ScenarioWorkload]) -> None:
        self._cluster = cluster
        self._pods = cluster.kind("v1", "Pod")
        self._wanted: dict[Key, Counter[str]] = {
            (each.kind, each.namespace, each.name): Counter(each.on)
            for each in workloads
            if each.on and each.kind != "Pod"
        }
        self._seen = SchedulerState(cluster, DEFAULT_NAME)
        self._writes = SchedulerWrites(cluster, DEFAULT_NAME)
        cluster.store.observers.append(self._seen.observe)

    def place(self) -> bool:
        """Place all existing pods, and return whether all places are taken."""
        if self._wanted:
            for pod in self._newest_last():
                node = self._place_of(pod)
                if node is not None:
                    self._writes.bind(
                        PodInfo(pod.object), self._seen.view.nodes[node], self._seen.view.storage
                    )
        return not self.missing()

    def missing(self) -> list[str]:
        """Return the workloads with places that no pod has taken, as text."""
        left = {"/".join(key): +places for key, places in self._wanted.items()}
        return [f"{key}: {places.total()} on {', '.join(places)}" for key, places in left.items() if places]

    def close(self) -> None:
        self._cluster.store.observers.remove(self._seen.observe)

    def _newest_last(self) -> list[StoredObject]:
        """Return the pods without a node, the newest last and by ordinal."""
        found = self._cluster.store.collection(self._pods).ordered()
        waiting = [pod for pod in found if not pod.fields["spec.nodeName"] and not pod.deleting]
        return sorted(waiting, key=lambda pod: pod.version)

    def _place_of(self, pod: StoredObject) -> str | None:
        places = self._wanted.get(self._workload_of(pod), Counter())
        node = next((name for name, count in places.items() if count), None)
        if node is not None:
            places[node] -= 1
        return node

    def _workload_of(self, record: StoredObject) -> Key:
        """Return the workload at the top of a pod's owners: its ReplicaSet's Deployment, for example."""
        kind = "Pod"
        while record.owners and (found := self._cluster.store.by_uid(record.owners[0])) is not None:
            kind, record = found[0].name, found[1]
        return kind, record.namespace, record.name


_ANOTHER_SEED = 1 << 32
_POLL_INTERVAL_S = 1.0
_ESTABLISH_TIMEOUT_S = 5.0

_log = logging.getLogger(__name__)


class ScenarioNotSettled(ValueError):  # noqa: N818 - says what is the case
    """The API server rejects an object of the scenario; the message names the object and the reason."""


def initial_objects(scenario: Scenario, now: datetime) -> list[Object]:
    """Return all objects of the cluster when the scenario starts at `now`.

    Don't call it in a running event loop. Raises `ScenarioNotSettled` if an object is rejected.
    """
    return run_virtual(_settle(scenario, now))


def settling_seed(seed: int) -> int:
    """Return a separate seed, so that names and uids don't repeat after the start."""
    # Different seeds may give the same numbers: 2 and 2 + 2³² do.
    repeated, another = random.Random(seed).getstate(), seed + _ANOTHER_SEED  # noqa: S311 - names
    while random.Random(another).getstate() == repeated:  # noqa: S311 - names
        another += _ANOTHER_SEED
    return another


async def _settle(scenario: Scenario, now: datetime) -> list[Object]:
    server = ApiServer(clock=LoopClock(now - scenario.settle), seed=settling_seed(scenario.seed))
    await _create_all(server, scenario, now - scenario.settle)
    if scenario.settle:
        await _run_until_start(server, scenario, now)
    return list(_everything(server))


async def _create_all(server: ApiServer, scenario: Scenario, now: datetime) -> None:
    operator = ScenarioOperator(server)
    for content in _contents(scenario, now):
        metadata = content["metadata"]
        try:
            await _create(operator, content)
        except OperatorRefused as refused:
            name = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
            raise ScenarioNotSettled(f"{content['kind']} {name}: {refused}") from refused


async def _create(operator: ScenarioOperator, content: Object) -> None:
    """Create an object; retry while the definition of its kind is not established yet."""
    left_s = _ESTABLISH_TIMEOUT_S
    while True:
        try:
            await operator.create(content)
        except OperatorRefused as refused:
            if refused.code != 404 or left_s <= 0:
                raise
            await asyncio.sleep(_POLL_INTERVAL_S)
            left_s -= _POLL_INTERVAL_S
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


async def _run_until_start(server: ApiServer, scenario: Scenario, start: datetime) -> None:
    cluster = server.cluster
    attach_components(server, scenario.seeded_behaviour(), began=start)
    placing = InitialPlacement(cluster, scenario.workloads)
    # The scheduler starts only when the pods with a given place are bound.
    await _until_placed(placing, scenario.settle / 2)
    placing.close()
    Scheduler(cluster)
    await asyncio.sleep((start - cluster.clock.now()).total_seconds())


async def _until_placed(placing: InitialPlacement, limit: timedelta) -> None:
    loop = asyncio.get_running_loop()
    end_s = loop.time() + limit.total_seconds()
    while not placing.place():
        if loop.time() >= end_s:
            for place in placing.missing():
                _log.warning("no pod was created for this place: %s", place)
            return
        await asyncio.sleep(_POLL_INTERVAL_S)


def _everything(server: ApiServer) -> Iterator[Object]:
    """Yield all objects, definitions first."""
    seen = set()
    for kind in sorted(server.kinds, key=lambda kind: kind.name != "CustomResourceDefinition"):
        if kind.stored_as in seen or kind.group == "metrics.k8s.io":
            continue
        seen.add(kind.stored_as)
        for record in server.store.collection(kind).ordered():
            yield {"apiVersion": kind.api_version, "kind": kind.name, **record.object}
