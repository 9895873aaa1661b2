"""Load the configuration from a file, or report all faults in it.

This is the only module of the configuration that imports pydantic when it is loaded. pydantic walks blocks,
lists and maps; the messages are ours.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from rescheduler.api.podmigration import strategy_plugins
from rescheduler.config.config_document import (
    MAX_CONFIG_BYTES,
    ConfigDocument,
    UnreadableConfig,
    read_document,
)
from rescheduler.config.config_validation import (
    MISSING,
    ConfigFault,
    ConfigurationError,
    FaultText,
    FieldPath,
    contradictions,
    did_you_mean,
    duplicate_entries,
    leader_election_contradictions,
    plugin_argument_faults,
    quoted_value,
)
from rescheduler.config.policy import (
    ClientConnection,
    Configuration,
    LeaderElection,
    Policy,
)
from rescheduler.config.policy_blocks import schema_at, settings
from rescheduler.config.profiles import PROFILE_SETTINGS, profile_conflicts, profiled
from rescheduler.config.scheduler_file import PluginSettings, ProfileArgs, find_plugin_settings

__all__ = ["IncompleteBlock", "LoadedConfiguration", "load_content", "load_file", "read_block"]

T = TypeVar("T")

_PYDANTIC_KEY = "[key]"
"""The mark of pydantic for a fault in a key of a map, not in its value."""


@cache
def _adapter(block: type) -> TypeAdapter[Any]:
    return TypeAdapter(block)


class IncompleteBlock(Exception):  # noqa: N818 - it becomes a ConfigurationError with the file's name
    """A block lacks a required setting or contradicts itself, so it can't be returned."""

    def __init__(self, faults: list[ConfigFault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


def read_block(
    block: type[T], data: Mapping[str, Any], strategies: Collection[str], path: FieldPath
) -> tuple[T, list[ConfigFault]]:
    """Return the block with defaults in place of invalid values, and all faults; raise `IncompleteBlock`."""
    adapter: TypeAdapter[T] = _adapter(block)  # type: ignore[arg-type] # classes are hashable
    given = _without_nulls(data)
    faults: list[ConfigFault] = []
    while True:
        try:
            return adapter.validate_python(given, context=strategies), faults
        except ValidationError as error:
            details = error.errors(include_url=False)
        # The first round finds all faults; later ones only find blocks that pruning has made incomplete.
        faults = faults or [fault for detail in details for fault in _faults(block, detail, path)]
        removable = [_removable(detail) for detail in details]
        if () in removable:
            raise IncompleteBlock(faults)
        given = _pruned(given, removable)


def _removable(detail: ErrorDetails) -> FieldPath:
    place = detail["loc"]
    # A block that lacks a setting is removed as a whole, and so is an entry whose key is wrong.
    return place[:-1] if detail["type"] == "missing" or _is_about_a_key(detail) else place


def _is_about_a_key(detail: ErrorDetails) -> bool:
    return detail["type"] == "refused" and detail["loc"][-1] == _PYDANTIC_KEY


def _pruned(data: Any, places: Collection[FieldPath]) -> Any:
    """Return the data without the values at these paths."""
    heads = {place[0] for place in places if len(place) == 1}
    rest = {
        head: [place[1:] for place in places if place[0] == head] for head in {place[0] for place in places}
    }
    if isinstance(data, Mapping):
        return {k: _pruned(v, rest[k]) if k in rest else v for k, v in data.items() if k not in heads}
    return [_pruned(v, rest[i]) if i in rest else v for i, v in enumerate(data) if i not in heads]


def _without_nulls(data: Any) -> Any:
    """Remove settings that are null: they are not set, as in Go."""
    if isinstance(data, Mapping):
        return {key: _without_nulls(value) for key, value in data.items() if value is not None}
    if isinstance(data, list):
        return [_without_nulls(entry) for entry in data]
    return data


def _faults(block: type, detail: ErrorDetails, prefix: FieldPath) -> Iterator[ConfigFault]:
    place = detail["loc"]
    match detail["type"]:
        case "refused" if _is_about_a_key(detail):
            yield ConfigFault((*prefix, *place[:-1]), detail["input"], detail["ctx"]["allowed"])
        case "refused":
            yield ConfigFault((*prefix, *place), detail["input"], detail["ctx"]["allowed"])
        case "unexpected_keyword_argument":
            yield ConfigFault((*prefix, *place), detail["input"], _unknown(block, place))
        case "value_error":  # a block whose settings contradict each other
            yield ConfigFault((*prefix, *place), detail["input"], str(detail["ctx"]["error"]))
        case "missing":
            yield ConfigFault((*prefix, *place), MISSING, schema_at(block, place).allowed)
        case _:  # not a list, a map or a block where one belongs
            yield ConfigFault((*prefix, *place), detail["input"], schema_at(block, place).allowed)


_RETIRED_SETTINGS = {
    "enableSchedulingOptimization": "the original plugin's part in scheduling new pods; delete this line",
    "enablePreventiveRescheduling": "the original plugin's part in scheduling new pods; delete this line",
    "enableReschedulingController": "the original plugin's switch for its controller; see dryRun",
    "cpuScoreWeight": "the original plugin's scoring of new pods; delete this line",
    "memoryScoreWeight": "the original plugin's scoring of new pods; delete this line",
    "loadBalanceBonus": "the original plugin's scoring of new pods; delete this line",
}
"""Settings of later versions of the original plugin, which also scheduled new pods."""


def _unknown(block: type, place: FieldPath) -> str:
    *around, name = place
    known = schema_at(block, tuple(around)).block
    names = [setting.name for setting in settings(known)] if known else []
    if not around and name in _RETIRED_SETTINGS:
        return f"there is no such setting here ({_RETIRED_SETTINGS[str(name)]})"
    return f"there is no such setting{did_you_mean(str(name), names)}"


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedConfiguration:
    configuration: Configuration
    notes: tuple[str, ...] = ()
    """Messages about settings of the file that have no effect."""


def load_file(file: FilePath | None, strategies: Collection[str]) -> LoadedConfiguration:
    """Load a file, or the defaults without one; log notes. Raise `ConfigurationError` with every fault."""
    if file is None:
        return LoadedConfiguration(Configuration())
    loaded = load_content(_read_file(file), strategies, source=str(file))
    for note in loaded.notes:
        log.info("%s: %s", file, note)
    return loaded


def load_content(content: bytes, strategies: Collection[str], *, source: str) -> LoadedConfiguration:
    """Load the content of a file; messages call it `source`. Raise `ConfigurationError` with every fault."""
    try:
        document = read_document(content)
    except UnreadableConfig as unreadable:
        raise ConfigurationError(source, unreadable.faults) from None
    found = find_plugin_settings(document.data)
    configuration, faults = _configuration(found, strategies)
    if faults:
        raise ConfigurationError(source, _sorted_by_line(faults, document))
    return LoadedConfiguration(configuration, tuple(found.notes) + tuple(_notes(found, configuration.policy)))


def _configuration(
    found: PluginSettings, strategies: Collection[str]
) -> tuple[Configuration, list[ConfigFault]]:
    policy, policy_faults = _policy(found.profiles or [ProfileArgs()], strategies)
    connection, connection_faults = read_block(
        ClientConnection, found.client_connection, (), ("clientConnection",)
    )
    election, election_faults = read_block(LeaderElection, found.leader_election, (), ("leaderElection",))
    doubtful = _faulty_settings(election_faults, 1)
    election_faults += _with_path_prefix(
        ("leaderElection",), leader_election_contradictions(election, doubtful)
    )

    configuration = Configuration(policy=policy, client_connection=connection, leader_election=election)
    return configuration, [*found.faults, *connection_faults, *election_faults, *policy_faults]


def _policy(profiles: Sequence[ProfileArgs], strategies: Collection[str]) -> tuple[Policy, list[ConfigFault]]:
    first, faults = _read_profile(profiles[0], strategies)
    if len(profiles) == 1:
        return first, faults
    others: list[Policy] = []
    for profile in profiles[1:]:
        other, found = _read_profile(profile, strategies, first)
        others.append(other)
        faults += found
    policy = profiled(first, others)
    if not any(fault.path[-1] in _SELECTORS for fault in faults):
        faults += profile_conflicts(policy, [profile.path for profile in profiles])
    return policy, faults


_SELECTORS = ("namespaceSelector", "nodeSelector", "strategyNodeSelectors", "enabledStrategies")


def _read_profile(
    profile: ProfileArgs, strategies: Collection[str], first: Policy | None = None
) -> tuple[Policy, list[ConfigFault]]:
    """Return the policy of a profile; `first` is that of the first profile, unless this is the first."""
    policy, faults = read_block(Policy, profile.args, strategies, profile.path)
    doubtful = _faulty_settings(faults, len(profile.path))
    more = [*duplicate_entries(profile.args)]
    if first is None:
        more += contradictions(policy, doubtful)
    else:
        common = {each.name: each.python_name for each in settings(Policy)}
        common = {name: own for name, own in common.items() if own not in PROFILE_SETTINGS}
        policy = replace(policy, **{own: getattr(first, own) for own in common.values()})
        more += [fault for fault in contradictions(policy, doubtful) if fault.path[0] not in common]
        allowed = "set it in the first profile only, because it holds for all"
        more += [
            ConfigFault((name,), value, allowed) for name, value in profile.args.items() if name in common
        ]
    if policy.strategy_args:
        more += plugin_argument_faults(policy, strategy_plugins())
    return policy, [*faults, *_with_path_prefix(profile.path, iter(more))]


def _faulty_settings(faults: list[ConfigFault], depth: int) -> set[str]:
    """Return the settings whose value is unknown. A list with faulty entries is known without them."""
    return {
        str(f.path[depth])
        for f in faults
        if len(f.path) <= depth + 1 or not isinstance(f.path[depth + 1], int)
    }


def _with_path_prefix(path: FieldPath, faults: Iterator[ConfigFault]) -> list[ConfigFault]:
    return [replace(fault, path=(*path, *fault.path)) for fault in faults]


def _sorted_by_line(faults: list[ConfigFault], document: ConfigDocument) -> list[ConfigFault]:
    """Sort faults by their line in the file."""
    placed = [replace(fault, line=document.line(fault.path)) for fault in faults]
    return sorted(placed, key=lambda fault: (fault.line or 0, str(fault)))


def _notes(found: PluginSettings, policy: Policy) -> Iterator[str]:
    names = {profile.scheduler_name: None for profile in found.profiles if profile.scheduler_name is not None}
    for name in names:
        if name not in policy.known_schedulers:
            yield f"pods of scheduler {quoted_value(name)} are not moved: it is not in knownSchedulers"
    for profile in policy.every_profile:
        for strategy in profile.strategy_node_selectors:
            if strategy not in profile.enabled_strategies:
                yield f"strategyNodeSelectors: {strategy} is not in enabledStrategies"


def _read_file(file: FilePath) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_CONFIG_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(
            str(file), [ConfigFault((), FaultText(reason), "a readable file is required")]
        ) from None
