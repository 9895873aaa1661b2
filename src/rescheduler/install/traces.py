"""What the product leaves in a cluster, recognised object by object. Pure.

Three sorts: what was installed (see `inventory`), what it wrote onto objects of others, and its history.
History is finished migrations and the marks of pods that were moved: it does nothing, and stays unless it is
asked to go.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from rescheduler.kube import resources
from rescheduler.kube.client import FIELD_MANAGER
from rescheduler.kube.patches import Patch, merge_patch, strategic_patch
from rescheduler.kube.resources import Object, Resource, identity_of_object
from rescheduler.migrations.definition import PLURAL
from rescheduler.migrations.marks import ANNOTATIONS, ID, LABELS, STATUS, MarkStatus
from rescheduler.migrations.naming import BUDGET_SUFFIX
from rescheduler.model.migrations import API_VERSION, FINALIZER, GROUP, KIND, VERSION, Phase
from rescheduler.model.node_marks import CORDONED_BY, EMPTY_CONDITION, cordoned_by_others
from rescheduler.model.steering import AVOIDS, STEERED_BY
from rescheduler.recovery.ledger import FAILED_ATTEMPTS

__all__ = ["MARKS", "Search", "Sort", "Trace", "definition_trace", "installed_trace"]


class Sort(Enum):
    RUNNING = auto()
    """A migration that is not finished: it is brought to its end, never just removed."""
    MARK = auto()
    INSTALLED = auto()
    HISTORY = auto()


@dataclass(frozen=True, slots=True)
class Trace:
    sort: Sort
    resource: Resource[Any]
    key: str
    uid: str
    what: str
    """In words."""
    patch: Patch | None = None
    """What takes it away; None if the whole object is ours, and goes."""

    @property
    def name(self) -> str:
        return f"{self.resource.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class Search:
    resource: Resource[Any]
    look: Callable[[Resource[Any], Object], Trace | None]
    labels: str = ""


def _trace(
    sort: Sort, resource: Resource[Any], item: Object, what: str, changes: Mapping[str, Any] | None = None
) -> Trace:
    found = identity_of_object(item)
    patch = None
    if changes is not None:
        about = {**changes.get("metadata", {}), "resourceVersion": found.version}
        patch = merge_patch({**changes, "metadata": about})
    return Trace(sort, resource, found.key, found.uid, what, patch)


def _of(item: Object, part: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name in (item["metadata"].get(part) or {})]


def _migration(resource: Resource[Any], item: Object) -> Trace:
    phase = (item.get("status") or {}).get("phase", Phase.PENDING)
    is_held = FINALIZER in (item["metadata"].get("finalizers") or ())
    if not Phase(phase).is_final or is_held:
        return _trace(Sort.RUNNING, resource, item, f"{phase}: it is cancelled, or brought to its end")
    return _trace(Sort.HISTORY, resource, item, phase)


def _pod(resource: Resource[Any], item: Object) -> Trace | None:
    labels, annotations = (
        _of(item, "labels", LABELS),
        _of(item, "annotations", (*ANNOTATIONS, AVOIDS, STEERED_BY)),
    )
    if not labels and not annotations:
        return None
    status = (item["metadata"].get("labels") or {}).get(STATUS, MarkStatus.COMPLETED)
    sort = Sort.HISTORY if status == MarkStatus.COMPLETED else Sort.MARK
    changes = {"metadata": {"labels": dict.fromkeys(labels), "annotations": dict.fromkeys(annotations)}}
    return _trace(sort, resource, item, _words(labels, annotations), changes)


def _node(resource: Resource[Any], item: Object) -> Trace | None:
    """Only what we cordoned is uncordoned: the mark stays on a node that others have cordoned since."""
    annotations = _of(item, "annotations", (CORDONED_BY,))
    if not annotations:
        return None
    changes: Object = {"metadata": {"annotations": dict.fromkeys(annotations)}}
    is_cordoned = bool((item.get("spec") or {}).get("unschedulable"))
    is_ours = is_cordoned and not cordoned_by_others(item, FIELD_MANAGER)
    if is_ours:
        changes["spec"] = {"unschedulable": None}
    return _trace(
        Sort.MARK, resource, item, _words([], annotations, "cordoned by us" if is_ours else ""), changes
    )


def _condition(resource: Resource[Any], item: Object) -> Trace | None:
    conditions = (item.get("status") or {}).get("conditions") or ()
    if not any(each["type"] == EMPTY_CONDITION for each in conditions):
        return None
    found = identity_of_object(item)
    gone = {"$patch": "delete", "type": EMPTY_CONDITION}
    patch = strategic_patch({"status": {"conditions": [gone]}})
    return Trace(Sort.MARK, resource.status, found.key, found.uid, f"condition {EMPTY_CONDITION}", patch)


def _workload(resource: Resource[Any], item: Object) -> Trace | None:
    annotations = _of(item, "annotations", (FAILED_ATTEMPTS,))
    if not annotations:
        return None
    changes = {"metadata": {"annotations": dict.fromkeys(annotations)}}
    return _trace(Sort.MARK, resource, item, _words([], annotations), changes)


def _budget(resource: Resource[Any], item: Object) -> Trace | None:
    """Only one that a PodMigration owns: the label alone, which finds it, proves nothing."""
    owners = item["metadata"].get("ownerReferences") or ()
    is_owned = any(each["kind"] == KIND and each["apiVersion"] == API_VERSION for each in owners)
    if not is_owned or not item["metadata"]["name"].endswith(BUDGET_SUFFIX):
        return None
    return _trace(Sort.MARK, resource, item, "the temporary budget of a migration")


def installed_trace(resource: Resource[Any], item: Object) -> list[Trace]:
    """A namespace takes its time to go: what is on its way is not there any more."""
    is_going = "deletionTimestamp" in item["metadata"]
    return [] if is_going else [_trace(Sort.INSTALLED, resource, item, "installed")]


def definition_trace(resource: Resource[Any], item: Object) -> list[Trace]:
    if "deletionTimestamp" in item["metadata"]:
        return []
    return [_trace(Sort.HISTORY, resource, item, "the definition, without which no history can be kept")]


def _words(labels: list[str], annotations: list[str], also: str = "") -> str:
    def parts() -> Iterator[str]:
        if also:
            yield also
        if labels:
            yield f"labels {', '.join(labels)}"
        if annotations:
            yield f"annotations {', '.join(annotations)}"

    return "; ".join(parts())


_WORKLOADS: Final = (
    resources.DEPLOYMENTS,
    resources.REPLICA_SETS,
    resources.STATEFUL_SETS,
    resources.DAEMON_SETS,
    resources.JOBS,
    resources.CRON_JOBS,
)


MARKS: Final = (
    Search(resources.custom(GROUP, VERSION, PLURAL, KIND), _migration),
    Search(resources.PODS.as_json, _pod),
    Search(resources.POD_DISRUPTION_BUDGETS, _budget, labels=ID),
    Search(resources.NODES.as_json, _node),
    Search(resources.NODES.as_json, _condition),
    *(Search(each, _workload) for each in _WORKLOADS),
)
"""What is written onto objects of others, and migrations themselves, which come first."""
