"""A Deployment and its ReplicaSets: the one that has its template now, and those from before. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from rescheduler.simulator.exchange import Object

__all__ = [
    "DESIRED",
    "MAXIMUM",
    "REVISION",
    "TEMPLATE_HASH",
    "Family",
    "actual_of",
    "annotations_for",
    "available_of",
    "by_age",
    "revision_of",
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
class Family:
    deployment: Object
    new: Object | None
    old: tuple[Object, ...]

    @classmethod
    def of(cls, deployment: Object, replica_sets: Iterable[Object]) -> "Family":
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

    def with_new(self, new: Object) -> "Family":
        return Family(self.deployment, new, self.old)

    def with_deployment(self, deployment: Object) -> "Family":
        return Family(deployment, self.new, self.old)

    @property
    def next_revision(self) -> int:
        return max(map(revision_of, self.old), default=0) + 1


def _comparable(template: Object) -> Object:
    """Templates are equal whatever hash they were labelled with."""
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
    """0 for one without a readable number."""
    text = (content["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isdigit() else 0


def annotations_for(family: Family, new: Object) -> dict[str, str]:
    """What the new ReplicaSet is to be annotated with: what the Deployment is, and its revision.

    A ReplicaSet that comes back into use (a rollback) keeps its earlier revisions as history.
    """
    annotations: dict[str, str] = dict(new["metadata"].get("annotations") or {})
    of_deployment = family.deployment["metadata"].get("annotations") or {}
    annotations |= {name: text for name, text in of_deployment.items() if name not in _NOT_COPIED}
    before, revision = annotations.get(REVISION, ""), family.next_revision
    if before and not before.isdigit():
        return annotations
    if int(before or 0) < revision:
        annotations[REVISION] = str(revision)
        if before:
            annotations[REVISION_HISTORY] = _history(annotations.get(REVISION_HISTORY, ""), before)
    return annotations


def _history(told: str, revision: str) -> str:
    revisions = [*filter(None, told.split(",")), revision]
    while len(",".join(revisions)) > _LONGEST_HISTORY:
        del revisions[0]
    return ",".join(revisions)
