"""A plan of the cluster that a command looks at, with what its options say in place of the configuration."""

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from rescheduler.cli.looking import USAGE_ERROR, Looking, give_up

if TYPE_CHECKING:
    from rescheduler.config.policy import Configuration, Policy
    from rescheduler.model.plan import Plan

__all__ = ["overridden", "planned"]

_NEEDED_LATER = (
    "rescheduler.planner.planning",
    "rescheduler.strategies.registry",
    "rescheduler.strategies.load_balancing",
    "rescheduler.strategies.resource_optimization",
    "rescheduler.cli.plan_view",
)


def overridden(
    configuration: "Configuration", strategies: tuple[str, ...], max_moves: int | None
) -> "Configuration":
    """With what the command line says in place of the file."""
    policy = configuration.policy
    if max_moves is not None:
        policy = replace(policy, max_reschedule_pods=max_moves)
    if strategies:
        policy = replace(policy, enabled_strategies=tuple(dict.fromkeys(strategies)))
        _must_make_sense(policy)
    return replace(configuration, policy=policy)


def _must_make_sense(policy: "Policy") -> None:
    from rescheduler.config.consistency import contradictions  # noqa: PLC0415
    from rescheduler.config.faults import did_you_mean  # noqa: PLC0415
    from rescheduler.config.strategies import known_strategies  # noqa: PLC0415

    known = known_strategies()
    for name in policy.enabled_strategies:
        if name not in known:
            there_are = ", ".join(sorted(known))
            raise click.UsageError(f"no strategy is called {name}{did_you_mean(name, known)} ({there_are})")
    if faults := list(contradictions(policy, set())):
        raise click.UsageError("; ".join(map(str, faults)))


def planned(looking: Looking, configuration: "Configuration") -> "Plan":
    """Ends the program if there is no plan."""
    snapshot, webhook = looking.seen(configuration, meanwhile=_NEEDED_LATER)
    from rescheduler.planner.planning import plan  # noqa: PLC0415
    from rescheduler.strategies.registry import (  # noqa: PLC0415
        BrokenStrategy,
        DuplicateStrategy,
        UnknownStrategy,
        strategies_of,
    )

    try:
        strategies = strategies_of(configuration.policy)
    except (BrokenStrategy, DuplicateStrategy, UnknownStrategy) as error:
        give_up(str(error), USAGE_ERROR)
    steered, guarded = webhook.steers, bool(webhook.guards)
    return plan(snapshot, configuration.policy, strategies, steered=steered, guarded=guarded)
