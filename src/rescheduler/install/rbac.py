"""The RBAC permissions of our service accounts and of users, each with its reason.

The end-to-end tests run as these service accounts and compare the table with the API server's audit log.

Users need permissions for commands that watch rescheduler or operate it. Their roles are not bound:
administrators decide who gets one. Only reading PodMigrations is added to the roles that users of a
namespace have already (`view`, and with it `edit` and `admin`). Creating one is not: otherwise a user who may
edit one namespace could use up the limits and the turn of all others.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rescheduler.api.daemon_status import STATE_CONFIG_MAP
from rescheduler.api.migration_journal import HISTORY_CONFIG_MAP
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME
from rescheduler.api.well_known_names import DRY_RUN_LEASE_SUFFIX, EVICTION_TURNS_CONFIG_MAP, GROUP
from rescheduler.cluster.sources.cluster_kinds import CLUSTER_KINDS
from rescheduler.install.install_options import DAEMON, WEB, WEBHOOK, metadata
from rescheduler.kube.api_resources import Object

__all__ = [
    "DAEMON_CLUSTER_GRANTS",
    "DAEMON_NAMESPACE_GRANTS",
    "OPERATOR_CLUSTER_GRANTS",
    "OPERATOR_NAMESPACE_GRANTS",
    "VIEWER_CLUSTER_GRANTS",
    "VIEWER_NAMESPACE_GRANTS",
    "WEBHOOK_CLUSTER_GRANTS",
    "WEBHOOK_NAMESPACE_GRANTS",
    "WEB_GRANTS",
    "RbacGrant",
    "daemon_roles",
    "role_rules",
    "user_roles",
    "web_roles",
    "webhook_roles",
]


class RbacGrant(NamedTuple):
    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
    """If set, the grant covers only these objects; lists and watches must then name one."""


_LIST_WATCH: Final = ("list", "watch")
_APPS: Final = "apps"

_WORKLOADS_WITH_ATTEMPTS: Final = (
    (_APPS, "deployments"),
    (_APPS, "replicasets"),
    (_APPS, "statefulsets"),
    (_APPS, "daemonsets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
)
"""Workloads on which failed attempts are recorded."""

DAEMON_CLUSTER_GRANTS: Final = (
    *(
        RbacGrant(each.resource.group, each.resource.plural, _LIST_WATCH, "input of the planner")
        for each in CLUSTER_KINDS
        if each.decides
    ),
    RbacGrant("lifecycle.k8s.io", "evictions", _LIST_WATCH, "pods that opted in and have to go"),
    RbacGrant("lifecycle.k8s.io", "evictions/status", ("patch",), "the progress of their moves"),
    RbacGrant("karpenter.sh", "nodepools", ("list",), "whether Karpenter removes nodes, and which"),
    RbacGrant(
        "",
        "configmaps",
        ("get",),
        "whether the cluster autoscaler removes nodes",
        ("cluster-autoscaler-status",),
    ),
    RbacGrant("metrics.k8s.io", "nodes", ("list",), "usage of nodes"),
    RbacGrant("metrics.k8s.io", "pods", ("list",), "usage of pods"),
    RbacGrant("", "pods", ("get",), "a live read before each irreversible action"),
    RbacGrant("", "pods", ("create",), "the copy, which is ready before its source is evicted"),
    RbacGrant("", "pods", ("patch",), "labels and annotations of pods that are moved"),
    RbacGrant(
        "",
        "pods",
        ("delete",),
        "delete the copy when a move is rolled back, and pods of lost nodes where allowed",
    ),
    RbacGrant(
        "",
        "pods/status",
        ("patch",),
        "nominatedNodeName: the target node of a copy, and the node that MakeRoom keeps for a pending pod",
    ),
    RbacGrant("", "pods/eviction", ("create",), "evict source pods within their budgets"),
    RbacGrant(_APPS, "replicasets", ("get",), "the template of the copy, read live"),
    RbacGrant("", "nodes", ("get",), "cordons, and the node of a copy, read live"),
    RbacGrant("", "nodes", ("patch",), "cordon and uncordon"),
    RbacGrant("", "nodes/status", ("patch",), "conditions of nodes that are emptied"),
    RbacGrant("", "events", ("create", "patch"), "report what happened and why"),
    RbacGrant(
        "policy",
        "poddisruptionbudgets",
        ("create", "delete"),
        "the temporary budget of a workload without one",
    ),
    RbacGrant(GROUP, "podmigrations", ("get", "create", "patch", "delete"), "the record of each move"),
    RbacGrant(GROUP, "podmigrations/status", ("update",), "the progress of each move"),
    RbacGrant("karpenter.sh", "nodeclaims", _LIST_WATCH, "when Karpenter removes a node by force"),
    RbacGrant(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        _LIST_WATCH,
        "whether replacements are steered",
    ),
    *(
        RbacGrant(group, resource, ("patch",), "the record of failed attempts")
        for group, resource in _WORKLOADS_WITH_ATTEMPTS
    ),
)

DAEMON_NAMESPACE_GRANTS: Final = (
    RbacGrant("coordination.k8s.io", "leases", ("create",), "leader election"),
    RbacGrant(
        "coordination.k8s.io",
        "leases",
        ("get", "update"),
        "leader election, and which replica reports a dry run",
        (DAEMON, f"{DAEMON}{DRY_RUN_LEASE_SUFFIX}"),
    ),
    RbacGrant("", "configmaps", ("create",), "daemon status and pause"),
    RbacGrant(
        "",
        "configmaps",
        ("list", "watch", "patch"),
        "daemon status and pause",
        ("rescheduler-state",),
    ),
    RbacGrant("", "configmaps", ("get", "patch"), "the journal of finished moves", (HISTORY_CONFIG_MAP,)),
)

WEB_GRANTS: Final = (
    RbacGrant(
        "authentication.k8s.io", "tokenreviews", ("create",), "who a viewer of the page is, by their token"
    ),
    RbacGrant(
        "authorization.k8s.io",
        "subjectaccessreviews",
        ("create",),
        "what a viewer of the page may see and do",
    ),
)
"""The permissions of the daemon if it serves the web page."""

WEBHOOK_CLUSTER_GRANTS: Final = (
    RbacGrant(GROUP, "podmigrations", _LIST_WATCH, "target nodes of replacements"),
    RbacGrant(GROUP, "podmigrations", ("create",), "the move of a pod that another client wants to evict"),
    RbacGrant("", "pods", _LIST_WATCH, "whether an eviction would disrupt a workload"),
    RbacGrant("", "namespaces", _LIST_WATCH, "annotations about safe evictions and shutdown delays"),
    RbacGrant("policy", "poddisruptionbudgets", _LIST_WATCH, "whether a budget would refuse an eviction"),
    *(
        RbacGrant(group, resource, _LIST_WATCH, "nodes on which its pods failed; shutdown delays")
        for group, resource in _WORKLOADS_WITH_ATTEMPTS
        if resource != "daemonsets"  # their pods can't run on another node
    ),
    RbacGrant("", "nodes", _LIST_WATCH, "nodes on which pods have not failed"),
    RbacGrant("", "events", ("create",), "why a pod is evicted without a move"),
    *(
        RbacGrant(
            "admissionregistration.k8s.io",
            resource,
            ("get", "list", "watch", "patch"),
            "the caBundle of its registration",
            ("rescheduler",),
        )
        for resource in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    ),
)

WEBHOOK_NAMESPACE_GRANTS: Final = (
    RbacGrant(
        "",
        "secrets",
        ("get", "list", "watch", "update"),
        "its certificates",
        ("rescheduler-webhook-cert",),
    ),
    RbacGrant("coordination.k8s.io", "leases", _LIST_WATCH, "whether a daemon leads", ("rescheduler",)),
    RbacGrant("", "configmaps", _LIST_WATCH, "whether moves are paused or halted", ("rescheduler-state",)),
    RbacGrant(
        "",
        "configmaps",
        ("list", "watch", "update"),
        "which pod of a set may be evicted next",
        (EVICTION_TURNS_CONFIG_MAP,),
    ),
)


def role_rules(grants: Sequence[RbacGrant]) -> list[Object]:
    """Return one rule per resource and set of names, in the order of the table."""
    verbs: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for grant in grants:
        known = verbs.setdefault((grant.group, grant.resource, grant.names), [])
        known += [verb for verb in grant.verbs if verb not in known]
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": found}
        | ({"resourceNames": list(names)} if names else {})
        for (group, resource, names), found in verbs.items()
    ]


_RBAC: Final = "rbac.authorization.k8s.io"


def daemon_roles(namespace: str) -> list[Object]:
    return _roles(DAEMON, namespace, "daemon", DAEMON_CLUSTER_GRANTS, DAEMON_NAMESPACE_GRANTS)


def web_roles(namespace: str) -> list[Object]:
    """Return what the daemon's account needs to serve the web page, in addition to its other roles."""
    about = metadata(WEB, component="web")
    return [_role("ClusterRole", about, WEB_GRANTS), _binding("ClusterRole", about, namespace, DAEMON)]


def webhook_roles(namespace: str) -> list[Object]:
    return _roles(WEBHOOK, namespace, "webhook", WEBHOOK_CLUSTER_GRANTS, WEBHOOK_NAMESPACE_GRANTS)


def _roles(
    name: str, namespace: str, component: str, everywhere: Sequence[RbacGrant], at_home: Sequence[RbacGrant]
) -> list[Object]:
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name, namespace, component)},
        _role("ClusterRole", metadata(name, component=component), everywhere),
        _binding("ClusterRole", metadata(name, component=component), namespace),
        _role("Role", metadata(name, namespace, component), at_home),
        _binding("Role", metadata(name, namespace, component), namespace),
    ]


def _role(kind: str, about: Object, grants: Sequence[RbacGrant]) -> Object:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": about, "rules": role_rules(grants)}


def _binding(kind: str, about: Object, namespace: str, account: str = "") -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": about,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": about["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account or about["name"], "namespace": namespace}],
    }


_READ: Final = ("get", "list", "watch")

VIEWER_CLUSTER_GRANTS: Final = (
    *(
        RbacGrant(each.resource.group, each.resource.plural, _READ, "`plan`, `explain`, `snapshot`, `status`")
        for each in CLUSTER_KINDS
    ),
    RbacGrant("metrics.k8s.io", "nodes", ("list",), "usage in `plan` and `explain`"),
    RbacGrant("metrics.k8s.io", "pods", ("list",), "usage in `plan` and `explain`"),
    RbacGrant("", "events", ("list",), "the timeline of `migrations NAME`"),
    RbacGrant(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        ("list",),
        "whether the webhook is registered, in `plan` and `explain`",
    ),
    RbacGrant(
        "rbac.authorization.k8s.io", "clusterrolebindings", ("list",), "where rescheduler is installed"
    ),
    RbacGrant(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        ("get",),
        "whether the CRD is up to date, in `status`",
        (PODMIGRATION_CRD_NAME,),
    ),
)

VIEWER_NAMESPACE_GRANTS: Final = (
    RbacGrant("apps", "deployments", ("get",), "where rescheduler is installed", (DAEMON,)),
    RbacGrant(
        "",
        "configmaps",
        ("get",),
        "`status`, `history`, and the daemon's configuration",
        (DAEMON, STATE_CONFIG_MAP, HISTORY_CONFIG_MAP),
    ),
    RbacGrant(
        "coordination.k8s.io", "leases", ("get",), "who leads", (DAEMON, f"{DAEMON}{DRY_RUN_LEASE_SUFFIX}")
    ),
)

OPERATOR_CLUSTER_GRANTS: Final = (
    *VIEWER_CLUSTER_GRANTS,
    RbacGrant(GROUP, "podmigrations", ("create",), "`apply`, `move`, `drain`, `undo`"),
    RbacGrant(GROUP, "podmigrations", ("delete",), "`migrations --cancel`"),
    RbacGrant("", "nodes", ("patch",), "`drain` and `undrain`: the maintenance label and the cordon"),
)

OPERATOR_NAMESPACE_GRANTS: Final = (
    *VIEWER_NAMESPACE_GRANTS,
    RbacGrant("", "configmaps", ("patch",), "`pause` and `resume`", (STATE_CONFIG_MAP,)),
)

_AGGREGATE_TO_VIEW: Final = f"{_RBAC}/aggregate-to-view"


def user_roles(namespace: str) -> list[Object]:
    """Return the roles of viewers and operators, and what users of a namespace may read."""
    return [
        *_unbound_roles("viewer", namespace, VIEWER_CLUSTER_GRANTS, VIEWER_NAMESPACE_GRANTS),
        *_unbound_roles("operator", namespace, OPERATOR_CLUSTER_GRANTS, OPERATOR_NAMESPACE_GRANTS),
        _aggregated(),
    ]


def _unbound_roles(
    name: str, namespace: str, everywhere: Sequence[RbacGrant], at_home: Sequence[RbacGrant]
) -> list[Object]:
    full_name = f"{DAEMON}-{name}"
    return [
        _role("ClusterRole", metadata(full_name, component=name), everywhere),
        _role("Role", metadata(full_name, namespace, name), at_home),
    ]


def _aggregated() -> Object:
    about = metadata(f"{DAEMON}-podmigrations-view", component="viewer")
    about["labels"] = {**about["labels"], _AGGREGATE_TO_VIEW: "true"}
    why = "what happens to the pods of a namespace that one may view"
    return _role("ClusterRole", about, (RbacGrant(GROUP, "podmigrations", _READ, why),))
