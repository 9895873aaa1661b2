"""Copies that failed like the pod that they were made from: each is one more try of its line.

Read off the migrations, which outlive their copies. Only those count that began after the failure of their
source was put on record: what lies before that was forgiven when the pod had recovered.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from rescheduler.controller.followed import Followed
from rescheduler.model.migrations import COPY_FAILING, FAILED_PODS, ConditionType, Migration, Phase
from rescheduler.model.pods import PodRecord
from rescheduler.recovery.allowance import Allowance
from rescheduler.recovery.examining import Case
from rescheduler.recovery.ledger import Ledger, Try
from rescheduler.recovery.lines import revision_of

__all__ = ["failed_copies", "with_failed_copies"]

_LATE: Final = "TimedOut"


def with_failed_copies(ledger: Ledger, cases: Iterable[Case], followed: Followed) -> Ledger:
    for case in cases:
        ledger = _with_copies_of(ledger, case, followed)
    return ledger


def _with_copies_of(ledger: Ledger, case: Case, followed: Followed) -> Ledger:
    if not isinstance(case.allowance, Allowance):
        return ledger
    known_since_s = _known_since_s(case)
    if known_since_s is None:
        return ledger
    revision = revision_of(case.pod)
    for migration in failed_copies(case.pod, followed):
        status = migration.status
        assert status.target_pod is not None
        assert status.finished_at is not None
        assert status.started_at is not None
        if int(status.started_at.timestamp()) >= known_since_s:
            failure = Try(int(status.finished_at.timestamp()), status.target_node, status.target_pod.uid)
            ledger = ledger.with_failure(case.name, failure, case.retries, revision)
    return ledger


def failed_copies(source: PodRecord, followed: Followed) -> Iterator[Migration]:
    """The migrations of this pod whose copy could not run, the oldest first."""
    items = followed.migrations.find("pod", (source.namespace, source.name))
    found = [each for item in items if (each := followed.records.migration(item)) is not None]
    for migration in sorted(found, key=lambda each: (each.created, each.name)):
        if migration.spec.pod.uid == source.uid and _copy_failed(migration):
            yield migration


def _copy_failed(migration: Migration) -> bool:
    status = migration.status
    if migration.spec.strategy != FAILED_PODS or status.phase is not Phase.FAILED:
        return False
    if status.target_pod is None or status.started_at is None or status.finished_at is None:
        return False
    return status.failure == COPY_FAILING or (status.failure == _LATE and not _was_ready(migration))


def _was_ready(migration: Migration) -> bool:
    """Then it was something else that took too long, such as a budget."""
    ready = migration.status.condition(ConditionType.COPY_READY)
    return ready is not None and ready.status == "True"


def _known_since_s(case: Case) -> int | None:
    return min((each.at_s for each in case.line.tries if each.pod == case.pod.uid), default=None)
