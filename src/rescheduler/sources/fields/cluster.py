"""Nodes, namespaces, priority classes."""

from typing import Final

from rescheduler.sources.fields.common import CONDITION, METADATA
from rescheduler.sources.fields.what import NAME, PLAIN, Tree, What, plain

__all__ = ["NAMESPACE", "NODE"]

NODE: Final[Tree] = {
    "metadata": METADATA,
    "spec": {"providerID": NAME, "unschedulable": PLAIN, "taints": What.TAINT},
    "status": {
        "capacity": What.AMOUNTS,
        "allocatable": What.AMOUNTS,
        "conditions": CONDITION,
        "volumesInUse": What.DRIVER,
        "volumesAttached": {"name": What.DRIVER},
        "declaredFeatures": PLAIN,
    },
}
NAMESPACE: Final[Tree] = {
    "metadata": {**METADATA, "name": What.NAMESPACE},
    "spec": plain("finalizers"),
    "status": plain("phase"),
}
