"""The admission policy for pods that the daemon creates: its copies.

CEL sees only the object of the request and its namespace, not the source of a copy. So a policy can't require
that a copy equals its source. It limits instead what a pod that was created with a stolen token could do:

- no access to the host, as in the Pod Security Standard `baseline`
- no service account that could take over the cluster: the server is asked what that account may do
- nothing that belongs to our own webhook, which sees every new pod

An administrator allows the first two for a namespace with a label on it. Neither tenants with the role
`admin` nor our accounts may write labels of namespaces.
"""

from typing import Final, NamedTuple

from rescheduler.api.well_known_names import PRIVILEGED_COPIES_LABEL, SCHEDULING_GATE
from rescheduler.cluster.pod_record import BASELINE_CAPABILITIES
from rescheduler.install.admission_policies import (
    SYSTEM_ALLOWED,
    AdmissionPolicy,
    PolicyRequirement,
    any_of,
    is_owned_by_migration,
    listed,
)
from rescheduler.install.install_options import DAEMON, WEBHOOK, labels
from rescheduler.migrations.labels_and_names import ANNOTATIONS, LABELS
from rescheduler.steering.webhook.webhook_configurations import WEBHOOK_SECRET

__all__ = ["COPY_PREFIX", "CREATE_PODS"]

_SYSTEM_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease")
"""They contain the service accounts of the control plane, which every pod there can use."""

COPY_PREFIX: Final = "rescheduled-"
_HAS_GATE: Final = (
    "has(object.spec.schedulingGates) && "
    f"object.spec.schedulingGates.exists(g, g.name == '{SCHEDULING_GATE}')"
)
_IS_BARE_COPY: Final = (
    f"object.metadata.name.startsWith('{COPY_PREFIX}')"
    " && !has(object.metadata.ownerReferences)"
    f" && has(object.metadata.labels) && '{LABELS[0]}' in object.metadata.labels"
    f" && has(object.metadata.annotations)"
    f" && {listed(ANNOTATIONS)}.all(k, k in object.metadata.annotations)"
)

_VARIABLES: Final = (
    (
        "mayBePrivileged",
        f"namespaceObject.?metadata.?labels[?'{PRIVILEGED_COPIES_LABEL}'].orValue('') == 'true'",
    ),
    ("isOwnNamespace", "request.userInfo.username.split(':')[2] == request.namespace"),
    (
        "containers",
        "object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])",
    ),
    ("volumes", "has(object.spec.volumes) ? object.spec.volumes : []"),
    ("account", "has(object.spec.serviceAccountName) ? object.spec.serviceAccountName : 'default'"),
    ("podLabels", "has(object.metadata.labels) ? object.metadata.labels : {}"),
)

_UNLESS_ALLOWED: Final = f"unless the namespace has the label {PRIVILEGED_COPIES_LABEL}: true."

# -- the host

_HOST_CONTAINER: Final = (
    "has(c.securityContext.privileged) && c.securityContext.privileged",
    "has(c.securityContext.procMount) && c.securityContext.procMount != 'Default'",
    "c.securityContext.?windowsOptions.?hostProcess.orValue(false)",
    (
        "has(c.securityContext.capabilities) && has(c.securityContext.capabilities.add)"
        f" && !c.securityContext.capabilities.add.all(each, each in {listed(BASELINE_CAPABILITIES)})"
    ),
)
_HOST_POD: Final = (
    *(f"has(object.spec.{each}) && object.spec.{each}" for each in ("hostNetwork", "hostPID", "hostIPC")),
    "object.spec.?securityContext.?windowsOptions.?hostProcess.orValue(false)",
    "variables.volumes.exists(v, has(v.hostPath))",
    f"variables.containers.exists(c, has(c.securityContext) && ({any_of(*_HOST_CONTAINER)}))",
)
_NO_HOST: Final = PolicyRequirement(
    "A created pod must have no access to its host (host namespaces, hostPath, privileged containers,"
    f" capabilities beyond the Pod Security Standard baseline), {_UNLESS_ALLOWED}",
    f"variables.mayBePrivileged || !({any_of(*_HOST_POD)})",
)

# -- service accounts


class _Permission(NamedTuple):
    verb: str
    resource: str
    subresource: str = ""
    group: str = ""


_TAKEOVER: Final = (
    # Secrets and tokens of the control plane.
    _Permission("get", "secrets"),
    _Permission("list", "secrets"),
    _Permission("create", "serviceaccounts", "token"),
    _Permission("impersonate", "serviceaccounts"),
    _Permission("impersonate", "users"),
    # Pods that use them.
    _Permission("create", "pods"),
    _Permission("create", "pods", "exec"),
    _Permission("get", "nodes", "proxy"),
    *(
        _Permission(verb, resource, group="apps")
        for resource in ("deployments", "daemonsets", "statefulsets")
        for verb in ("create", "patch", "update")
    ),
    _Permission("create", "replicasets", group="apps"),
    _Permission("create", "jobs", group="batch"),  # the template of an existing one can't be changed
    _Permission("create", "cronjobs", group="batch"),
    _Permission("patch", "cronjobs", group="batch"),
    _Permission("patch", "pods"),  # the image of a container can be changed
    _Permission("update", "pods"),
    # Permissions, and what every request passes through.
    _Permission("bind", "clusterroles", group="rbac.authorization.k8s.io"),
    _Permission("escalate", "clusterroles", group="rbac.authorization.k8s.io"),
    _Permission("create", "mutatingwebhookconfigurations", group="admissionregistration.k8s.io"),
    _Permission("patch", "mutatingwebhookconfigurations", group="admissionregistration.k8s.io"),
)
"""Each of these in kube-system, or in the whole cluster, is enough to take over the cluster."""

_CHECKS_PER_EXPRESSION: Final = 2
"""One check costs 350,000 of the 1,000,000 that the server grants an expression, and of the 10,000,000 that
it grants all expressions of a policy: 28 checks at most."""


def _is_allowed(permission: _Permission) -> str:
    subresource = f".subresource('{permission.subresource}')" if permission.subresource else ""
    return (
        "authorizer.serviceAccount(request.namespace, variables.account)"
        f".group('{permission.group}').resource('{permission.resource}'){subresource}"
        f".namespace('kube-system').check('{permission.verb}').allowed()"
    )


def _described(permission: _Permission) -> str:
    resource = "/".join(filter(None, (permission.resource, permission.subresource)))
    return f"{permission.verb} {resource}"


_NO_TAKEOVER: Final = tuple(
    PolicyRequirement(
        "A created pod must not use a service account that may"
        f" {' or '.join(_described(each) for each in pair)} in kube-system, {_UNLESS_ALLOWED}",
        # The daemon gains nothing from a pod with its own account.
        f"variables.mayBePrivileged || (variables.isOwnNamespace && variables.account == '{DAEMON}') || "
        f"!({any_of(*(_is_allowed(each) for each in pair))})",
    )
    for pair in (
        _TAKEOVER[first : first + _CHECKS_PER_EXPRESSION]
        for first in range(0, len(_TAKEOVER), _CHECKS_PER_EXPRESSION)
    )
)

# -- our webhook


def _names_secret(reference: str, field: str = "name") -> str:
    return f"{reference}.?{field}.orValue('') == '{WEBHOOK_SECRET}'"


_WEBHOOK_POD: Final = (
    f"variables.account == '{WEBHOOK}'",
    # The webhook's Service would send requests there.
    " && ".join(
        f"'{key}' in variables.podLabels && variables.podLabels['{key}'] == '{value}'"
        for key, value in labels("webhook").items()
    ),
    f"variables.volumes.exists(v, {_names_secret('v.?secret', 'secretName')})",
    (
        "variables.volumes.exists(v, has(v.projected) && has(v.projected.sources)"
        f" && v.projected.sources.exists(s, {_names_secret('s.?secret')}))"
    ),
    f"variables.containers.exists(c, has(c.envFrom) && c.envFrom.exists(e, {_names_secret('e.?secretRef')}))",
    (
        "variables.containers.exists(c, has(c.env)"
        f" && c.env.exists(e, {_names_secret('e.?valueFrom.?secretKeyRef')}))"
    ),
)
_NO_WEBHOOK: Final = PolicyRequirement(
    f"A created pod must not use the service account, the labels or the Secret of {WEBHOOK}.",
    f"!variables.isOwnNamespace || !({any_of(*_WEBHOOK_POD)})",
)

CREATE_PODS: Final = AdmissionPolicy(
    "create-pods",
    "",
    ("pods",),
    ("CREATE",),
    (
        PolicyRequirement(f"A created pod must have the scheduling gate {SCHEDULING_GATE}.", _HAS_GATE),
        PolicyRequirement(
            f"No pod may be created in {', '.join(_SYSTEM_NAMESPACES)},"
            " unless admissionPolicies.systemNamespaces is set.",
            # A dry run stores nothing: the daemon uses one to check whether the webhook answers.
            f"{SYSTEM_ALLOWED} || !(request.namespace in {listed(_SYSTEM_NAMESPACES)})"
            " || (has(request.dryRun) && request.dryRun)",
        ),
        PolicyRequirement(
            "A created pod must have a PodMigration as its controller, or the name, labels and annotations"
            " of a copy without a controller.",
            any_of(is_owned_by_migration("object"), _IS_BARE_COPY),
        ),
        _NO_HOST,
        *_NO_TAKEOVER,
        _NO_WEBHOOK,
    ),
    _VARIABLES,
)
