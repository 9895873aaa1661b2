"""Blocks of settings: time windows, the cost of nodes, and Prometheus."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from rescheduler.config.setting_rules import (
    InvalidSetting,
    SettingRule,
    clock_time,
    duration,
    label_key,
    number,
    one_of,
    text,
    time_zone,
)
from rescheduler.config.settings_schema import BLOCK_CONFIG

__all__ = ["Cost", "Prometheus", "Weekday", "Window"]


class Weekday(StrEnum):
    """In the order of `datetime.weekday()`."""

    MON = "Mon"
    TUE = "Tue"
    WED = "Wed"
    THU = "Thu"
    FRI = "Fri"
    SAT = "Sat"
    SUN = "Sun"


_WEEK = tuple(Weekday)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    __pydantic_config__ = BLOCK_CONFIG

    days: tuple[Annotated[Weekday, one_of(Weekday)], ...] = _WEEK
    """Days on which the window opens."""
    from_: Annotated[int, clock_time()]
    """When it opens."""
    to: Annotated[int, clock_time()]
    """When it closes; a time before `from` is on the next day."""
    zone: Annotated[tzinfo, time_zone()] = UTC
    """Time zone of `from` and `to`."""

    def __post_init__(self) -> None:
        if self.from_ == self.to:
            raise InvalidSetting('from and to must differ; a whole day is from "00:00" to "24:00"')
        if not self.days:
            raise InvalidSetting("at least one day, or no days at all for every day")

    def is_open(self, moment: datetime) -> bool:
        """`moment` needs a time zone, any; what counts is the clock on the wall in ours."""
        local = moment.astimezone(self.zone)
        minute = local.hour * 60 + local.minute
        opens_today = _WEEK[local.weekday()] in self.days
        if self.from_ < self.to:
            return opens_today and self.from_ <= minute < self.to
        opened_yesterday = _WEEK[(local - timedelta(days=1)).weekday()] in self.days
        return (opens_today and minute >= self.from_) or (opened_yesterday and minute < self.to)


_HIGHEST = 1_000_000

InstanceType = Annotated[str, text("an instance type such as m7i.large", r"\S+")]
Price = Annotated[float, number(0, _HIGHEST)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    __pydantic_config__ = BLOCK_CONFIG

    price_label: Annotated[str | None, label_key()] = None
    """Node label whose value is the price of that node, a number such as `0.192` in any currency and per
    any time; it goes before `prices`."""
    prices: Mapping[InstanceType, Price] = field(default_factory=dict)
    """Price by instance type, which is the node label `node.kubernetes.io/instance-type`. A node without a
    price counts with the average of the known ones; without any price all nodes count the same."""


_LONGEST_QUERY = 4000
"""It goes into the address of a request, whose length servers limit."""


def _query() -> SettingRule:
    def read(value: object) -> str:
        if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_QUERY:
            raise InvalidSetting
        if not all(character.isprintable() or character in "\n\t" for character in value):
            raise InvalidSetting
        return value

    return SettingRule("string", f"a query in PromQL of at most {_LONGEST_QUERY} characters", read)


def _address() -> SettingRule:
    def read(value: object) -> str:
        if not isinstance(value, str) or not _is_address(value):
            raise InvalidSetting
        return value.rstrip("/")

    example = "http://prometheus.monitoring:9090"
    return SettingRule("string", f"an http or https address such as {example}, without user and query", read)


def _is_address(value: str) -> bool:
    # It is shown and logged, so credentials have no place in it.
    if not value.isascii() or not value.isprintable() or any(mark in value for mark in " @?#"):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        return False


# What the kubelets' cAdvisor tells, as every common set-up collects it. A container that has restarted, or
# that two jobs collect, is there twice and counts once. Series without a container are totals of a pod or of
# the node, and `POD` is the pause container.
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

    url: Annotated[str | None, _address()] = None
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
