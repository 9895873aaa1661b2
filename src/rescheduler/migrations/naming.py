"""Names that follow from what they are for: whoever continues a migration finds what another has begun."""

import hashlib
from typing import Final

from rescheduler.migrations.marks import original_name
from rescheduler.model.migrations import Migration
from rescheduler.model.pods import PodRecord

__all__ = ["budget_name", "copy_name", "migration_name"]

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""As Kubernetes completes names: no vowels, so no words; nothing that is easily misread."""

_LONGEST_POD_NAME: Final = 253
_LONGEST_LABEL: Final = 63


def migration_name(pod: str, uid: str, moment_s: float) -> str:
    """One per wish: short enough to be a label value, which it is on both pods."""
    return _suffixed(pod, _suffix(f"{uid}/{moment_s}", 8), _LONGEST_LABEL)


def copy_name(migration: Migration, source: PodRecord) -> str:
    """The same for every try to create the copy within one attempt, another for the next attempt."""
    suffix = _suffix(f"{migration.uid}/{migration.status.attempts}", 5)
    owner = source.owner
    if owner is not None:
        return _suffixed(owner.name, suffix, _LONGEST_POD_NAME)
    original = original_name(source.name, source.marks)
    return _suffixed(f"rescheduled-{original}", suffix, _LONGEST_POD_NAME)


def budget_name(workload: str) -> str:
    return f"{workload[: _LONGEST_POD_NAME - len('-rescheduler-pdb')]}-rescheduler-pdb"


def _suffixed(stem: str, suffix: str, longest: int) -> str:
    return f"{stem[: longest - len(suffix) - 1].rstrip('.-')}-{suffix}"


def _suffix(of: str, length: int) -> str:
    digest = int.from_bytes(hashlib.sha256(of.encode()).digest()[:8])
    letters = []
    for _ in range(length):
        digest, letter = divmod(digest, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(letters)
