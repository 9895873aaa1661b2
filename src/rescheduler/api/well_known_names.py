"""The names that rescheduler shares with users, other programs and its own other processes.

These are its API besides the fields of PodMigration: labels, annotations, conditions, a finalizer and a
scheduling gate. Changing a value breaks running migrations and manifests, so each is defined once, here.
"""

from typing import Final

__all__ = [
    "ANNOTATION_PREFIXES",
    "API_VERSION",
    "AVOIDED_NODES_ANNOTATION",
    "BALANCE_ANNOTATION",
    "CONTINUES_ANNOTATION",
    "CORDONED_BY_ANNOTATION",
    "DO_NOT_DISRUPT_ADDED_ANNOTATION",
    "DRAIN_CONDITIONS",
    "DRAIN_REASON",
    "DRY_RUN_LEASE_SUFFIX",
    "EMPTY_CONDITION",
    "EVICTION_RESPONDER",
    "EVICTION_TURNS_CONFIG_MAP",
    "EVICTION_WEBHOOK",
    "FAILED_ATTEMPTS_ANNOTATION",
    "FINALIZER",
    "GROUP",
    "GUARD_WEBHOOK",
    "HANDOVER_ANNOTATION",
    "INCLUDES_SYSTEM_ANNOTATION",
    "INSTALL_ID",
    "KARPENTER_DO_NOT_DISRUPT_ANNOTATION",
    "KARPENTER_NODE_POOL_LABEL",
    "MAINTENANCE_LABEL",
    "MAX_MOVES_ANNOTATION",
    "MIGRATED_FROM_LABEL",
    "MIGRATION_ID_LABEL",
    "MIGRATION_LABELS",
    "MIGRATION_REASON_LABEL",
    "MIGRATION_STATUS_LABEL",
    "MIGRATION_TIME_ANNOTATION",
    "NEXT_HOP_ANNOTATION",
    "ORIGINAL_POD_ANNOTATION",
    "ORIGINAL_POD_NAME_ANNOTATION",
    "PLAN_ANNOTATION",
    "POD_MIGRATION_KIND",
    "PRIVILEGED_COPIES_LABEL",
    "PROBE_ANSWERED",
    "PROBE_LABEL",
    "REQUESTED_BY_ANNOTATION",
    "RESCHEDULING_LABEL",
    "SAFE_EVICTIONS_ANNOTATION",
    "SAFE_EVICTIONS_DEADLINE_ANNOTATION",
    "SCHEDULING_GATE",
    "SHARED_INSTALL_ID",
    "SHUTDOWN_DELAY_ANNOTATION",
    "STEERED_BY_ANNOTATION",
    "STEERING_WEBHOOK",
    "SYNC_REQUESTED_ANNOTATION",
    "VERSION",
    "WINDOWS_ANNOTATION",
    "cluster_scoped_name",
    "install_id",
    "install_labels",
]

# -- the API group of PodMigration

GROUP: Final = "rescheduler.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
POD_MIGRATION_KIND: Final = "PodMigration"

_LEGACY_GROUP: Final = "scheduler.alpha.kubernetes.io"
"""The prefix of names that the original scheduler plugin introduced; users have them in their manifests."""

ANNOTATION_PREFIXES: Final = (f"{_LEGACY_GROUP}/", f"{GROUP}/")

# -- PodMigrations

FINALIZER: Final = f"{GROUP}/unfinished"
"""Keeps a deleted migration until its changes are undone, because deleting a migration cancels it."""

NEXT_HOP_ANNOTATION: Final = f"{GROUP}/goes-on-to"
"""On a migration to an intermediate node: the node that the pod is moved to next."""

CONTINUES_ANNOTATION: Final = f"{GROUP}/continues"
"""On a migration from an intermediate node: the name of the migration that moved the pod there."""

PLAN_ANNOTATION: Final = f"{GROUP}/plan"
"""On a PodMigration: the id of the plan that requested it."""

BALANCE_ANNOTATION: Final = f"{GROUP}/balance"
"""On a PodMigration: spreads of node loads before the plan and after it as expected, as JSON."""

REQUESTED_BY_ANNOTATION: Final = f"{GROUP}/requested-by"
"""On a PodMigration: the user of the command that requested it. On a node: the user who drains it."""

INCLUDES_SYSTEM_ANNOTATION: Final = f"{GROUP}/includes-system"
"""`true` if the user who drains the node also wants system pods to be moved."""

# -- pods that are moved, and their copies and replacements

MIGRATION_ID_LABEL: Final = f"{_LEGACY_GROUP}/migration-id"
"""On a source pod: the name of its migration, which locks the pod as long as the migration is unfinished."""
MIGRATION_STATUS_LABEL: Final = f"{_LEGACY_GROUP}/migration-status"
MIGRATED_FROM_LABEL: Final = f"{_LEGACY_GROUP}/migrated-from"
MIGRATION_REASON_LABEL: Final = f"{_LEGACY_GROUP}/migration-reason"
MIGRATION_LABELS: Final = (
    MIGRATION_ID_LABEL,
    MIGRATION_STATUS_LABEL,
    MIGRATED_FROM_LABEL,
    MIGRATION_REASON_LABEL,
)
"""All labels that a migration sets on its source pod and on the copy."""

MIGRATION_TIME_ANNOTATION: Final = f"{_LEGACY_GROUP}/migration-time"
ORIGINAL_POD_ANNOTATION: Final = f"{_LEGACY_GROUP}/original-pod"
"""On a copy: the UID of the pod that it replaces."""
ORIGINAL_POD_NAME_ANNOTATION: Final = f"{_LEGACY_GROUP}/original-pod-name"
"""On a copy: the name of the first pod in its chain of copies."""

STEERED_BY_ANNOTATION: Final = f"{GROUP}/migration"
"""On a steered replacement: the migration that evicted its predecessor."""

AVOIDED_NODES_ANNOTATION: Final = f"{GROUP}/avoids"
"""On a steered replacement: the nodes that rescheduler excluded from its node affinity."""

SYNC_REQUESTED_ANNOTATION: Final = f"{GROUP}/budget-sync-requested"
"""On a copy: the number of requests and the time of the last one, such as `2 2026-01-31T12:00:00Z`."""

DO_NOT_DISRUPT_ADDED_ANNOTATION: Final = f"{GROUP}/do-not-disrupt-added"
"""On a source pod: rescheduler added Karpenter's annotation, and removes it on a rollback."""

KARPENTER_DO_NOT_DISRUPT_ANNOTATION: Final = "karpenter.sh/do-not-disrupt"
KARPENTER_NODE_POOL_LABEL: Final = "karpenter.sh/nodepool"
"""The label of every node that Karpenter manages."""

SCHEDULING_GATE: Final = f"{GROUP}/nominate"
"""Holds a copy until its target node is nominated."""

PROBE_LABEL: Final = f"{GROUP}/webhook-probe"
"""On a pod that is created as a dry run: the name of the webhook that must deny it."""

# -- workloads and pods, set by users

RESCHEDULING_LABEL: Final = f"{_LEGACY_GROUP}/rescheduling"
"""`disabled` excludes a pod."""

SHUTDOWN_DELAY_ANNOTATION: Final = f"{GROUP}/shutdown-delay"
"""On a pod, a workload or a namespace: how long new pods keep serving before they get SIGTERM."""
PRIVILEGED_COPIES_LABEL: Final = f"{GROUP}/privileged-copies"
"""On a namespace, `true`: copies there may access their host, or use powerful service accounts."""

HANDOVER_ANNOTATION: Final = f"{GROUP}/handover"
"""The handover for pods of this workload."""

SAFE_EVICTIONS_ANNOTATION: Final = f"{GROUP}/safe-evictions"
"""On a workload or a namespace: whether evictions by other clients become moves (`auto`, `all` or `off`)."""

SAFE_EVICTIONS_DEADLINE_ANNOTATION: Final = f"{GROUP}/safe-evictions-deadline"
"""On a workload or a namespace: how long such a move may take; at most as long as configured."""

WINDOWS_ANNOTATION: Final = f"{GROUP}/windows"
"""On a workload or a namespace: when its pods may be moved for a better placement."""

MAX_MOVES_ANNOTATION: Final = f"{GROUP}/max-moves-per-hour"
"""On a workload or a namespace: how many of its pods may be moved per hour, as a number or percentage."""

FAILED_ATTEMPTS_ANNOTATION: Final = f"{GROUP}/failed-attempts"
"""Set by rescheduler: the ledger of nodes on which pods of the workload failed."""

# -- nodes

MAINTENANCE_LABEL: Final = f"{_LEGACY_GROUP}/maintenance"
"""`true` asks for the node to be drained."""

CORDONED_BY_ANNOTATION: Final = f"{GROUP}/cordoned-by"
"""The strategy for which rescheduler cordoned the node.

It is valid for that one cordon only. Once the node is schedulable, or another client has cordoned it, the
annotation has no meaning and is removed.
"""

EMPTY_CONDITION: Final = f"{GROUP}/Empty"
"""Condition of a node in maintenance: whether all pods that must leave are gone, and if not, why."""

DRAIN_CONDITIONS: Final = ("DrainInProgress", "Drained")
"""Well-known conditions (KEP-5683) that rescheduler sets on nodes it empties, if the server knows them."""
DRAIN_REASON: Final = "Rescheduler"
"""The reason of the conditions that rescheduler sets; it doesn't change those of other clients."""

EVICTION_RESPONDER: Final = f"{GROUP}/responder"
"""Pods with this name among `spec.evictionResponders` are moved when an Eviction object asks for it."""

# -- webhooks

STEERING_WEBHOOK: Final = "steering.rescheduler.dev"
GUARD_WEBHOOK: Final = "surplus.rescheduler.dev"
EVICTION_WEBHOOK: Final = "evictions.rescheduler.dev"

PROBE_ANSWERED: Final = "WebhookProbeAnswered"
"""The reason with which a webhook denies a probe; no other component uses it."""

# -- installations
#
# There is one installation per namespace, so the namespace is its id. All its objects carry the id as a
# label; the names of cluster-scoped objects contain it, too. The label says which objects an installation may
# remove. It does not prove that an installation exists: anyone who may write to a namespace can set it.

EVICTION_TURNS_CONFIG_MAP: Final = "rescheduler-eviction-turns"
"""The ConfigMap in which replicas of the webhook agree on which pod of a set may be evicted next."""
DRY_RUN_LEASE_SUFFIX: Final = "-dry-run"
"""The suffix of the name of a second Lease, whose holder reports a dry run."""

INSTALL_ID: Final = f"{GROUP}/install-id"

SHARED_INSTALL_ID: Final = "Shared"
"""The id of the CustomResourceDefinition, which all installations share. Namespaces are lower-case."""


def install_id(namespace: str) -> str:
    """Return the id of the installation in this namespace."""
    return namespace


def install_labels(namespace: str) -> dict[str, str]:
    """Return the labels of every object of the installation in this namespace."""
    return {"app.kubernetes.io/name": "rescheduler", INSTALL_ID: install_id(namespace)}


def cluster_scoped_name(name: str, namespace: str) -> str:
    """Return the name of a cluster-scoped object of the installation in this namespace.

    The separator is a dot, which no namespace contains, so that `rescheduler-webhook` in namespace `a` and
    `rescheduler` in namespace `webhook-a` have different names.
    """
    return f"{name}.{namespace}"
