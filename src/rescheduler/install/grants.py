"""What the program is allowed to do, verb by verb, each with the reason.

Nothing else: the end-to-end tests run as these service accounts, and compare this table with the API server's
audit log. What deciding reads follows from the kinds that it reads.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rescheduler.kube.resources import Object
from rescheduler.model.migrations import GROUP
from rescheduler.sources.kinds import CLUSTER_KINDS

__all__ = ["DAEMON_AT_HOME", "DAEMON_EVERYWHERE", "WEBHOOK_AT_HOME", "WEBHOOK_EVERYWHERE", "Grant", "rules"]


class Grant(NamedTuple):
    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
    """Only objects of these names; lists and watches then have to name one, too."""


_FOLLOW: Final = ("list", "watch")
_APPS: Final = "apps"

_RECORDED_ON: Final = (
    (_APPS, "deployments"),
    (_APPS, "replicasets"),
    (_APPS, "statefulsets"),
    (_APPS, "daemonsets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
)
"""Workloads on which failed tries are recorded."""

DAEMON_EVERYWHERE: Final = (
    *(
        Grant(each.resource.group, each.resource.plural, _FOLLOW, "plans are made from it")
        for each in CLUSTER_KINDS
        if each.decides
    ),
    Grant("metrics.k8s.io", "nodes", ("list",), "usage of nodes"),
    Grant("metrics.k8s.io", "pods", ("list",), "usage of pods"),
    Grant("", "pods", ("get",), "a live read before each irreversible action"),
    Grant("", "pods", ("create",), "the copy, which is ready before its source is evicted"),
    Grant("", "pods", ("patch",), "marks on the pods that are moved"),
    Grant("", "pods", ("delete",), "the copy when a move is rolled back; pods of lost nodes where allowed"),
    Grant("", "pods/status", ("patch",), "the target node of a copy (nominatedNodeName)"),
    Grant("", "pods/eviction", ("create",), "sources are evicted, so that budgets hold"),
    Grant(_APPS, "replicasets", ("get",), "the template of the copy, read live"),
    Grant("", "nodes", ("get",), "cordons, and the node of a copy, read live"),
    Grant("", "nodes", ("patch",), "cordon and uncordon"),
    Grant("", "nodes/status", ("patch",), "the condition rescheduler.dev/Empty of nodes in maintenance"),
    Grant("", "events", ("create", "patch"), "reports what happened, and why"),
    Grant(
        "policy",
        "poddisruptionbudgets",
        ("create", "delete"),
        "the temporary budget of a workload without one",
    ),
    Grant(GROUP, "podmigrations", ("get", "create", "patch", "delete"), "the record of each move"),
    Grant(GROUP, "podmigrations/status", ("update",), "the progress of each move"),
    Grant(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        _FOLLOW,
        "whether replacements are steered",
    ),
    *(
        Grant(group, resource, ("patch",), "the record of failed attempts")
        for group, resource in _RECORDED_ON
    ),
)

DAEMON_AT_HOME: Final = (
    Grant("coordination.k8s.io", "leases", ("create",), "leader election"),
    Grant("coordination.k8s.io", "leases", ("get", "update"), "leader election", ("rescheduler",)),
    Grant("", "configmaps", ("create",), "status, and whether it is paused"),
    Grant(
        "",
        "configmaps",
        ("list", "watch", "patch"),
        "status, and whether it is paused",
        ("rescheduler-state",),
    ),
)

WEBHOOK_EVERYWHERE: Final = (
    Grant(GROUP, "podmigrations", _FOLLOW, "which replacements should go where"),
    *(
        Grant(group, resource, _FOLLOW, "where pods of a workload have failed")
        for group, resource in _RECORDED_ON
        if resource != "daemonsets"  # whose pods can't go elsewhere
    ),
    Grant("", "nodes", _FOLLOW, "whether there is any node where they have not failed"),
    *(
        Grant(
            "admissionregistration.k8s.io",
            resource,
            ("get", "list", "watch", "patch"),
            "the caBundle of its registration",
            ("rescheduler",),
        )
        for resource in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    ),
)

WEBHOOK_AT_HOME: Final = (
    Grant(
        "",
        "secrets",
        ("get", "list", "watch", "update"),
        "its certificates",
        ("rescheduler-webhook-cert",),
    ),
)


def rules(grants: Sequence[Grant]) -> list[Object]:
    """As a Role has it: one rule per kind of object and set of names, in the order of the table."""
    verbs: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for grant in grants:
        known = verbs.setdefault((grant.group, grant.resource, grant.names), [])
        known += [verb for verb in grant.verbs if verb not in known]
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": found}
        | ({"resourceNames": list(names)} if names else {})
        for (group, resource, names), found in verbs.items()
    ]
