"""The webhook as API servers know it: two configurations, the Secret with its certificates, and the probe.

These objects are installed with the product. The webhook itself only writes its certificates into the Secret
and the authority that signed them into `caBundle`: its service account can create or delete none of them.

Nothing here can stop a pod for long: `failurePolicy: Ignore`, and after a second the API server goes on
without us. That is also why no namespace is left out: not even our own pods can wait for themselves.
"""

from base64 import b64encode
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

__all__ = [
    "CONFIGURATION",
    "GUARD",
    "GUARD_PATH",
    "PROBE_ANSWERED",
    "PROBE_LABEL",
    "REPLICA_SET_CONTROLLERS",
    "SECRET",
    "STEERING",
    "STEERING_PATH",
    "Address",
    "AtUrl",
    "InService",
    "WebhookAnswers",
    "registrations",
]

Object = dict[str, Any]

CONFIGURATION: Final = "rescheduler"
"""The name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration."""
SECRET: Final = "rescheduler-webhook-cert"  # noqa: S105 - its name, not its content

STEERING: Final = "steering.rescheduler.dev"
STEERING_PATH: Final = "/mutate"
GUARD: Final = "surplus.rescheduler.dev"
GUARD_PATH: Final = "/guard"

PROBE_LABEL: Final = "rescheduler.dev/webhook-probe"
"""On a pod that is created as a dry run, to learn whether the webhook of that name answers: it denies it."""
PROBE_ANSWERED: Final = "WebhookProbeAnswered"
"""The reason of that denial: only a webhook that API servers reach and trust can give it."""

REPLICA_SET_CONTROLLERS: Final = (
    "system:serviceaccount:kube-system:replicaset-controller",
    # A controller manager that runs without --use-service-account-credentials.
    "system:kube-controller-manager",
)

_NEVER_STEERED: Final = ("DaemonSet", "Node", "PodMigration")
"""Owners whose pods belong to one node anyway, and copies, which are placed by their migration."""

_IS_PROBE: Final = f"has(object.metadata.labels) && '{PROBE_LABEL}' in object.metadata.labels"
_HAS_OWNERS: Final = "has(object.metadata.ownerReferences)"
_IS_CONTROLLER: Final = "has(o.controller) && o.controller"


class WebhookAnswers(NamedTuple):
    """What the webhook was seen to do."""

    steers: bool | None = None
    """Whether it tells replacements of evicted pods where to go; None if that can't be found out."""
    guards: bool | None = None
    """Whether it keeps ReplicaSets from creating a pod while they adopt a copy."""
    problem: str = ""
    """Why it does not, or why that is not known, in words."""


@dataclass(frozen=True, slots=True)
class InService:
    namespace: str
    name: str
    port: int = 443

    def client_config(self, path: str) -> Object:
        return {"service": {"namespace": self.namespace, "name": self.name, "path": path, "port": self.port}}

    @property
    def names(self) -> tuple[str, ...]:
        """API servers ask for the last but one."""
        inside = f"{self.name}.{self.namespace}"
        return (self.name, inside, f"{inside}.svc", f"{inside}.svc.cluster.local")


@dataclass(frozen=True, slots=True)
class AtUrl:
    """Outside of the cluster: where the API server itself can reach us."""

    url: str
    """Without a path."""

    def client_config(self, path: str) -> Object:
        return {"url": f"{self.url.rstrip('/')}{path}"}

    @property
    def names(self) -> tuple[str, ...]:
        return (urlsplit(self.url).hostname or "",)


Address = InService | AtUrl


def registrations(address: Address, trusted: bytes = b"") -> tuple[Object, Object]:
    """The configuration that steers replacements, and the one that guards handovers.

    Which namespaces and labels are asked about at all is left to those who run the cluster: no selectors are
    set, so theirs stay. Nor is `caBundle`, without `trusted`: applying the objects again keeps what is there.
    """
    steering = _webhook(STEERING, address.client_config(STEERING_PATH), trusted)
    # Others may write an affinity after us: then the exclusion has to go into that one, too.
    steering["reinvocationPolicy"] = "IfNeeded"
    steering["matchConditions"] = [
        _condition(
            "made-by-a-controller",
            f"({_IS_PROBE}) || ({_HAS_OWNERS} && object.metadata.ownerReferences.exists("
            f"o, {_IS_CONTROLLER} && !(o.kind in {list(_NEVER_STEERED)})))",
        ),
        _condition("not-placed-yet", "!has(object.spec.nodeName) || object.spec.nodeName == ''"),
    ]
    guard = _webhook(GUARD, address.client_config(GUARD_PATH), trusted)
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
        "metadata": {"name": CONFIGURATION, "labels": {"app.kubernetes.io/name": "rescheduler"}},
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
