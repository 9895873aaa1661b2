"""Claims, volumes, and what belongs to them."""

from typing import Final

from rescheduler.sources.fields.common import METADATA, NODE_TERMS, SELECTOR
from rescheduler.sources.fields.pods import CLAIM_SPEC, DISKS, READ_ONLY
from rescheduler.sources.fields.what import NAME, PLAIN, Tree, What, plain

__all__ = ["ATTACHMENT", "CAPACITY", "CLAIM", "CSI_DRIVER", "CSI_NODE", "PERSISTENT_VOLUME", "STORAGE_CLASS"]

CLAIM: Final[Tree] = {
    "metadata": {**METADATA, "name": What.CLAIM},
    "spec": CLAIM_SPEC,
    "status": {**plain("phase", "accessModes"), "capacity": What.AMOUNTS},
}
PERSISTENT_VOLUME: Final[Tree] = {
    "metadata": METADATA,
    "spec": {
        "capacity": What.AMOUNTS,
        **plain("accessModes", "volumeMode", "persistentVolumeReclaimPolicy"),
        "storageClassName": NAME,
        "volumeAttributesClassName": NAME,
        "claimRef": {"namespace": What.NAMESPACE, "name": What.CLAIM, "uid": What.UID},
        "nodeAffinity": {"required": NODE_TERMS},
        "csi": {"driver": What.DRIVER, "volumeHandle": NAME, **READ_ONLY},
        "local": {"path": NAME},
        **DISKS,
        "azureFile": {"shareName": NAME},
    },
    "status": plain("phase"),
}
STORAGE_CLASS: Final[Tree] = {
    "metadata": METADATA,
    "provisioner": What.DRIVER,
    **plain("volumeBindingMode", "reclaimPolicy", "allowVolumeExpansion"),
    "allowedTopologies": {"matchLabelExpressions": What.REQUIREMENT},
}
CSI_NODE: Final[Tree] = {
    "metadata": METADATA,
    "spec": {
        "drivers": {
            "name": What.DRIVER,
            "nodeID": NAME,
            "topologyKeys": What.LABEL_KEY,
            "allocatable": {"count": PLAIN},
        }
    },
}
CSI_DRIVER: Final[Tree] = {
    "metadata": {**METADATA, "name": What.DRIVER},
    "spec": plain("attachRequired", "storageCapacity", "preventPodSchedulingIfMissing"),
}
CAPACITY: Final[Tree] = {
    "metadata": METADATA,
    "storageClassName": NAME,
    "nodeTopology": SELECTOR,
    **plain("capacity", "maximumVolumeSize"),
}
ATTACHMENT: Final[Tree] = {
    "metadata": METADATA,
    "spec": {
        "attacher": What.DRIVER,
        "nodeName": NAME,
        "source": {"persistentVolumeName": NAME},
    },
    "status": plain("attached"),
}
