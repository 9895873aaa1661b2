"""Which pods are the same replica, one after the other: so that a bad one uses up its own tries only.

Where replicas have an identity, it is that: a StatefulSet's by pod name, a DaemonSet's by node, an indexed
Job's by index, a pod without a controller by the name that it had before it was ever moved. Elsewhere it is
descent: a copy or replacement that we marked says whose place it takes; one that its controller made by
itself takes the place of the longest vacant line.

What kse-rescheduler left on workloads, read as our own record: so that its users can switch.

It counts how often it deleted pods of a workload, and lists their nodes:

    kse.com/deploy: {"currentReschedulingTimes": 2, "deployScheduledHosts": ["n1", "n2"]}
    kse.com/sts-pods-map: {"db-0": {"currentReschedulingTimes": 1, "podScheduledHosts": ["n1"]}}

It says nothing of times and pods; nor does what we make of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec

from kubevalues.label_selectors import subdomain_error
from rescheduler.api.well_known_names import ORIGINAL_POD, ORIGINAL_POD_NAME
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.recovery.attempt_ledger import MAX_LINEAGES, AttemptLedger, FailedAttempt, ReplicaLineage

__all__ = [
    "CARRIED_OVER",
    "KSE_ANNOTATIONS",
    "KSE_PREFIX",
    "has_identity",
    "is_live",
    "ledger_from_kse",
    "lineages_of",
    "revision_of",
]


CARRIED_OVER: Final = "carried-over"
"""The line of a record that an older tool kept for a whole workload: whichever pod fails takes it."""

_COMPLETION_INDEX_LABEL: Final = "batch.kubernetes.io/job-completion-index"
_REVISION_LABELS: Final = ("pod-template-hash", "controller-revision-hash")


def lineages_of(ledger: AttemptLedger, pods: Iterable[PodRecord]) -> dict[str, str]:
    """The name of each pod's line, by uid. `pods` are all that there are of the ledger's holder."""
    if not ledger.lines:
        return {pod.uid: _identity(pod) or pod.name for pod in pods}
    ordered = sorted(pods, key=lambda pod: (pod.created_s, pod.key))
    found: dict[str, str] = {}
    strangers: list[PodRecord] = []
    by_uid = {each.pod: name for name, line in ledger.lines.items() for each in line.failures if each.pod}
    for pod in ordered:
        name = _identity(pod) or by_uid.get(pod.uid) or by_uid.get(pod.marks.get(ORIGINAL_POD, ""))
        if name is None:
            strangers.append(pod)
        else:
            found[pod.uid] = name
    taken = {found[pod.uid] for pod in ordered if pod.uid in found and is_live(pod)}
    vacant = {name: line for name, line in ledger.lines.items() if name not in taken}
    for pod in sorted(strangers, key=is_live, reverse=True):
        found[pod.uid] = _oldest_vacant_lineage(pod, strangers, vacant) or pod.name
        vacant.pop(found[pod.uid], None)
    return found


def has_identity(pod: PodRecord) -> bool:
    """Whether no two of it may ever run at the same time."""
    return pod.owner is not None and (
        pod.owner.kind == "StatefulSet" or _COMPLETION_INDEX_LABEL in pod.labels
    )


def revision_of(pod: PodRecord) -> str:
    """Which template it was made from; empty where there is only one."""
    for label in _REVISION_LABELS:
        if label in pod.labels:
            return pod.labels[label]
    return pod.owner.name if pod.owner is not None and pod.owner.kind == "Job" else ""


def is_live(pod: PodRecord) -> bool:
    """Neither finished nor going: its controller counts it."""
    return not pod.is_finished and not pod.is_terminating


def _identity(pod: PodRecord) -> str | None:
    if pod.owner is None:
        return pod.marks.get(ORIGINAL_POD_NAME, pod.name)
    if pod.owner.kind == "StatefulSet":
        return pod.name
    if pod.owner.kind == "DaemonSet":
        return pod.node or pod.name
    if _COMPLETION_INDEX_LABEL in pod.labels:
        return f"{pod.owner.name}[{pod.labels[_COMPLETION_INDEX_LABEL]}]"
    return None


def _oldest_vacant_lineage(
    pod: PodRecord, strangers: Iterable[PodRecord], vacant: dict[str, ReplicaLineage]
) -> str | None:
    """Of those that a pod of this template, made when this one was, may have come to fill."""
    if not is_live(pod):
        return None
    revision = revision_of(pod)
    open_to = [
        (line.last_s, name)
        for name, line in vacant.items()
        if line.last_s <= pod.created_s
        and line.revision in {"", revision}
        # Nobody knows which replica it was: those that are well can't have been it.
        and (name != CARRIED_OVER or not pod.is_ready or all(map(_is_healthy, strangers)))
    ]
    return min(open_to)[1] if open_to else None


def _is_healthy(pod: PodRecord) -> bool:
    return pod.is_ready or not is_live(pod)


KSE_PREFIX: Final = "kse.com/"
KSE_ANNOTATIONS: Final[Mapping[str, str]] = {
    "Deployment": "kse.com/deploy",
    "ReplicaSet": "kse.com/rs",
    "StatefulSet": "kse.com/sts-pods-map",
    "Job": "kse.com/job",
    "CronJob": "kse.com/cj",
    "Pod": "kse.com/pod",
}
"""The annotation that holds it, by the holder's kind."""

_KSE_COUNT_KEY: Final = "currentReschedulingTimes"
_KSE_HOSTS_SUFFIX: Final = "ScheduledHosts"
_KseCount = Annotated[int, msgspec.Meta(ge=0, le=1000)]


def ledger_from_kse(kind: str, name: str, marks: Mapping[str, str], most: int) -> AttemptLedger | None:
    """None if there is nothing, or nothing that makes sense. `name` is the holder's; no line has more than
    `most` tries: the older tool deletes once more than it is allowed to."""
    written = marks.get(KSE_ANNOTATIONS.get(kind, ""))
    if not written:
        return None
    try:
        found = msgspec.json.decode(written, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    if kind == "StatefulSet":
        lines = {pod: _kse_lineage(told, most) for pod, told in sorted(found.items())[:MAX_LINEAGES]}
    else:
        lines = {name if kind == "Pod" else CARRIED_OVER: _kse_lineage(found, most)}
    kept = {each: line for each, line in lines.items() if line is not None}
    return AttemptLedger(kept) if kept else None


def _kse_lineage(told: object, most: int) -> ReplicaLineage | None:
    if not isinstance(told, dict):
        return None
    hosts = list(_kse_hosts(told))
    try:
        count = msgspec.convert(told.get(_KSE_COUNT_KEY, len(hosts)), _KseCount)
    except msgspec.ValidationError:
        count = len(hosts)
    kept = min(count, most)
    nodes = ["", *hosts][-kept:] if kept <= len(hosts) else [*[""] * (kept - len(hosts)), *hosts]
    return ReplicaLineage(tries=tuple(FailedAttempt(node=node) for node in nodes)) if kept else None


def _kse_hosts(told: Mapping[str, object]) -> Iterator[str]:
    for key, hosts in told.items():
        # Its Go tags write "deployScheduledHosts", "podScheduledHosts", … with the kind in front.
        if key.endswith(_KSE_HOSTS_SUFFIX) and isinstance(hosts, list):
            yield from (host for host in hosts if isinstance(host, str) and subdomain_error(host) is None)
