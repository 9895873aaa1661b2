"""Pods, and what templates make pods of."""

from typing import Final

from rescheduler.sources.fields.common import AMOUNTS, CONDITION, METADATA, NODE_TERM, NODE_TERMS, SELECTOR
from rescheduler.sources.fields.what import NAME, PLAIN, Fields, Tree, What, plain

__all__ = ["CLAIM_SPEC", "DISKS", "POD", "POD_SPEC", "READ_ONLY"]

_POD_TERM: Final[Tree] = {
    "topologyKey": What.LABEL_KEY,
    "labelSelector": SELECTOR,
    "namespaces": What.NAMESPACE,
    "namespaceSelector": SELECTOR,
    "matchLabelKeys": What.LABEL_KEY,
    "mismatchLabelKeys": What.LABEL_KEY,
}
_REQUIRED, _PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
_POD_AFFINITY: Final[Tree] = {
    _REQUIRED: _POD_TERM,
    _PREFERRED: {"weight": PLAIN, "podAffinityTerm": _POD_TERM},
}
_AFFINITY: Final[Tree] = {
    "nodeAffinity": {_REQUIRED: NODE_TERMS, _PREFERRED: {"weight": PLAIN, "preference": NODE_TERM}},
    "podAffinity": _POD_AFFINITY,
    "podAntiAffinity": _POD_AFFINITY,
}
_CONTAINER: Final[Tree] = {
    "name": NAME,
    "image": NAME,
    "ports": {**plain("containerPort", "hostPort", "protocol"), "hostIP": What.ADDRESS},
    "resources": AMOUNTS,
    "restartPolicy": PLAIN,
    "restartPolicyRules": {"action": PLAIN},
}
CLAIM_SPEC: Final[Tree] = {
    **plain("accessModes", "volumeMode"),
    "resources": AMOUNTS,
    "storageClassName": NAME,
    "volumeName": NAME,
    "volumeAttributesClassName": NAME,
    "selector": SELECTOR,
}
READ_ONLY: Final = {"readOnly": PLAIN}
DISKS: Final[dict[str, Fields]] = {
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
"""Of the last ones only that they are there: what they hold may be a secret, and no rule looks into it."""
_VOLUME: Final[Tree] = {
    "name": NAME,
    "persistentVolumeClaim": {"claimName": What.CLAIM, **READ_ONLY},
    "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM_SPEC}},
    "emptyDir": plain("medium", "sizeLimit"),
    "csi": {"driver": What.DRIVER, **READ_ONLY},
    **DISKS,
}
POD_SPEC: Final[Tree] = {
    "nodeName": NAME,
    "containers": _CONTAINER,
    "initContainers": _CONTAINER,
    "volumes": _VOLUME,
    "affinity": _AFFINITY,
    "nodeSelector": What.LABELS,
    "tolerations": What.TAINT,
    "topologySpreadConstraints": {
        **plain("maxSkew", "minDomains", "whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy"),
        "topologyKey": What.LABEL_KEY,
        "labelSelector": SELECTOR,
        "matchLabelKeys": What.LABEL_KEY,
    },
    "priorityClassName": NAME,
    "schedulerName": NAME,
    "overhead": What.AMOUNTS,
    "resources": AMOUNTS,
    "readinessGates": {"conditionType": What.CONDITION},
    "schedulingGates": {"name": NAME},
    "resourceClaims": {"name": NAME},
    "schedulingGroup": {"podGroupName": NAME},
    **plain("priority", "restartPolicy", "terminationGracePeriodSeconds", "hostNetwork", "hostUsers"),
}
_STATE: Final[Tree] = {
    "running": {"startedAt": PLAIN},
    "waiting": {"reason": What.CONDITION},
    "terminated": {"reason": What.CONDITION, **plain("exitCode", "signal", "startedAt", "finishedAt")},
}
_CONTAINER_STATUS: Final[Tree] = {
    "name": NAME,
    **plain("ready", "started", "restartCount"),
    "image": NAME,
    "state": _STATE,
    "lastState": _STATE,
    "allocatedResources": What.AMOUNTS,
    "resources": AMOUNTS,
}
POD: Final[Tree] = {
    "metadata": METADATA,
    "spec": POD_SPEC,
    "status": {
        **plain("phase", "startTime", "resize", "qosClass"),
        "reason": What.CONDITION,
        "conditions": CONDITION,
        "containerStatuses": _CONTAINER_STATUS,
        "initContainerStatuses": _CONTAINER_STATUS,
        "nominatedNodeName": NAME,
        "allocatedResources": What.AMOUNTS,
        "resources": AMOUNTS,
    },
}
