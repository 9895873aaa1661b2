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

from rescheduler.model.selectors.names import subdomain_fault

__all__ = ["FAILED_ATTEMPTS", "MOST_LINES", "Ledger", "Line", "Try", "read_ledger"]

FAILED_ATTEMPTS: Final = "rescheduler.dev/failed-attempts"
"""The annotation."""

MOST_LINES: Final = 200
_MOST_TRIES_IN_ALL: Final = 600
"""An annotation can't be of any size: this takes about 80 of the 256 KiB allowed."""
_LONGEST: Final = 240_000
"""More than we ever write."""
_LONGEST_NAME: Final = 300
"""Of lines: names of pods and nodes have up to 253 characters, an index may follow."""
_LONGEST_ID: Final = 253
"""Of uids and revisions."""
_SKEW_S: Final = 300.0
"""Clocks differ; what claims to have happened later than that has not."""
_MOST_TRIES: Final = 20
"""Kept per line with node and pod; the others are only counted."""
_VERSION: Final = 1
_LARGEST: Final = 2**31


class Try(msgspec.Struct, frozen=True):
    at_s: int = 0
    """When it failed there; 0 in what an older tool wrote."""
    node: str = ""
    pod: str = ""
    """Its uid; empty in what an older tool wrote."""


class Line(msgspec.Struct, frozen=True):
    """One replica through all its replacements."""

    tries: tuple[Try, ...] = ()
    """The oldest first."""
    end: Try | None = None
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
    def failures(self) -> tuple[Try, ...]:
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

    def with_failure(self, failure: Try, retries: int) -> "Line":
        resumed = self
        if self.end is not None and self.count < retries:
            # More is allowed than when it ended: what it ended with is the first of the new tries.
            resumed = msgspec.structs.replace(self, tries=self.failures, end=None)
        if resumed.knows(failure.pod):
            return resumed
        if resumed.count < retries:
            return _shortened(msgspec.structs.replace(resumed, tries=(*resumed.tries, failure)))
        return resumed if resumed.end is not None else msgspec.structs.replace(resumed, end=failure)


class Ledger(msgspec.Struct, frozen=True):
    """Every change makes another one."""

    lines: Mapping[str, Line] = {}
    is_damaged: bool = False
    """What was written could not be read, and counts as nothing."""

    def line(self, name: str, revision: str = "") -> Line:
        """Empty if nothing is known, or only of pods from another template."""
        found = self.lines.get(name)
        if found is None or (found.revision and revision and found.revision != revision):
            return Line(revision=revision)
        return found

    def has_room_for(self, name: str) -> bool:
        if name in self.lines:
            return True
        tries = sum(len(line.tries) for line in self.lines.values())
        return len(self.lines) < MOST_LINES and tries < _MOST_TRIES_IN_ALL

    def with_failure(self, name: str, failure: Try, retries: int, revision: str = "") -> "Ledger":
        """One more try if some is left, else the line's end. A pod that is on record changes nothing, so that
        whoever doesn't know whether it was written may write it again."""
        if not self.has_room_for(name):
            return self
        return self._with(name, self.line(name, revision).with_failure(failure, retries))

    def forgiving(self, name: str, *, last_too: bool = False) -> "Ledger":
        """The nodes tried so far are forgotten, except for the last one. The count is not."""
        line = self.lines.get(name)
        if line is None:
            return self
        forgiven = len(line.failures) - (0 if last_too else 1)
        return self._with(name, msgspec.structs.replace(line, forgiven=max(0, forgiven)))

    def without(self, names: Collection[str]) -> "Ledger":
        return Ledger({name: line for name, line in self.lines.items() if name not in names})

    def written(self, holder: str) -> str:
        """The annotation's value, for the holder with this uid; empty if there is nothing to remember."""
        if not self.lines:
            return ""
        lines = {name: _form_of(self.lines[name]) for name in sorted(self.lines)}
        return msgspec.json.encode(_LedgerForm(v=_VERSION, of=holder, lines=lines)).decode()

    def _with(self, name: str, line: Line) -> "Ledger":
        return Ledger({**self.lines, name: line})


def read_ledger(text: str, holders: Collection[str], now_s: float = inf) -> Ledger:
    """`holders` are the uids that the record may be of. Whatever is written, this does not raise.

    Tries that can't have been are left out: in the future, or with names that no node or pod can have.
    """
    if not text:
        return Ledger()
    if len(text) > _LONGEST:
        return Ledger(is_damaged=True)
    try:
        found = msgspec.json.decode(text, type=_LedgerForm)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return Ledger(is_damaged=True)
    if found.v != _VERSION:
        return Ledger(is_damaged=True)
    if found.of not in holders:
        return Ledger()
    named = sorted((name, form) for name, form in found.lines.items() if len(name) <= _LONGEST_NAME)
    lines = ((name, _line_of(form, now_s)) for name, form in named[:MOST_LINES])
    return Ledger({name: line for name, line in lines if line.count or line.end is not None})


# --- how it is written

_Count = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class _TryForm(msgspec.Struct, frozen=True, omit_defaults=True):
    t: _Moment | None = None
    node: str = ""
    pod: str = ""


class _LineForm(msgspec.Struct, frozen=True, omit_defaults=True):
    revision: str = ""
    tries: Annotated[tuple[_TryForm, ...], msgspec.Meta(max_length=_MOST_TRIES_IN_ALL)] = ()
    end: _TryForm | None = None
    earlier: _Count = 0
    forgiven: _Count = 0


class _LedgerForm(msgspec.Struct, frozen=True):
    v: int = 0
    of: str = ""
    lines: dict[str, _LineForm] = {}


def _form_of(line: Line) -> _LineForm:
    tries = tuple(map(_written_try, line.tries))
    end = None if line.end is None else _written_try(line.end)
    return _LineForm(line.revision, tries, end, line.earlier, line.forgiven)


def _line_of(form: _LineForm, now_s: float) -> Line:
    tries = tuple(each for each in map(_read_try, form.tries) if _is_credible(each, now_s))
    end = None if form.end is None else _read_try(form.end)
    end = end if end is not None and _is_credible(end, now_s) else None
    # Somebody's own hand may have written more than there are: what is still to come was not forgiven.
    forgiven = min(form.forgiven, len(tries) + (end is not None))
    return _shortened(Line(tries, end, form.revision[:_LONGEST_ID], form.earlier, forgiven))


def _is_credible(each: Try, now_s: float) -> bool:
    is_named = not each.node or subdomain_fault(each.node) is None
    return is_named and len(each.pod) <= _LONGEST_ID and each.at_s <= now_s + _SKEW_S


def _written_try(each: Try) -> _TryForm:
    return _TryForm(datetime.fromtimestamp(each.at_s, UTC) if each.at_s else None, each.node, each.pod)


def _read_try(form: _TryForm) -> Try:
    return Try(max(0, int(form.t.timestamp())) if form.t is not None else 0, form.node, form.pod)


def _shortened(line: Line) -> Line:
    """The first try stays listed: its pod may still be there, while one copy after the other fails."""
    spare = len(line.tries) - _MOST_TRIES
    if spare <= 0:
        return line
    return msgspec.structs.replace(
        line,
        tries=(line.tries[0], *line.tries[1 + spare :]),
        earlier=line.earlier + spare,
        forgiven=min(line.forgiven, max(1, line.forgiven - spare)),
    )
