"""Ask the real kube-scheduler whether a pod fits a node.

A pod is tied to its node by the profile it asks for: there is one per node, whose enforced node affinity
names it. The pod itself stays as it is, so nothing about it changes: an affinity of its own would change
which nodes its spread constraints count.

No controllers run, so that claims, volumes and terminating pods stay as they were written.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.access import cluster_config
from rescheduler.kube.api_resources import NAMESPACES as NAMESPACE_RESOURCE
from rescheduler.kube.api_resources import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from rescheduler.kube.api_resources import PERSISTENT_VOLUMES as VOLUMES
from rescheduler.kube.api_resources import STORAGE_CLASSES as CLASSES
from rescheduler.kube.api_resources import ApiResource, api_resource, identity_of_object, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.errors import NotFound
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.scheduler_truth import random_cluster
from tests.e2e.scheduler_truth.extender import FOR_REAL, VERB, stopping_extender
from tests.e2e.scheduler_truth.random_cluster import Object, Question, RandomCluster
from tests.e2e.scheduler_truth.verdicts import Refused, verdict
from tests.testbed import ControlPlane, Extender, Options, Part

__all__ = ["Oracle", "oracle"]

T = TypeVar("T")

_STORAGE = "storage.k8s.io"
_RESOURCES: dict[str, ApiResource[Object]] = {
    "Pod": PODS.as_json,
    "PersistentVolumeClaim": CLAIMS,
    "PersistentVolume": VOLUMES,
    "Node": NODES.as_json,
    "StorageClass": CLASSES,
    "CSINode": api_resource(_STORAGE, "v1", "csinodes", "CSINode", namespaced=False),
    "CSIDriver": api_resource(_STORAGE, "v1", "csidrivers", "CSIDriver", namespaced=False),
    "CSIStorageCapacity": api_resource(_STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity"),
    "VolumeAttachment": api_resource(
        _STORAGE, "v1", "volumeattachments", "VolumeAttachment", namespaced=False
    ),
}
_RUNTIME_CLASSES = api_resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
_AT_ONCE = 16
_ANSWER_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.1
_UNWANTED_ADMISSION = (
    "ServiceAccount,StorageObjectInUseProtection,TaintNodesByCondition,DefaultTolerationSeconds"
)


@asynccontextmanager
async def oracle(folder: Path) -> AsyncIterator["Oracle"]:
    with stopping_extender() as url, ControlPlane(folder, _options(url)) as control_plane:
        async with HttpTransport(cluster_config.load_cluster_access(control_plane.kubeconfig)) as network:
            made = Oracle(Client(network))
            await made.settle_in()
            yield made


def _options(extender_url: str) -> Options:
    return Options(
        controller_manager=False,
        audit=False,
        extenders=(Extender(extender_url, filter_verb=VERB),),
        scheduler_settings={"profiles": [_profile(node) for node in random_cluster.NODES]},
        flags={Part.API_SERVER: (f"--disable-admission-plugins={_UNWANTED_ADMISSION}",)},
    )


def _profile(node: str) -> Object:
    """Node affinity is asked first, so that all other nodes are out for the same reason. No preemption."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    enforced = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    arguments = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "NodeAffinityArgs",
        "addedAffinity": enforced,
    }
    return {
        "schedulerName": f"truth-{node}",
        "plugins": {
            "filter": {"enabled": [{"name": "NodeAffinity"}]},
            "postFilter": {"disabled": [{"name": "*"}]},
        },
        "pluginConfig": [{"name": "NodeAffinity", "args": arguments}],
    }


class Oracle:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def settle_in(self) -> None:
        for name, labels in random_cluster.NAMESPACES.items():
            await self._client.create(
                NAMESPACE_RESOURCE,
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}},
            )
        heavy = {
            "metadata": {"name": random_cluster.HEAVY},
            "handler": "none",
            "overhead": {"podFixed": {"cpu": "250m"}},
        }
        await self._client.create(
            _RUNTIME_CLASSES, {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", **heavy}
        )

    @asynccontextmanager
    async def running_in(self, cluster: RandomCluster) -> AsyncIterator[list[Object]]:
        """The cluster made; its objects as the API server has them."""
        for kind in reversed(_RESOURCES):
            await self._all(self._make(item) for item in cluster.objects if item["kind"] == kind)
        try:
            yield await self._objects()
        finally:
            for kind, resource in _RESOURCES.items():
                items = (await self._client.list(resource)).items
                await self._all(self._remove(resource, item) for item in items if _is_ours(kind, item))

    async def ask(self, questions: Sequence[Question]) -> list[tuple[Object, Refused | str]]:
        """Return, for each, the admitted pod and the verdict. Only real ones are asked one by one."""
        answers: dict[int, tuple[Object, Refused | str]] = {}
        harmless = {number: asked for number, asked in enumerate(questions) if not asked.for_real}
        answers |= zip(harmless, await self._answers(list(harmless.values())), strict=True)
        for number, asked in enumerate(questions):
            if asked.for_real:
                (answers[number],) = await self._answers([asked])
        return [answers[number] for number in range(len(questions))]

    async def _answers(self, questions: list[Question]) -> list[tuple[Object, Refused | str]]:
        resource = _RESOURCES["Pod"]
        pods = await self._all(self._client.create(resource, _asking(asked)) for asked in questions)
        missing = {pod["metadata"]["uid"] for pod in pods}
        found: dict[str, Refused | str] = {}
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            while missing:
                for pod in (await self._client.list(resource)).items:
                    uid = pod["metadata"]["uid"]
                    if uid in missing and (answer := verdict(pod)) is not None:
                        found[uid] = answer
                        missing.remove(uid)
                if missing:
                    await asyncio.sleep(_LOOK_EVERY_S)
        await self._all(self._remove(resource, pod) for pod in pods)
        return [(pod, found[pod["metadata"]["uid"]]) for pod in pods]

    async def _make(self, item: Object) -> None:
        wanted = copy.deepcopy(item)
        truth = wanted.pop("truth", {})
        resource = _RESOURCES[item["kind"]]
        key = identity_of_object(item).key
        await self._client.create(resource, wanted)
        if "status" in truth:
            await self._client.patch(resource.status, key, merge_patch({"status": truth["status"]}))
        if "ends" in truth:
            await self._client.delete(resource, key)

    async def _objects(self) -> list[Object]:
        found: list[Object] = []
        for kind, resource in (*_RESOURCES.items(), ("Namespace", NAMESPACE_RESOURCE)):
            found += [{**item, "kind": kind} for item in (await self._client.list(resource)).items]
        return found

    async def _remove(self, resource: ApiResource[Object], item: Object) -> None:
        key = identity_of_object(item).key
        try:
            if item["metadata"].get("finalizers"):
                await self._client.patch(resource, key, merge_patch({"metadata": {"finalizers": None}}))
            await self._client.delete(resource, key, grace_s=0)
        except NotFound:
            pass

    async def _all(self, tasks: Iterable[Awaitable[T]]) -> list[T]:
        async def one(task: Awaitable[T]) -> T:
            async with self._room:
                return await task

        return await asyncio.gather(*map(one, tasks))


def _is_ours(kind: str, item: Object) -> bool:
    return kind != "Pod" or item["metadata"]["namespace"] in random_cluster.NAMESPACES


def _asking(question: Question) -> dict[str, Any]:
    pod = copy.deepcopy(question.pod)
    pod["spec"]["schedulerName"] = f"truth-{question.node}"
    if question.for_real:
        pod["metadata"]["annotations"] = {FOR_REAL: "yes"}
    return pod
