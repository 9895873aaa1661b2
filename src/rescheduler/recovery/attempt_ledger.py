"""What is remembered of pods that kept failing: one annotation on their workload.

    {"v": 1, "of": "<uid of the holder>", "lines": {"web-7d4b9-x2x7l": {"revision": "7d4b9",
        "tries": [{"t": "2026-03-02T12:03:00Z", "node": "n1", "pod": "<uid>"}], "end": {…}}}}

A *line* is one replica through all its replacements (see `lines`). Each *try* says where it failed, and that
it was given another node for it: three tries are three reschedulings. A failure for which no try was left is
kept apart, as the line's end; a larger allowance, later, takes it up again.

Deployments and their ReplicaSets copy annotations to each other, so the record says whose it is: one that is
somebody else's is no record.

Whoever may edit the workload may write anything here. So it is bounded and checked when it is read, and what
it says concerns this workload alone: nothing follows from it for others (see `suspects`).
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
"""An annotation can't be of any size: this takes about 80 of the 256 KiB allowed."""
_MAX_ANNOTATION_LENGTH: Final = 240_000
"""More than we ever write."""
_MAX_NAME_LENGTH: Final = 300
"""Of lines: names of pods and nodes have up to 253 characters, an index may follow."""
_MAX_ID_LENGTH: Final = 253
"""Of uids and revisions."""
_CLOCK_SKEW_S: Final = 300.0
"""Clocks differ; what claims to have happened later than that has not."""
_MAX_ATTEMPTS_LISTED: Final = 20
"""Kept per line with node and pod; the others are only counted."""
_VERSION: Final = 1
_MAX_COUNT: Final = 2**31


class FailedAttempt(msgspec.Struct, frozen=True):
    at_s: int = 0
    """When it failed there; 0 in what an older tool wrote."""
    node: str = ""
    pod: str = ""
    """Its uid; empty in what an older tool wrote."""


class ReplicaLineage(msgspec.Struct, frozen=True):
    """One replica through all its replacements."""

    tries: tuple[FailedAttempt, ...] = ()
    """The oldest first."""
    end: FailedAttempt | None = None
    """The failure for which there was no try left."""
    revision: str = ""
    """Of the template that its pods were made from: the next one starts with a clean sheet."""
    earlier: int = 0
    """Tries that are no longer listed."""
    forgiven: int = 0
    """How many of the listed tries, from the oldest on, no longer forbid their nodes."""

    @property
    def count(self) -> int:
        """Reschedulings so far."""
        return self.earlier + len(self.tries)

    @property
    def failures(self) -> tuple[FailedAttempt, ...]:
        return self.tries if self.end is None else (*self.tries, self.end)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those to stay away from, sorted."""
        return tuple(sorted({each.node for each in self.failures[self.forgiven :] if each.node}))

    @property
    def last_s(self) -> int:
        """When it last failed."""
        return max((each.at_s for each in self.failures), default=0)

    def knows(self, pod: str) -> bool:
        """Whether a failure of the pod with that uid is on record."""
        return bool(pod) and any(each.pod == pod for each in self.failures)

    def with_failure(self, failure: FailedAttempt, retries: int) -> "ReplicaLineage":
        resumed = self
        if self.end is not None and self.count < retries:
            # More is allowed than when it ended: what it ended with is the first of the new tries.
            resumed = msgspec.structs.replace(self, tries=self.failures, end=None)
        if resumed.knows(failure.pod):
            return resumed
        if resumed.count < retries:
            return _shortened(msgspec.structs.replace(resumed, tries=(*resumed.tries, failure)))
        return resumed if resumed.end is not None else msgspec.structs.replace(resumed, end=failure)


class AttemptLedger(msgspec.Struct, frozen=True):
    """Every change makes another one."""

    lines: Mapping[str, ReplicaLineage] = {}
    is_damaged: bool = False
    """What was written could not be read, and counts as nothing."""

    def line(self, name: str, revision: str = "") -> ReplicaLineage:
        """Empty if nothing is known, or only of pods from another template."""
        found = self.lines.get(name)
        if found is None or (found.revision and revision and found.revision != revision):
            return ReplicaLineage(revision=revision)
        return found

    def has_room_for(self, name: str) -> bool:
        if name in self.lines:
            return True
        tries = sum(len(line.tries) for line in self.lines.values())
        return len(self.lines) < MAX_LINEAGES and tries < _MAX_ATTEMPTS_TOTAL

    def with_failure(
        self, name: str, failure: FailedAttempt, retries: int, revision: str = ""
    ) -> "AttemptLedger":
        """One more try if some is left, else the line's end. A pod that is on record changes nothing, so that
        whoever doesn't know whether it was written may write it again."""
        if not self.has_room_for(name):
            return self
        return self._with(name, self.line(name, revision).with_failure(failure, retries))

    def forgiving(self, name: str, *, last_too: bool = False) -> "AttemptLedger":
        """The nodes tried so far are forgotten, except for the last one. The count is not."""
        line = self.lines.get(name)
        if line is None:
            return self
        forgiven = len(line.failures) - (0 if last_too else 1)
        return self._with(name, msgspec.structs.replace(line, forgiven=max(0, forgiven)))

    def without(self, names: Collection[str]) -> "AttemptLedger":
        return AttemptLedger({name: line for name, line in self.lines.items() if name not in names})

    def written(self, holder: str) -> str:
        """The annotation's value, for the holder with this uid; empty if there is nothing to remember."""
        if not self.lines:
            return ""
        lines = {name: _lineage_form(self.lines[name]) for name in sorted(self.lines)}
        return msgspec.json.encode(_LedgerForm(v=_VERSION, of=holder, lines=lines)).decode()

    def _with(self, name: str, line: ReplicaLineage) -> "AttemptLedger":
        return AttemptLedger({**self.lines, name: line})


def read_ledger(text: str, holders: Collection[str], now_s: float = inf) -> AttemptLedger:
    """`holders` are the uids that the record may be of. Whatever is written, this does not raise.

    Tries that can't have been are left out: in the future, or with names that no node or pod can have.
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
    lines = ((name, _lineage_of_form(form, now_s)) for name, form in named[:MAX_LINEAGES])
    return AttemptLedger({name: line for name, line in lines if line.count or line.end is not None})


# --- how it is written

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


def _lineage_form(line: ReplicaLineage) -> _LineageForm:
    tries = tuple(map(_attempt_form, line.tries))
    end = None if line.end is None else _attempt_form(line.end)
    return _LineageForm(line.revision, tries, end, line.earlier, line.forgiven)


def _lineage_of_form(form: _LineageForm, now_s: float) -> ReplicaLineage:
    tries = tuple(each for each in map(_attempt_of_form, form.tries) if _is_credible(each, now_s))
    end = None if form.end is None else _attempt_of_form(form.end)
    end = end if end is not None and _is_credible(end, now_s) else None
    # Somebody's own hand may have written more than there are: what is still to come was not forgiven.
    forgiven = min(form.forgiven, len(tries) + (end is not None))
    return _shortened(ReplicaLineage(tries, end, form.revision[:_MAX_ID_LENGTH], form.earlier, forgiven))


def _is_credible(each: FailedAttempt, now_s: float) -> bool:
    is_named = not each.node or subdomain_error(each.node) is None
    return is_named and len(each.pod) <= _MAX_ID_LENGTH and each.at_s <= now_s + _CLOCK_SKEW_S


def _attempt_form(each: FailedAttempt) -> _AttemptForm:
    return _AttemptForm(datetime.fromtimestamp(each.at_s, UTC) if each.at_s else None, each.node, each.pod)


def _attempt_of_form(form: _AttemptForm) -> FailedAttempt:
    return FailedAttempt(max(0, int(form.t.timestamp())) if form.t is not None else 0, form.node, form.pod)


def _shortened(line: ReplicaLineage) -> ReplicaLineage:
    """The first try stays listed: its pod may still be there, while one copy after the other fails."""
    spare = len(line.tries) - _MAX_ATTEMPTS_LISTED
    if spare <= 0:
        return line
    return msgspec.structs.replace(
        line,
        tries=(line.tries[0], *line.tries[1 + spare :]),
        earlier=line.earlier + spare,
        forgiven=min(line.forgiven, max(1, line.forgiven - spare)),
    )
