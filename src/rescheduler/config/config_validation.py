"""Find contradictions between settings, format faults of a configuration, and list the known strategies."""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from importlib.metadata import EntryPoint
from typing import Any, Final

from kubevalues import can_match, can_overlap
from kubevalues.duration import short_duration
from rescheduler.api.podmigration import FAILED_PODS, Handover, strategy_plugins
from rescheduler.config.metric_settings import Prometheus, balanced_resource, is_metric_name
from rescheduler.config.notification_settings import sink_faults
from rescheduler.config.policy import LeaderElection, Policy, UsageSource
from rescheduler.config.policy_blocks import is_confidential, settings

__all__ = [
    "BUILT_IN_STRATEGIES",
    "EMPTIES",
    "FAILED_PODS",
    "FILLS",
    "MISSING",
    "ConfigFault",
    "ConfigurationError",
    "FaultText",
    "FieldPath",
    "contradictions",
    "did_you_mean",
    "duplicate_entries",
    "escape_unprintable",
    "known_strategies",
    "leader_election_contradictions",
    "path_text",
    "plugin_argument_faults",
    "plugin_arguments_of",
    "quoted_value",
]

FieldPath = tuple[str | int, ...]
"""A place in the file: `("profiles", 0, "pluginConfig")`."""

MISSING: Final = object()
"""The value of a required setting that is missing."""

_MAX_VALUE_LENGTH = 80


class FaultText(str):
    """A fault that is not about a single value, such as "given twice"."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ConfigFault:
    path: FieldPath
    value: object
    """The value as the file has it, or `FaultText` if there is no value to show."""
    allowed: str
    line: int | None = None
    """The line in the file, counted from 1."""

    def __str__(self) -> str:
        if isinstance(self.value, FaultText):
            problem = escape_unprintable(self.value)
        elif self.value is MISSING:
            problem = "missing"
        else:
            problem = f"{quoted_value(self.value)} is not allowed"
        return f"{path_text(self.path)}: {problem}: {self.allowed}"


class ConfigurationError(Exception):
    """The configuration can't be used; every fault that was found is in `faults`."""

    def __init__(self, source: str, faults: Iterable[ConfigFault]) -> None:
        self.source = source
        self.faults = tuple(faults)
        super().__init__(self._report())

    def _report(self) -> str:
        count = len(self.faults)
        head = f"{escape_unprintable(self.source)}: {count} {'error' if count == 1 else 'errors'}"
        lines = [f"  {_line_prefix(fault.line)}{fault}" for fault in self.faults]
        return "\n".join([head, *lines])


def _line_prefix(line: int | None) -> str:
    return "" if line is None else f"line {line}: "


def path_text(path: FieldPath) -> str:
    """Return the path as text, `profiles[0].pluginConfig[1].args`; keys that are not plain names
    are quoted."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.replace("-", "").replace("_", "").isalnum() and step.isascii():
            text += f".{step}" if text else step
        else:
            text += f"[{quoted_value(step)}]"
    return text or "the file"


def quoted_value(value: Any) -> str:
    """Return the value on one line, not too long, and without control characters."""
    if isinstance(value, Mapping):
        text = (
            "{"
            + ", ".join(f"{quoted_value(key)}: {quoted_value(entry)}" for key, entry in _first(value.items()))
            + "}"
        )
    elif isinstance(value, Sequence) and not isinstance(value, str):
        text = "[" + ", ".join(quoted_value(entry) for entry in _first(value)) + "]"
    elif isinstance(value, str):
        text = json.dumps(value[:_MAX_VALUE_LENGTH], ensure_ascii=False)
        text = text if len(value) <= _MAX_VALUE_LENGTH else text[:-1]
    elif isinstance(value, bool) or value is None:
        text = json.dumps(value)
    elif isinstance(value, int) and value.bit_length() > 256:
        text = f"a number of more than {int(value.bit_length() * 0.3)} digits"
    else:
        text = str(value)
    text = escape_unprintable(text)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 1]}…"


def escape_unprintable(text: str) -> str:
    """Return the text with codes in place of characters that a terminal would interpret or can't encode."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _first(entries: Iterable[Any]) -> Iterable[Any]:
    # These are more than a message shows; a large file must not make a large message.
    return (entry for entry, _ in zip(entries, range(_MAX_VALUE_LENGTH), strict=False))


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """Return `; did you mean X?`, or an empty string if no name is similar."""
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(wrong.lower()[:100], by_lower, n=1, cutoff=0.7)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""


def contradictions(policy: Policy, doubtful: Set[str]) -> Iterator[ConfigFault]:
    """Yield contradictions between settings, with paths relative to the args. Faulty settings are left
    out."""
    checks = {
        ("migrationTTL", "podCooldown"): _ttl_below_cooldown,
        ("migrationTTL", "maxMovesPerHour"): _ttl_below_an_hour,
        ("enabledStrategies", "strategyNodeSelectors"): _conflicting_strategies,
        ("strategyNodeSelectors",): _unmatchable_selectors,
        ("namespaceSelector",): _unmatchable_namespaces,
        ("nodeSelector",): _unmatchable_nodes,
        ("usageSource", "prometheus", "customMetrics"): _missing_prometheus_url,
        ("prometheus",): _unencrypted_token,
        ("balanceResources", "customMetrics"): _unknown_metrics,
        ("customMetrics",): _repeated_metrics,
        ("notifications",): _invalid_sinks,
        (): _invalid_handovers,
    }
    for names, check in checks.items():
        if doubtful.isdisjoint(names):
            yield from check(policy)


def _ttl_below_cooldown(policy: Policy) -> Iterator[ConfigFault]:
    if policy.migration_ttl < policy.pod_cooldown:
        cooldown = short_duration(policy.pod_cooldown)
        allowed = f"at least podCooldown ({cooldown}) is required, because it depends on finished migrations"
        yield ConfigFault(("migrationTTL",), _too_short(policy.migration_ttl), allowed)


def _ttl_below_an_hour(policy: Policy) -> Iterator[ConfigFault]:
    if policy.max_moves_per_hour.is_set and policy.migration_ttl < timedelta(hours=1):
        # The path is that of the limit: migrationTTL holds for all profiles, but each may have a limit.
        why = FaultText(f"migrationTTL ({short_duration(policy.migration_ttl)}) is too short")
        allowed = "at least 1h is required, because limits per hour depend on finished migrations"
        yield ConfigFault(("maxMovesPerHour",), why, allowed)


FILLS, EMPTIES = "LoadBalancing", "CostOptimization"


def _conflicting_strategies(policy: Policy) -> Iterator[ConfigFault]:
    """Report strategies of which one fills the nodes that the other drains: pods would move back and
    forth."""
    if not {FILLS, EMPTIES} <= set(policy.enabled_strategies):
        return
    if can_overlap(policy.nodes_of(FILLS), policy.nodes_of(EMPTIES)):
        allowed = f"node selectors for {FILLS} and {EMPTIES} that can't match the same node"
        value = {name: str(nodes) for name, nodes in policy.strategy_node_selectors.items()}
        yield ConfigFault(("strategyNodeSelectors",), value, f"{allowed}, such as pool=a and pool=b")


def _unmatchable_selectors(policy: Policy) -> Iterator[ConfigFault]:
    for strategy, nodes in policy.strategy_node_selectors.items():
        if not can_match(nodes):
            yield ConfigFault(
                ("strategyNodeSelectors", strategy), str(nodes), "a selector that some node can match"
            )


def _unmatchable_namespaces(policy: Policy) -> Iterator[ConfigFault]:
    if not can_match(policy.namespace_selector):
        allowed = "a selector that some namespace can match"
        yield ConfigFault(("namespaceSelector",), str(policy.namespace_selector), allowed)


def _unmatchable_nodes(policy: Policy) -> Iterator[ConfigFault]:
    if not can_match(policy.node_selector):
        yield ConfigFault(("nodeSelector",), str(policy.node_selector), "a selector that some node can match")


_HANDOVERS = {
    "Pod": (Handover.AUTO, Handover.COPY),
    "StatefulSet": (Handover.AUTO, Handover.EVICT),
    "Job": (Handover.AUTO, Handover.EVICT),
    "DaemonSet": (),
}
_HANDOVERS_OF_OTHERS = (Handover.AUTO, Handover.ADOPT, Handover.EVICT)


def _invalid_handovers(policy: Policy) -> Iterator[ConfigFault]:
    """Yield handovers that lose a pod (Evict without a controller) or leave one too many (Copy beside
    one)."""
    for kind, handover in policy.handovers.items():
        possible = _HANDOVERS.get(kind, _HANDOVERS_OF_OTHERS)
        if not possible:
            yield ConfigFault(
                ("handovers", kind),
                str(handover),
                f"no handover, because pods of a {kind} belong to their node",
            )
        elif handover not in possible:
            yield ConfigFault(("handovers", kind), str(handover), f"one of {', '.join(possible)} for {kind}")


def _missing_prometheus_url(policy: Policy) -> Iterator[ConfigFault]:
    if policy.prometheus.url:
        return
    if policy.usage_source is UsageSource.PROMETHEUS:
        why = "usageSource is prometheus"
    elif policy.custom_metrics:
        why = "customMetrics are read from there"
    elif policy.prometheus != Prometheus():
        why = "the other settings of this block have no effect without it"
    else:
        return
    yield ConfigFault(("prometheus", "url"), MISSING, f"the address of Prometheus is required, because {why}")


def _unknown_metrics(policy: Policy) -> Iterator[ConfigFault]:
    known = {each.name for each in policy.custom_metrics}
    for place, name in enumerate(policy.balance_resources):
        if is_metric_name(name) and name not in known:
            yield ConfigFault(("balanceResources", place), name, balanced_resource().allowed)


def _repeated_metrics(policy: Policy) -> Iterator[ConfigFault]:
    names = [each.name for each in policy.custom_metrics]
    for place, name in enumerate(names):
        if name in names[:place]:
            yield ConfigFault(("customMetrics", place, "name"), name, "each name only once")


def _unencrypted_token(policy: Policy) -> Iterator[ConfigFault]:
    url = policy.prometheus.url
    if url and policy.prometheus.bearer_token_file and not is_confidential(url):
        allowed = "an https address is required, because bearerTokenFile would be sent unencrypted"
        yield ConfigFault(("prometheus", "url"), url, allowed)


def _invalid_sinks(policy: Policy) -> Iterator[ConfigFault]:
    for place, name, allowed in sink_faults(policy.notifications):
        yield ConfigFault(("notifications", place, "name"), name, allowed)


def leader_election_contradictions(election: LeaderElection, doubtful: Set[str]) -> Iterator[ConfigFault]:
    """Check the rules of client-go; without them there can be two leaders, or none for a long time."""
    lease, renewal, retry = election.lease_duration, election.renew_deadline, election.retry_period
    if lease <= renewal and not doubtful & {"leaseDuration", "renewDeadline"}:
        allowed = f"more than renewDeadline ({short_duration(renewal)}) is required"
        yield ConfigFault(("leaseDuration",), _too_short(lease), allowed)
    if renewal <= retry * 1.2 and not doubtful & {"renewDeadline", "retryPeriod"}:
        allowed = f"more than 1.2 times retryPeriod ({short_duration(retry)}) is required"
        yield ConfigFault(("renewDeadline",), _too_short(renewal), allowed)


def _too_short(duration: timedelta) -> FaultText:
    return FaultText(f"{short_duration(duration)} is too short")


_NON_EMPTY_LISTS = ("balanceResources", "knownSchedulers")


def duplicate_entries(args: Mapping[str, Any]) -> Iterator[ConfigFault]:
    """Report lists that contain an entry twice or an empty entry, in the values of the file."""
    for setting in settings(Policy):
        entries = args.get(setting.name)
        if not isinstance(entries, list):
            continue
        if not entries and setting.name in _NON_EMPTY_LISTS:
            yield ConfigFault((setting.name,), entries, "at least one entry")
        for index, entry in enumerate(entries):
            if isinstance(entry, str) and entry in entries[:index]:
                yield ConfigFault((setting.name, index), entry, "each entry only once")


BUILT_IN_STRATEGIES = frozenset(
    {
        "CostOptimization",
        "LoadBalancing",
        "MakeRoom",
        "NodeMaintenance",
        "PlacementDrift",
        "PodLifeTime",
        "ResourceOptimization",
        "TopologySpread",
    }
)
"""FAILED_PODS is not one of them: it has its own block, and acts only where owners request it."""


def plugin_arguments_of(strategy: type, given: Mapping[str, Any]) -> Any:
    """Return the arguments as the plugin's own model `Args` reads them: a dataclass or a pydantic model.

    Raises `pydantic.ValidationError`, and `TypeError` for arguments that the dataclass doesn't have.
    """
    import msgspec  # noqa: PLC0415 - only for plugins with arguments
    from pydantic import TypeAdapter  # noqa: PLC0415

    model: Any = strategy.Args  # type: ignore[attr-defined]
    if is_dataclass(model) and (unknown := sorted(given.keys() - {each.name for each in fields(model)})):
        # pydantic would ignore them.
        raise TypeError(f"there is no argument {', '.join(unknown)}")
    # As JSON, because a string must not become a number, but a map must become a dataclass.
    return TypeAdapter(model).validate_json(msgspec.json.encode(dict(given)), strict=True)


def plugin_argument_faults(policy: Policy, plugins: Iterable[EntryPoint]) -> Iterator[ConfigFault]:
    """Yield the faults that plugins find in `strategyArgs`; the plan reports plugins that can't be loaded."""
    from pydantic import ValidationError  # noqa: PLC0415

    by_name = {plugin.name: plugin for plugin in plugins}
    for name, given in policy.strategy_args.items():
        path = ("strategyArgs", name)
        if name not in by_name:
            yield ConfigFault(path, dict(given), f"{name} is built in and has no arguments of its own")
            continue
        try:
            strategy = by_name[name].load()
        except (Exception, SystemExit):  # noqa: BLE001, S112 - any fault of the plugin, which the plan reports
            continue
        if not hasattr(strategy, "Args"):
            yield ConfigFault(path, dict(given), f"the strategy {name} takes no arguments")
            continue
        try:
            plugin_arguments_of(strategy, given)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                yield ConfigFault((*path, *detail["loc"]), detail["input"], detail["msg"])
        except TypeError as error:
            yield ConfigFault(path, dict(given), str(error))


def known_strategies() -> frozenset[str]:
    """Return the names of all strategies; plugins are looked up by name, without importing them."""
    return BUILT_IN_STRATEGIES | strategy_plugins().names
