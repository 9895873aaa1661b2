"""Which installation an object belongs to.

There is one installation per namespace, so the namespace is its id. Everything that is installed carries the
id as a label; cluster-scoped objects also carry it in their names, so that two installations never share one.
The definition of PodMigration is the exception: a cluster has one, whoever installed it.

The label says which objects an installation may remove. It does not say where an installation is: anyone who
may write one namespace can put the label there. See `install.installations` for how one is found.
"""

import hashlib
import re
from typing import Final

__all__ = [
    "API_VERSION",
    "AVOIDED_NODES_ANNOTATION",
    "CONTINUES_ANNOTATION",
    "CORDONED_BY_ANNOTATION",
    "EMPTY_CONDITION",
    "FAILED_ATTEMPTS_ANNOTATION",
    "FINALIZER",
    "GROUP",
    "GUARD_WEBHOOK",
    "HANDOVER_ANNOTATION",
    "INCLUDES_SYSTEM_ANNOTATION",
    "INSTALL_ID",
    "MAINTENANCE_LABEL",
    "NEXT_HOP_ANNOTATION",
    "ORIGINAL_POD",
    "ORIGINAL_POD_NAME",
    "POD_MIGRATION_KIND",
    "PROBE_ANSWERED",
    "PROBE_LABEL",
    "SCHEDULING_GATE",
    "SHARED_INSTALL_ID",
    "STEERED_BY_ANNOTATION",
    "STEERING_WEBHOOK",
    "SYNC_REQUESTED_ANNOTATION",
    "VERSION",
    "cluster_scoped_name",
    "install_id",
    "install_labels",
    "label_value",
]

INSTALL_ID: Final = "rescheduler.dev/install-id"

SHARED_INSTALL_ID: Final = "Shared"
"""The id of the definition of PodMigration. No namespace has capital letters in its name."""


GROUP: Final = "rescheduler.dev"


VERSION: Final = "v1alpha1"


API_VERSION: Final = f"{GROUP}/{VERSION}"


POD_MIGRATION_KIND: Final = "PodMigration"


FINALIZER: Final = f"{GROUP}/unfinished"
"""Holds a migration that is under way: its deletion is a wish to cancel, granted when all is undone."""


AVOIDED_NODES_ANNOTATION = "rescheduler.dev/avoids"
"""The annotation that records which nodes we have excluded."""


STEERED_BY_ANNOTATION = "rescheduler.dev/migration"
"""The annotation on a steered replacement: the migration that it follows from."""


MAINTENANCE_LABEL = "scheduler.alpha.kubernetes.io/maintenance"
"""Label; `true` means that the node is to be emptied."""


CORDONED_BY_ANNOTATION = "rescheduler.dev/cordoned-by"
"""Annotation; the strategy for which we cordoned the node. It holds for that one cordon: a node that is
schedulable, or whose cordon another client has made since, has a mark that means nothing and is removed."""


EMPTY_CONDITION = "rescheduler.dev/Empty"
"""Condition of a node in maintenance: whether every pod that has to go is gone, and if not, why."""


NEXT_HOP_ANNOTATION: Final = "rescheduler.dev/goes-on-to"
"""Annotation of a migration that brings a pod to a stop: the node that it goes on to from there."""


CONTINUES_ANNOTATION: Final = "rescheduler.dev/continues"
"""Annotation of a migration that takes a pod on from a stop: the name of the one that brought it there."""


INCLUDES_SYSTEM_ANNOTATION: Final = "rescheduler.dev/includes-system"
"""Annotation of a migration; `true` if whoever drains a node wants pods of the system to go, too."""


SYNC_REQUESTED_ANNOTATION: Final = "rescheduler.dev/budget-sync-requested"
"""Annotation of a copy: the number of requests and the time of the last, such as `2 2026-01-31T12:00:00Z`."""


SCHEDULING_GATE: Final = "rescheduler.dev/nominate"
"""The scheduling gate that holds a copy until its target is nominated."""


HANDOVER_ANNOTATION = "rescheduler.dev/handover"


FAILED_ATTEMPTS_ANNOTATION: Final = "rescheduler.dev/failed-attempts"
"""The annotation."""


ORIGINAL_POD: Final = "scheduler.alpha.kubernetes.io/original-pod"


ORIGINAL_POD_NAME: Final = "scheduler.alpha.kubernetes.io/original-pod-name"


PROBE_LABEL: Final = "rescheduler.dev/webhook-probe"
"""On a pod that is created as a dry run, to learn whether the webhook of that name answers: it denies it."""


def install_id(namespace: str) -> str:
    return namespace


def install_labels(namespace: str) -> dict[str, str]:
    """The labels of every object of the installation in this namespace."""
    return {"app.kubernetes.io/name": "rescheduler", INSTALL_ID: install_id(namespace)}


def cluster_scoped_name(name: str, namespace: str) -> str:
    """Return the name that a cluster-scoped object of the installation in this namespace has.

    With a dot, which no namespace contains: `rescheduler-webhook` in the namespace `a` and `rescheduler` in a
    namespace `webhook-a` stay apart.
    """
    return f"{name}.{namespace}"


STEERING_WEBHOOK: Final = "steering.rescheduler.dev"
GUARD_WEBHOOK: Final = "surplus.rescheduler.dev"

PROBE_ANSWERED: Final = "WebhookProbeAnswered"
"""The reason for which a webhook denies a probe: only one that API servers reach and trust can give it."""

_MAX_LABEL_VALUE_LENGTH: Final = 63
_VALID_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_HASH_LENGTH: Final = 8


def label_value(text: str) -> str:
    """The text itself where it is a valid label value, else as much of it as is, and a hash of all of it."""
    if not text or (len(text) <= _MAX_LABEL_VALUE_LENGTH and _VALID_VALUE.fullmatch(text)):
        return text
    kept = re.sub(r"[^A-Za-z0-9._-]", "-", text).strip("._-")[: _MAX_LABEL_VALUE_LENGTH - _HASH_LENGTH - 1]
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{kept.rstrip('._-')}-{digest}".lstrip("-")
