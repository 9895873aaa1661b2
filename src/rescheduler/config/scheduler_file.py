"""Find our settings in a `KubeSchedulerConfiguration`, and write a configuration as such a file.

The file can also belong to a scheduler. Everything else in it is ignored with a note, so that you know that
it has no effect. Entries that are ambiguous are an error. `render_effective` marks defaults;
`render_defaults` explains every setting.
"""

import json
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rescheduler.config.config_validation import (
    MISSING,
    ConfigFault,
    FaultText,
    FieldPath,
    did_you_mean,
    path_text,
    quoted_value,
)
from rescheduler.config.policy import (
    ClientConnection,
    Configuration,
    LeaderElection,
    Policy,
)
from rescheduler.config.policy_blocks import Setting, settings
from rescheduler.config.profiles import PROFILE_SETTINGS

__all__ = [
    "API_VERSION",
    "KIND",
    "PLUGIN",
    "PluginSettings",
    "ProfileArgs",
    "find_plugin_settings",
    "inline_yaml",
    "render_defaults",
    "render_effective",
]

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
PLUGIN = "Rescheduler"
_ARGS_KIND = "ReschedulerArgs"

_SCHEDULER_FIELDS = (
    "delayCacheUntilActive",
    "enableContentionProfiling",
    "enableProfiling",
    "extenders",
    "healthzBindAddress",
    "metricsBindAddress",
    "parallelism",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
)
_FIELDS_READ = ("apiVersion", "kind", "clientConnection", "leaderElection", "profiles")


@dataclass(slots=True)
class ProfileArgs:
    """The args of one profile."""

    args: dict[str, Any] = field(default_factory=dict)
    path: FieldPath = ("profiles", 0, "pluginConfig", 0, "args")
    scheduler_name: str | None = None


@dataclass(slots=True)
class PluginSettings:
    """The settings of the file for rescheduler; absent blocks are empty."""

    profiles: list[ProfileArgs] = field(default_factory=list)
    """The profiles that have args for rescheduler."""
    client_connection: dict[str, Any] = field(default_factory=dict)
    leader_election: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    faults: list[ConfigFault] = field(default_factory=list)

    def ignore(self, path: FieldPath, why: str) -> None:
        self.notes.append(f"{path_text(path)} is ignored: {why}")


def find_plugin_settings(data: Any) -> PluginSettings:
    found = PluginSettings()
    if not isinstance(data, Mapping):
        value = FaultText("empty") if data is None else data
        found.faults.append(ConfigFault((), value, f"a {KIND} of {API_VERSION} is required"))
        return found
    _check_type(data, found)
    for name in data:
        if name in _SCHEDULER_FIELDS:
            found.ignore((name,), "it is a setting of the scheduler")
        elif name not in _FIELDS_READ:
            found.ignore((name,), f"it is unknown{did_you_mean(name, (*_FIELDS_READ, *_SCHEDULER_FIELDS))}")
    found.client_connection = _common_block(data, "clientConnection", ClientConnection, found)
    found.leader_election = _common_block(data, "leaderElection", LeaderElection, found)
    _ignore_scheduler_lease(found)
    _find_args(data, found)
    return found


def _check_type(data: Mapping[str, Any], found: PluginSettings) -> None:
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if data.get(name) != wanted:
            value = MISSING if data.get(name) is None else data[name]
            found.faults.append(ConfigFault((name,), value, wanted))


# --- blocks that every Kubernetes component has

_IGNORED_IN_BLOCKS = {
    ("clientConnection", "acceptContentTypes"): "it is chosen per kind of object",
    ("clientConnection", "contentType"): "it is chosen per kind of object",
}


def _common_block(data: Mapping[str, Any], name: str, block: type, found: PluginSettings) -> dict[str, Any]:
    """Return the block's settings. Zero, empty and null mean "not set", as in Go, because complete dumps have
    them."""
    given = _map_at(data, name, (), found)
    names = [setting.name for setting in settings(block)]
    kept: dict[str, Any] = {}
    for key, value in given.items():
        path: FieldPath = (name, key)
        if path in _IGNORED_IN_BLOCKS:
            found.ignore(path, _IGNORED_IN_BLOCKS[path])
        elif path == ("leaderElection", "resourceLock"):
            if value not in ("leases", "", None):
                found.faults.append(ConfigFault(path, value, "leases"))
        elif key not in names:
            found.ignore(path, f"it is unknown{did_you_mean(key, names)}")
        elif value is False or value not in (0, "", "0s", "0", None):
            kept[key] = value
    return kept


def _ignore_scheduler_lease(found: PluginSettings) -> None:
    """Refuse the scheduler's own Lease: a process that holds it would stop the scheduler."""
    election = found.leader_election
    in_its_namespace = election.get("resourceNamespace", "kube-system") == "kube-system"
    if election.get("resourceName") == "kube-scheduler" and in_its_namespace:
        found.ignore(
            ("leaderElection", "resourceName"),
            "kube-scheduler is the scheduler's Lease; the rescheduler uses its own",
        )
        for name in ("resourceName", "resourceNamespace"):
            election.pop(name, None)


# --- profiles


def _find_args(data: Mapping[str, Any], found: PluginSettings) -> None:
    for profile_path, profile in _maps_in(data, "profiles", (), found):
        scheduler = profile.get("schedulerName")
        name = scheduler if isinstance(scheduler, str) else None
        places: list[FieldPath] = []
        for path, entry in _maps_in(profile, "pluginConfig", profile_path, found):
            if not _is_ours(entry, path, found):
                continue
            places.append(path)
            if len(places) == 1:
                found.profiles.append(ProfileArgs(_args(entry, path, found), (*path, "args"), name))
            else:
                allowed = f"one {PLUGIN} in each profile; the other is {path_text(places[0])}"
                found.faults.append(ConfigFault((*path, "name"), PLUGIN, allowed))
        _note_rest_of_profile(profile, profile_path, found, is_ours=bool(places))
    if not found.profiles and not found.faults:
        found.notes.append(f"no pluginConfig named {PLUGIN}: all its args have their defaults")


def _is_ours(entry: Mapping[str, Any], path: FieldPath, found: PluginSettings) -> bool:
    name = entry.get("name")
    if name == PLUGIN:
        return True
    if not isinstance(name, str) or not name or name.lower() == PLUGIN.lower():
        # Never guess: overlooked args would silently have their defaults, dryRun among them.
        found.faults.append(
            ConfigFault(
                (*path, "name"), MISSING if name is None else name, f"the name of a plugin, such as {PLUGIN}"
            )
        )
    else:
        found.ignore(path, f"the plugin {quoted_value(name)} belongs to the scheduler")
    return False


def _args(entry: Mapping[str, Any], path: FieldPath, found: PluginSettings) -> dict[str, Any]:
    args = dict(_map_at(entry, "args", path, found))
    # The scheduler requires a type in plugin args; ours may have one.
    kind = args.pop("kind", None)
    args.pop("apiVersion", None)
    if kind not in (None, _ARGS_KIND):
        found.faults.append(ConfigFault((*path, "args", "kind"), kind, f"{_ARGS_KIND}, or unset"))
    for name in entry:
        if name not in ("name", "args"):
            found.ignore((*path, name), f"it is unknown{did_you_mean(name, ('args',))}")
    return args


def _note_rest_of_profile(
    profile: Mapping[str, Any], path: FieldPath, found: PluginSettings, *, is_ours: bool
) -> None:
    if not is_ours:
        found.ignore(
            path,
            f"the profile {quoted_value(profile.get('schedulerName', 'without a name'))} has no {PLUGIN}",
        )
        return
    for name, value in profile.items():
        if name not in ("schedulerName", "pluginConfig") and value is not None:
            found.ignore((*path, name), "it is a setting of the scheduler")


# --- shapes


def _map_at(
    around: Mapping[str, Any], name: str, path: FieldPath, found: PluginSettings
) -> Mapping[str, Any]:
    value = around.get(name)
    if isinstance(value, Mapping):
        return value
    if value is not None:
        found.faults.append(ConfigFault((*path, name), value, "a block of settings"))
    return {}


def _maps_in(
    around: Mapping[str, Any], name: str, path: FieldPath, found: PluginSettings
) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    entries = around.get(name)
    if entries is not None and not isinstance(entries, list):
        found.faults.append(ConfigFault((*path, name), entries, "a list"))
        return
    for index, entry in enumerate(entries or ()):
        place: FieldPath = (*path, name, index)
        if isinstance(entry, Mapping):
            yield place, entry
        else:
            found.faults.append(ConfigFault(place, entry, "a block of settings"))


_WIDTH = 100

Annotate = Callable[[Setting, Any], tuple[list[str], str]]
"""Returns the comments above a setting and the comment behind it, for the setting and its value."""


def render_effective(configuration: Configuration) -> str:
    """Return a file that has every setting with its value, and marks defaults."""

    def annotate(setting: Setting, value: Any) -> tuple[list[str], str]:
        return [], "  # default" if value == setting.default and not setting.required else ""

    return _file(configuration, annotate)


def render_defaults() -> str:
    """Return a file that has every setting with its default, its meaning and what is allowed."""

    def annotate(setting: Setting, _value: Any) -> tuple[list[str], str]:
        return [setting.meaning] if setting.schema.block else [
            setting.meaning,
            f"Allowed: {setting.schema.allowed}.",
        ], ""

    return _file(Configuration(), annotate)


def _file(configuration: Configuration, annotate: Annotate) -> str:
    lines = [
        f"apiVersion: {API_VERSION}",
        f"kind: {KIND}",
        "clientConnection:",
        *_block(ClientConnection, configuration.client_connection, 2, annotate),
        "leaderElection:",
        *_block(LeaderElection, configuration.leader_election, 2, annotate),
        "profiles:",
    ]
    for number, policy in enumerate(configuration.policy.every_profile):
        lines += ["  - pluginConfig:", f"      - name: {PLUGIN}", "        args:"]
        lines += _block(Policy, policy, 10, annotate, PROFILE_SETTINGS if number else None)
    return "\n".join(lines) + "\n"


def _block(
    block: type, values: Any, indent: int, annotate: Annotate, only: Collection[str] | None = None
) -> Iterator[str]:
    margin = " " * indent
    for setting in settings(block):
        if only is not None and setting.python_name not in only:
            continue
        value = getattr(values, setting.python_name)
        above, behind = annotate(setting, value)
        for comment in above:
            yield from textwrap.wrap(
                comment, _WIDTH, initial_indent=f"{margin}# ", subsequent_indent=f"{margin}# "
            )
        if setting.schema.block:
            yield f"{margin}{setting.name}:"
            yield from _block(setting.schema.block, value, indent + 2, annotate)
        else:
            yield f"{margin}{setting.name}: {inline_yaml(setting.schema.show(value))}{behind}"


_PLAIN = re.compile(r"[A-Za-z][-A-Za-z0-9_./]*|[0-9]+(?:h|m|s|ms)(?:[0-9]+(?:m|s|ms))*")
_RESERVED = re.compile(r"true|false|yes|no|on|off|null|y|n", re.IGNORECASE)


def inline_yaml(value: Any) -> str:
    """Return a value on one line, as YAML."""
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{inline_yaml(key)}: {inline_yaml(entry)}" for key, entry in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(inline_yaml, value)) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and not _RESERVED.fullmatch(value):
        return value
    # All other values are the same in YAML and JSON, except that characters beyond 16 bits are escaped.
    return "".join(c if c.isascii() else f"\\U{ord(c):08x}" for c in json.dumps(value, ensure_ascii=False))
