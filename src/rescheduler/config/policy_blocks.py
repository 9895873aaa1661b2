"""Blocks of settings (time windows, node cost, Prometheus), and how settings describe themselves.

Names, types, allowed values and descriptions are read from the configuration classes. Error messages,
`config show` and the reference table all use them.
"""

import ast
import inspect
import ipaddress
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints
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

__all__ = [
    "BLOCK_CONFIG",
    "Cost",
    "Prometheus",
    "Setting",
    "SettingSchema",
    "Weekday",
    "Window",
    "is_confidential",
    "is_loopback",
    "schema_at",
    "setting_name",
    "settings",
]

_ACRONYMS = {"ttl": "TTL"}


def setting_name(python_name: str) -> str:
    """As the file has it: `migration_ttl` is `migrationTTL`, `from_` is `from`."""
    first, *rest = python_name.rstrip("_").split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


BLOCK_CONFIG: Any = {"extra": "forbid", "alias_generator": setting_name}
"""For `__pydantic_config__` of every class whose fields stand in the file."""


@dataclass(frozen=True, slots=True)
class SettingSchema:
    """What may stand at one place of the file: a single value, a list, a map or a block of settings."""

    rule: SettingRule | None = None
    entries: "SettingSchema | None" = None
    """Of a list or a map."""
    keys: "SettingSchema | None" = None
    """Of a map."""
    block: type | None = None

    @property
    def type_name(self) -> str:
        if self.rule:
            return self.rule.type_name
        if self.entries and self.keys:
            return f"map of {self.keys.type_name} to {self.entries.type_name}"
        return f"list of {self.entries.type_name}" if self.entries else "block"

    @property
    def allowed(self) -> str:
        if self.rule:
            return self.rule.allowed
        if self.entries and self.keys:
            return f"a map; each key is {self.keys.allowed}; each value is {self.entries.allowed}"
        if self.entries:
            return f"a list; each entry is {self.entries.allowed}"
        assert self.block is not None
        return f"a block with {', '.join(setting.name for setting in settings(self.block))}"

    def show(self, value: Any) -> Any:
        """As it stands in the file."""
        if value is None:
            return None
        if self.rule:
            return self.rule.show(value)
        if self.entries and self.keys:
            return {self.keys.show(key): self.entries.show(entry) for key, entry in value.items()}
        if self.entries:
            return [self.entries.show(entry) for entry in value]
        assert self.block is not None
        return {s.name: s.schema.show(getattr(value, s.python_name)) for s in settings(self.block)}


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    """As the file has it."""
    python_name: str
    schema: SettingSchema
    meaning: str
    required: bool
    default: Any
    """None if required, too."""


@cache
def settings(block: type) -> tuple[Setting, ...]:
    """In the order in which they are written down."""
    hints = get_type_hints(block, include_extras=True)
    meanings = _docstrings(block)
    return tuple(
        Setting(
            name=setting_name(field.name),
            python_name=field.name,
            schema=_schema_of(hints[field.name]),
            meaning=meanings.get(field.name, ""),
            required=field.default is MISSING and field.default_factory is MISSING,
            default=_default(field),
        )
        for field in fields(block)
    )


def schema_at(block: type, path: tuple[str | int, ...]) -> SettingSchema:
    """Return what may stand at a path that exists in the schema, such as `("windows", 0, "days")`."""
    schema = SettingSchema(block=block)
    for step in path:
        if schema.block:
            schema = next(s.schema for s in settings(schema.block) if s.name == step)
        elif schema.entries:
            schema = schema.entries
    return schema


def _default(field: Any) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default


def _schema_of(annotation: Any) -> SettingSchema:
    if get_origin(annotation) is Annotated:
        rule = next((extra for extra in get_args(annotation)[1:] if isinstance(extra, SettingRule)), None)
        return SettingSchema(rule=rule) if rule else _schema_of(get_args(annotation)[0])
    if is_dataclass(annotation):
        assert isinstance(annotation, type)
        return SettingSchema(block=annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        return SettingSchema(entries=_schema_of(arguments[0]))
    assert origin is Mapping or issubclass(origin, Mapping), f"{annotation} is no part of a configuration"
    return SettingSchema(keys=_schema_of(arguments[0]), entries=_schema_of(arguments[1]))


def _docstrings(block: type) -> dict[str, str]:
    """The text below each field, on one line."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(block))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, below in zip(tree.body, tree.body[1:], strict=False):
        match statement, below:
            case [ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(meaning)))]:
                found[name] = " ".join(meaning.split())
    return found


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


def is_confidential(url: str, proxy: str = "") -> bool:
    """Whether nobody on the network can read what is sent to `url`: TLS, or it never leaves this machine."""
    return urlsplit(url).scheme == "https" or (is_loopback(url) and (not proxy or is_loopback(proxy)))


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
