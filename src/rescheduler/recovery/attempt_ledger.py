"""The attempt ledger: the failed attempts of a workload, in one annotation of that workload.

    {"v": 1, "of": "<uid of the holder>", "lines": {"web-7d4b9-x2x7l": {"revision": "7d4b9",
        "tries": [{"t": "2026-03-02T12:03:00Z", "node": "n1", "pod": "<uid>"}], "end": {…}}}}

Each entry of `lines` is the lineage of one replica (see `replica_lineage`). Each of its `tries` is a failure
after which the replica was rescheduled. A failure for which no attempt was left is its `end`; if more
attempts are allowed later, that failure becomes the first of them.

Deployments and their ReplicaSets copy annotations to each other, so the ledger names its holder. A ledger of
another holder is ignored.

Every user who may edit the workload may write anything here. So the ledger is bounded and checked when it is
read, and it has no effect on other workloads (see `failing_pods`).
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from math import inf
from typing import Annotated, Final

import msgspec

from kubevalues.label_selectors import subdomain_error

__all__ = [
    "MAX_LINEAGES",
    "AttemptLedger",
    "FailedAttempt",
    "ReplicaLineage",
    "read_ledger",
]


MAX_LINEAGES: Final = 200
_MAX_ATTEMPTS_TOTAL: Final = 600
"""This takes about 80 KiB; all annotations of an object may have 256 KiB."""
_MAX_ANNOTATION_LENGTH: Final = 240_000
"""A longer annotation is not read; rescheduler writes less."""
_MAX_NAME_LENGTH: Final = 300
"""The longest name of a lineage: that of a pod or node (253 characters) and an index."""
_MAX_ID_LENGTH: Final = 253
"""The longest uid or revision."""
_CLOCK_SKEW_S: Final = 300.0
"""How far clocks may differ. Attempts that are further in the future are ignored."""
_MAX_ATTEMPTS_LISTED: Final = 20
"""Attempts per lineage that are kept with node and pod; the others are only counted."""
_VERSION: Final = 1
_MAX_COUNT: Final = 2**31


class FailedAttempt(msgspec.Struct, frozen=True):
    """One failure of a replica on one node."""

    at_s: int = 0
    """When it failed there; 0 in records of kse-rescheduler."""
    node: str = ""
    pod: str = ""
    """The uid of the pod; empty in records of kse-rescheduler."""


class ReplicaLineage(msgspec.Struct, frozen=True):
    """One replica through all its replacements, with its failed attempts."""

    tries: tuple[FailedAttempt, ...] = ()
    """The oldest first."""
    end: FailedAttempt | None = None
    """The failure for which no attempt was left."""
    revision: str = ""
    """The revision of the pod template. Pods of another revision start without failed attempts."""
    earlier: int = 0
    """How many older attempts are no longer listed."""
    forgiven: int = 0
    """How many of the listed attempts, from the oldest on, no longer exclude their nodes."""

    @property
    def count(self) -> int:
        """Return how often the replica was rescheduled."""
        return self.earlier + len(self.tries)

    @property
    def failures(self) -> tuple[FailedAttempt, ...]:
        """Return all listed failures, the oldest first."""
        return self.tries if self.end is None else (*self.tries, self.end)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes to avoid, sorted."""
        return tuple(sorted({each.node for each in self.failures[self.forgiven :] if each.node}))

    @property
    def last_s(self) -> int:
        """Return when the replica last failed; 0 if that is unknown."""
        return max((each.at_s for each in self.failures), default=0)

    def knows(self, pod: str) -> bool:
        """Return whether a failure of the pod with that uid is recorded."""
        return bool(pod) and any(each.pod == pod for each in self.failures)

    def with_failure(self, failure: FailedAttempt, retries: int) -> "ReplicaLineage":
        """Return the lineage with one more attempt if any is left; otherwise with this failure as its end."""
        resumed = self
        if self.end is not None and self.count < retries:
            # More attempts are allowed than when it ended: its end is the first of the new ones.
            resumed = msgspec.structs.replace(self, tries=self.failures, end=None)
        if resumed.knows(failure.pod):
            return resumed
        if resumed.count < retries:
            return _shortened(msgspec.structs.replace(resumed, tries=(*resumed.tries, failure)))
        return resumed if resumed.end is not None else msgspec.structs.replace(resumed, end=failure)


class AttemptLedger(msgspec.Struct, frozen=True):
    """All lineages of a workload. Ledgers are immutable: every change returns a new one."""

    lineages: Mapping[str, ReplicaLineage] = {}
    is_damaged: bool = False
    """Whether the annotation was invalid, so that it is ignored."""

    def lineage(self, name: str, revision: str = "") -> ReplicaLineage:
        """Return the lineage of that name; an empty one if it is unknown or of another revision."""
        found = self.lineages.get(name)
        if found is None or (found.revision and revision and found.revision != revision):
            return ReplicaLineage(revision=revision)
        return found

    def has_room_for(self, name: str) -> bool:
        """Return whether one more attempt of that lineage can be recorded."""
        if name in self.lineages:
            return True
        tries = sum(len(lineage.tries) for lineage in self.lineages.values())
        return len(self.lineages) < MAX_LINEAGES and tries < _MAX_ATTEMPTS_TOTAL

    def with_failure(
        self, name: str, failure: FailedAttempt, retries: int, revision: str = ""
    ) -> "AttemptLedger":
        """Return the ledger with one more failure. A failure that is recorded already changes nothing, so
        that a write can be repeated when its outcome is unknown."""
        if not self.has_room_for(name):
            return self
        return self._with(name, self.lineage(name, revision).with_failure(failure, retries))

    def forgiving(self, name: str, *, last_too: bool = False) -> "AttemptLedger":
        """Return the ledger in which nodes of failed attempts, except for the last, may be used again."""
        lineage = self.lineages.get(name)
        if lineage is None:
            return self
        forgiven = len(lineage.failures) - (0 if last_too else 1)
        return self._with(name, msgspec.structs.replace(lineage, forgiven=max(0, forgiven)))

    def without(self, names: Collection[str]) -> "AttemptLedger":
        """Return the ledger without these lineages."""
        return AttemptLedger({name: lineage for name, lineage in self.lineages.items() if name not in names})

    def written(self, holder: str) -> str:
        """Return the value of the annotation for the holder with this uid; empty for an empty ledger."""
        if not self.lineages:
            return ""
        lineages = {name: _lineage_form(self.lineages[name]) for name in sorted(self.lineages)}
        return msgspec.json.encode(_LedgerForm(v=_VERSION, of=holder, lines=lineages)).decode()

    def _with(self, name: str, lineage: ReplicaLineage) -> "AttemptLedger":
        return AttemptLedger({**self.lineages, name: lineage})


def read_ledger(text: str, holders: Collection[str], now_s: float = inf) -> AttemptLedger:
    """Decode the annotation. Never raises; an invalid annotation gives an empty ledger.

    `holders` are the uids that the ledger may name as its holder. Attempts in the future, and those with
    names that no node or pod can have, are left out.
    """
    if not text:
        return AttemptLedger()
    if len(text) > _MAX_ANNOTATION_LENGTH:
        return AttemptLedger(is_damaged=True)
    try:
        found = msgspec.json.decode(text, type=_LedgerForm)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return AttemptLedger(is_damaged=True)
    if found.v != _VERSION:
        return AttemptLedger(is_damaged=True)
    if found.of not in holders:
        return AttemptLedger()
    named = sorted((name, form) for name, form in found.lines.items() if len(name) <= _MAX_NAME_LENGTH)
    lineages = ((name, _lineage_of_form(form, now_s)) for name, form in named[:MAX_LINEAGES])
    return AttemptLedger(
        {name: lineage for name, lineage in lineages if lineage.count or lineage.end is not None}
    )


# --- the JSON form: these names are stored on workloads, so they must not change

_Count = Annotated[int, msgspec.Meta(ge=0, le=_MAX_COUNT)]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class _AttemptForm(msgspec.Struct, frozen=True, omit_defaults=True):
    t: _Moment | None = None
    node: str = ""
    pod: str = ""


class _LineageForm(msgspec.Struct, frozen=True, omit_defaults=True):
    revision: str = ""
    tries: Annotated[tuple[_AttemptForm, ...], msgspec.Meta(max_length=_MAX_ATTEMPTS_TOTAL)] = ()
    end: _AttemptForm | None = None
    earlier: _Count = 0
    forgiven: _Count = 0


class _LedgerForm(msgspec.Struct, frozen=True):
    v: int = 0
    of: str = ""
    lines: dict[str, _LineageForm] = {}


def _lineage_form(lineage: ReplicaLineage) -> _LineageForm:
    tries = tuple(map(_attempt_form, lineage.tries))
    end = None if lineage.end is None else _attempt_form(lineage.end)
    return _LineageForm(lineage.revision, tries, end, lineage.earlier, lineage.forgiven)


def _lineage_of_form(form: _LineageForm, now_s: float) -> ReplicaLineage:
    tries = tuple(each for each in map(_attempt_of_form, form.tries) if _is_credible(each, now_s))
    end = None if form.end is None else _attempt_of_form(form.end)
    end = end if end is not None and _is_credible(end, now_s) else None
    # A manual edit may forgive more attempts than there are.
    forgiven = min(form.forgiven, len(tries) + (end is not None))
    return _shortened(ReplicaLineage(tries, end, form.revision[:_MAX_ID_LENGTH], form.earlier, forgiven))


def _is_credible(each: FailedAttempt, now_s: float) -> bool:
    is_named = not each.node or subdomain_error(each.node) is None
    return is_named and len(each.pod) <= _MAX_ID_LENGTH and each.at_s <= now_s + _CLOCK_SKEW_S


def _attempt_form(each: FailedAttempt) -> _AttemptForm:
    return _AttemptForm(datetime.fromtimestamp(each.at_s, UTC) if each.at_s else None, each.node, each.pod)


def _attempt_of_form(form: _AttemptForm) -> FailedAttempt:
    return FailedAttempt(max(0, int(form.t.timestamp())) if form.t is not None else 0, form.node, form.pod)


def _shortened(lineage: ReplicaLineage) -> ReplicaLineage:
    """Drop the oldest attempts except the first one, whose pod may still exist while its copies fail."""
    spare = len(lineage.tries) - _MAX_ATTEMPTS_LISTED
    if spare <= 0:
        return lineage
    return msgspec.structs.replace(
        lineage,
        tries=(lineage.tries[0], *lineage.tries[1 + spare :]),
        earlier=lineage.earlier + spare,
        forgiven=min(lineage.forgiven, max(1, lineage.forgiven - spare)),
    )
