"""The webhook as installed: two webhook configurations, and the Secret with its certificates.

The webhook only writes its certificates into the Secret, and its authority into `caBundle`. Its service
account can't create or delete any of these objects.

The webhook can't block pods for long: `failurePolicy` is `Ignore`, and API servers continue after one second
without an answer. That is why no namespace is excluded: not even its own pods can wait for themselves.
"""

from base64 import b64encode
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from rescheduler.api.well_known_names import GUARD_WEBHOOK, PROBE_LABEL, STEERING_WEBHOOK

__all__ = [
    "GUARD_PATH",
    "REPLICA_SET_CONTROLLERS",
    "STEERING_PATH",
    "WEBHOOK_CONFIGURATION",
    "WEBHOOK_SECRET",
    "ServiceAddress",
    "UrlAddress",
    "WebhookAddress",
    "webhook_configurations",
]

Object = dict[str, Any]

WEBHOOK_CONFIGURATION: Final = "rescheduler"
"""The name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration."""
WEBHOOK_SECRET: Final = "rescheduler-webhook-cert"  # noqa: S105 - its name, not its content

STEERING_PATH: Final = "/mutate"
GUARD_PATH: Final = "/guard"

REPLICA_SET_CONTROLLERS: Final = (
    "system:serviceaccount:kube-system:replicaset-controller",
    # A controller manager that runs without --use-service-account-credentials.
    "system:kube-controller-manager",
)

_NEVER_STEERED: Final = ("DaemonSet", "Node", "PodMigration")
"""Owners whose pods belong to one node anyway, and the owner of copies, which their migration places."""

_IS_PROBE: Final = f"has(object.metadata.labels) && '{PROBE_LABEL}' in object.metadata.labels"
_HAS_OWNERS: Final = "has(object.metadata.ownerReferences)"
_IS_CONTROLLER: Final = "has(o.controller) && o.controller"


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    namespace: str
    name: str
    port: int = 443

    def client_config(self, path: str) -> Object:
        return {"service": {"namespace": self.namespace, "name": self.name, "path": path, "port": self.port}}

    @property
    def names(self) -> tuple[str, ...]:
        """Return the DNS names of the Service. API servers use the last but one."""
        inside = f"{self.name}.{self.namespace}"
        return (self.name, inside, f"{inside}.svc", f"{inside}.svc.cluster.local")


@dataclass(frozen=True, slots=True)
class UrlAddress:
    """A server outside the cluster that API servers can reach."""

    url: str
    """Without a path."""

    def client_config(self, path: str) -> Object:
        return {"url": f"{self.url.rstrip('/')}{path}"}

    @property
    def names(self) -> tuple[str, ...]:
        return (urlsplit(self.url).hostname or "",)


WebhookAddress = ServiceAddress | UrlAddress


def webhook_configurations(address: WebhookAddress, trusted: bytes = b"") -> tuple[Object, Object]:
    """Return the configurations of the steering webhook and of the surplus guard.

    They have no selectors, so those that an operator adds stay when they are applied again. So does
    `caBundle`, without `trusted`.
    """
    steering = _webhook(STEERING_WEBHOOK, address.client_config(STEERING_PATH), trusted)
    # Another webhook may replace the affinity later: then the exclusions must be added again.
    steering["reinvocationPolicy"] = "IfNeeded"
    steering["matchConditions"] = [
        _condition(
            "made-by-a-controller",
            f"({_IS_PROBE}) || ({_HAS_OWNERS} && object.metadata.ownerReferences.exists("
            f"o, {_IS_CONTROLLER} && !(o.kind in {list(_NEVER_STEERED)})))",
        ),
        _condition("not-placed-yet", "!has(object.spec.nodeName) || object.spec.nodeName == ''"),
    ]
    guard = _webhook(GUARD_WEBHOOK, address.client_config(GUARD_PATH), trusted)
    guard["matchConditions"] = [
        _condition(
            "made-by-the-replicaset-controller",
            f"({_IS_PROBE}) || (request.userInfo.username in {list(REPLICA_SET_CONTROLLERS)} && "
            f"{_HAS_OWNERS} && object.metadata.ownerReferences.exists("
            f"o, {_IS_CONTROLLER} && o.kind == 'ReplicaSet'))",
        )
    ]
    return (
        _configuration("MutatingWebhookConfiguration", steering),
        _configuration("ValidatingWebhookConfiguration", guard),
    )


def _configuration(kind: str, webhook: Object) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": WEBHOOK_CONFIGURATION, "labels": {"app.kubernetes.io/name": "rescheduler"}},
        "webhooks": [webhook],
    }


def _webhook(name: str, client_config: Object, trusted: bytes) -> Object:
    bundle = {"caBundle": b64encode(trusted).decode()} if trusted else {}
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config | bundle,
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ],
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 1,
    }


def _condition(name: str, expression: str) -> Object:
    return {"name": name, "expression": expression}
