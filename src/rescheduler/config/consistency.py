"""What no single value can tell: settings that contradict each other, or are given twice."""

from collections.abc import Iterator, Mapping, Set
from datetime import timedelta
from typing import Any

from rescheduler.config.faults import MISSING, Fault, Words
from rescheduler.config.policy import LeaderElection, Policy, UsageSource
from rescheduler.config.prometheus import Prometheus
from rescheduler.config.shape import settings
from rescheduler.model.confidential_urls import is_confidential
from rescheduler.model.duration import short_duration
from rescheduler.model.plan import Handover
from rescheduler.model.selectors import can_match, can_overlap

__all__ = ["contradictions", "election_contradictions", "repetitions"]


def contradictions(policy: Policy, doubtful: Set[str]) -> Iterator[Fault]:
    """Paths are relative to the args. Settings that are doubtful (faulty already) are not judged again."""
    checks = {
        ("migrationTTL", "podCooldown"): _cooldown_outlives_its_memory,
        ("enabledStrategies", "strategyNodeSelectors"): _strategies_at_odds,
        ("strategyNodeSelectors",): _selectors_of_no_node,
        ("usageSource", "prometheus"): _prometheus_without_address,
        ("prometheus",): _token_in_clear_text,
        (): _handovers_that_lose_pods,
    }
    for names, check in checks.items():
        if doubtful.isdisjoint(names):
            yield from check(policy)


def _cooldown_outlives_its_memory(policy: Policy) -> Iterator[Fault]:
    if policy.migration_ttl < policy.pod_cooldown:
        cooldown = short_duration(policy.pod_cooldown)
        allowed = f"at least podCooldown ({cooldown}) is needed, because finished migrations are its memory"
        yield Fault(("migrationTTL",), _too_short(policy.migration_ttl), allowed)


_FILLS, _EMPTIES = "LoadBalancing", "CostOptimization"


def _strategies_at_odds(policy: Policy) -> Iterator[Fault]:
    """One fills the very nodes that the other empties: pods would go to and fro for ever."""
    if not {_FILLS, _EMPTIES} <= set(policy.enabled_strategies):
        return
    if can_overlap(policy.nodes_of(_FILLS), policy.nodes_of(_EMPTIES)):
        allowed = f"node selectors for {_FILLS} and {_EMPTIES} that can't match the same node"
        value = {name: str(nodes) for name, nodes in policy.strategy_node_selectors.items()}
        yield Fault(("strategyNodeSelectors",), value, f"{allowed}, such as pool=a and pool=b")


def _selectors_of_no_node(policy: Policy) -> Iterator[Fault]:
    for strategy, nodes in policy.strategy_node_selectors.items():
        if not can_match(nodes):
            yield Fault(
                ("strategyNodeSelectors", strategy), str(nodes), "a selector that some node can match"
            )


_HANDOVERS = {
    "Pod": (Handover.AUTO, Handover.COPY),
    "StatefulSet": (Handover.AUTO, Handover.EVICT),
    "Job": (Handover.AUTO, Handover.EVICT),
    "DaemonSet": (),
}
_HANDOVERS_OF_OTHERS = (Handover.AUTO, Handover.ADOPT, Handover.EVICT)


def _handovers_that_lose_pods(policy: Policy) -> Iterator[Fault]:
    """An evicted pod without a controller is gone; a copy beside a controller is one too many."""
    for kind, handover in policy.handovers.items():
        possible = _HANDOVERS.get(kind, _HANDOVERS_OF_OTHERS)
        if not possible:
            yield Fault(("handovers", kind), str(handover), f"nothing: pods of a {kind} belong to their node")
        elif handover not in possible:
            yield Fault(("handovers", kind), str(handover), f"one of {', '.join(possible)} for {kind}")


def _prometheus_without_address(policy: Policy) -> Iterator[Fault]:
    if policy.prometheus.url:
        return
    if policy.usage_source is UsageSource.PROMETHEUS:
        why = "usageSource is prometheus"
    elif policy.prometheus != Prometheus():
        why = "the other settings of this block have no effect without it"
    else:
        return
    yield Fault(("prometheus", "url"), MISSING, f"the address of Prometheus is needed, because {why}")


def _token_in_clear_text(policy: Policy) -> Iterator[Fault]:
    url = policy.prometheus.url
    if url and policy.prometheus.bearer_token_file and not is_confidential(url):
        allowed = "an https address is needed, because bearerTokenFile would be sent unencrypted"
        yield Fault(("prometheus", "url"), url, allowed)


def election_contradictions(election: LeaderElection, doubtful: Set[str]) -> Iterator[Fault]:
    """As client-go has it: otherwise two leaders at once, or none for long."""
    lease, renewal, retry = election.lease_duration, election.renew_deadline, election.retry_period
    if lease <= renewal and not doubtful & {"leaseDuration", "renewDeadline"}:
        allowed = f"more than renewDeadline ({short_duration(renewal)}) is needed"
        yield Fault(("leaseDuration",), _too_short(lease), allowed)
    if renewal <= retry * 1.2 and not doubtful & {"renewDeadline", "retryPeriod"}:
        allowed = f"more than 1.2 times retryPeriod ({short_duration(retry)}) is needed"
        yield Fault(("renewDeadline",), _too_short(renewal), allowed)


def _too_short(duration: timedelta) -> Words:
    return Words(f"{short_duration(duration)} is too short")


_NEVER_EMPTY = ("balanceResources", "knownSchedulers")


def repetitions(args: Mapping[str, Any]) -> Iterator[Fault]:
    """Lists that name something twice, or nothing at all; looked for in the file's own values."""
    for setting in settings(Policy):
        entries = args.get(setting.name)
        if not isinstance(entries, list):
            continue
        if not entries and setting.name in _NEVER_EMPTY:
            yield Fault((setting.name,), entries, "at least one entry")
        for index, entry in enumerate(entries):
            if isinstance(entry, str) and entry in entries[:index]:
                yield Fault((setting.name, index), entry, "each entry once")
