"""The state that changes while the program runs: policy, steering, halts and shutdown.

Each field has one writer. All other code reads `RuntimeStateHolder.current` at every use, or reads it once
where several decisions must agree, such as in a check.

policy       the daemon, when the configuration file changes
steering     `WebhookPresence`, after every probe
halts        `HaltMonitor`, at every evaluation
is_stopping  the daemon, on SIGTERM
node_deadlines  `NodeClaimWatch`, where Karpenter manages nodes
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from rescheduler.api.daemon_status import Halt, HaltReason
from rescheduler.api.podmigration import MANUAL, Migration, traits_of
from rescheduler.cluster.sources.live_source import NO_WEBHOOK_REGISTERED
from rescheduler.config.policy import Policy

__all__ = ["RuntimeState", "RuntimeStateHolder", "SteeringStatus"]

_NO_PLAN_REASONS: Final = frozenset({HaltReason.API_FAILING, HaltReason.CACHES_STALE})


@dataclass(frozen=True, slots=True)
class SteeringStatus:
    """The result of the last probe of the webhook."""

    steers: bool = False
    """Whether the webhook sends replacements of evicted pods to their target."""
    guards: bool = False
    """Whether it keeps ReplicaSets from creating a pod while they adopt a copy."""
    problem: str = NO_WEBHOOK_REGISTERED
    """Why it does not steer or does not guard."""


@dataclass(frozen=True)
class RuntimeState:
    policy: Policy
    steering: SteeringStatus = SteeringStatus()
    halts: tuple[Halt, ...] = ()
    """Halts of the whole cluster and of single namespaces."""
    is_stopping: bool = False
    node_deadlines: Mapping[str, datetime] = field(default_factory=dict)
    """When Karpenter removes nodes, even if pods still run on them."""

    @cached_property
    def cluster_halts(self) -> tuple[Halt, ...]:
        return tuple(halt for halt in self.halts if not halt.namespace)

    @cached_property
    def halted_namespaces(self) -> frozenset[str]:
        return frozenset(halt.namespace for halt in self.halts if halt.namespace)

    @cached_property
    def halt_keys(self) -> frozenset[tuple[HaltReason, str]]:
        """Return what identifies the halts, without messages that change every second."""
        return frozenset((halt.reason, halt.namespace) for halt in self.halts)

    @property
    def steers(self) -> bool:
        """Return whether the webhook or the scheduler extender sends replacements to their target."""
        return self.steering.steers or self.policy.scheduler_extender

    @property
    def guards(self) -> bool:
        return self.steering.guards

    @property
    def is_winding_down(self) -> bool:
        """Return whether queued migrations are cancelled, because a dry run executes none."""
        return self.policy.dry_run

    @property
    def may_act(self) -> bool:
        """Return whether anything may start in the cluster as a whole."""
        return not (self.is_stopping or self.policy.dry_run or self.cluster_halts)

    @property
    def no_plan_reason(self) -> Halt | None:
        """Return the halt that forbids even planning, because the data for a plan is out of date."""
        return next((halt for halt in self.cluster_halts if halt.reason in _NO_PLAN_REASONS), None)

    def may_start(self, migration: Migration, now: datetime) -> bool:
        """Return whether a queued migration may start; depends only on its namespace and strategy."""
        if self.is_stopping or self.policy.dry_run:
            return False
        traits = traits_of(migration.spec.strategy)
        if not traits.ignores_windows and not self.policy.in_window(now):
            return False
        if traits.on_eviction or traits.evacuates:
            return not any(
                halt.reason.stops_safe_evictions and halt.namespace in {"", migration.namespace}
                for halt in self.halts
            )
        if migration.spec.strategy == MANUAL:
            return not any(halt.reason.blocks_manual_moves for halt in self.cluster_halts)
        return not self.cluster_halts and migration.namespace not in self.halted_namespaces


StateChangeHandler = Callable[[RuntimeState, RuntimeState], None]
"""Called with the state before and after a change."""


class RuntimeStateHolder:
    def __init__(self, state: RuntimeState) -> None:
        self._current = state
        self._handlers: list[StateChangeHandler] = []

    @property
    def current(self) -> RuntimeState:
        return self._current

    def update(self, **changes: Any) -> None:
        """Replace fields of the state, then call the subscribers if that changed anything."""
        before = self._current
        if all(getattr(before, name) == value for name, value in changes.items()):
            return
        self._current = after = replace(before, **changes)
        for handler in tuple(self._handlers):
            handler(before, after)

    def subscribe(self, handler: StateChangeHandler) -> Callable[[], None]:
        """Call `handler` after every change; return the function that ends the subscription."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)
