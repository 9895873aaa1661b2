"""Usage from `metrics.k8s.io`, as metrics-server and its likes serve it: what `kubectl top` shows."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import lru_cache

import msgspec

from kubevalues.quantity import Quantity, QuantityError, parse_quantity
from rescheduler.cluster.usage_readings import (
    MAX_READING,
    UsageOutcome,
    UsageReading,
    UsageReadings,
    UsageUnavailable,
)
from rescheduler.config.policy import UsageSource
from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiResource, ObjectIdentity, key_of
from rescheduler.kube.client import Client
from rescheduler.kube.codecs.codec import JsonCodec

__all__ = ["METRICS_GROUP", "METRICS_VERSION", "MetricsApiReader", "decode_metrics", "decode_other_usage"]

METRICS_GROUP, METRICS_VERSION = "metrics.k8s.io", "v1beta1"
_NANOS_A_MILLI = 1_000_000


class _Metadata(msgspec.Struct, gc=False):
    name: str
    namespace: str = ""


class _Amounts(msgspec.Struct, gc=False):
    cpu: str = "0"
    memory: str = "0"


class _Container(msgspec.Struct, gc=False):
    usage: _Amounts


class _PodMetrics(msgspec.Struct, gc=False):
    metadata: _Metadata
    timestamp: str
    containers: tuple[_Container, ...] | None = None


class _NodeMetrics(msgspec.Struct, gc=False):
    metadata: _Metadata
    timestamp: str
    usage: _Amounts


class _OtherUsage(msgspec.Struct, gc=False):
    usage: dict[str, str]


class _OtherPodMetrics(msgspec.Struct, gc=False):
    metadata: _Metadata
    containers: tuple[_OtherUsage, ...] | None = None


class _OtherNodeMetrics(msgspec.Struct, gc=False):
    metadata: _Metadata
    usage: dict[str, str]


class _Reading(msgspec.Struct, gc=False):
    key: str
    used: UsageReading | None
    fault: str = ""
    """What is wrong with it, if it is None: one odd reading must not cost all others."""


class MetricsApiReader:
    """Implements `UsageReader` with metrics.k8s.io."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def read(self) -> UsageOutcome:
        # A check can do without usage, so it does not wait for a server that is down.
        client = self._client.with_quick_retries()
        try:
            # Nodes first: there are few, and if they can't be had, the pods need not be asked for.
            # All in one page: a metrics server knows no others.
            nodes = await client.list(_NODES, page_size=0)
            pods = await client.list(_PODS, page_size=0)
        except errors.NotFound:
            return UsageUnavailable(
                UsageSource.METRICS,
                f"the cluster does not serve {METRICS_GROUP}/{METRICS_VERSION}. "
                "Install metrics-server, or set usageSource.",
            )
        except errors.KubeError as error:
            return UsageUnavailable(UsageSource.METRICS, str(error))
        return _readings(pods.items, nodes.items)

    async def close(self) -> None:
        """Do nothing: the caller owns the client and closes it."""


def decode_metrics(
    pods: Iterable[bytes | msgspec.Raw], nodes: Iterable[bytes | msgspec.Raw]
) -> UsageReadings:
    """Decode saved PodMetrics and NodeMetrics. Raises `msgspec.DecodeError`."""
    return _readings([_of_pod(raw) for raw in pods], [_of_node(raw) for raw in nodes])


def decode_other_usage(
    pods: Iterable[bytes | msgspec.Raw], nodes: Iterable[bytes | msgspec.Raw], name: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Return what saved pods and nodes use of something beside cpu and memory. Raises `msgspec.DecodeError`
    and ValueError."""
    of_pods, of_nodes = {}, {}
    for raw in pods:
        pod = _decode_other_pod(raw)
        if found := [each.usage[name] for each in pod.containers or () if name in each.usage]:
            of_pods[key_of(pod.metadata.namespace, pod.metadata.name)] = sum(map(_value, found))
    for raw in nodes:
        node = _decode_other_node(raw)
        if name in node.usage:
            of_nodes[node.metadata.name] = _value(node.usage[name])
    return of_pods, of_nodes


def _value(text: str) -> float:
    value = _not_negative(parse_quantity(text)).nanos / 1e9
    if value > MAX_READING:
        raise QuantityError(f"{text} is implausibly large")
    return value


def _readings(pods: Iterable[_Reading], nodes: Iterable[_Reading]) -> UsageReadings:
    return UsageReadings(
        UsageSource.METRICS,
        {each.key: each.used for each in pods if each.used},
        {each.key: each.used for each in nodes if each.used},
        _notes(pods) + _notes(nodes),
    )


def _notes(readings: Iterable[_Reading]) -> tuple[str, ...]:
    odd = [each for each in readings if each.fault]
    if not odd:
        return ()
    count = "1 reading" if len(odd) == 1 else f"{len(odd)} readings"
    return (f"{count} from {METRICS_GROUP} are invalid, such as {odd[0].key}: {odd[0].fault}",)


# --- decoding: each item becomes a reading at once, so that 150,000 of them are never held in both forms ---


_decode_pod = msgspec.json.Decoder(_PodMetrics).decode
_decode_node = msgspec.json.Decoder(_NodeMetrics).decode
_decode_other_pod = msgspec.json.Decoder(_OtherPodMetrics).decode
_decode_other_node = msgspec.json.Decoder(_OtherNodeMetrics).decode


def _of_pod(raw: bytes | msgspec.Raw) -> _Reading:
    item = _decode_pod(raw)
    key = key_of(item.metadata.namespace, item.metadata.name)
    return _reading(key, item.timestamp, [container.usage for container in item.containers or ()])


def _of_node(raw: bytes | msgspec.Raw) -> _Reading:
    item = _decode_node(raw)
    return _reading(item.metadata.name, item.timestamp, [item.usage])


def _reading(key: str, timestamp: str, parts: list[_Amounts]) -> _Reading:
    if not parts:
        return _Reading(key, None, "it has no containers")
    cpu_nanos = memory_bytes = 0
    try:
        for part in parts:
            cpu_nanos += _nanos(part.cpu)
            memory_bytes += _bytes(part.memory)
        used = UsageReading(
            -(-cpu_nanos // _NANOS_A_MILLI), memory_bytes, _seconds(timestamp)
        )  # rounded up, as ever
    except ValueError as error:
        return _Reading(key, None, str(error))
    if max(used.cpu_millis, used.memory_bytes) > MAX_READING:
        return _Reading(key, None, "implausibly large")
    return _Reading(key, used)


# Hardly two readings are alike, so a look-up would not pay: what metrics-server writes is read at once.


def _nanos(cpu: str) -> int:
    if cpu.endswith("n") and cpu[:-1].isdecimal():
        return int(cpu[:-1])
    return _not_negative(parse_quantity(cpu)).nanos


def _bytes(memory: str) -> int:
    if memory.endswith("Ki") and memory[:-2].isdecimal():
        return int(memory[:-2]) * 1024
    return _not_negative(parse_quantity(memory)).whole


def _not_negative(quantity: Quantity) -> Quantity:
    if quantity.nanos < 0:
        raise QuantityError(f"{quantity} is negative")
    return quantity


@lru_cache(maxsize=4096)
def _seconds(timestamp: str) -> float:
    """Return the timestamp in seconds; cached, because many pods are measured in the same second.

    Raises ValueError.
    """
    return datetime.fromisoformat(timestamp).timestamp()


def _resource(
    plural: str, kind: str, namespaced: bool, read: Callable[[bytes | msgspec.Raw], _Reading]
) -> ApiResource[_Reading]:
    codec = JsonCodec(f"the {kind} list", read, lambda _: "")
    return ApiResource(
        METRICS_GROUP,
        METRICS_VERSION,
        plural,
        kind,
        namespaced,
        codec,
        lambda each: ObjectIdentity(each.key, "", ""),
    )


_PODS = _resource("pods", "PodMetrics", True, _of_pod)
_NODES = _resource("nodes", "NodeMetrics", False, _of_node)
