"""How the fields of built-in kinds are merged: which lists are maps in disguise, and by which key.

The strategic merge patch and the server-side apply of the real API server differ in places: the first
knows one key per list, the second may need two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rescheduler.simulator.kinds import Kind

__all__ = ["ATOMIC", "UNKNOWN", "Node", "schema_of"]


@dataclass(frozen=True)
class Node:
    """One place in an object."""

    key: str = ""
    """Lists: items are merged by this field (strategic merge). Empty: the list is replaced as a whole."""
    keys: tuple[str, ...] = ()
    """Lists: what identifies an item for server-side apply."""
    key_defaults: Mapping[str, Any] = field(default_factory=dict)
    """What an item means that leaves out one of its keys."""
    is_set: bool = False
    """Lists of plain values: merged without doubles."""
    retain_keys: bool = False
    """Maps: of several alternatives only one may be there; a patch lists those to keep."""
    replaced: bool = False
    """Maps that strategic merge replaces as a whole."""
    atomic: bool = False
    """Maps that server-side apply replaces as a whole."""
    fields: Mapping[str, "Node"] = field(default_factory=dict)
    """For a list, those of its items."""
    anything: "Node | None" = None
    """What holds for fields that are not named."""

    def at(self, name: str) -> "Node":
        return self.fields.get(name) or self.anything or UNKNOWN


UNKNOWN = Node()
"""Maps are merged, lists replaced."""
ATOMIC = Node(atomic=True)
_SET = Node(is_set=True)


def _by(key: str, /, *more: str, retain_keys: bool = False, defaults: Any = None, **fields: Node) -> Node:
    return Node(
        key=key, keys=(key, *more), key_defaults=defaults or {}, retain_keys=retain_keys, fields=fields
    )


def _map(**fields: Node) -> Node:
    return Node(fields=fields)


_TCP = {"protocol": "TCP"}
_METADATA = _map(ownerReferences=_by("uid"), finalizers=_SET)
_CONDITIONS = _by("type")
_CONTAINERS = _by(
    "name",
    ports=_by("containerPort", "protocol", defaults=_TCP),
    env=_by("name"),
    volumeMounts=_by("mountPath"),
    volumeDevices=_by("devicePath"),
    resources=_map(claims=Node(keys=("name",))),
    resizePolicy=ATOMIC,
)
_POD_SPEC = _map(
    containers=_CONTAINERS,
    initContainers=_CONTAINERS,
    ephemeralContainers=_CONTAINERS,
    volumes=_by("name", retain_keys=True),
    imagePullSecrets=_by("name"),
    hostAliases=_by("ip"),
    topologySpreadConstraints=Node(key="topologyKey", keys=("topologyKey", "whenUnsatisfiable")),
    schedulingGates=_by("name"),
    resourceClaims=_by("name", retain_keys=True),
    nodeSelector=ATOMIC,
)
_CONTAINER_STATUSES = Node(fields={"volumeMounts": _by("mountPath"), "allocatedResourcesStatus": _by("name")})
_POD_STATUS = _map(
    conditions=_CONDITIONS,
    podIPs=_by("ip"),
    hostIPs=Node(key="ip"),
    resourceClaimStatuses=_by("name", retain_keys=True),
    containerStatuses=_CONTAINER_STATUSES,
    initContainerStatuses=_CONTAINER_STATUSES,
    ephemeralContainerStatuses=_CONTAINER_STATUSES,
)
_TEMPLATE = _map(metadata=_METADATA, spec=_POD_SPEC)
_SELECTOR = Node(atomic=True)
_CLAIM = _map(metadata=_METADATA, status=_map(conditions=_CONDITIONS))
_WORKLOAD_STATUS = _map(conditions=_CONDITIONS)
_JOB_SPEC = _map(template=_TEMPLATE, selector=_SELECTOR)
_WEBHOOKS = _by(
    "name",
    matchConditions=_by("name"),
    namespaceSelector=ATOMIC,
    objectSelector=ATOMIC,
)

_KINDS: dict[tuple[str, str], dict[str, Node]] = {
    ("", "Pod"): {"spec": _POD_SPEC, "status": _POD_STATUS},
    ("", "Node"): {
        "spec": _map(podCIDRs=_SET),
        "status": _map(conditions=_CONDITIONS, addresses=Node(key="type")),
    },
    ("", "Namespace"): {"status": _map(conditions=_CONDITIONS)},
    ("", "Service"): {
        "spec": _map(ports=_by("port", "protocol", defaults=_TCP), selector=ATOMIC),
        "status": _map(conditions=_CONDITIONS),
    },
    ("", "ServiceAccount"): {"secrets": _by("name"), "imagePullSecrets": Node()},
    ("", "PersistentVolumeClaim"): {"status": _map(conditions=_CONDITIONS)},
    ("", "ReplicationController"): {
        "spec": _map(template=_TEMPLATE, selector=ATOMIC),
        "status": _WORKLOAD_STATUS,
    },
    ("apps", "Deployment"): {
        "spec": _map(template=_TEMPLATE, selector=_SELECTOR, strategy=Node(retain_keys=True)),
        "status": _WORKLOAD_STATUS,
    },
    ("apps", "ReplicaSet"): {
        "spec": _map(template=_TEMPLATE, selector=_SELECTOR),
        "status": _WORKLOAD_STATUS,
    },
    ("apps", "StatefulSet"): {
        "spec": _map(template=_TEMPLATE, selector=_SELECTOR, volumeClaimTemplates=Node(fields=_CLAIM.fields)),
        "status": _WORKLOAD_STATUS,
    },
    ("apps", "DaemonSet"): {
        "spec": _map(template=_TEMPLATE, selector=_SELECTOR),
        "status": _WORKLOAD_STATUS,
    },
    ("batch", "Job"): {"spec": _JOB_SPEC, "status": Node(fields={"conditions": Node(key="type")})},
    ("batch", "CronJob"): {"spec": _map(jobTemplate=_map(metadata=_METADATA, spec=_JOB_SPEC))},
    ("policy", "PodDisruptionBudget"): {
        "spec": _map(selector=Node(replaced=True, atomic=True)),
        "status": _map(conditions=_CONDITIONS),
    },
    ("autoscaling", "HorizontalPodAutoscaler"): {"status": _map(conditions=_CONDITIONS)},
    ("storage.k8s.io", "CSINode"): {"spec": _map(drivers=_by("name"))},
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): {"webhooks": _WEBHOOKS},
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): {"webhooks": _WEBHOOKS},
    ("apiextensions.k8s.io", "CustomResourceDefinition"): {
        "status": _map(conditions=Node(keys=("type",))),
    },
}


def schema_of(kind: Kind) -> Node:
    fields = {} if kind.custom else _KINDS.get((kind.group, kind.name), {})
    return Node(fields={"metadata": _METADATA, **fields})
