"""Decide from facts when no new move may start, and why.

Each halt says when it ends. Running migrations finish in spite of it, because half-moved pods would be worse.

Failed migrations halt the whole cluster only if several namespaces have them: the failures of the namespace
with the most count at most as often as those of all others together. Otherwise only that namespace is halted,
so that no tenant can stop the moves of others by making its own fail.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from rescheduler.api.daemon_status import Halt, HaltReason, Pause
from rescheduler.api.podmigration import (
    CANCELLED,
    COPY_FAILING,
    ConditionType,
    Migration,
    MigrationPhase,
    traits_of,
)
from rescheduler.config.policy import HaltWhen
from rescheduler.kube.api_resources import ApiCall
from rescheduler.migrations.effects import FAILURE_OF_REFUSED_EFFECT
from rescheduler.migrations.interruptions import DEADLINE_EXCEEDED
from rescheduler.migrations.make_before_break import FAILS_LIKE_SOURCE

__all__ = [
    "FAILURE_WINDOW",
    "ApiResponseWindow",
    "ApiResponses",
    "HaltFacts",
    "StaleCache",
    "current_halts",
    "with_original_start",
]

FAILURE_WINDOW: Final = timedelta(minutes=15)
"""How long failures count. No move starts during a halt, so it ends when the failures are older. If the cause
remains, the next halt follows after a few moves."""
_MIN_FAILURES: Final = 3
"""One or two failures are normal."""
_MIN_API_ERRORS: Final = 5
_MAX_ERROR_SHARE: Final = 0.5
_NO_PAUSE: Final = Pause()
_Holds = Callable[[Sequence[Migration], float], bool]
_IGNORED_FAILURES: Final = frozenset(
    {CANCELLED, "CopyRefused", DEADLINE_EXCEEDED, "ScaledDown", "SourceGone", "WorkloadGone"}
).union(FAILURE_OF_REFUSED_EFFECT.values())
"""Failures that don't mean that moves fail in general: another client caused them. A refusal at
admission (quota, LimitRange, PodSecurity, webhooks) is a rule that a pod's owner or the operator has set."""


@dataclass(frozen=True, slots=True)
class ApiResponses:
    """A summary of the API server's recent responses."""

    requests: int = 0
    failed: int = 0
    """How many requests got no response, or a response with status 5xx."""
    last: str = ""
    """The last request that failed, as a message."""


@dataclass(frozen=True, slots=True)
class StaleCache:
    kind: str
    seconds: float
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltFacts:
    now: datetime
    pause: Pause = _NO_PAUSE
    migrations: Sequence[Migration] = ()
    """Migrations that have finished."""
    nodes: int = 0
    not_ready: Sequence[str] = ()
    responses: ApiResponses = ApiResponses()
    stale: Sequence[StaleCache] = ()


def current_halts(facts: HaltFacts, limits: HaltWhen) -> tuple[Halt, ...]:
    """Return all halts that apply now, as if they had started now."""
    return (
        *_paused(facts),
        *_failures(facts, limits.failure_ratio),
        *_not_ready(facts, limits.not_ready_share),
        *_api_failing(facts),
        *_stale(facts),
    )


def with_original_start(before: Iterable[Halt], now: Iterable[Halt]) -> tuple[Halt, ...]:
    """Return the current halts; one that held before keeps its start time."""
    since = {(halt.reason, halt.namespace): halt.since for halt in before}
    return tuple(
        msgspec.structs.replace(halt, since=since.get((halt.reason, halt.namespace), halt.since))
        for halt in now
    )


def _paused(facts: HaltFacts) -> Iterator[Halt]:
    pause = facts.pause
    if pause.paused:
        by = f" by {pause.by}" if pause.by else ""
        why = f": {pause.why}" if pause.why else ""
        since = pause.at or facts.now
        yield Halt(HaltReason.PAUSED, since, f"paused{by}{why}", "when you run `rescheduler resume`")


def _failures(facts: HaltFacts, ratio: float) -> Iterator[Halt]:
    after = facts.now - FAILURE_WINDOW
    if facts.pause.at is not None and not facts.pause.paused:
        after = max(after, facts.pause.at)  # a user who resumes has seen the earlier failures
    finished = _once_per_workload(each for each in facts.migrations if _counts(each, after))
    if _are_widespread(finished, ratio):
        yield _failure_halt(facts.now, finished, ratio, _are_widespread)
        return
    for namespace in sorted({each.namespace for each in finished}):
        own = [each for each in finished if each.namespace == namespace]
        if _are_too_many(own, ratio):
            halt = _failure_halt(facts.now, own, ratio, _are_too_many)
            words = f"only namespace {namespace} is halted: {halt.words}"
            yield msgspec.structs.replace(
                halt, reason=HaltReason.NAMESPACE_FAILING, words=words, namespace=namespace
            )


def _are_too_many(finished: Sequence[Migration], ratio: float) -> bool:
    failed = sum(map(_has_failed, finished))
    return failed >= _MIN_FAILURES and failed / len(finished) > ratio


def _are_widespread(finished: Sequence[Migration], ratio: float) -> bool:
    """Return whether too many moves failed in several namespaces. Failures of the namespace with the most
    failures count at most as often as those of all others together."""
    failures = Counter(each.namespace for each in finished if _has_failed(each))
    most = max(failures.values(), default=0)
    ignored = max(0, most - (failures.total() - most))
    failed, counted = failures.total() - ignored, len(finished) - ignored
    return failed >= _MIN_FAILURES and failed / counted > ratio


def _has_failed(migration: Migration) -> bool:
    return migration.status.phase is MigrationPhase.FAILED


def _failure_halt(now: datetime, finished: Sequence[Migration], ratio: float, holds: _Holds) -> Halt:
    failed = sorted((each for each in finished if _has_failed(each)), key=lambda each: each.key)
    words = (
        f"{len(failed)} of the {len(finished)} migrations that finished within "
        f"{_minutes(FAILURE_WINDOW)} failed, "
        f"more than haltWhen.failureRatio {ratio:g} allows; for example {failed[-1].key}: "
        f"{failed[-1].status.message or failed[-1].status.failure}"
    )
    ends = _ends_at(finished, ratio, holds).astimezone(now.tzinfo)
    return Halt(
        HaltReason.FAILURE_RATIO,
        now,
        words,
        f"at {ends:%H:%M:%S} UTC, when the failures are older, or when you run `rescheduler resume`",
    )


def _counts(migration: Migration, after: datetime) -> bool:
    """Return whether a finished migration counts for the failure ratio: it started and was not cancelled.

    A pod that fails wherever it runs also fails when it is moved; that is no reason not to move others.
    """
    status = migration.status
    return (
        status.finished_at is not None
        and status.finished_at > after
        and status.started_at is not None
        and status.failure not in _IGNORED_FAILURES
        and not traits_of(migration.spec.strategy).recovers
        and not _failed_like_its_source(migration)
    )


def _failed_like_its_source(migration: Migration) -> bool:
    ready = migration.status.condition(ConditionType.COPY_READY)
    return _has_failed(migration) and ready is not None and ready.reason == FAILS_LIKE_SOURCE


def _once_per_workload(finished: Iterable[Migration]) -> list[Migration]:
    """Return the migrations with only the last failed copy of each workload, because the others say the same.

    If no pod can start, because a registry is down for example, copies of several workloads fail.
    """
    counted: list[Migration] = []
    last_of: dict[str, Migration] = {}
    for each in sorted(finished, key=lambda each: (each.status.finished_at or each.created, each.key)):
        if each.status.phase is MigrationPhase.FAILED and each.status.failure == COPY_FAILING:
            last_of[_workload(each)] = each
        else:
            counted.append(each)
    return [*counted, *last_of.values()]


def _workload(migration: Migration) -> str:
    """Return the uid of the controller, or of the pod itself if it has none."""
    controller = migration.status.workload or migration.status.owner
    return migration.spec.pod.uid if controller is None else controller.uid


def _ends_at(finished: Sequence[Migration], ratio: float, holds: _Holds) -> datetime:
    """Return when so many failures are too old to count that the halt ends."""
    by_age = sorted(each.status.finished_at for each in finished if each.status.finished_at is not None)
    for moment in by_age:
        rest = [each for each in finished if each.status.finished_at and each.status.finished_at > moment]
        if not holds(rest, ratio):
            return moment + FAILURE_WINDOW
    return by_age[-1] + FAILURE_WINDOW


def _not_ready(facts: HaltFacts, share: float) -> Iterator[Halt]:
    count = len(facts.not_ready)
    if not facts.nodes or count / facts.nodes <= share:
        return
    names = ", ".join(sorted(facts.not_ready)[:3]) + (f" and {count - 3} more" if count > 3 else "")
    words = (
        f"{count} of {facts.nodes} nodes are not Ready ({names}), "
        f"more than haltWhen.notReadyShare {share:g} allows"
    )
    most = max(number for number in range(facts.nodes + 1) if number / facts.nodes <= share)
    ends = f"when at most {most} of them are not Ready"
    yield Halt(HaltReason.NODES_NOT_READY, facts.now, words, ends)


def _api_failing(facts: HaltFacts) -> Iterator[Halt]:
    responses = facts.responses
    if responses.failed < _MIN_API_ERRORS or responses.failed / responses.requests <= _MAX_ERROR_SHARE:
        return
    failed = f"{responses.failed} of the last {responses.requests} requests to the API server failed"
    words = f"{failed}: {responses.last}"
    yield Halt(
        HaltReason.API_FAILING, facts.now, words, "when most requests succeed again"
    )  # fmt: skip


def _stale(facts: HaltFacts) -> Iterator[Halt]:
    if not facts.stale:
        return
    oldest = max(facts.stale, key=lambda each: (each.seconds, each.kind))
    kinds = ", ".join(sorted(each.kind for each in facts.stale))
    why = f": {oldest.why}" if oldest.why else ""
    if oldest.seconds < float("inf"):
        words = (
            f"no watch of {kinds} is open; the API server last sent something {oldest.seconds:.0f} s ago{why}"
        )
    else:
        words = f"{kinds} have not been listed yet{why}"
    yield Halt(HaltReason.CACHES_STALE, facts.now, words, "when the API server accepts the watches again")


def _minutes(span: timedelta) -> str:
    return f"{span.total_seconds() / 60:.0f} minutes"


RESPONSE_WINDOW_S: Final = 60.0
_MAX_RESPONSES: Final = 20
"""How many recent responses count: few, so that the halt ends soon after the server recovers."""
_SERVER_ERROR: Final = 500


class ApiResponseWindow:
    """The responses of the API server within `RESPONSE_WINDOW_S`; the caller passes times of one clock."""

    def __init__(self) -> None:
        self._responses: deque[tuple[float, bool]] = deque(maxlen=_MAX_RESPONSES)
        self._last = ""

    def note(self, call: ApiCall, code: int, now_s: float) -> bool:
        """Count a response, and return whether the request failed. `code` is 0 if there was no response."""
        failed = code == 0 or code >= _SERVER_ERROR
        if failed:
            self._last = f"{call} returned {code}" if code else f"{call} got no response"
        self._responses.append((now_s, failed))
        return failed

    def lately(self, now_s: float) -> ApiResponses:
        while self._responses and now_s - self._responses[0][0] > RESPONSE_WINDOW_S:
            self._responses.popleft()
        failed = sum(each for _, each in self._responses)
        return ApiResponses(len(self._responses), failed, self._last if failed else "")
