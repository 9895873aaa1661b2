"""The types of fields, the fields that many kinds share, and the fields of pods and pod templates."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, TypeAlias

__all__ = [
    "AMOUNTS",
    "CLAIM_SPEC",
    "CONDITION",
    "DISKS",
    "METADATA",
    "NAME",
    "NODE_TERM",
    "NODE_TERMS",
    "OWNER",
    "PLAIN",
    "POD",
    "POD_SPEC",
    "READ_ONLY",
    "SELECTOR",
    "STRUCT_FIELDS",
    "FieldKind",
    "FieldSpec",
    "FieldTree",
    "plain",
]


class FieldKind(Enum):
    PLAIN = auto()
    """A number, a quantity, a time or a word of Kubernetes. Only other text can reveal its owner."""
    NAME = auto()
    """The name of an object, a path or an image: words that a user chose."""
    NAMESPACE = auto()
    CLAIM = auto()
    """The name of a claim, which can be derived from the name of a pod."""
    UID = auto()
    KIND = auto()
    """A kind of object, or the group and version of one."""
    DRIVER = auto()
    """A storage driver or plugin."""
    CONDITION = auto()
    """The type or the reason of a condition."""
    ADDRESS = auto()
    LABELS = auto()
    """A mapping; also node selectors."""
    ANNOTATIONS = auto()
    """Annotations; only those that decisions need are kept."""
    AMOUNTS = auto()
    """Quantities by resource."""
    TIMES = auto()
    """Times by name."""
    LABEL_KEY = auto()
    REQUIREMENT = auto()
    """`key`, `operator` and `values` of labels."""
    FIELD_REQUIREMENT = auto()
    """The same for the name of an object."""
    TAINT = auto()
    """A taint or a toleration: `key` and `value` are like those of a label."""
    ANYTHING = auto()
    """A number or a percentage; a number or a list."""


FieldSpec: TypeAlias = "FieldKind | FieldTree"
FieldTree: TypeAlias = Mapping[str, "FieldSpec"]
"""The fields of an object, or of each object in a list, by name."""

STRUCT_FIELDS: Final[Mapping[FieldKind, frozenset[str]]] = {
    FieldKind.REQUIREMENT: frozenset({"key", "operator", "values"}),
    FieldKind.FIELD_REQUIREMENT: frozenset({"key", "operator", "values"}),
    FieldKind.TAINT: frozenset({"key", "operator", "value", "effect", "timeAdded", "tolerationSeconds"}),
}
"""The fields of values that are replaced as a whole."""

PLAIN: Final = FieldKind.PLAIN
NAME: Final = FieldKind.NAME


def plain(*names: str) -> dict[str, FieldSpec]:
    return dict.fromkeys(names, PLAIN)


OWNER: Final[FieldTree] = {
    "apiVersion": FieldKind.KIND,
    "kind": FieldKind.KIND,
    "name": NAME,
    "uid": FieldKind.UID,
    "controller": PLAIN,
    "blockOwnerDeletion": PLAIN,
}
METADATA: Final[dict[str, FieldSpec]] = {
    "name": NAME,
    "namespace": FieldKind.NAMESPACE,
    "uid": FieldKind.UID,
    **plain("generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    "labels": FieldKind.LABELS,
    "annotations": FieldKind.ANNOTATIONS,
    "ownerReferences": OWNER,
    "finalizers": NAME,
}
CONDITION: Final[FieldTree] = {
    "type": FieldKind.CONDITION,
    "status": PLAIN,
    "reason": FieldKind.CONDITION,
    **plain("lastTransitionTime", "lastHeartbeatTime", "lastUpdateTime", "observedGeneration"),
}
SELECTOR: Final[FieldTree] = {"matchLabels": FieldKind.LABELS, "matchExpressions": FieldKind.REQUIREMENT}
NODE_TERM: Final[FieldTree] = {
    "matchExpressions": FieldKind.REQUIREMENT,
    "matchFields": FieldKind.FIELD_REQUIREMENT,
}
NODE_TERMS: Final[FieldTree] = {"nodeSelectorTerms": NODE_TERM}
AMOUNTS: Final[FieldTree] = {"requests": FieldKind.AMOUNTS, "limits": FieldKind.AMOUNTS}

_POD_TERM: Final[FieldTree] = {
    "topologyKey": FieldKind.LABEL_KEY,
    "labelSelector": SELECTOR,
    "namespaces": FieldKind.NAMESPACE,
    "namespaceSelector": SELECTOR,
    "matchLabelKeys": FieldKind.LABEL_KEY,
    "mismatchLabelKeys": FieldKind.LABEL_KEY,
}
_REQUIRED, _PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
_POD_AFFINITY: Final[FieldTree] = {
    _REQUIRED: _POD_TERM,
    _PREFERRED: {"weight": PLAIN, "podAffinityTerm": _POD_TERM},
}
_AFFINITY: Final[FieldTree] = {
    "nodeAffinity": {_REQUIRED: NODE_TERMS, _PREFERRED: {"weight": PLAIN, "preference": NODE_TERM}},
    "podAffinity": _POD_AFFINITY,
    "podAntiAffinity": _POD_AFFINITY,
}
_CONTAINER: Final[FieldTree] = {
    "name": NAME,
    "image": NAME,
    "ports": {**plain("containerPort", "hostPort", "protocol"), "hostIP": FieldKind.ADDRESS},
    "resources": AMOUNTS,
    "securityContext": {
        "capabilities": plain("add"),
        "windowsOptions": plain("hostProcess"),
        **plain("privileged", "procMount"),
    },
    "restartPolicy": PLAIN,
    "restartPolicyRules": {"action": PLAIN},
}
CLAIM_SPEC: Final[FieldTree] = {
    **plain("accessModes", "volumeMode"),
    "resources": AMOUNTS,
    "storageClassName": NAME,
    "volumeName": NAME,
    "volumeAttributesClassName": NAME,
    "selector": SELECTOR,
}
READ_ONLY: Final = {"readOnly": PLAIN}
DISKS: Final[dict[str, FieldSpec]] = {
    "hostPath": {"path": NAME, "type": PLAIN},
    "gcePersistentDisk": {"pdName": NAME, **READ_ONLY},
    "awsElasticBlockStore": {"volumeID": NAME, **READ_ONLY},
    "azureDisk": {"diskName": NAME, "diskURI": NAME, **READ_ONLY},
    "cinder": {"volumeID": NAME, **READ_ONLY},
    "vsphereVolume": {"volumePath": NAME},
    "portworxVolume": {"volumeID": NAME, **READ_ONLY},
    "iscsi": {"iqn": NAME, "targetPortal": NAME, "lun": PLAIN, **READ_ONLY},
    "rbd": {"image": NAME, "pool": NAME, "monitors": NAME, **READ_ONLY},
    "nfs": {"server": NAME, "path": NAME, **READ_ONLY},
    **{
        kind: {}
        for kind in (
            "azureFile", "cephfs", "fc", "flexVolume", "flocker", "glusterfs", "photonPersistentDisk",
            "quobyte", "scaleIO", "storageos",
        )
    },
}  # fmt: skip
"""The fields of volumes that are disks. Kinds without fields may hold secrets, and no rule reads them."""
_VOLUME: Final[FieldTree] = {
    "name": NAME,
    "persistentVolumeClaim": {"claimName": FieldKind.CLAIM, **READ_ONLY},
    "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM_SPEC}},
    "emptyDir": plain("medium", "sizeLimit"),
    "csi": {"driver": FieldKind.DRIVER, **READ_ONLY},
    **DISKS,
}
POD_SPEC: Final[FieldTree] = {
    "nodeName": NAME,
    "containers": _CONTAINER,
    "initContainers": _CONTAINER,
    "volumes": _VOLUME,
    "affinity": _AFFINITY,
    "nodeSelector": FieldKind.LABELS,
    "tolerations": FieldKind.TAINT,
    "topologySpreadConstraints": {
        **plain("maxSkew", "minDomains", "whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy"),
        "topologyKey": FieldKind.LABEL_KEY,
        "labelSelector": SELECTOR,
        "matchLabelKeys": FieldKind.LABEL_KEY,
    },
    "priorityClassName": NAME,
    "schedulerName": NAME,
    "overhead": FieldKind.AMOUNTS,
    "resources": AMOUNTS,
    "readinessGates": {"conditionType": FieldKind.CONDITION},
    "schedulingGates": {"name": NAME},
    "resourceClaims": {"name": NAME},
    "schedulingGroup": {"podGroupName": NAME},
    "securityContext": {"windowsOptions": plain("hostProcess")},
    **plain("priority", "restartPolicy", "terminationGracePeriodSeconds", "hostUsers"),
    **plain("hostNetwork", "hostPID", "hostIPC"),
}
_STATE: Final[FieldTree] = {
    "running": {"startedAt": PLAIN},
    "waiting": {"reason": FieldKind.CONDITION},
    "terminated": {"reason": FieldKind.CONDITION, **plain("exitCode", "signal", "startedAt", "finishedAt")},
}
_CONTAINER_STATUS: Final[FieldTree] = {
    "name": NAME,
    **plain("ready", "started", "restartCount"),
    "image": NAME,
    "state": _STATE,
    "lastState": _STATE,
    "allocatedResources": FieldKind.AMOUNTS,
    "resources": AMOUNTS,
}
POD: Final[FieldTree] = {
    "metadata": METADATA,
    "spec": POD_SPEC,
    "status": {
        **plain("phase", "startTime", "resize", "qosClass"),
        "reason": FieldKind.CONDITION,
        "conditions": CONDITION,
        "containerStatuses": _CONTAINER_STATUS,
        "initContainerStatuses": _CONTAINER_STATUS,
        "nominatedNodeName": NAME,
        "allocatedResources": FieldKind.AMOUNTS,
        "resources": AMOUNTS,
    },
}
