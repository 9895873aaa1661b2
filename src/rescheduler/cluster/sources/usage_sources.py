"""Read usage from Prometheus or a server with its HTTP API, and choose the reader by configuration.

There are two instant queries, one for cpu and one for memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import nan
from pathlib import Path
from typing import NoReturn

import msgspec

from rescheduler.cluster.sources.metrics_api import MetricsApiReader
from rescheduler.cluster.trusted_usage import RequestsOnlyReader, UsageReader
from rescheduler.cluster.usage_readings import (
    MAX_READING,
    CustomReadings,
    MetricReadings,
    UsageOutcome,
    UsageReading,
    UsageReadings,
    UsageUnavailable,
    balanced_metrics,
    effective_usage_source,
)
from rescheduler.config.metric_settings import CustomMetric, MetricSubject, Prometheus
from rescheduler.config.policy import Policy, UsageSource
from rescheduler.kube.access.cluster_access import ClusterAccess, StoredCredentials
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.transport import ApiRequest, NoResponse

__all__ = [
    "InstantVector",
    "InvalidVector",
    "PrometheusReader",
    "PrometheusSample",
    "decode_vector",
    "measures_the_same",
    "usage_reader",
]


class InvalidVector(Exception):  # noqa: N818 - named after what came instead
    """The response has no valid amounts; the message says what it has instead."""


class PrometheusSample(msgspec.Struct, frozen=True, gc=False):
    value: float
    at_s: float


@dataclass(slots=True)
class InstantVector:
    """The values of a query. A series with `namespace` and `pod` is a pod's, one with `node` alone a node's;
    others are ignored."""

    pods: dict[str, PrometheusSample] = field(default_factory=dict)
    nodes: dict[str, PrometheusSample] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)
    """The series whose value is not an amount: NaN, infinite, negative or a histogram."""
    warnings: tuple[str, ...] = ()
    """Warnings of the server, such as that a part of its stores did not respond."""


class _Labels(msgspec.Struct, gc=False):
    namespace: str = ""
    pod: str = ""
    node: str = ""


class _Series(msgspec.Struct, gc=False):
    metric: _Labels
    value: tuple[float, str] | None = None


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _QueryResponse(msgspec.Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None


_decode_response = msgspec.json.Decoder(_QueryResponse).decode
_decode_series = msgspec.json.Decoder(list[_Series]).decode


def decode_vector(body: bytes) -> InstantVector:
    """Decode a vector; raise `InvalidVector`."""
    try:
        response = _decode_response(body)
        if response.status != "success" or response.data is None:
            raise InvalidVector(_reason(response))
        if response.data.result_type != "vector":
            raise InvalidVector(
                f"the query returns a {response.data.result_type} instead of one value per pod"
            )
        series = _decode_series(response.data.result)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidVector(f"the response is not from Prometheus: {error}") from error
    vector = InstantVector(warnings=tuple(response.warnings or ()))
    for each in series:
        _enter(each, vector)
    return vector


def _reason(response: _QueryResponse) -> str:
    return ": ".join(filter(None, (response.error_type, response.error))) or "no reason given"


def _enter(series: _Series, vector: InstantVector) -> None:
    labels = series.metric
    if labels.pod and labels.namespace:
        name, owners = f"{labels.namespace}/{labels.pod}", vector.pods
    elif labels.node and not labels.pod:
        name, owners = labels.node, vector.nodes
    else:
        return
    if name in owners:
        _ambiguous(name)
    at_s, text = series.value or (0.0, "")
    value = _number(text)
    if 0 <= value <= MAX_READING:
        owners[name] = PrometheusSample(value, at_s)
    else:
        vector.odd.append(f"{name} ({text or 'a histogram'})")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan


def _ambiguous(name: str) -> NoReturn:
    # A sum would be right for containers and wrong for replicas, so the query must decide.
    raise InvalidVector(
        f"the query returns several values for {name}; aggregate them, such as with sum by (namespace, pod)"
    )


_PATH = "/api/v1/query"
_SHOWN = 200
"""How many characters of an unknown response a message shows."""


class _Failed(Exception):  # noqa: N818 - never leaves this file
    """A query failed; the message says why, and what to do."""


class PrometheusReader:
    """A `UsageReader` that reads from Prometheus."""

    def __init__(self, settings: Prometheus) -> None:
        assert settings.url, "a configuration without it is refused"
        self._settings = settings
        self._url = settings.url
        self._network: HttpTransport | None = None

    async def read(self) -> UsageOutcome:
        try:
            cpu = await self._pods("prometheus.cpuQuery", self._settings.cpu_query)
            memory = await self._pods("prometheus.memoryQuery", self._settings.memory_query)
        except _Failed as failed:
            # The next attempt starts again, with the certificates of that time.
            await self.close()
            return UsageUnavailable(UsageSource.PROMETHEUS, str(failed))
        return UsageReadings(
            UsageSource.PROMETHEUS,
            _both(cpu.pods, memory.pods),
            _both(cpu.nodes, memory.nodes),
            (*_notes("prometheus.cpuQuery", cpu), *_notes("prometheus.memoryQuery", memory)),
        )

    async def close(self) -> None:
        if self._network:
            await self._network.close()
            self._network = None

    async def custom(self, metrics: Sequence[CustomMetric]) -> CustomReadings:
        """Return the values of these metrics. One that can't be read is left out, and the notes say why."""
        found: list[MetricReadings] = []
        notes: list[str] = []
        for metric in metrics:
            try:
                read = await self._metric(metric, notes)
            except _Failed as failed:
                await self.close()
                notes.append(f"{metric.name} is not balanced: {failed}")
                continue
            found.append(read)
        return CustomReadings(tuple(found), tuple(notes))

    async def _metric(self, metric: CustomMetric, notes: list[str]) -> MetricReadings:
        queries = {
            "query": metric.query, "podQuery": metric.pod_query, "capacityQuery": metric.capacity_query,
        }  # fmt: skip
        vectors: dict[str, InstantVector] = {}
        for setting, query in queries.items():
            if query is not None:
                name = f"{setting} of {metric.name} in customMetrics"
                vectors[setting] = await self._query(name, query)
                notes += _notes(name, vectors[setting])
        of_pods = vectors["query"] if metric.per is MetricSubject.POD else vectors.get("podQuery")
        read = MetricReadings(
            metric,
            nodes=_values(vectors["query"].nodes) if metric.per is MetricSubject.NODE else {},
            pods=_values(of_pods.pods) if of_pods is not None else {},
            capacities=_values(vectors["capacityQuery"].nodes) if "capacityQuery" in vectors else {},
        )
        if not (read.nodes if metric.per is MetricSubject.NODE else read.pods):
            labels = "node" if metric.per is MetricSubject.NODE else "namespace and pod"
            raise _Failed(f"no series of its query has the labels {labels} and a number. Check the query.")
        return read

    async def _pods(self, name: str, query: str) -> InstantVector:
        vector = await self._query(name, query)
        if not vector.pods:
            raise _Failed(
                f"{self._url} returned no pods: no series has a namespace, a pod and a number. "
                f"Check {name}, and whether Prometheus scrapes the kubelets."
            )
        return vector

    async def _query(self, name: str, query: str) -> InstantVector:
        """Run the query of the setting `name`."""
        status, body = await self._send(query)
        if status in (401, 403):
            raise _Failed(f"{self._url} denied the request ({status}). Check prometheus.bearerTokenFile.")
        if body.lstrip()[:1] != b"{":
            start = " ".join(body[:_SHOWN].decode(errors="replace").split())
            raise _Failed(
                f"{self._url}{_PATH} is not a Prometheus API ({status}: {start}). Check prometheus.url."
            )
        try:
            vector = decode_vector(body)
        except InvalidVector as error:
            why = f"{self._url} failed to answer the query ({status}): {str(error).rstrip('.')}"
            raise _Failed(f"{why}. Check {name}.") from error
        return vector

    async def _send(self, query: str) -> tuple[int, bytes]:
        timeout_s = self._settings.timeout.total_seconds()
        asked = (("query", query), ("timeout", f"{timeout_s:g}"))
        request = ApiRequest("GET", _PATH, asked, {"accept": "application/json"}, timeout_s=timeout_s)
        try:
            self._network = self._network or HttpTransport(self._access())
            async with await self._network.send(request) as response:
                return response.status, await response.read()
        except NoResponse as broken:
            remedy = broken.remedy or "Check prometheus.url, and whether Prometheus runs."
            raise _Failed(f"Prometheus does not answer: {broken.reason.rstrip('.')}. {remedy}") from broken

    def _access(self) -> ClusterAccess:
        settings = self._settings
        token_file = Path(settings.bearer_token_file) if settings.bearer_token_file else None
        try:
            authority = Path(settings.ca_file).read_bytes() if settings.ca_file else None
        except OSError as error:
            raise _Failed(
                f"can't read {settings.ca_file}: {error.strerror}. Check prometheus.caFile."
            ) from error
        return ClusterAccess(
            self._url, StoredCredentials(token_file=token_file), "the prometheus settings", authority
        )


def _both(cpu: dict[str, PrometheusSample], memory: dict[str, PrometheusSample]) -> dict[str, UsageReading]:
    """Return the readings of pods or nodes that have both cpu and memory."""
    return {
        name: UsageReading(
            round(cores.value * 1000), round(memory[name].value), min(cores.at_s, memory[name].at_s)
        )
        for name, cores in cpu.items()
        if name in memory
    }


def _notes(name: str, vector: InstantVector) -> tuple[str, ...]:
    setting = name.removeprefix("prometheus.")
    notes = tuple(f"Prometheus warning for {setting}: {warning}" for warning in vector.warnings)
    if not vector.odd:
        return notes
    count = "1 value" if len(vector.odd) == 1 else f"{len(vector.odd)} values"
    return (*notes, f"{count} of {name} are invalid, such as {vector.odd[0]}")


def _values(samples: dict[str, PrometheusSample]) -> dict[str, float]:
    return {name: sample.value for name, sample in samples.items()}


class _WithCustomMetrics:
    """A `UsageReader` that reads usage, and custom metrics from Prometheus."""

    def __init__(self, usage: UsageReader, server: PrometheusReader, metrics: Sequence[CustomMetric]) -> None:
        self._usage, self._server, self._metrics = usage, server, metrics

    async def read(self) -> UsageOutcome:
        usage = await self._usage.read()
        return replace(usage, custom=await self._server.custom(self._metrics))

    async def close(self) -> None:
        await self._usage.close()
        await self._server.close()


def usage_reader(policy: Policy, client: Client) -> UsageReader:
    """Return the reader for this policy. The caller closes it; the client stays open."""
    reader = _usage_alone(policy, client)
    metrics = balanced_metrics(policy)
    if not metrics:
        return reader
    return _WithCustomMetrics(reader, PrometheusReader(policy.prometheus), metrics)


def measures_the_same(one: Policy, other: Policy) -> bool:
    """Return whether both policies can use the same reader."""

    def sources(policy: Policy) -> tuple[UsageSource, Prometheus, tuple[CustomMetric, ...]]:
        return policy.usage_source, policy.prometheus, balanced_metrics(policy)

    return sources(one) == sources(other)


def _usage_alone(policy: Policy, client: Client) -> UsageReader:
    match effective_usage_source(policy):
        case UsageSource.PROMETHEUS:
            return PrometheusReader(policy.prometheus)
        case UsageSource.METRICS:
            return MetricsApiReader(client)
        case _:
            return RequestsOnlyReader()
