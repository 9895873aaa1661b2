"""What pods can ask for, in a few words: parts of a pod's spec."""

from typing import Any

__all__ = ["HOSTNAME", "REQUIRED", "ZONE", "apart", "spread"]

Json = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def spread(app: str, key: str = ZONE, skew: int = 1, **more: Any) -> Json:
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint | more]}


def apart(app: str, key: str = HOSTNAME) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}
