"""Several profiles in one file: each has its own selectors, strategies and limits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from kubevalues import can_overlap
from rescheduler.config.config_validation import EMPTIES, FILLS, ConfigFault, FieldPath, path_text
from rescheduler.config.policy import Policy

__all__ = [
    "PROFILE_SETTINGS",
    "ProfiledPolicy",
    "enable_in_all",
    "profile_conflicts",
    "profiled",
    "replace_settings",
]

PROFILE_SETTINGS = frozenset(
    {
        "balance_resources", "cost", "cpu_threshold", "enabled_strategies", "excluded_pod_selector",
        "imbalance_threshold", "include_bare_pods", "include_jobs", "include_local_storage", "make_room",
        "max_moves_per_hour", "max_priority", "max_reschedule_pods", "memory_threshold", "min_gain",
        "min_pod_age", "min_replicas_for_evict", "move_under_zero_budget", "namespace_selector",
        "node_selector", "placement_drift", "pod_life_time", "strategy_args", "strategy_node_selectors",
    }
)  # fmt: skip
"""Settings of one profile. All others hold for all profiles, and only the first profile may have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledPolicy(Policy):
    """The policy of the first of several profiles."""

    others: tuple[Policy, ...] = ()
    """The policies of the other profiles, in the order of the file; settings for all are as in the first."""

    def __post_init__(self) -> None:
        names = {each.name for each in fields(Policy)} - PROFILE_SETTINGS
        common: dict[str, Any] = {name: getattr(self, name) for name in names}
        object.__setattr__(self, "others", tuple(replace(each, **common) for each in self.others))

    @property
    def every_profile(self) -> tuple[Policy, ...]:
        return (self, *self.others)


def profiled(first: Policy, others: Sequence[Policy]) -> Policy:
    """Return the policy of these profiles."""
    if not others:
        return first
    own = {each.name: getattr(first, each.name) for each in fields(Policy)}
    return ProfiledPolicy(**own, others=tuple(others))


def replace_settings(policy: Policy, **changes: Any) -> Policy:
    """Return the policy with these settings in all of its profiles."""
    changed = replace(policy, **changes)
    if isinstance(changed, ProfiledPolicy):
        return replace(changed, others=tuple(replace(each, **changes) for each in changed.others))
    return changed


def enable_in_all(policy: Policy, strategy: str) -> Policy:
    """Return the policy with this strategy in all of its profiles, before the others where it is new."""

    def enable(profile: Policy) -> Policy:
        names = profile.enabled_strategies
        return profile if strategy in names else replace(profile, enabled_strategies=(strategy, *names))

    first, *others = map(enable, policy.every_profile)
    return replace(first, others=tuple(others)) if isinstance(first, ProfiledPolicy) else first


def profile_conflicts(policy: Policy, paths: Sequence[FieldPath]) -> Iterator[ConfigFault]:
    """Report each pair of profiles that one pod could belong to, or that would undo each other's moves.

    `paths` are the paths of their args.
    """
    profiles = list(zip(policy.every_profile, paths, strict=True))
    for number, (later, path) in enumerate(profiles):
        for earlier, other in profiles[:number]:
            if not can_overlap(later.node_selector, earlier.node_selector):
                continue
            if can_overlap(later.namespace_selector, earlier.namespace_selector):
                value = {
                    "namespaceSelector": str(later.namespace_selector),
                    "nodeSelector": str(later.node_selector),
                }
                allowed = f"selectors that can't match the same namespace and node as {path_text(other)}"
                yield ConfigFault(path, value, allowed)
            elif name := _fills_what_other_empties(later, earlier):
                allowed = f"node selectors that can't match the same node as those of {path_text(other)}"
                why = f"because {FILLS} fills the nodes that {EMPTIES} empties"
                yield ConfigFault((*path, "enabledStrategies"), name, f"{allowed}, {why}")


def _fills_what_other_empties(one: Policy, other: Policy) -> str:
    """Return the strategy of the first policy that conflicts with one of the other; empty if none does."""
    for name, opposite in ((FILLS, EMPTIES), (EMPTIES, FILLS)):
        both_enabled = name in one.enabled_strategies and opposite in other.enabled_strategies
        if both_enabled and can_overlap(one.nodes_of(name), other.nodes_of(opposite)):
            return name
    return ""
