"""The next size of each ReplicaSet of a Deployment. Pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kubesim.apiserver.api_messages import Object
from kubesim.common_fields import scaled

__all__ = [
    "DESIRED",
    "MAXIMUM",
    "REVISION",
    "TEMPLATE_HASH",
    "DeploymentReplicaSets",
    "Sizes",
    "actual_of",
    "annotations_for",
    "available_of",
    "by_age",
    "is_rolling",
    "is_scaling",
    "max_surge",
    "max_unavailable",
    "new_size",
    "proportional",
    "revision_of",
    "rolled_down",
    "size_of",
]

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
TEMPLATE_HASH = "pod-template-hash"
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        REVISION_HISTORY,
        DESIRED,
        MAXIMUM,
    }
)
_LONGEST_HISTORY = 2000


@dataclass(frozen=True)
class DeploymentReplicaSets:
    deployment: Object
    new: Object | None
    old: tuple[Object, ...]

    @classmethod
    def of(cls, deployment: Object, replica_sets: Iterable[Object]) -> "DeploymentReplicaSets":
        ordered = sorted(replica_sets, key=by_age)
        wanted = _comparable(deployment["spec"]["template"])
        new = next((each for each in ordered if _comparable(each["spec"]["template"]) == wanted), None)
        return cls(deployment, new, tuple(each for each in ordered if each is not new))

    @property
    def all(self) -> tuple[Object, ...]:
        return self.old if self.new is None else (*self.old, self.new)

    @property
    def active(self) -> list[Object]:
        return [each for each in self.all if size_of(each) > 0]

    def with_new(self, new: Object) -> "DeploymentReplicaSets":
        return DeploymentReplicaSets(self.deployment, new, self.old)

    def with_deployment(self, deployment: Object) -> "DeploymentReplicaSets":
        return DeploymentReplicaSets(deployment, self.new, self.old)

    @property
    def next_revision(self) -> int:
        return max(map(revision_of, self.old), default=0) + 1


def _comparable(template: Object) -> Object:
    """Return a template without its hash label, for comparison."""
    metadata = template.get("metadata") or {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != TEMPLATE_HASH}
    kept = {name: value for name, value in metadata.items() if value and name != "creationTimestamp"}
    return {**template, "metadata": {**kept, "labels": labels}}


def by_age(content: Object) -> tuple[str, str]:
    return content["metadata"].get("creationTimestamp", ""), content["metadata"]["name"]


def size_of(replica_set: Object) -> int:
    return int(replica_set["spec"].get("replicas", 1))


def actual_of(replica_set: Object) -> int:
    return int(replica_set.get("status", {}).get("replicas", 0))


def available_of(replica_set: Object) -> int:
    return int(replica_set.get("status", {}).get("availableReplicas", 0))


def revision_of(content: Object) -> int:
    """Return the revision number, or 0 if it can't be read."""
    text = (content["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isdigit() else 0


def annotations_for(sets: DeploymentReplicaSets, new: Object) -> dict[str, str]:
    """Return the annotations of the new ReplicaSet: those of the Deployment, and its revision.

    A ReplicaSet that is used again after a rollback keeps its earlier revisions as history.
    """
    annotations: dict[str, str] = dict(new["metadata"].get("annotations") or {})
    of_deployment = sets.deployment["metadata"].get("annotations") or {}
    annotations |= {name: text for name, text in of_deployment.items() if name not in _NOT_COPIED}
    before, revision = annotations.get(REVISION, ""), sets.next_revision
    if before and not before.isdigit():
        return annotations
    if int(before or 0) < revision:
        annotations[REVISION] = str(revision)
        if before:
            annotations[REVISION_HISTORY] = _history(annotations.get(REVISION_HISTORY, ""), before)
    return annotations


def _history(recorded: str, revision: str) -> str:
    revisions = [*filter(None, recorded.split(",")), revision]
    while len(",".join(revisions)) > _LONGEST_HISTORY:
        del revisions[0]
    return ",".join(revisions)


Sizes = dict[str, int]
"""Sizes by ReplicaSet name; unchanged ones may be absent."""


def is_rolling(deployment: Object) -> bool:
    return bool(deployment["spec"]["strategy"]["type"] == "RollingUpdate")


def _bounds(deployment: Object) -> tuple[int, int]:
    """Return maximum surge and unavailable pods; they are never both zero, which would block rollouts."""
    rolling = deployment["spec"]["strategy"].get("rollingUpdate") or {}
    total = size_of(deployment)
    surge = scaled(rolling.get("maxSurge"), total, round_up=True)
    unavailable = scaled(rolling.get("maxUnavailable"), total, round_up=False)
    return surge, unavailable if surge or unavailable else 1


def max_surge(deployment: Object) -> int:
    return _bounds(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Object) -> int:
    total = size_of(deployment)
    return min(_bounds(deployment)[1], total) if is_rolling(deployment) and total else 0


def is_scaling(sets: DeploymentReplicaSets) -> bool:
    """Return whether an active ReplicaSet was sized for another number of replicas."""
    desired = ((each["metadata"].get("annotations") or {}).get(DESIRED) for each in sets.active)
    return any(text is not None and text != str(size_of(sets.deployment)) for text in desired)


def new_size(sets: DeploymentReplicaSets) -> int:
    """Return the size of the ReplicaSet with the current template, limited by surge."""
    wanted = size_of(sets.deployment)
    present = size_of(sets.new) if sets.new is not None else 0
    if not is_rolling(sets.deployment) or present >= wanted:
        return wanted
    room = wanted + max_surge(sets.deployment) - sum(map(size_of, sets.all))
    return present + min(max(room, 0), wanted - present)


def rolled_down(sets: DeploymentReplicaSets) -> Sizes:
    """Return the sizes of older ReplicaSets: reduce unavailable pods first, then as many as allowed."""
    assert sets.new is not None
    old = sorted((each for each in sets.old if size_of(each) > 0), key=by_age)
    least = size_of(sets.deployment) - max_unavailable(sets.deployment)
    missing_new = size_of(sets.new) - available_of(sets.new)
    spare = sum(map(size_of, old)) + size_of(sets.new) - least - missing_new
    sizes = {each["metadata"]["name"]: size_of(each) for each in old}
    if spare <= 0:
        return {}
    # A status that is behind counts pods that were asked to go. Then nothing else is removed.
    is_behind = False
    for each in old:
        if spare == 0 or is_behind:
            break
        name = each["metadata"]["name"]
        unhealthy = min(spare, sizes[name] - available_of(each))
        is_behind = unhealthy < 0
        sizes[name] -= max(unhealthy, 0)
        spare -= max(unhealthy, 0)
    may_go = 0 if is_behind else sum(map(available_of, (*old, sets.new))) - least
    for each in old:
        name = each["metadata"]["name"]
        gone = min(sizes[name], max(may_go, 0))
        sizes[name] -= gone
        may_go -= gone
    return {name: size for name, size in sizes.items() if size != _size_named(old, name)}


def _size_named(replica_sets: Iterable[Object], name: str) -> int:
    return next(size_of(each) for each in replica_sets if each["metadata"]["name"] == name)


def proportional(sets: DeploymentReplicaSets) -> Sizes:
    """Return sizes that keep the share of each active ReplicaSet when a Deployment is scaled in a rollout."""
    deployment, wanted = sets.deployment, size_of(sets.deployment)
    only = _only_active_or_latest(sets)
    if only is not None:
        return {only["metadata"]["name"]: wanted}
    if sets.new is not None and _is_saturated(deployment, sets.new):
        return {each["metadata"]["name"]: 0 for each in sets.old if size_of(each) > 0}
    if not is_rolling(deployment):
        return {}
    active = sets.active
    change = (wanted + max_surge(deployment) if wanted else 0) - sum(map(size_of, active))
    # Larger ones first; among equals the newer grow and the older shrink first.
    active.sort(key=by_age, reverse=change > 0)
    active.sort(key=size_of, reverse=True)
    sizes, made = {}, 0
    for each in active:
        share = _share(each, deployment, change, made)
        sizes[each["metadata"]["name"]] = size_of(each) + share
        made += share
    largest = active[0]["metadata"]["name"]
    sizes[largest] = max(0, sizes[largest] + change - made)
    return sizes


def _only_active_or_latest(sets: DeploymentReplicaSets) -> Object | None:
    active = sets.active
    if len(active) == 1:
        return active[0]
    if active or not sets.all:
        return None
    return sets.new if sets.new is not None else max(sets.old, key=by_age)


def _is_saturated(deployment: Object, new: Object) -> bool:
    wanted = size_of(deployment)
    desired = (new["metadata"].get("annotations") or {}).get(DESIRED)
    return size_of(new) == wanted and desired == str(wanted) and available_of(new) == wanted


def _share(replica_set: Object, deployment: Object, change: int, made: int) -> int:
    if change in {0, made}:
        return 0
    fraction, allowed = _fraction(replica_set, deployment), change - made
    return min(fraction, allowed) if change > 0 else max(fraction, allowed)


def _fraction(replica_set: Object, deployment: Object) -> int:
    size, wanted = size_of(replica_set), size_of(deployment)
    if wanted == 0:
        return -size
    text = (replica_set["metadata"].get("annotations") or {}).get(MAXIMUM, "")
    before = int(text) if text.isdigit() else 0
    before = before or int(deployment.get("status", {}).get("replicas", 0))
    if before == 0:
        return 0
    exact = size * (wanted + max_surge(deployment)) / before
    return math.floor(exact + 0.5) - size
