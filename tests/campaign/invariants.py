"""What must hold after every change of the cluster, and at the end. Everything is read through the API.

The observer and most verdicts are those of the chaos rounds on a real control plane (`tests/e2e/chaos`): they
judge each removal by the state of the cluster at exactly its revision.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

from rescheduler.api.daemon_status import DaemonStatus
from rescheduler.config.policy import Policy
from tests.campaign.campaign_cluster import EXCLUDED_APP, EXCLUDED_NAMESPACE
from tests.campaign.extra_pods import extra_pods
from tests.e2e.chaos.api_observer import ApiObserver
from tests.e2e.chaos.audit_trail import AuditedRequest
from tests.e2e.chaos.leftover_verdicts import leftovers, unrecovered
from tests.e2e.chaos.object_versions import MigrationState, PodState
from tests.e2e.chaos.removal_verdicts import check_preemptions, check_removals, removals
from tests.e2e.chaos.request_verdicts import unrelated_writes

__all__ = ["at_every_revision", "at_the_end", "elapsed", "outcomes", "told_migrations", "unrest"]


def at_every_revision(
    seen: ApiObserver, requests: list[AuditedRequest], policy: Policy, leaders: int
) -> list[str]:
    found = removals(seen, requests)
    # Without temporary budgets, only the limit of each leader protects a workload that has no budget.
    unbudgeted = 1 if policy.temporary_budget else policy.max_concurrent_per_workload * leaders
    checked = check_removals(seen, found, unbudgeted=unbudgeted)
    unnamed = [each for each in checked if each.migration is None]
    return [
        *(f"fewer ready pods than promised: {each}" for each in checked if each.fault and not each.is_race),
        *(f"pod removed that no migration names: {each}" for each in unnamed if not each.fault),
        *(f"pod preempted: {each}" for each in check_preemptions(found)),
        *(f"unrelated write: {each}" for each in unrelated_writes(seen, requests)),
        *(f"excluded pod touched: {each}" for each in _excluded_writes(seen, requests)),
        *(f"too many copies: {each}" for each in _extra_copies(seen)),
        *(f"too many pods: {each}" for each in extra_pods(seen)),
    ]


def _excluded_writes(seen: ApiObserver, requests: Iterable[AuditedRequest]) -> Iterator[str]:
    """Writes of rescheduler to pods that the configuration excludes."""
    apps = {
        each.state.key: each.state.app
        for known in seen.pods.versions.values()
        for each in known
        if each.state
    }
    for each in requests:
        if not each.is_reschedulers or each.resource.partition("/")[0] != "pods":
            continue
        if each.namespace == EXCLUDED_NAMESPACE or apps.get(each.key) == EXCLUDED_APP:
            yield f"{each.received:%H:%M:%S} {each.verb} {each.resource} {each.key}"


def _extra_copies(seen: ApiObserver) -> Iterator[str]:
    """Return each revision at which a migration had two copies, or a copy that is not its own."""
    changes: list[tuple[int, str, PodState | None]] = [
        (version.revision, uid, version.state)
        for uid, known in seen.pods.versions.items()
        for version in known
        if any(each.state is not None and each.state.is_migrations for each in known)
    ]
    copies: defaultdict[str, set[str]] = defaultdict(set)
    """Of each migration, by its uid."""
    for revision, uid, state in sorted(changes, key=lambda change: change[0]):
        for others in copies.values():
            others.discard(uid)
        if state is None or state.is_leaving:
            continue
        for kind, owner in state.owners:
            if kind == "PodMigration":
                copies[owner].add(uid)
                if len(copies[owner]) > 1:
                    yield f"revision {revision}: {state.key} is copy number {len(copies[owner])} of {owner}"


# -- the end


def unrest(seen: ApiObserver) -> list[str]:
    """What is not finished, left behind, or not as many as wanted, now."""
    return [
        *(f"left over: {each}" for each in leftovers(seen)),
        *(f"not recovered: {each}" for each in unrecovered(seen)),
    ]


def at_the_end(seen: ApiObserver, status: DaemonStatus | None, policy: Policy) -> list[str]:
    """When the faults are over and time has passed."""
    return [*unrest(seen), *_of_the_plan(status, policy)]


def _of_the_plan(status: DaemonStatus | None, policy: Policy) -> Iterator[str]:
    if status is None or status.last_check is None:
        yield "no check: the daemon has written no status"
        return
    if status.halts:
        yield f"halted: {', '.join(halt.words for halt in status.halts)}"
    if status.last_check.moves:
        yield f"still planning: {status.last_check.moves} moves"
    if "LoadBalancing" in policy.enabled_strategies and not status.last_check.refused:
        for each in status.balance:
            if each.resource in policy.balance_resources and each.spread > policy.imbalance_threshold:
                yield f"spread of {each.resource} is {each.spread:.0f} points, and no reason is stated"


def outcomes(seen: ApiObserver) -> Counter[str]:
    """Return how migrations ended: by handover, phase and failure."""
    counted: Counter[str] = Counter()
    for known in seen.migrations.versions.values():
        last: MigrationState = next(each.state for each in reversed(known) if each.state is not None)
        counted[" ".join(filter(None, (last.handover, last.phase, last.failure)))] += 1
    return counted


def told_migrations(seen: ApiObserver, began: datetime) -> Iterator[str]:
    """Return a line for each step of each migration, with its time since the beginning."""
    for known in seen.migrations.versions.values():
        step, last = "", known[0].state
        for version in known:
            state = version.state
            told = (
                "gone" if state is None else " ".join(filter(None, (state.phase, state.step, state.failure)))
            )
            if told == step:
                continue
            step, last = told, state or last
            assert last is not None
            where = f"{last.key} ({last.pod}, {last.handover}, {last.strategy})"
            yield f"{elapsed(version.seen_at, began)}   {where}: {told}"


def elapsed(moment: datetime, began: datetime) -> str:
    """Return the time since the beginning, as `0:12:30.5`."""
    tenths = round((moment - began).total_seconds() * 10)
    minutes, tenths = divmod(tenths, 600)
    return f"{minutes // 60}:{minutes % 60:02}:{tenths / 10:04.1f}"
