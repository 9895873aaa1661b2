"""Find which pods were the same replica before, so that each replica uses only its own attempts.

Some replicas have an identity: the pod name in a StatefulSet, the node in a DaemonSet, the index in an
indexed Job, the original name of a pod without a controller. For other pods, the predecessor decides: a
successor that rescheduler created names it; a pod that its controller created continues the lineage that has
been vacant longest.

Records of kse-rescheduler are read as a ledger, so that its users can switch. Per workload, they have the
number of pods that it deleted, and their nodes, without times and pods:

    kse.com/deploy: {"currentReschedulingTimes": 2, "deployScheduledHosts": ["n1", "n2"]}
    kse.com/sts-pods-map: {"db-0": {"currentReschedulingTimes": 1, "podScheduledHosts": ["n1"]}}
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec

from kubevalues.label_selectors import subdomain_error
from rescheduler.api.well_known_names import ORIGINAL_POD_ANNOTATION, ORIGINAL_POD_NAME_ANNOTATION
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.recovery.attempt_ledger import MAX_LINEAGES, AttemptLedger, FailedAttempt, ReplicaLineage

__all__ = [
    "CARRIED_OVER",
    "KSE_ANNOTATIONS",
    "KSE_PREFIX",
    "has_identity",
    "ledger_from_kse",
    "lineages_of",
    "revision_of",
]


CARRIED_OVER: Final = "carried-over"
"""The one lineage per workload from kse-rescheduler: the first failing pod continues it."""

_COMPLETION_INDEX_LABEL: Final = "batch.kubernetes.io/job-completion-index"
_REVISION_LABELS: Final = ("pod-template-hash", "controller-revision-hash")


def lineages_of(ledger: AttemptLedger, pods: Iterable[PodRecord]) -> dict[str, str]:
    """Return the name of each pod's lineage, by uid. `pods` are all pods of the ledger's holder."""
    if not ledger.lineages:
        return {pod.uid: _identity(pod) or pod.name for pod in pods}
    ordered = sorted(pods, key=lambda pod: (pod.created_s, pod.key))
    found: dict[str, str] = {}
    unassigned: list[PodRecord] = []
    by_uid = {
        each.pod: name for name, lineage in ledger.lineages.items() for each in lineage.failures if each.pod
    }
    for pod in ordered:
        name = (
            _identity(pod)
            or by_uid.get(pod.uid)
            or by_uid.get(pod.annotations.get(ORIGINAL_POD_ANNOTATION, ""))
        )
        if name is None:
            unassigned.append(pod)
        else:
            found[pod.uid] = name
    taken = {found[pod.uid] for pod in ordered if pod.uid in found and pod.is_active}
    vacant = {name: lineage for name, lineage in ledger.lineages.items() if name not in taken}
    for pod in sorted(unassigned, key=lambda each: each.is_active, reverse=True):
        found[pod.uid] = _oldest_vacant_lineage(pod, unassigned, vacant) or pod.name
        vacant.pop(found[pod.uid], None)
    return found


def has_identity(pod: PodRecord) -> bool:
    """Return whether two pods of this replica must never run at the same time."""
    return pod.owner is not None and (
        pod.owner.kind == "StatefulSet" or _COMPLETION_INDEX_LABEL in pod.labels
    )


def revision_of(pod: PodRecord) -> str:
    """Return the revision of the template of a pod; empty where there is only one."""
    for label in _REVISION_LABELS:
        if label in pod.labels:
            return pod.labels[label]
    return pod.owner.name if pod.owner is not None and pod.owner.kind == "Job" else ""


def _identity(pod: PodRecord) -> str | None:
    if pod.owner is None:
        return pod.annotations.get(ORIGINAL_POD_NAME_ANNOTATION, pod.name)
    if pod.owner.kind == "StatefulSet":
        return pod.name
    if pod.owner.kind == "DaemonSet":
        return pod.node or pod.name
    if _COMPLETION_INDEX_LABEL in pod.labels:
        return f"{pod.owner.name}[{pod.labels[_COMPLETION_INDEX_LABEL]}]"
    return None


def _oldest_vacant_lineage(
    pod: PodRecord, unassigned: Iterable[PodRecord], vacant: dict[str, ReplicaLineage]
) -> str | None:
    """Return the oldest vacant lineage that a pod of this revision and age may continue; None if none."""
    if not pod.is_active:
        return None
    revision = revision_of(pod)
    open_to = [
        (lineage.last_s, name)
        for name, lineage in vacant.items()
        if lineage.last_s <= pod.created_s
        and lineage.revision in {"", revision}
        # It is unknown which replica this lineage is of, but not of one that is ready.
        and (name != CARRIED_OVER or not pod.is_ready or all(map(_is_healthy, unassigned)))
    ]
    return min(open_to)[1] if open_to else None


def _is_healthy(pod: PodRecord) -> bool:
    return pod.is_ready or not pod.is_active


KSE_PREFIX: Final = "kse.com/"
KSE_ANNOTATIONS: Final[Mapping[str, str]] = {
    "Deployment": "kse.com/deploy",
    "ReplicaSet": "kse.com/rs",
    "StatefulSet": "kse.com/sts-pods-map",
    "Job": "kse.com/job",
    "CronJob": "kse.com/cj",
    "Pod": "kse.com/pod",
}
"""The annotation of kse-rescheduler, by the kind of the holder."""

_KSE_COUNT_KEY: Final = "currentReschedulingTimes"
_KSE_HOSTS_SUFFIX: Final = "ScheduledHosts"
_KseCount = Annotated[int, msgspec.Meta(ge=0, le=1000)]


def ledger_from_kse(kind: str, name: str, annotations: Mapping[str, str], most: int) -> AttemptLedger | None:
    """Return the record of kse-rescheduler as a ledger; None if there is none or it is invalid.

    `name` is that of the holder. No lineage has more than `most` attempts: kse-rescheduler deletes one pod
    more than it is allowed to."""
    written = annotations.get(KSE_ANNOTATIONS.get(kind, ""))
    if not written:
        return None
    try:
        found = msgspec.json.decode(written, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    if kind == "StatefulSet":
        lineages = {pod: _kse_lineage(record, most) for pod, record in sorted(found.items())[:MAX_LINEAGES]}
    else:
        lineages = {name if kind == "Pod" else CARRIED_OVER: _kse_lineage(found, most)}
    kept = {each: lineage for each, lineage in lineages.items() if lineage is not None}
    return AttemptLedger(kept) if kept else None


def _kse_lineage(record: object, most: int) -> ReplicaLineage | None:
    if not isinstance(record, dict):
        return None
    hosts = list(_kse_hosts(record))
    try:
        count = msgspec.convert(record.get(_KSE_COUNT_KEY, len(hosts)), _KseCount)
    except msgspec.ValidationError:
        count = len(hosts)
    kept = min(count, most)
    nodes = ["", *hosts][-kept:] if kept <= len(hosts) else [*[""] * (kept - len(hosts)), *hosts]
    return ReplicaLineage(tries=tuple(FailedAttempt(node=node) for node in nodes)) if kept else None


def _kse_hosts(record: Mapping[str, object]) -> Iterator[str]:
    for key, hosts in record.items():
        # Its Go tags write "deployScheduledHosts", "podScheduledHosts", … with the kind in front.
        if key.endswith(_KSE_HOSTS_SUFFIX) and isinstance(hosts, list):
            yield from (host for host in hosts if isinstance(host, str) and subdomain_error(host) is None)
