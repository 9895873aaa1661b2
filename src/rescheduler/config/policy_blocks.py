"""Blocks of settings (node cost, room, drift, life time), and how settings describe themselves.

Names, types, allowed values and descriptions are read from the configuration classes. Error messages,
`config show` and the reference table all use them.
"""

import ast
import inspect
import ipaddress
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from kubevalues import EVERYTHING, Selector
from rescheduler.config.setting_rules import (
    InvalidSetting,
    SettingRule,
    duration,
    integer,
    label_key,
    namespace,
    number,
    one_of,
    owner_kind,
    resource_name,
    selector,
    text,
)

__all__ = [
    "BLOCK_CONFIG",
    "Cost",
    "Defragment",
    "EvacuationSignal",
    "EvacuationUrgency",
    "MakeRoomPolicy",
    "PlacementDriftPolicy",
    "PodLifeTimePolicy",
    "Preference",
    "RoomWithAutoscaler",
    "Setting",
    "SettingSchema",
    "TaintName",
    "http_address",
    "is_confidential",
    "is_loopback",
    "schema_at",
    "setting_name",
    "settings",
]

_ACRONYMS = {"ttl": "TTL", "pdb": "PDB"}


def setting_name(python_name: str) -> str:
    """Return the name in the configuration file: `migration_ttl` is `migrationTTL`, `from_` is `from`."""
    first, *rest = python_name.rstrip("_").split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


BLOCK_CONFIG: Any = {"extra": "forbid", "alias_generator": setting_name}
"""The `__pydantic_config__` of every class whose fields are in the file."""


@dataclass(frozen=True, slots=True)
class SettingSchema:
    """The schema of one place in the file: a single value, a list, a map or a block of settings."""

    rule: SettingRule | None = None
    entries: "SettingSchema | None" = None
    """The schema of the entries of a list or a map."""
    keys: "SettingSchema | None" = None
    """The schema of the keys of a map."""
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
        """Return the value as it is written in the file."""
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
    """The name in the file."""
    python_name: str
    schema: SettingSchema
    meaning: str
    required: bool
    default: Any
    """None also if the setting is required."""


@cache
def settings(block: type) -> tuple[Setting, ...]:
    """Return the settings in the order of their declaration."""
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
    """Return the schema at a path that exists in the block, such as `("windows", 0, "days")`."""
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
    # A type without a rule, such as str, can't be checked when a file is read.
    assert isinstance(origin, type), f"{annotation} has no SettingRule"
    assert issubclass(origin, Mapping), f"{annotation} can't be part of a configuration"
    return SettingSchema(keys=_schema_of(arguments[0]), entries=_schema_of(arguments[1]))


def _docstrings(block: type) -> dict[str, str]:
    """Return the text below each field, on one line."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(block))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, below in zip(tree.body, tree.body[1:], strict=False):
        match statement, below:
            case [ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(meaning)))]:
                found[name] = " ".join(meaning.split())
    return found


_HIGHEST = 1_000_000

InstanceType = Annotated[str, text("an instance type such as m7i.large", r"\S+")]
Price = Annotated[float, number(0, _HIGHEST)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    __pydantic_config__ = BLOCK_CONFIG

    price_label: Annotated[str | None, label_key()] = None
    """Node label whose value is the price of that node, a number such as `0.192` in any currency and per
    any time; it takes precedence over `prices`."""
    prices: Mapping[InstanceType, Price] = field(default_factory=dict)
    """Price by instance type, which is the node label `node.kubernetes.io/instance-type`. A node without a
    price counts with the average of the known ones; without any price all nodes count the same."""


class RoomWithAutoscaler(StrEnum):
    """The behavior of MakeRoom in a cluster with a node autoscaler."""

    NEVER = "never"
    AFTER_TIMEOUT = "afterTimeout"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class Defragment:
    __pydantic_config__ = BLOCK_CONFIG

    resource: Annotated[str | None, resource_name()] = None
    """Resource of which a block is kept free, such as `nvidia.com/gpu`; unset means none."""
    keep_free: Annotated[int, integer(1, 2**53)] = 1
    """Size of the block that is kept free on some node; cpu in thousandths of a core, memory in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeRoomPolicy:
    __pydantic_config__ = BLOCK_CONFIG

    min_pending_time: Annotated[timedelta, duration(timedelta())] = timedelta(seconds=30)
    """How long a pod must be Unschedulable before pods are moved for it."""
    max_moves: Annotated[int, integer(1, 100)] = 5
    """Maximum number of moves that make room for one pod, or for one group of pods."""
    with_autoscaler: Annotated[RoomWithAutoscaler, one_of(RoomWithAutoscaler)] = (
        RoomWithAutoscaler.AFTER_TIMEOUT
    )
    """Whether pods are moved where a node autoscaler may add a node instead. `afterTimeout` waits for it,
    `autoscalerTimeout` long; `never` leaves such pods to it; `always` moves as if there were none."""
    autoscaler_timeout: Annotated[timedelta, duration(timedelta(seconds=1))] = timedelta(minutes=5)
    """How long a pod must be Unschedulable before pods are moved although there is an autoscaler."""
    defragment: Defragment = field(default_factory=Defragment)
    """A block of one resource that is kept free on some node, for the next large pod."""


class EvacuationUrgency(StrEnum):
    HIGH = "high"
    NORMAL = "normal"


_NO_SIGNALS = frozenset({"Ready", "node.kubernetes.io/unschedulable"})
"""Every node has the condition, and every cordoned node the taint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvacuationSignal:
    __pydantic_config__ = BLOCK_CONFIG

    taint: Annotated[str | None, label_key()] = None
    """Key of a taint: nodes that have it are emptied."""
    condition: Annotated[str | None, text("the type of a node condition", r"[A-Za-z0-9./_-]+")] = None
    """Type of a node condition: nodes on which it is `True` are emptied."""
    urgency: Annotated[EvacuationUrgency, one_of(EvacuationUrgency)] = EvacuationUrgency.HIGH
    """`high` starts moves at any time; `normal` only within `windows`."""
    deadline: Annotated[timedelta | None, duration(timedelta(seconds=1))] = None
    """Time from the signal until pods that are still there are evicted without a move; unset means never."""

    def __post_init__(self) -> None:
        if (self.taint is None) == (self.condition is None):
            raise InvalidSetting("an entry with either taint or condition")
        if _NO_SIGNALS & {self.taint, self.condition}:
            raise InvalidSetting("a taint or condition that only nodes have that must be emptied")

    @property
    def name(self) -> str:
        return f"taint {self.taint}" if self.taint is not None else f"condition {self.condition}"


class Preference(StrEnum):
    """A preference that PlacementDrift weighs: a score plugin of the scheduler, or the price."""

    TAINT_TOLERATION = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    POD_TOPOLOGY_SPREAD = "PodTopologySpread"
    INTER_POD_AFFINITY = "InterPodAffinity"
    DUPLICATES = "Duplicates"
    PRICE = "Price"


TaintName = Annotated[
    str,
    text("the key of a taint such as example.com/gpu, or KEY=VALUE", r"[A-Za-z0-9./_-]+(=[A-Za-z0-9._-]*)?"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementDriftPolicy:
    __pydantic_config__ = BLOCK_CONFIG

    included_taints: tuple[TaintName, ...] = ()
    """Taints that pods leave, as KEY or KEY=VALUE; empty means all. Taints that state the condition of a node
    (`node.kubernetes.io/*`) and those of autoscalers never count."""
    excluded_taints: tuple[TaintName, ...] = ()
    """Taints that pods need not leave, as KEY or KEY=VALUE."""
    preferences: tuple[Annotated[Preference, one_of(Preference)], ...] = ()
    """Preferences for which pods also move: `TaintToleration` (PreferNoSchedule), `NodeAffinity` and
    `InterPodAffinity` (preferred terms), `PodTopologySpread` (ScheduleAnyway), `Duplicates` (fewer pods
    of one workload per node), `Price` (cheaper nodes, by `cost`). They weigh as much as in the scheduler."""
    min_gain: Annotated[float, number(0, 1, above=True)] = 0.1
    """Minimum improvement of the score, as a share of the highest score, for which a pod moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLifeTimePolicy:
    __pydantic_config__ = BLOCK_CONFIG

    max_pod_life_time: Annotated[timedelta, duration(timedelta(minutes=1))] = timedelta(days=7)
    """Age from which pods are moved, since their creation; `168h` is a week."""
    namespaces: tuple[Annotated[str, namespace()], ...] = ()
    """Namespaces it applies to; empty means all."""
    pod_selector: Annotated[Selector, selector("pods", "app=web,tier in (a,b)")] = EVERYTHING
    """Pods it applies to; empty means all."""
    included_owner_kinds: tuple[Annotated[str, owner_kind()], ...] = ()
    """Kinds of owners it applies to, such as `Deployment` or `ReplicaSet` (`Pod` for pods without one); empty
    means all."""
    excluded_owner_kinds: tuple[Annotated[str, owner_kind()], ...] = ()
    """Kinds of owners it does not apply to."""


def http_address(example: str) -> SettingRule:
    def read(value: object) -> str:
        if not isinstance(value, str) or not _is_address(value):
            raise InvalidSetting
        return value.rstrip("/")

    return SettingRule("string", f"an http or https address such as {example}, without user and query", read)


def _is_address(value: str) -> bool:
    # The address is shown and logged, so it must not contain credentials.
    if not value.isascii() or not value.isprintable() or any(mark in value for mark in " @?#"):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port or IPv6 address
        return False


def is_confidential(url: str, proxy: str = "") -> bool:
    """Return whether `url` is confidential: it uses TLS, or requests never leave this machine."""
    return urlsplit(url).scheme == "https" or (is_loopback(url) and (not proxy or is_loopback(proxy)))


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
