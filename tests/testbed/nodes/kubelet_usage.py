"""The usage of real nodes and pods, read as metrics-server does: from `/metrics/resource` of each kubelet."""

import ssl
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kubevalues import EVERYTHING, Selector
from tests.testbed.nodes.real_node import RealNode
from tests.testbed.usage.metrics import described

__all__ = ["KubeletUsage"]

_NODE: tuple[str, str, str] = ("", "", "")
_CPU, _MEMORY = "cpu_usage_seconds_total", "memory_working_set_bytes"
_TIMEOUT_S = 3.0


@dataclass(frozen=True)
class _Sample:
    """A counter of CPU time and its moment, and the memory in use."""

    at: float
    cpu_seconds: float
    memory_bytes: float


# By namespace, pod and container; the node itself has none of them.
_Samples = dict[tuple[str, str, str], _Sample]


class KubeletUsage:
    """`scrape` it every few seconds; CPU usage is the growth between the last two samples."""

    def __init__(self, nodes: Iterable[RealNode]) -> None:
        self._nodes = nodes
        self._before: dict[str, _Samples] = {}
        self._now: dict[str, _Samples] = {}

    def scrape(self) -> None:
        """Read all kubelets. Nothing is known of those that don't answer."""
        found = {node.name: _read(node.address) for node in self._nodes}
        for node, samples in found.items():
            before, now = self._before.setdefault(node, {}), self._now.get(node, {})
            for key, sample in samples.items():
                # Kubelets measure every few seconds: read sooner, they repeat themselves.
                if key in now and now[key].at < sample.at:
                    before[key] = now[key]
        self._now = found

    def node_metrics(
        self, _now: datetime, *, name: str = "", selector: Selector = EVERYTHING
    ) -> Iterator[dict[str, Any]]:
        for node, key, sample, usage in self._used():
            if key == _NODE and name in ("", node) and selector.matches({}):
                yield described("NodeMetrics", {"name": node}, _moment(sample)) | {"usage": usage}

    def pod_metrics(
        self, _now: datetime, *, namespace: str = "", name: str = "", selector: Selector = EVERYTHING
    ) -> Iterator[dict[str, Any]]:
        pods: dict[tuple[str, str], dict[str, Any]] = {}
        for _, (in_namespace, pod, container), sample, usage in self._used():
            wanted = namespace in ("", in_namespace) and name in ("", pod) and selector.matches({})
            if pod and wanted:
                metadata = {"name": pod, "namespace": in_namespace}
                found = pods.setdefault(
                    (in_namespace, pod),
                    described("PodMetrics", metadata, _moment(sample)) | {"containers": []},
                )
                found["containers"].append({"name": container, "usage": usage})
        yield from pods.values()

    def _used(self) -> Iterator[tuple[str, tuple[str, str, str], _Sample, dict[str, str]]]:
        for node, samples in self._now.items():
            for key, sample in samples.items():
                before = self._before.get(node, {}).get(key)
                if before and sample.at > before.at:
                    cores = max(0.0, sample.cpu_seconds - before.cpu_seconds) / (sample.at - before.at)
                    usage = {"cpu": f"{cores * 1e9:.0f}n", "memory": f"{sample.memory_bytes / 1024:.0f}Ki"}
                    yield node, key, sample, usage


def _read(address: str) -> _Samples:
    # The kubelet's certificate is its own; no other machine is in the nodes' network.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    url = f"https://{address}:10250/metrics/resource"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S, context=context) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    return _parsed(text)


def _parsed(text: str) -> _Samples:
    values: dict[tuple[str, str, str], dict[str, tuple[float, float]]] = {}
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            subject, _, what = each.name.partition("_")
            if subject in ("node", "container") and what in (_CPU, _MEMORY) and each.timestamp:
                labels = each.labels
                key = (labels.get("namespace", ""), labels.get("pod", ""), labels.get("container", ""))
                values.setdefault(key, {})[what] = (each.value, float(each.timestamp))
    return {
        key: _Sample(found[_CPU][1], found[_CPU][0], found[_MEMORY][0])
        for key, found in values.items()
        if found.keys() >= {_CPU, _MEMORY}
    }


def _moment(sample: _Sample) -> datetime:
    return datetime.fromtimestamp(sample.at, UTC)
