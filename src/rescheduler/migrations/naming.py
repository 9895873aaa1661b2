"""Names that follow from what they are for: whoever continues a migration finds what another has begun."""

import hashlib
import re
from typing import Final

from rescheduler.model.migrations import Migration

__all__ = ["BUDGET_SUFFIX", "budget_name", "copy_name", "copy_names", "migration_name"]

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""As Kubernetes completes names: no vowels, so no words; nothing that is easily misread."""

BUDGET_SUFFIX: Final = "-rescheduler-pdb"
"""What the name of every temporary budget ends with."""

_SUFFIX_LENGTH: Final = 5
_NAME_OF_COPY: Final = re.compile(rf"rescheduled-(?P<original>.+)-[{_ALPHABET}]{{{_SUFFIX_LENGTH}}}")
_MOST_ATTEMPTS: Final = 20
"""Requests of attempts that lie further back have arrived long ago, or never will."""
_LONGEST_POD_NAME: Final = 253
_LONGEST_LABEL: Final = 63


def migration_name(pod: str, uid: str, moment_s: float) -> str:
    """One per wish: short enough to be a label value, which it is on both pods."""
    return _suffixed(pod, _suffix(f"{uid}/{moment_s}", 8), _LONGEST_LABEL)


def copy_name(migration: Migration) -> str:
    """Return the name of the copy of this attempt. It follows from the migration's own record alone.

    Nobody can know it before the migration exists, because it depends on the migration's uid.
    """
    return _copy_name(migration, migration.status.attempts)


def copy_names(migration: Migration) -> tuple[str, ...]:
    """Return the names of the copies of all attempts, the latest first.

    A request of an earlier attempt may arrive late.
    """
    last = migration.status.attempts
    return tuple(_copy_name(migration, attempt) for attempt in range(last, max(last - _MOST_ATTEMPTS, 0), -1))


def _copy_name(migration: Migration, attempt: int) -> str:
    suffix = _suffix(f"{migration.uid}/{attempt}", _SUFFIX_LENGTH)
    owner = migration.status.owner
    if owner is not None:
        return _suffixed(owner.name, suffix, _LONGEST_POD_NAME)
    name = migration.spec.pod.name
    moved_before = _NAME_OF_COPY.fullmatch(name)
    original = name if moved_before is None else moved_before["original"]
    return _suffixed(f"rescheduled-{original}", suffix, _LONGEST_POD_NAME)


def budget_name(workload: str) -> str:
    return f"{workload[: _LONGEST_POD_NAME - len(BUDGET_SUFFIX)]}{BUDGET_SUFFIX}"


def _suffixed(stem: str, suffix: str, longest: int) -> str:
    return f"{stem[: longest - len(suffix) - 1].rstrip('.-')}-{suffix}"


def _suffix(of: str, length: int) -> str:
    digest = int.from_bytes(hashlib.sha256(of.encode()).digest()[:8])
    letters = []
    for _ in range(length):
        digest, letter = divmod(digest, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(letters)
