"""What every object carries: who owns it, and the annotations that say something to us."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

__all__ = [
    "MARK_NAMES",
    "MARK_PREFIXES",
    "MIGRATION_LABELS",
    "Owner",
    "OwnerKey",
    "is_mark",
    "owner_key",
    "owner_keys_of_object",
]

MARK_PREFIXES = (
    "scheduler.alpha.kubernetes.io/",
    "rescheduler.dev/",
    "cluster-autoscaler.kubernetes.io/",
    "karpenter.sh/",
    "kse.com/",
)
MIGRATION_LABELS = tuple(
    f"scheduler.alpha.kubernetes.io/{name}"
    for name in ("migration-id", "migration-status", "migrated-from", "migration-reason")
)
"""What a migration writes onto the pod that it moves and onto its successor."""

MARK_NAMES = frozenset(
    {
        "scheduling-retries",
        "kubernetes.io/config.mirror",
        "controller.kubernetes.io/pod-deletion-cost",
    }
)


def is_mark(annotation: str) -> bool:
    """Records keep these annotations only: the others are for other programs, and can be large."""
    return annotation.startswith(MARK_PREFIXES) or annotation in MARK_NAMES


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An entry of `ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class OwnerKey(NamedTuple):
    """Which owner a reference names. Owners are in the namespace of what they own.

    A uid alone says nothing: anybody who may create a pod can write the uid of a workload of another
    namespace into its owner references, and the API server does not look.
    """

    namespace: str
    kind: str
    name: str
    uid: str


class _Reference(Protocol):
    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...


def owner_key(namespace: str, owner: _Reference) -> OwnerKey:
    """Return what an owner reference of an object in `namespace` names."""
    return OwnerKey(namespace, owner.kind, owner.name, owner.uid)


def owner_keys_of_object(item: Mapping[str, Any]) -> list[OwnerKey]:
    """Return what all owner references of a whole object name."""
    metadata = item["metadata"]
    return [
        OwnerKey(metadata["namespace"], str(each.get("kind")), str(each.get("name")), str(each.get("uid")))
        for each in metadata.get("ownerReferences") or ()
    ]
