"""The real scheduler's verdict: the pod fits, or the message of the filter that refused."""

import re
from typing import NamedTuple

from tests.e2e.scheduler_truth.random_cluster import Object

__all__ = ["FITS", "Refused", "rule_of", "verdict"]

FITS = "truth: fits"
"""What our extender says of a node that passed all filters."""

_ELSEWHERE = "node(s) didn't match scheduler-enforced node affinity"
_NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
_START = re.compile(r"0/\d+ nodes are available: ")
_COUNTED = re.compile(r"\d+ (.*)")
_RULES = (
    ("NodeAffinity", r"node affinity/selector|plugin\(s\) \[NodeAffinity\]|pod affinity terms conflict"),
    ("NodeUnschedulable", r"were unschedulable"),
    ("TaintToleration", r"untolerated taint"),
    ("NodePorts", r"free ports"),
    ("NodeResourcesFit", r"Insufficient |Too many pods"),
    ("VolumeRestrictions", r"no available disk|ReadWriteOncePod"),
    ("NodeVolumeLimits", r"max volume count|CSI driver is not installed"),
    ("VolumeZone", r"volume zone|^persistentvolume "),
    ("PodTopologySpread", r"topology spread"),
    ("InterPodAffinity", r"affinity rules"),
    ("VolumeRestrictions", r"^persistentvolumeclaim .* not found$"),
    (
        "VolumeBinding",
        r"ersistent ?[vV]olume|free storage|non-existent|ephemeral|not created for pod|being deleted",
    ),
)


class Refused(NamedTuple):
    rule: str
    """As Kubernetes names the plugin."""
    reasons: frozenset[str] = frozenset()
    """The message; empty if an implementation has messages of its own."""


def verdict(pod: Object) -> Refused | str | None:
    """`FITS`, or why not; None if there is no answer yet. A scheduler that failed is an error."""
    if pod["spec"].get("nodeName"):
        return FITS
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            if condition["reason"] == "Unschedulable":
                return _read(condition["message"])
            raise ValueError(f"{pod['metadata']['name']}: {condition['reason']}: {condition['message']}")
    return None


def rule_of(reasons: frozenset[str]) -> str:
    for rule, words in _RULES:
        if all(re.search(words, reason) for reason in reasons):
            return rule
    raise ValueError(f"no rule says {sorted(reasons)}")


def _read(message: str) -> Refused | str:
    """The other nodes are out by the profile's own affinity; what is left is said of the node asked about."""
    start = _START.match(message)
    if start is None:
        raise ValueError(f"not the message of a scheduler: {message}")
    parts = re.split(r", (?=\d+ )", message[start.end() :].removesuffix("."))
    reasons = {_COUNTED.sub(r"\1", part) for part in parts} - {_ELSEWHERE}
    if len(reasons) > 1:
        reasons.discard(_NOT_NAMED)
    if FITS in reasons:
        return FITS
    return Refused(rule_of(frozenset(reasons)), frozenset(reasons))
