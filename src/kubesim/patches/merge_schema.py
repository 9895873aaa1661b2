"""The merge keys of lists in built-in and custom kinds.

Strategic merge patch uses one key per list; server-side apply may need two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind

__all__ = ["ATOMIC", "UNKNOWN", "MergeNode", "custom_merge_schema", "schema_of"]


@dataclass(frozen=True)
class MergeNode:
    """The merge rules of one field of an object."""

    key: str = ""
    """Lists: items are merged by this field (strategic merge). Empty: the list is replaced as a whole."""
    keys: tuple[str, ...] = ()
    """Lists: the fields that identify an item for server-side apply."""
    key_defaults: Mapping[str, Any] = field(default_factory=dict)
    """The default of an absent key of an item."""
    is_set: bool = False
    """Lists of plain values: merged without duplicates."""
    retain_keys: bool = False
    """Maps: only one of several alternatives may be set; a patch lists those to keep."""
    replaced: bool = False
    """Maps that strategic merge replaces as a whole."""
    atomic: bool = False
    """Maps that server-side apply replaces as a whole."""
    fields: Mapping[str, "MergeNode"] = field(default_factory=dict)
    """The rules of the fields; for a list, of the fields of its items."""
    anything: "MergeNode | None" = None
    """The rules of fields that are not named."""

    def at(self, name: str) -> "MergeNode":
        return self.fields.get(name) or self.anything or UNKNOWN


UNKNOWN = MergeNode()
"""Maps are merged, lists replaced."""
ATOMIC = MergeNode(atomic=True)
_SET = MergeNode(is_set=True)


def _by(
    key: str, /, *more: str, retain_keys: bool = False, defaults: Any = None, **fields: MergeNode
) -> MergeNode:
    return MergeNode(
        key=key, keys=(key, *more), key_defaults=defaults or {}, retain_keys=retain_keys, fields=fields
    )


def _map(**fields: MergeNode) -> MergeNode:
    return MergeNode(fields=fields)


_TCP = {"protocol": "TCP"}
_METADATA = _map(ownerReferences=_by("uid"), finalizers=_SET)
_CONDITIONS = _by("type")
_CONTAINERS = _by(
    "name",
    ports=_by("containerPort", "protocol", defaults=_TCP),
    env=_by("name"),
    volumeMounts=_by("mountPath"),
    volumeDevices=_by("devicePath"),
    resources=_map(claims=MergeNode(keys=("name",))),
    resizePolicy=ATOMIC,
)
_POD_SPEC = _map(
    containers=_CONTAINERS,
    initContainers=_CONTAINERS,
    ephemeralContainers=_CONTAINERS,
    volumes=_by("name", retain_keys=True),
    imagePullSecrets=_by("name"),
    hostAliases=_by("ip"),
    topologySpreadConstraints=MergeNode(key="topologyKey", keys=("topologyKey", "whenUnsatisfiable")),
    schedulingGates=_by("name"),
    resourceClaims=_by("name", retain_keys=True),
    nodeSelector=ATOMIC,
)
_CONTAINER_STATUSES = MergeNode(
    fields={"volumeMounts": _by("mountPath"), "allocatedResourcesStatus": _by("name")}
)
_POD_STATUS = _map(
    conditions=_CONDITIONS,
    podIPs=_by("ip"),
    hostIPs=MergeNode(key="ip"),
    resourceClaimStatuses=_by("name", retain_keys=True),
    containerStatuses=_CONTAINER_STATUSES,
    initContainerStatuses=_CONTAINER_STATUSES,
    ephemeralContainerStatuses=_CONTAINER_STATUSES,
)
_TEMPLATE = _map(metadata=_METADATA, spec=_POD_SPEC)
_SELECTOR = MergeNode(atomic=True)
_CLAIM = _map(metadata=_METADATA, status=_map(conditions=_CONDITIONS))
_WORKLOAD_STATUS = _map(conditions=_CONDITIONS)
_JOB_SPEC = _map(template=_TEMPLATE, selector=_SELECTOR)
_WEBHOOKS = _by(
    "name",
    matchConditions=_by("name"),
    namespaceSelector=ATOMIC,
    objectSelector=ATOMIC,
)

_KINDS: dict[tuple[str, str], dict[str, MergeNode]] = {
    ("", "Pod"): {"spec": _POD_SPEC, "status": _POD_STATUS},
    ("", "Node"): {
        "spec": _map(podCIDRs=_SET),
        "status": _map(conditions=_CONDITIONS, addresses=MergeNode(key="type")),
    },
    ("", "Namespace"): {"status": _map(conditions=_CONDITIONS)},
    ("", "Service"): {
        "spec": _map(ports=_by("port", "protocol", defaults=_TCP), selector=ATOMIC),
        "status": _map(conditions=_CONDITIONS),
    },
    ("", "ServiceAccount"): {"secrets": _by("name"), "imagePullSecrets": MergeNode()},
    ("", "PersistentVolumeClaim"): {"status": _map(conditions=_CONDITIONS)},
    ("", "ReplicationController"): {
        "spec": _map(template=_TEMPLATE, selector=ATOMIC),
        "status": _WORKLOAD_STATUS,
    },
    ("apps", "Deployment"): {
        "spec": _map(template=_TEMPLATE, selector=_SELECTOR, strategy=MergeNode(retain_keys=True)),
        "status": _WORKLOAD_STATUS,
    },
    ("apps", "ReplicaSet"): {
        "spec": _map(template=_TEMPLATE, selector=_SELECTOR),
        "status": _WORKLOAD_STATUS,
    },
    ("apps", "StatefulSet"): {
        "spec": _map(
            template=_TEMPLATE, selector=_SELECTOR, volumeClaimTemplates=MergeNode(fields=_CLAIM.fields)
        ),
        "status": _WORKLOAD_STATUS,
    },
    ("apps", "DaemonSet"): {
        "spec": _map(template=_TEMPLATE, selector=_SELECTOR),
        "status": _WORKLOAD_STATUS,
    },
    ("batch", "Job"): {"spec": _JOB_SPEC, "status": MergeNode(fields={"conditions": MergeNode(key="type")})},
    ("batch", "CronJob"): {"spec": _map(jobTemplate=_map(metadata=_METADATA, spec=_JOB_SPEC))},
    ("policy", "PodDisruptionBudget"): {
        "spec": _map(selector=MergeNode(replaced=True, atomic=True)),
        "status": _map(conditions=_CONDITIONS),
    },
    ("autoscaling", "HorizontalPodAutoscaler"): {"status": _map(conditions=_CONDITIONS)},
    ("storage.k8s.io", "CSINode"): {"spec": _map(drivers=_by("name"))},
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): {"webhooks": _WEBHOOKS},
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): {"webhooks": _WEBHOOKS},
    ("apiextensions.k8s.io", "CustomResourceDefinition"): {
        "status": _map(conditions=MergeNode(keys=("type",))),
    },
}


def schema_of(kind: ResourceKind) -> MergeNode:
    fields = {} if kind.custom else _KINDS.get((kind.group, kind.name), {})
    return MergeNode(fields={"metadata": _METADATA, **fields})


_CUSTOM_METADATA = MergeNode(
    fields={"ownerReferences": MergeNode(keys=("uid",)), "finalizers": MergeNode(is_set=True)}
)


def custom_merge_schema(root: Object) -> MergeNode:
    """Return the merge rules for objects with this `openAPIV3Schema`."""
    node = _node(root)
    return MergeNode(fields={**node.fields, "metadata": _CUSTOM_METADATA}, anything=node.anything)


def _node(schema: Object) -> MergeNode:
    if schema.get("type") == "array":
        return _list_node(schema)
    further = schema.get("additionalProperties")
    return MergeNode(
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        fields={field: _node(inner) for field, inner in schema.get("properties", {}).items()},
        anything=_node(further) if isinstance(further, dict) else None,
    )


def _list_node(schema: Object) -> MergeNode:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return MergeNode(is_set=True)
        case "map":
            items = schema["items"]
            properties: dict[str, Object] = items.get("properties", {})
            keys = tuple(schema["x-kubernetes-list-map-keys"])
            return MergeNode(
                keys=keys,
                key_defaults={
                    key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})
                },
                fields=_node(items).fields,
            )
        case _:
            return MergeNode()
