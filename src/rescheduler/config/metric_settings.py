"""Settings for measured load: the Prometheus server, its queries, and custom metrics."""

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from kubevalues.quantity import QuantityError, quantity_of
from rescheduler.config.policy_blocks import BLOCK_CONFIG, http_address
from rescheduler.config.setting_rules import (
    InvalidSetting,
    SettingRule,
    duration,
    one_of,
    resource_name,
    text,
)

__all__ = ["CustomMetric", "MetricSubject", "Prometheus", "balanced_resource", "is_metric_name"]

_LONGEST_QUERY = 4000
"""The longest query in characters: it is part of a URL, whose length servers limit."""


def _query() -> SettingRule:
    def read(value: object) -> str:
        if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_QUERY:
            raise InvalidSetting
        if not all(character.isprintable() or character in "\n\t" for character in value):
            raise InvalidSetting
        return value

    return SettingRule("string", f"a query in PromQL of at most {_LONGEST_QUERY} characters", read)


# Series of the kubelets' cAdvisor, which every common setup collects. A container that has restarted, or that
# two jobs scrape, has two series and counts once. Series without a container are totals of a pod or of the
# node, and `POD` is the pause container.
_CONTAINERS = 'container!="",container!="POD"'
_NODE = 'id="/"'
_CPU, _MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"

_CPU_QUERY = (
    "sum by (namespace, pod) (max by (namespace, pod, container) "
    f"(rate({_CPU}{{{_CONTAINERS}}}[5m]))) or max by (node) (rate({_CPU}{{{_NODE}}}[5m]))"
)
_MEMORY_QUERY = (
    "sum by (namespace, pod) (max by (namespace, pod, container) "
    f"({_MEMORY}{{{_CONTAINERS}}})) or max by (node) ({_MEMORY}{{{_NODE}}})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    __pydantic_config__ = BLOCK_CONFIG

    url: Annotated[str | None, http_address("http://prometheus.monitoring:9090")] = None
    """Address of Prometheus or a server with the same HTTP API; unset means there is none."""
    cpu_query: Annotated[str, _query()] = _CPU_QUERY
    """Cores in use: one value per `namespace` and `pod`, and optionally one per `node`."""
    memory_query: Annotated[str, _query()] = _MEMORY_QUERY
    """Bytes in use, with the same labels as `cpuQuery`."""
    bearer_token_file: Annotated[str | None, text("the path of a file")] = None
    """File with the bearer token, sent over https only; read again every minute."""
    ca_file: Annotated[str | None, text("the path of a file")] = None
    """File with the trusted CA certificates; unset means those of the system."""
    timeout: Annotated[timedelta, duration(timedelta(seconds=1))] = timedelta(seconds=15)
    """How long a query may take."""


class MetricSubject(StrEnum):
    NODE = "node"
    POD = "pod"


_METRIC_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_RESERVED = re.compile(r"cpu|memory|ephemeral-storage|pods|(hugepages|attachable-volumes)-.*")


def is_metric_name(name: str) -> bool:
    """Return whether a custom metric may have this name, which must differ from all resources of nodes."""
    return bool(_METRIC_NAME.fullmatch(name)) and not _RESERVED.fullmatch(name)


def balanced_resource() -> SettingRule:
    """Allow a resource or the name of a custom metric; whether that metric exists is checked later."""
    resource = resource_name()

    def read(value: object) -> str:
        return value if isinstance(value, str) and is_metric_name(value) else str(resource.read(value))

    return SettingRule("string", f"{resource.allowed}, or the name of one of customMetrics", read)


def _metric_name() -> SettingRule:
    def read(value: object) -> str:
        if not isinstance(value, str) or not is_metric_name(value):
            raise InvalidSetting
        return value

    allowed = "lower-case letters, digits and '-' such as cpu-pressure, and not the name of a resource"
    return SettingRule("string", allowed, read)


def _capacity() -> SettingRule:
    def read(value: object) -> float:
        try:
            amount = quantity_of(value).nanos / 1e9 if not isinstance(value, bool) else 0.0
        except (QuantityError, TypeError, ValueError, OverflowError):
            raise InvalidSetting from None
        if not 0 < amount <= _LARGEST_CAPACITY:
            raise InvalidSetting
        return amount

    def show(value: float) -> str:
        return str(int(value)) if value == int(value) else repr(value)

    return SettingRule("quantity", "a quantity above 0 and up to 1Pi such as 1, 500m or 10Gi", read, show)


_LARGEST_CAPACITY = 2**50


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomMetric:
    __pydantic_config__ = BLOCK_CONFIG

    name: Annotated[str, _metric_name()]
    """Name of the metric, for `balanceResources` and in plans."""
    query: Annotated[str, _query()]
    """Query for usage: one value per `node`, or per `namespace` and `pod`, by the labels of the series."""
    per: Annotated[MetricSubject, one_of(MetricSubject)] = MetricSubject.NODE
    """Whether the query measures nodes or pods. `node`: each pod accounts for a share of the value of its
    node. `pod`: the value of a node is the sum over its pods."""
    pod_query: Annotated[str | None, _query()] = None
    """With `per: node`, the shares of pods are in proportion to the values of this query, one per `namespace`
    and `pod`; unset means in proportion to their CPU load."""
    capacity: Annotated[float | None, _capacity()] = None
    """Value of the query that is 100 % of a node, for all nodes."""
    capacity_query: Annotated[str | None, _query()] = None
    """The same as a query, one value per `node`."""

    def __post_init__(self) -> None:
        if (self.capacity is None) == (self.capacity_query is None):
            raise InvalidSetting("an entry with either capacity or capacityQuery")
        if self.pod_query is not None and self.per is not MetricSubject.NODE:
            raise InvalidSetting("an entry with podQuery only if it is per: node")
