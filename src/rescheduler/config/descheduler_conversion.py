"""Convert a policy of the descheduler into a rescheduler configuration, and list what has no counterpart.

Where the policy protects pods in a way that we can't express, the result has `dryRun: true`, and a comment
says why: it must not move pods that the descheduler would have left alone.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Final, TypeVar

import yaml

from kubevalues import can_overlap, parse_selector
from rescheduler.config.config_document import UnreadableConfig, read_document
from rescheduler.config.config_loader import IncompleteBlock, load_content, read_block
from rescheduler.config.config_validation import (
    BUILT_IN_STRATEGIES,
    ConfigFault,
    ConfigurationError,
    FieldPath,
)
from rescheduler.config.descheduler_policy import (
    PLUGIN_ARGUMENTS,
    DeschedulerPlugin,
    DeschedulerPolicy,
    DeschedulerProfile,
    EvictionPlugin,
)
from rescheduler.config.descheduler_settings import EVICTOR_SETTINGS, HIGH_LEFT_OUT, DeschedulerSettings
from rescheduler.config.policy_blocks import setting_name
from rescheduler.config.profiles import PROFILE_SETTINGS

__all__ = ["convert_descheduler_policy"]

_HEADER: Final = (
    "Converted from a DeschedulerPolicy by `rescheduler config from-descheduler`.",
    "Check it with `rescheduler plan --config FILE` before you let it move pods.",
)
T = TypeVar("T")

_PROFILE_SETTINGS: Final = frozenset(map(setting_name, PROFILE_SETTINGS))


def convert_descheduler_policy(content: bytes, source: str) -> tuple[str, list[str]]:
    """Return the configuration file, and notes on what has no counterpart, which its comments have, too.

    Raise `ConfigurationError` with every fault of the policy.
    """
    policy, plugins = _read_policy(content, source)
    profiles, notes = _profiles(policy, plugins)
    file = _file(profiles, notes)
    # This refuses values that the policy allows and we don't, such as a node selector that can't match.
    load_content(file.encode(), BUILT_IN_STRATEGIES, source=f"{source}, converted")
    return file, notes


def _profiles(
    policy: DeschedulerPolicy, plugins: Sequence[DeschedulerPlugin]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the args of each profile, and the notes.

    Several profiles are kept if no namespace belongs to two; otherwise they are merged into one.
    """
    together = DeschedulerSettings(policy, plugins)
    if len(policy.profiles) < 2:
        return [_args(together)], together.notes
    each = [
        DeschedulerSettings(policy, [plugin for plugin in plugins if plugin.path[1] == place])
        for place in range(len(policy.profiles))
    ]
    selectors = [parse_selector(str(own.args.get("namespaceSelector", ""))) for own in each]
    if any(can_overlap(*pair) for pair in combinations(selectors, 2)):
        _merge(together, each)
        return [_args(together)], together.notes
    return _separate(together, each)


def _merge(together: DeschedulerSettings, each: Sequence[DeschedulerSettings]) -> None:
    """Note the settings that are lost if one profile replaces all: which pods each of them may move."""
    path = ("profiles",)
    together.note(path, "profiles that select the same namespaces become one, for all strategies")
    for name in EVICTOR_SETTINGS:
        values = [own.args.get(name) for own in each]
        if any(value != values[0] for value in values):
            del together.args[name]
            is_safe = name == "includeLocalStorage"  # without it, more pods are protected
            why = f"DefaultEvictor differs between profiles: {name} left out"
            together.note(path, why, protects=not is_safe)


def _separate(
    together: DeschedulerSettings, each: Sequence[DeschedulerSettings]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the args of each profile, the first with the settings for all of them, and the notes."""
    notes = [note for own in each for note in own.notes]
    left_out = {name for own in each for name in own.strategies} - set(together.strategies)
    notes += [HIGH_LEFT_OUT] if left_out else []
    profiles = []
    for own in each:
        strategies = [name for name in own.strategies if name not in left_out]
        args = {"enabledStrategies": strategies, **own.args}
        profiles.append({name: value for name, value in args.items() if name in _PROFILE_SETTINGS})
    common = {name: value for name, value in together.args.items() if name not in _PROFILE_SETTINGS}
    common.pop("dryRun", None)
    common |= {"dryRun": True} if any(own.args.get("dryRun") for own in each) else {}
    if "maxReschedulePods" in together.args:
        share = max(1, together.args["maxReschedulePods"] // len(each))
        profiles = [{**args, "maxReschedulePods": share} for args in profiles]
        notes.append("maxNoOfPodsToEvictTotal: each profile has a limit of its own, so they get equal shares")
    return [profiles[0] | common, *profiles[1:]], list(dict.fromkeys(notes))


def _args(settings: DeschedulerSettings) -> dict[str, Any]:
    return {"enabledStrategies": settings.strategies, **settings.args}


def _file(profiles: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> str:
    """Return the configuration file, with the notes as comments."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "Rescheduler", "args": dict(args)}]} for args in profiles],
    }
    lines = [*_HEADER, *(("", "Without a counterpart, or different:") if notes else ())]
    for note in notes:
        lines += textwrap.wrap(note, 100, initial_indent="- ", subsequent_indent="  ")
    head = "".join(f"# {line}".rstrip() + "\n" for line in lines)
    return head + yaml.safe_dump(document, sort_keys=False)


# -- reading

_PLUGIN_SETS: Final = ("deschedule", "balance", "filter", "preevictionfilter", "presort", "sort")


def _read_policy(content: bytes, source: str) -> tuple[DeschedulerPolicy, list[DeschedulerPlugin]]:
    """Return the policy and the arguments of all its plugins. Raise `ConfigurationError` with every fault."""
    try:
        document = read_document(content)
    except UnreadableConfig as unreadable:
        raise ConfigurationError(source, unreadable.faults) from None
    if not isinstance(document.data, dict):
        raise ConfigurationError(source, [ConfigFault((), document.data, "a map with a DeschedulerPolicy")])
    faults: list[ConfigFault] = []
    plugins: list[DeschedulerPlugin] = []
    policy = _read(DeschedulerPolicy, document.data, (), faults)
    if policy is not None and not faults:
        for place, profile in enumerate(policy.profiles):
            plugins += _plugins_of(profile, ("profiles", place), faults)
    if policy is None or faults:
        placed = [replace(fault, line=document.line(fault.path)) for fault in faults]
        raise ConfigurationError(source, sorted(placed, key=lambda fault: (fault.line or 0, str(fault))))
    return policy, plugins


def _plugins_of(
    profile: DeschedulerProfile, path: FieldPath, faults: list[ConfigFault]
) -> Iterator[DeschedulerPlugin]:
    enabled = {name for each in _PLUGIN_SETS for name in getattr(profile.plugins, each).enabled}
    enabled.add(EvictionPlugin.EVICTOR)
    for place, entry in enumerate(profile.plugin_config):
        at = (*path, "pluginConfig", place, "args")
        args = _read(PLUGIN_ARGUMENTS[entry.name], entry.args, at, faults)
        yield DeschedulerPlugin(entry.name, at, args, entry.name in enabled)
    for name in sorted(enabled - {entry.name for entry in profile.plugin_config}):
        at = (*path, "plugins", str(name))
        yield DeschedulerPlugin(name, at, _read(PLUGIN_ARGUMENTS[name], {}, at, faults), enabled=True)


def _read(block: type[T], data: Mapping[str, Any], path: FieldPath, faults: list[ConfigFault]) -> T | None:
    """Return the block, and add its faults to the others."""
    # The type of plugin arguments has no meaning; only that of the file is checked.
    given = data if not path else {key: data[key] for key in data if key not in ("apiVersion", "kind")}
    try:
        found, wrong = read_block(block, given, (), path)
    except IncompleteBlock as incomplete:
        faults += incomplete.faults
        return None
    faults += wrong
    return found
