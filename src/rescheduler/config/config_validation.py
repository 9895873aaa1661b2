"""Faults of a configuration, contradictions between settings, and the names of known strategies."""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import entry_points
from typing import Any, Final

from kubevalues import can_match, can_overlap
from kubevalues.duration import short_duration
from rescheduler.api.podmigration import FAILED_PODS, Handover
from rescheduler.config.policy import LeaderElection, Policy, UsageSource
from rescheduler.config.policy_blocks import Prometheus, is_confidential, settings

__all__ = [
    "BUILT_IN_STRATEGIES",
    "FAILED_PODS",
    "MISSING",
    "STRATEGY_ENTRY_POINTS",
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
    "quoted_value",
]

FieldPath = tuple[str | int, ...]
"""Where in the file: `("profiles", 0, "pluginConfig")`."""

MISSING: Final = object()
"""The value of something that ought to be there."""

_MAX_VALUE_LENGTH = 80


class FaultText(str):
    """What is wrong, where no value could be shown: "given twice"."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ConfigFault:
    path: FieldPath
    value: object
    """As the file has it, or `FaultText` if there is no value to show."""
    allowed: str
    line: int | None = None
    """In the file, counted from 1."""

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
    """`profiles[0].pluginConfig[1].args`; keys that are no plain names stand in quotes."""
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
    """On one line, not too long, and never a control character."""
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
    """Return the text with the code of each character that a terminal would act upon or can't encode."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _first(entries: Iterable[Any]) -> Iterable[Any]:
    # More than would be shown anyway; a large file must not make a large message.
    return (entry for entry, _ in zip(entries, range(_MAX_VALUE_LENGTH), strict=False))


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing if no name is near."""
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(wrong.lower()[:100], by_lower, n=1, cutoff=0.7)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""


def contradictions(policy: Policy, doubtful: Set[str]) -> Iterator[ConfigFault]:
    """Paths are relative to the args. Settings with a fault are not checked again."""
    checks = {
        ("migrationTTL", "podCooldown"): _ttl_below_cooldown,
        ("enabledStrategies", "strategyNodeSelectors"): _conflicting_strategies,
        ("strategyNodeSelectors",): _unmatchable_selectors,
        ("usageSource", "prometheus"): _missing_prometheus_url,
        ("prometheus",): _unencrypted_token,
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


_FILLS, _EMPTIES = "LoadBalancing", "CostOptimization"


def _conflicting_strategies(policy: Policy) -> Iterator[ConfigFault]:
    """One strategy fills the nodes that the other drains: pods would move back and forth endlessly."""
    if not {_FILLS, _EMPTIES} <= set(policy.enabled_strategies):
        return
    if can_overlap(policy.nodes_of(_FILLS), policy.nodes_of(_EMPTIES)):
        allowed = f"node selectors for {_FILLS} and {_EMPTIES} that can't match the same node"
        value = {name: str(nodes) for name, nodes in policy.strategy_node_selectors.items()}
        yield ConfigFault(("strategyNodeSelectors",), value, f"{allowed}, such as pool=a and pool=b")


def _unmatchable_selectors(policy: Policy) -> Iterator[ConfigFault]:
    for strategy, nodes in policy.strategy_node_selectors.items():
        if not can_match(nodes):
            yield ConfigFault(
                ("strategyNodeSelectors", strategy), str(nodes), "a selector that some node can match"
            )


_HANDOVERS = {
    "Pod": (Handover.AUTO, Handover.COPY),
    "StatefulSet": (Handover.AUTO, Handover.EVICT),
    "Job": (Handover.AUTO, Handover.EVICT),
    "DaemonSet": (),
}
_HANDOVERS_OF_OTHERS = (Handover.AUTO, Handover.ADOPT, Handover.EVICT)


def _invalid_handovers(policy: Policy) -> Iterator[ConfigFault]:
    """An evicted pod without a controller is gone; a copy beside a controller is one too many."""
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
    elif policy.prometheus != Prometheus():
        why = "the other settings of this block have no effect without it"
    else:
        return
    yield ConfigFault(("prometheus", "url"), MISSING, f"the address of Prometheus is required, because {why}")


def _unencrypted_token(policy: Policy) -> Iterator[ConfigFault]:
    url = policy.prometheus.url
    if url and policy.prometheus.bearer_token_file and not is_confidential(url):
        allowed = "an https address is required, because bearerTokenFile would be sent unencrypted"
        yield ConfigFault(("prometheus", "url"), url, allowed)


def leader_election_contradictions(election: LeaderElection, doubtful: Set[str]) -> Iterator[ConfigFault]:
    """Check the rules of client-go: otherwise there can be two leaders, or none for long."""
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
    """Lists that name something twice, or nothing at all; looked for in the file's own values."""
    for setting in settings(Policy):
        entries = args.get(setting.name)
        if not isinstance(entries, list):
            continue
        if not entries and setting.name in _NON_EMPTY_LISTS:
            yield ConfigFault((setting.name,), entries, "at least one entry")
        for index, entry in enumerate(entries):
            if isinstance(entry, str) and entry in entries[:index]:
                yield ConfigFault((setting.name, index), entry, "each entry only once")


STRATEGY_ENTRY_POINTS = "rescheduler.strategies"

BUILT_IN_STRATEGIES = frozenset(
    {"CostOptimization", "LoadBalancing", "NodeMaintenance", "ResourceOptimization", "TopologySpread"}
)
"""FAILED_PODS is not among them: it has a block of its own, and acts only where owners ask for it."""


def known_strategies() -> frozenset[str]:
    """Looks plugins up by name, without importing them."""
    return BUILT_IN_STRATEGIES | entry_points(group=STRATEGY_ENTRY_POINTS).names
