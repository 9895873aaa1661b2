"""Read usage from `metrics.k8s.io`, which metrics-server serves and `kubectl top` shows.

Saved clusters have these objects, too, with other measurements: `usage` may have values of custom metrics
beside cpu and memory, and NodeMetrics their `capacity`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from kubevalues.quantity import Quantity, QuantityError, parse_quantity
from rescheduler.cluster.usage_readings import (
    MAX_READING,
    MetricReadings,
    UsageByName,
    UsageOutcome,
    UsageReading,
    UsageReadings,
    UsageUnavailable,
)
from rescheduler.config.metric_settings import CustomMetric
from rescheduler.config.policy import UsageSource
from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiResource, ObjectIdentity, key_of
from rescheduler.kube.client import Client
from rescheduler.kube.codecs.codec import JsonCodec

__all__ = [
    "METRICS_GROUP",
    "METRICS_VERSION",
    "MetricsApiReader",
    "add_custom_metrics",
    "decode_custom_metric",
    "decode_metrics",
    "metrics_objects",
]

METRICS_GROUP, METRICS_VERSION = "metrics.k8s.io", "v1beta1"
_NANOS_A_MILLI = 1_000_000
_NANOS = 1_000_000_000
_MetricsObject = dict[str, Any]


class _Metadata(msgspec.Struct, gc=False):
    name: str
    namespace: str = ""


class _Amounts(msgspec.Struct, gc=False):
    cpu: str = ""
    memory: str = ""


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
    capacity: dict[str, str] | None = None


class _Reading(msgspec.Struct, gc=False):
    key: str
    used: UsageReading | None
    fault: str = ""
    """Why the reading is invalid, or empty: one invalid reading must not cost all others."""


class MetricsApiReader:
    """A `UsageReader` that reads from metrics.k8s.io."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def read(self) -> UsageOutcome:
        # A check is possible without usage, so it does not wait for a server that is down.
        client = self._client.with_quick_retries()
        try:
            # Nodes first: there are few, and if they can't be read, neither can the pods.
            # In one page, because a metrics server does not support pages.
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


def decode_custom_metric(
    metric: CustomMetric, pods: Iterable[bytes | msgspec.Raw], nodes: Iterable[bytes | msgspec.Raw]
) -> MetricReadings:
    """Decode the values of this metric in saved PodMetrics and NodeMetrics. Raises `msgspec.DecodeError` and
    ValueError."""
    name = metric.name
    of_pods, of_nodes, capacities = {}, {}, {}
    for raw in pods:
        pod = _decode_other_pod(raw)
        if found := [each.usage[name] for each in pod.containers or () if name in each.usage]:
            of_pods[key_of(pod.metadata.namespace, pod.metadata.name)] = sum(map(_value, found))
    for raw in nodes:
        node = _decode_other_node(raw)
        if name in node.usage:
            of_nodes[node.metadata.name] = _value(node.usage[name])
        if metric.capacity_query is not None and node.capacity and name in node.capacity:
            capacities[node.metadata.name] = _value(node.capacity[name])
    return MetricReadings(metric, of_nodes, of_pods, capacities)


def _value(text: str) -> float:
    value = _not_negative(parse_quantity(text)).nanos / _NANOS
    if value > MAX_READING:
        raise QuantityError(f"{text} is implausibly large")
    return value


def metrics_objects(
    readings: UsageReadings, pods: Collection[str], nodes: Collection[str]
) -> list[_MetricsObject]:
    """Return the readings of these pods and nodes as PodMetrics and NodeMetrics, to save them."""

    def described(kind: str, all_used: UsageByName, names: Collection[str]) -> list[_MetricsObject]:
        return [
            _metrics_object(kind, name, datetime.fromtimestamp(used.at_s, UTC), _amounts(used))
            for name, used in sorted(all_used.items())
            if name in names
        ]

    return described("PodMetrics", readings.pods, pods) + described("NodeMetrics", readings.nodes, nodes)


def add_custom_metrics(
    objects: list[_MetricsObject],
    metrics: Iterable[MetricReadings],
    pods: Collection[str],
    nodes: Collection[str],
    now: datetime,
) -> None:
    """Add the values of custom metrics to PodMetrics and NodeMetrics of these pods and nodes; missing objects
    are created."""
    known = {(each["kind"], _key(each)): each for each in objects}

    def found(kind: str, name: str) -> _MetricsObject:
        if (kind, name) not in known:
            known[kind, name] = _metrics_object(kind, name, now, {})
            objects.append(known[kind, name])
        return known[kind, name]

    for readings in metrics:
        metric = readings.metric.name
        for name, text in _quantities(readings.pods, pods):
            containers = found("PodMetrics", name).setdefault("containers", [])
            if not containers:
                containers.append({"usage": {}})
            containers[0]["usage"][metric] = text
        for name, text in _quantities(readings.nodes, nodes):
            found("NodeMetrics", name)["usage"][metric] = text
        for name, text in _quantities(readings.capacities, nodes):
            found("NodeMetrics", name).setdefault("capacity", {})[metric] = text


def _metrics_object(kind: str, key: str, at: datetime, usage: Mapping[str, str]) -> _MetricsObject:
    namespace, _, name = key.rpartition("/")
    used = {"containers": [{"usage": dict(usage)}]} if kind == "PodMetrics" else {"usage": dict(usage)}
    return {
        "apiVersion": f"{METRICS_GROUP}/{METRICS_VERSION}",
        "kind": kind,
        "metadata": {"namespace": namespace, "name": name} if namespace else {"name": name},
        "timestamp": at.isoformat().replace("+00:00", "Z"),
        **used,
    }


def _key(item: _MetricsObject) -> str:
    return key_of(item["metadata"].get("namespace", ""), item["metadata"]["name"])


def _amounts(used: UsageReading) -> dict[str, str]:
    return {"cpu": f"{used.cpu_millis}m", "memory": str(used.memory_bytes)}


def _quantities(values: Mapping[str, float], names: Collection[str]) -> list[tuple[str, str]]:
    return [
        (name, str(Quantity(round(value * _NANOS))))
        for name, value in sorted(values.items())
        if name in names
    ]


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
    if not any(part.cpu or part.memory for part in parts):
        return _Reading(key, None)  # only custom metrics
    cpu_nanos = memory_bytes = 0
    try:
        for part in parts:
            cpu_nanos += _nanos(part.cpu or "0")
            memory_bytes += _bytes(part.memory or "0")
        used = UsageReading(
            -(-cpu_nanos // _NANOS_A_MILLI), memory_bytes, _seconds(timestamp)
        )  # rounded up, as always
    except ValueError as error:
        return _Reading(key, None, str(error))
    if max(used.cpu_millis, used.memory_bytes) > MAX_READING:
        return _Reading(key, None, "implausibly large")
    return _Reading(key, used)


# Hardly any readings are equal, so a cache would not pay; the units of metrics-server are parsed directly.


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
