"""The admission policies for the service account of the daemon.

CEL sees only the object of the request, not the node or the source of a copy. docs/security.md lists the
limits that follow from this. `copy_policies` has the policy for the pods that the daemon creates.
"""

from typing import Final

from rescheduler.api.migration_journal import HISTORY_CONFIG_MAP
from rescheduler.api.well_known_names import (
    DO_NOT_DISRUPT_ADDED_ANNOTATION,
    DRAIN_CONDITIONS,
    DRAIN_REASON,
    DRY_RUN_LEASE_SUFFIX,
    EMPTY_CONDITION,
    EVICTION_RESPONDER,
    KARPENTER_DO_NOT_DISRUPT_ANNOTATION,
    SCHEDULING_GATE,
)
from rescheduler.install.admission_policies import (
    BUDGET_OF_ONE_WORKLOAD,
    METADATA_VARIABLES,
    OBJECT_VARIABLES,
    OWN_PREFIX,
    STATUS_VARIABLES,
    AdmissionPolicy,
    PolicyRequirement,
    any_of,
    is_controller,
    is_migration,
    is_owned_by_migration,
    listed,
    metadata_unchanged_except,
    new_and_old,
    own_event,
    policy_objects,
    unchanged_except,
)
from rescheduler.install.copy_policies import COPY_PREFIX, CREATE_PODS
from rescheduler.install.install_options import DAEMON, AdmissionPolicies
from rescheduler.kube.api_resources import Object
from rescheduler.migrations.labels_and_names import ANNOTATIONS, LABELS
from rescheduler.recovery.replica_lineage import KSE_PREFIX

__all__ = ["DAEMON_POLICIES", "daemon_policies"]

_OWN_ANNOTATIONS: Final = PolicyRequirement(
    f"Only annotations that start with {OWN_PREFIX} may change.",
    # The daemon replaces the records of its predecessor with its own.
    unchanged_except(
        "variables.newAnnotations",
        "variables.oldAnnotations",
        f"(k.startsWith('{OWN_PREFIX}') || k.startsWith('{KSE_PREFIX}'))",
    ),
)

_MAY_ADD_DO_NOT_DISRUPT: Final = (
    f"(k == '{KARPENTER_DO_NOT_DISRUPT_ANNOTATION}'"
    f" && ('{DO_NOT_DISRUPT_ADDED_ANNOTATION}' in variables.newAnnotations"
    f" || '{DO_NOT_DISRUPT_ADDED_ANNOTATION}' in variables.oldAnnotations))"
)
"""The key is Karpenter's annotation, and the pod records that the daemon added it."""

_POD_METADATA: Final = (
    PolicyRequirement(
        "Only the labels of a migration may change.",
        unchanged_except(
            "variables.newLabels",
            "variables.oldLabels",
            f"(k in {listed(LABELS)} || k.startsWith('{OWN_PREFIX}'))",
        ),
    ),
    PolicyRequirement(
        "Only the annotations of a migration may change.",
        unchanged_except(
            "variables.newAnnotations",
            "variables.oldAnnotations",
            f"(k in {listed(ANNOTATIONS)} || k.startsWith('{OWN_PREFIX}') || k.startsWith('{KSE_PREFIX}')"
            f" || {_MAY_ADD_DO_NOT_DISRUPT})",
        ),
    ),
    metadata_unchanged_except("labels", "annotations", "ownerReferences"),
)

# -- pods

_DELETED_PODS: Final = (
    # A copy that its workload has not adopted.
    (
        f"has(oldObject.metadata.ownerReferences)"
        f" && oldObject.metadata.ownerReferences.exists(o, {is_migration('o')})"
        f" && oldObject.metadata.ownerReferences.all(o, {is_migration('o')} || !{is_controller('o')})"
    ),
    f"oldObject.metadata.name.startsWith('{COPY_PREFIX}') && !has(oldObject.metadata.ownerReferences)",
    # A pod that has never run.
    "!has(oldObject.spec.nodeName) || oldObject.spec.nodeName == ''",
    # Pods on lost nodes: the control plane has marked them. CEL can't read the node itself.
    "has(oldObject.metadata.deletionTimestamp)",
    (
        "!has(oldObject.status.conditions)"
        " || !oldObject.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"
    ),
)
"""One of these must hold for each pod that the daemon deletes without an eviction."""

_OWNERS: Final = (
    *new_and_old("owners", "oldOwners", "metadata.ownerReferences", "[]"),
    ("wasCopy", f"variables.oldOwners.exists(o, {is_migration('o')})"),
)
_OWNER_RULES: Final = (
    PolicyRequirement(
        "A PodMigration may be removed from the owners or stop being the controller, not be added.",
        f"variables.owners.all(n, !{is_migration('n')} || variables.oldOwners.exists(o,"
        f" {is_migration('o')} && o.uid == n.uid && (!{is_controller('n')} || {is_controller('o')})))",
    ),
    PolicyRequirement(
        "Other owners must stay.",
        f"variables.oldOwners.all(o, {is_migration('o')} || variables.owners.exists(n, n.uid == o.uid))",
    ),
    PolicyRequirement(
        "Other owners may be added only to a copy, and not as the controller.",
        f"variables.owners.all(n, {is_migration('n')} || variables.oldOwners.exists(o, o == n)"
        f" || (variables.wasCopy && !{is_controller('n')}))",
    ),
)
_GATES: Final = new_and_old("gates", "oldGates", "spec.schedulingGates", "[]")

_PODS: Final = (
    CREATE_PODS,
    AdmissionPolicy(
        "update-pods",
        "",
        ("pods",),
        ("UPDATE",),
        (
            *_POD_METADATA,
            *_OWNER_RULES,
            PolicyRequirement(
                "In the spec, only schedulingGates may change.",
                unchanged_except("variables.newSpec", "variables.oldSpec", "k == 'schedulingGates'"),
            ),
            PolicyRequirement(
                f"Only the scheduling gate {SCHEDULING_GATE} may be removed, and none may be added.",
                f"variables.oldGates.all(g, g.name == '{SCHEDULING_GATE}' || "
                "variables.gates.exists(n, n == g))"
                " && variables.gates.all(n, variables.oldGates.exists(g, g == n))",
            ),
        ),
        (
            *METADATA_VARIABLES,
            *_OWNERS,
            *_GATES,
            ("newSpec", "dyn(object.spec)"),
            ("oldSpec", "dyn(oldObject.spec)"),
        ),
    ),
    AdmissionPolicy(
        "update-pod-status",
        "",
        ("pods/status",),
        ("UPDATE",),
        (
            *_POD_METADATA,
            PolicyRequirement(
                "In the status, only nominatedNodeName may change.",
                unchanged_except("variables.newStatus", "variables.oldStatus", "k == 'nominatedNodeName'"),
            ),
        ),
        (*METADATA_VARIABLES, *STATUS_VARIABLES),
    ),
    AdmissionPolicy(
        "delete-pods",
        "",
        ("pods",),
        ("DELETE",),
        (
            PolicyRequirement(
                "Only copies, pods without a node and pods that are not ready may be deleted.",
                any_of(*_DELETED_PODS),
            ),
        ),
    ),
    AdmissionPolicy(
        "evict-pods",
        "",
        ("pods/eviction",),
        ("CREATE",),
        (
            PolicyRequirement(
                "An eviction must name the uid of the pod.",
                "has(object.deleteOptions) && has(object.deleteOptions.preconditions)"
                " && has(object.deleteOptions.preconditions.uid)",
            ),
            PolicyRequirement(
                # With 0 the pod is removed before its containers have stopped: then two pods of a StatefulSet
                # write to one volume.
                "A pod must not be evicted without a grace period.",
                "!has(object.deleteOptions) || !has(object.deleteOptions.gracePeriodSeconds)"
                " || object.deleteOptions.gracePeriodSeconds > 0",
            ),
        ),
    ),
)

# -- other kinds

_OTHERS: Final = (
    *(
        AdmissionPolicy(
            f"update-{name}",
            group,
            resources,
            ("UPDATE",),
            (
                _OWN_ANNOTATIONS,
                metadata_unchanged_except("annotations"),
                PolicyRequirement(
                    "Only metadata may change.",
                    unchanged_except("variables.whole", "variables.oldWhole", "k in ['metadata', 'status']"),
                ),
            ),
            (*METADATA_VARIABLES, *OBJECT_VARIABLES),
        )
        for name, group, resources in (
            ("workloads", "apps", ("deployments", "replicasets", "statefulsets", "daemonsets")),
            ("jobs", "batch", ("jobs", "cronjobs")),
        )
    ),
    AdmissionPolicy(
        "update-nodes",
        "",
        ("nodes",),
        ("UPDATE",),
        (
            _OWN_ANNOTATIONS,
            metadata_unchanged_except("annotations"),
            PolicyRequirement(
                "In the spec, only unschedulable may change.",
                unchanged_except("variables.newSpec", "variables.oldSpec", "k == 'unschedulable'"),
            ),
        ),
        (*METADATA_VARIABLES, *new_and_old("newSpec", "oldSpec", "spec")),
    ),
    AdmissionPolicy(
        "update-node-status",
        "",
        ("nodes/status",),
        ("UPDATE",),
        (
            metadata_unchanged_except("annotations"),
            _OWN_ANNOTATIONS,
            PolicyRequirement(
                f"In the status, only the condition {EMPTY_CONDITION} may change, and"
                f" {' and '.join(DRAIN_CONDITIONS)} with the reason {DRAIN_REASON}.",
                unchanged_except("variables.newStatus", "variables.oldStatus", "k == 'conditions'")
                + "".join(
                    f" && variables.{one}.all(c, c.type == '{EMPTY_CONDITION}'"
                    f" || (c.type in {listed(DRAIN_CONDITIONS)} && has(c.reason)"
                    f" && c.reason == '{DRAIN_REASON}')"
                    f" || variables.{other}.exists(d, d == c))"
                    for one, other in (("conditions", "oldConditions"), ("oldConditions", "conditions"))
                ),
            ),
        ),
        (
            *METADATA_VARIABLES,
            *STATUS_VARIABLES,
            *new_and_old("conditions", "oldConditions", "status.conditions", "[]"),
        ),
    ),
    AdmissionPolicy(
        "update-eviction-status",
        "lifecycle.k8s.io",
        ("evictions/status",),
        ("UPDATE",),
        (
            metadata_unchanged_except(),
            PolicyRequirement(
                f"In the status, only the responder {EVICTION_RESPONDER} may change.",
                unchanged_except("variables.newStatus", "variables.oldStatus", "k == 'responders'")
                + "".join(
                    f" && variables.{one}.all(c, c.name == '{EVICTION_RESPONDER}'"
                    f" || variables.{other}.exists(d, d == c))"
                    for one, other in (("responders", "oldResponders"), ("oldResponders", "responders"))
                ),
            ),
        ),
        (
            *METADATA_VARIABLES,
            *STATUS_VARIABLES,
            *new_and_old("responders", "oldResponders", "status.responders", "[]"),
        ),
        "v1alpha1",
    ),
    *(
        AdmissionPolicy(
            f"{operation.lower()}-budgets",
            "policy",
            ("poddisruptionbudgets",),
            (operation,),
            (
                PolicyRequirement(
                    f"Only budgets named *-rescheduler-pdb and owned by a PodMigration may be {done}.",
                    f"{item}.metadata.name.endsWith('-rescheduler-pdb') && {is_owned_by_migration(item)}",
                ),
                *((BUDGET_OF_ONE_WORKLOAD,) if operation == "CREATE" else ()),
            ),
        )
        for operation, item, done in (("CREATE", "object", "created"), ("DELETE", "oldObject", "deleted"))
    ),
    *(
        AdmissionPolicy(
            f"{operation.lower()}-events",
            "",
            ("events",),
            (operation,),
            (own_event(item, done),),
        )
        for operation, item, done in (("CREATE", "object", "created"), ("UPDATE", "oldObject", "changed"))
    ),
    *(
        AdmissionPolicy(
            f"create-{resource}",
            group,
            (resource,),
            ("CREATE",),
            # RBAC can't restrict `create` to a name.
            (
                PolicyRequirement(
                    f"Only the names {' and '.join(names)} may be created.",
                    f"object.metadata.name in {listed(names)}",
                ),
            ),
        )
        for group, resource, names in (
            ("", "configmaps", ("rescheduler-state", HISTORY_CONFIG_MAP)),
            ("coordination.k8s.io", "leases", (DAEMON, f"{DAEMON}{DRY_RUN_LEASE_SUFFIX}")),
        )
    ),
)

DAEMON_POLICIES: Final = (*_PODS, *_OTHERS)


# -- as objects


def daemon_policies(options: AdmissionPolicies, namespace: str) -> list[Object]:
    """Return the policies for the daemon's service account, with their bindings."""
    return policy_objects(DAEMON_POLICIES, options, account=DAEMON, namespace=namespace)
