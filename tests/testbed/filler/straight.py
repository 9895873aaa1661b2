"""Pods written straight into etcd, as the API server would have stored them, at a tenth of the cost.

One pod of each template is created through the API, gets a running status, and is read from etcd: the
stencil. Every pod of that template is its stencil with another name, owner, node and address. The API
server's caches receive them like any other change, but the API server can't refuse one.
"""

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from kubesim.behaviour import HostFacts
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import key_of, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.codecs import api_pb2
from tests.testbed import etcd
from tests.testbed.fake_kubelet.nodes import node_address
from tests.testbed.filler.contents import Workload, pod_object
from tests.testbed.filler.filling import make_owner, started_status

__all__ = ["Stencils", "fill_straight"]

_MAGIC = b"k8s\0"
_AT_ONCE = 100
"""Pods in one transaction of etcd."""
_WRITERS = 4
# What differs from pod to pod and our own schema does without, by the number of the field.
_HOST_IP, _POD_IP, _POD_IPS, _HOST_IPS = 5, 6, 12, 16  # of PodStatus
_CONTAINER_ID = 8  # of ContainerStatus
_BLOCK_OWNER_DELETION = b"\x38\x01"  # field 7 of OwnerReference, true
_OWN = frozenset({"hostIP", "hostIPs", "podIP", "podIPs", "containerID"})

Key = str


class Stencil(NamedTuple):
    created: dict[str, Any]
    """The pod as it was before it ran."""
    stored: bytes
    """As etcd had it when it ran, but without what every pod has of its own."""


class Stencils:
    """One for each template, cut when it is first needed."""

    def __init__(self, client: Client, etcd_url: str) -> None:
        self._client = client
        self._etcd_url = etcd_url
        self._cut: dict[int, Stencil] = {}

    async def prepare(self, workload: Workload) -> None:
        if workload.template not in self._cut:
            self._cut[workload.template] = await self._new(workload)

    def pods(self, workload: Workload, owner_uid: str) -> Iterator[tuple[Key, bytes]]:
        """What etcd is to hold for each pod of a workload that has been prepared."""
        stencil = self._cut[workload.template]
        envelope = api_pb2.Unknown.FromString(stencil.stored[len(_MAGIC) :])
        pod = api_pb2.Pod.FromString(envelope.raw)
        pod.metadata.labels.clear()
        pod.metadata.labels.update(workload.labels)
        if owner_uid:
            owner = pod.metadata.ownerReferences.add(
                apiVersion="apps/v1", kind="ReplicaSet", name=workload.name, uid=owner_uid, controller=True
            )
            owner.MergeFromString(_BLOCK_OWNER_DELETION)
        status = pod.status.SerializeToString()
        for ordinal, node in enumerate(workload.nodes):
            pod.metadata.name = workload.pod_name(ordinal)
            pod.metadata.uid = str(uuid.uuid4())
            pod.spec.nodeName = node
            pod.status.ParseFromString(status)
            _make_own(pod, stencil)
            envelope.raw = pod.SerializeToString()
            key = _key(workload.namespace, pod.metadata.name)
            yield key, _MAGIC + envelope.SerializeToString()

    async def _new(self, workload: Workload) -> Stencil:
        wanted = pod_object(workload, 0)
        wanted["metadata"]["name"] = name = f"stencil-{workload.template}"
        key = key_of(workload.namespace, name)
        pod = await self._client.create(PODS.as_json, wanted)
        status = _without_own(started_status(pod, HostFacts(), datetime.now(UTC)))
        await self._client.patch(PODS.as_json.status, key, merge_patch({"status": status}))
        stored = etcd.stored(self._etcd_url, _key(workload.namespace, name))
        await self._client.delete(PODS, key, grace_s=0)
        return Stencil(pod, stored)


def _make_own(pod: api_pb2.Pod, stencil: Stencil) -> None:
    """Gives the pod its addresses and its containers' ids, those that a fake kubelet would give it."""
    metadata = {"name": pod.metadata.name, "uid": pod.metadata.uid}
    like_it = stencil.created | {"metadata": stencil.created["metadata"] | metadata}
    reported = started_status(like_it, HostFacts(node_address(pod.spec.nodeName)), datetime.now(UTC))
    host_ip, pod_ip = reported["hostIP"], reported["podIP"]
    pod.status.MergeFromString(
        _field(_HOST_IP, host_ip.encode())
        + _field(_POD_IP, pod_ip.encode())
        + _field(_POD_IPS, _field(1, pod_ip.encode()))
        + _field(_HOST_IPS, _field(1, host_ip.encode()))
    )
    for container, status in zip(pod.status.containerStatuses, reported["containerStatuses"], strict=True):
        container.MergeFromString(_field(_CONTAINER_ID, status["containerID"].encode()))


def _without_own(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_own(part) for name, part in value.items() if name not in _OWN}
    if isinstance(value, list):
        return [_without_own(part) for part in value]
    return value


async def fill_straight(
    client: Client,
    etcd_url: str,
    workloads: Iterable[Workload],
    *,
    owners: bool = False,
    reported: Callable[[int], None] = lambda _made: None,
) -> None:
    """Fill it like `filling.fill`; clients of the cluster see no difference afterwards."""
    planned = list(workloads)
    stencils = Stencils(client, etcd_url)
    uids: dict[str, str] = {}
    for workload in planned:
        await stencils.prepare(workload)
        uids[workload.name] = await make_owner(client, workload) if owners else ""
    pods = (pod for workload in planned for pod in stencils.pods(workload, uids[workload.name]))

    batches, turn = _batches(pods), threading.Lock()

    def write() -> None:
        while True:
            with turn:
                batch = next(batches, None)
            if batch is None:
                return
            etcd.add(etcd_url, batch)
            with turn:
                reported(len(batch))

    await asyncio.gather(*(asyncio.to_thread(write) for _ in range(_WRITERS)))


def _batches(pods: Iterator[tuple[Key, bytes]]) -> Iterator[dict[Key, bytes]]:
    while batch := dict(islice(pods, _AT_ONCE)):
        yield batch


def _key(namespace: str, name: str) -> Key:
    return f"/registry/pods/{namespace}/{name}"


def _field(number: int, content: bytes) -> bytes:
    """Encode a field of less than 128 bytes."""
    tag = number << 3 | 2
    # A tag of 16 and above takes two bytes.
    start = bytes([tag]) if tag < 0x80 else bytes([tag & 0x7F | 0x80, tag >> 7])
    return start + bytes([len(content)]) + content
