"""Rules for single values: how each is parsed, shown and described.

A `SettingRule` is part of the annotation of a field. Rules are strict, as in Go: a string is never a
number, and true is never 1. pydantic calls them through a hook, so that importing this module does not
import pydantic.
"""

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, timedelta, tzinfo
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from kubevalues import EVERYTHING, Selector, SelectorError, label_key_error, parse_selector
from kubevalues.duration import DurationError, parse_duration, short_duration
from kubevalues.label_selectors import subdomain_error
from kubevalues.quantity import IntOrString

__all__ = [
    "InvalidSetting",
    "SettingRule",
    "clock_time",
    "duration",
    "flag",
    "integer",
    "label_key",
    "namespace",
    "number",
    "number_or_percentage",
    "object_name",
    "one_of",
    "owner_kind",
    "plugin_arguments",
    "request_rate",
    "resource_name",
    "selector",
    "strategy_name",
    "text",
    "time_zone",
]


class InvalidSetting(ValueError):  # noqa: N818 - it becomes a fault in a report, not an error of ours
    """The value is not allowed. A message, if any, adds to what the rule says is allowed."""


def _unchanged(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class SettingRule:
    type_name: str
    """The type in one or two words, for the reference table."""
    allowed: str
    """Completes the sentence "…is not allowed: "."""
    read: Callable[[object], Any]
    """Converts the value in the file to the one that the program uses; raises `InvalidSetting`."""
    show: Callable[[Any], Any] = field(default=_unchanged)
    """Converts the value that the program uses back to the one in the file."""
    names_strategy: bool = False
    """Whether the value names a strategy. The names are known only at run time, because plugins add some."""

    def refusal(self, value: object, strategies: Collection[str]) -> str | None:
        """Return what is allowed instead, or None if the value is allowed."""
        if self.names_strategy and not (isinstance(value, str) and value in strategies):
            return f"one of {', '.join(sorted(strategies))}"
        try:
            self.read(value)
        except InvalidSetting as refused:
            return f"{self.allowed}; {refused}" if str(refused) else self.allowed
        return None

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> Any:
        from pydantic_core import PydanticCustomError, core_schema  # noqa: PLC0415 - see the module's docstring

        def read(value: object, info: core_schema.ValidationInfo) -> object:
            if allowed := self.refusal(value, info.context or ()):
                raise PydanticCustomError("refused", "{allowed}", {"allowed": allowed})
            return self.read(value)

        return core_schema.with_info_plain_validator_function(read)


def flag() -> SettingRule:
    def read(value: object) -> bool:
        if not isinstance(value, bool):
            raise InvalidSetting
        return value

    return SettingRule("bool", "true or false", read)


def integer(low: int, high: int = 2**31 - 1, *, why: str = "") -> SettingRule:
    span = f"from {low}" if high == 2**31 - 1 else f"from {low} to {high}"

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InvalidSetting
        return value

    return SettingRule("int", f"an integer {span}{why and f' ({why})'}", read)


def number(low: float, high: float, *, above: bool = False) -> SettingRule:
    """Allow numbers from `low` to `high`; with `above`, `low` itself is not allowed. NaN and infinity never
    are."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise InvalidSetting
        if above and value == low:
            raise InvalidSetting
        return float(value)

    span = f"above {low:g} and up to {high:g}" if above else f"from {low:g} to {high:g}"
    return SettingRule("float", f"a number {span}", read)


_PERCENTAGE = re.compile(r"(?:100|[1-9]?[0-9])%")


def number_or_percentage() -> SettingRule:
    """Allow an integer, or a percentage as a string."""

    def read(value: object) -> IntOrString:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31:
            return value
        if not isinstance(value, str) or not _PERCENTAGE.fullmatch(value):
            raise InvalidSetting
        return value

    return SettingRule("int or percentage", "an integer from 0, or a percentage such as 10%", read)


_MAX_REQUEST_RATE = 1_000_000


def request_rate() -> SettingRule:
    """Allow requests per second; any negative number means no limit, as in client-go."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or value == 0:
            raise InvalidSetting
        if not abs(value) <= _MAX_REQUEST_RATE:
            raise InvalidSetting
        return float(value) if value > 0 else math.inf

    def show(rate: float) -> float:
        return -1.0 if rate == math.inf else rate

    allowed = f"a number above 0 and up to {_MAX_REQUEST_RATE}, or a negative one for no limit"
    return SettingRule("float", allowed, read, show)


def duration(at_least: timedelta) -> SettingRule:
    limit = f"at least {short_duration(at_least)}" if at_least else "0s or more"

    def read(value: object) -> timedelta:
        if not isinstance(value, str):
            raise InvalidSetting
        try:
            found = parse_duration(value)
        except DurationError:
            raise InvalidSetting from None
        if found < at_least:
            raise InvalidSetting
        return found

    examples = "such as 90s, 1h30m or 500ms (units h, m, s, ms, us, ns)"
    return SettingRule("duration", f"a duration of {limit}, {examples}", read, short_duration)


def text(allowed: str = "a string", pattern: str = r".+", *, type_name: str = "string") -> SettingRule:
    """Allow one line of printable characters that the pattern matches as a whole."""
    wanted = re.compile(pattern)

    def read(value: object) -> str:
        if not isinstance(value, str) or not value.isprintable() or not wanted.fullmatch(value):
            raise InvalidSetting
        return value

    return SettingRule(type_name, allowed, read)


def namespace() -> SettingRule:
    allowed = "the name of a namespace: lower-case letters, digits and '-', at most 63 characters"
    return text(allowed, r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


def object_name(what: str) -> SettingRule:
    """Allow a DNS subdomain, as Kubernetes requires for the names of most objects."""

    def read(value: object) -> str:
        if not isinstance(value, str) or subdomain_error(value):
            raise InvalidSetting
        return value

    allowed = f"the name of a {what}: lower-case letters, digits, '-' and '.', at most 253 characters"
    return SettingRule("string", allowed, read)


def one_of(choices: type[StrEnum]) -> SettingRule:
    def read(value: object) -> StrEnum:
        # Only a string is compared: a lookup in the enum would also accept other values that compare equal.
        found = next((choice for choice in choices if isinstance(value, str) and choice == value), None)
        if found is None:
            raise InvalidSetting
        return found

    return SettingRule("string", f"one of {', '.join(choices)}", read, str)


def selector(what: str, example: str, *, empty: Selector = EVERYTHING) -> SettingRule:
    """Allow a label selector. An empty one means `empty`: for an exclusion it must not mean everything."""

    def read(value: object) -> Selector:
        if not isinstance(value, str):
            raise InvalidSetting
        try:
            found = parse_selector(value)
        except SelectorError as error:
            raise InvalidSetting(str(error)) from None
        return empty if found.selects_everything else found

    return SettingRule("label selector", f"a label selector for {what}, such as {example}", read, str)


def strategy_name() -> SettingRule:
    listed = "the name of a strategy, built in or installed"
    return SettingRule("string", listed, text().read, names_strategy=True)


def plugin_arguments() -> SettingRule:
    """Return the rule for a map that only the plugin itself can validate."""

    def read(value: object) -> dict[str, Any]:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise InvalidSetting
        return value

    return SettingRule("map", "a map of arguments that the strategy defines", read)


def label_key() -> SettingRule:
    def read(value: object) -> str:
        if not isinstance(value, str) or label_key_error(value):
            raise InvalidSetting
        return value

    return SettingRule("string", "the key of a label such as example.com/price", read)


def owner_kind() -> SettingRule:
    allowed = "the kind of an owner such as StatefulSet, or KIND.GROUP such as Rollout.argoproj.io"
    return text(allowed, r"[A-Z][A-Za-z0-9]{0,62}(\.[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?")


_BUILT_IN_RESOURCES = re.compile(r"cpu|memory|ephemeral-storage|pods|hugepages-[0-9]+[KMGT]i")


def resource_name() -> SettingRule:
    def read(value: object) -> str:
        if not isinstance(value, str):
            raise InvalidSetting
        if not _BUILT_IN_RESOURCES.fullmatch(value) and ("/" not in value or label_key_error(value)):
            raise InvalidSetting
        return value

    allowed = (
        "cpu, memory, ephemeral-storage, pods, hugepages-SIZE or an extended resource such as example.com/gpu"
    )
    return SettingRule("string", allowed, read)


_CLOCK = re.compile(r"(?P<hour>[01]?[0-9]|2[0-4]):(?P<minute>[0-5][0-9])")
_MINUTES_A_DAY = 24 * 60


def clock_time() -> SettingRule:
    """Allow a time of day, in minutes after midnight, so that the end of a day has a number, too."""

    def read(value: object) -> int:
        found = _CLOCK.fullmatch(value) if isinstance(value, str) else None
        minutes = int(found["hour"]) * 60 + int(found["minute"]) if found else _MINUTES_A_DAY + 1
        if minutes > _MINUTES_A_DAY:
            raise InvalidSetting
        return minutes

    def show(minutes: int) -> str:
        return f"{minutes // 60:02}:{minutes % 60:02}"

    return SettingRule("time", 'a time of day from "00:00" to "24:00"', read, show)


def time_zone() -> SettingRule:
    def read(value: object) -> tzinfo:
        if value == "UTC":
            return UTC  # also where no time zone data is installed
        if not isinstance(value, str):
            raise InvalidSetting
        try:
            return ZoneInfo(value)
        except (KeyError, ValueError, OSError):  # unknown, malformed, or the name of a directory of zones
            raise InvalidSetting(
                "" if _has_time_zones() else "this system lacks time zone data (tzdata)"
            ) from None

    return SettingRule("string", "the name of a time zone such as Europe/Berlin or UTC", read, str)


def _has_time_zones() -> bool:
    try:
        ZoneInfo("Europe/Berlin")
    except (KeyError, OSError):
        return False
    return True
