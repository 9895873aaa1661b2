"""Roles for users: the permissions that commands need to watch rescheduler, and to operate it.

Nothing is bound: administrators decide who gets a role. Only reading PodMigrations is added to the roles that
users of a namespace have already (`view`, and with it `edit` and `admin`). Creating one is not: otherwise
a user who may edit one namespace could use up the limits and the turn of all others.
"""

from typing import Final

from rescheduler.api.daemon_status import STATE_CONFIG_MAP
from rescheduler.api.migration_journal import HISTORY_CONFIG_MAP
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME
from rescheduler.api.well_known_names import DRY_RUN_LEASE_SUFFIX, GROUP
from rescheduler.cluster.sources.cluster_kinds import CLUSTER_KINDS
from rescheduler.install.object_metadata import DAEMON, metadata
from rescheduler.install.rbac import RbacGrant, role_rules
from rescheduler.kube.api_resources import Object

__all__ = [
    "OPERATOR_CLUSTER_GRANTS",
    "OPERATOR_NAMESPACE_GRANTS",
    "VIEWER_CLUSTER_GRANTS",
    "VIEWER_NAMESPACE_GRANTS",
    "user_roles",
]

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

_AGGREGATE_TO_VIEW: Final = "rbac.authorization.k8s.io/aggregate-to-view"


def user_roles(namespace: str) -> list[Object]:
    """Return the roles of viewers and operators, and what users of a namespace may read."""
    return [
        *_roles("viewer", namespace, VIEWER_CLUSTER_GRANTS, VIEWER_NAMESPACE_GRANTS),
        *_roles("operator", namespace, OPERATOR_CLUSTER_GRANTS, OPERATOR_NAMESPACE_GRANTS),
        _aggregated(),
    ]


def _roles(
    name: str, namespace: str, everywhere: tuple[RbacGrant, ...], at_home: tuple[RbacGrant, ...]
) -> list[Object]:
    full_name = f"{DAEMON}-{name}"
    return [
        _role("ClusterRole", metadata(full_name, component=name), everywhere),
        _role("Role", metadata(full_name, namespace, name), at_home),
    ]


def _role(kind: str, about: Object, grants: tuple[RbacGrant, ...]) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": about,
        "rules": role_rules(grants),
    }


def _aggregated() -> Object:
    about = metadata(f"{DAEMON}-podmigrations-view", component="viewer")
    about["labels"] = {**about["labels"], _AGGREGATE_TO_VIEW: "true"}
    why = "what happens to the pods of a namespace that one may view"
    return _role("ClusterRole", about, (RbacGrant(GROUP, "podmigrations", _READ, why),))
