"""A cluster from a file, refused whole if an object in it makes no sense."""

from collections import Counter
from collections.abc import Iterator
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Any

import msgspec

from rescheduler.config.policy import Policy, UsageSource
from rescheduler.kube.wire.nodes import Nodes
from rescheduler.kube.wire.pods import Pods
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.pods import PodRecord
from rescheduler.model.saved_cluster import (
    SAVED_AT,
    SavedCluster,
    SavedObject,
    UnreadableCluster,
    parse_cluster,
)
from rescheduler.model.webhook_registration import WebhookAnswers
from rescheduler.sources.faults import faults_of
from rescheduler.sources.kinds import CLUSTER_KINDS, METRICS_KINDS, ClusterKind, kind_of
from rescheduler.sources.needs import needs_of
from rescheduler.sources.reading import Reading
from rescheduler.usage.choose import chosen_source
from rescheduler.usage.metrics_api import readings_of
from rescheduler.usage.readings import Outcome, Readings, Unavailable

__all__ = ["read_saved", "saved_usage", "sound_objects"]

_UNREADABLE = (msgspec.DecodeError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What parsers raise for objects of another shape than an API server would give."""
_HOW_TO_SAVE = "save it with rescheduler snapshot, or kubectl get nodes,pods,... -A -o json"
_NAMED = 3
_METRICS = tuple(resource.kind for resource in METRICS_KINDS)


def read_saved(raw: bytes, *, source: str) -> Reading:
    """Raises `UnreadableCluster` with every fault."""
    saved = parse_cluster(raw, source=source)
    reader = _Reader(saved)
    faults = [*_time_faults(saved), *_duplicates(saved), *reader.faults()]
    if not faults:
        faults += _emptiness(saved)
    if faults:
        raise UnreadableCluster(source, faults)
    return reader.reading


def saved_usage(reading: Reading, policy: Policy) -> Outcome:
    """What counts as usage, of what the file has and what the policy asks for."""
    wanted = chosen_source(policy)
    if wanted is UsageSource.REQUESTS:
        return Readings(UsageSource.REQUESTS)
    if reading.usage.source is UsageSource.REQUESTS:
        return Unavailable(wanted, "the file has no PodMetrics.")
    if wanted is UsageSource.PROMETHEUS:
        reading.assumptions.append("usage is that of the file's PodMetrics: no Prometheus knows this cluster")
    return reading.usage


def sound_objects(raw: bytes, *, source: str) -> tuple[SavedCluster, list[dict[str, Any]]]:
    """All objects that matter, whole, for saving them once more. Raises `UnreadableCluster`."""
    saved = parse_cluster(raw, source=source)
    found, faults = [], [*_time_faults(saved), *_duplicates(saved)]
    for item in saved.objects:
        if kind_of(item.api_version, item.kind) or item.kind in _METRICS:
            try:
                found.append(item.content())
            except _UNREADABLE as error:
                faults += [f"{item.title}: {fault}" for fault in faults_of(item.kind, {}, error)]
                continue
            faults += [f"{item.title}: {fault}" for fault in faults_of(item.kind, found[-1])]
    # What looks well may still make no sense to those who read it later.
    if faults := faults or list(_Reader(saved).faults()):
        raise UnreadableCluster(source, faults)
    return saved, found


class _Reader:
    def __init__(self, saved: SavedCluster) -> None:
        self._saved = saved
        moment = _moment(saved.saved_at) or datetime.now(UTC)
        self.reading = Reading(moment.timestamp(), webhook=WebhookAnswers(saved.steered, saved.guarded))
        # Of our own, so that what a foreign file holds is not kept beyond it.
        self._pods, self._nodes = Pods(), Nodes()

    def faults(self) -> Iterator[str]:
        """Everything is read on the way."""
        left_out: dict[str, list[SavedObject]] = {}
        measured: dict[str, list[msgspec.Raw]] = {kind: [] for kind in _METRICS}
        for item in self._saved.objects:
            kind = kind_of(item.api_version, item.kind)
            if item.kind in measured:
                measured[item.kind].append(item.raw)
            elif kind is None:
                left_out.setdefault(item.kind, []).append(item)
            elif kind.decides:
                yield from self._apply(kind, item)
        yield from self._measure(*measured.values())
        self.reading.notes += [_of_no_use(kind, items) for kind, items in sorted(left_out.items())]
        self.reading.assumptions += self._assumed()

    def _apply(self, kind: ClusterKind, item: SavedObject) -> Iterator[str]:
        try:
            record = self._record(kind, item)
            if kind.kind in {"Pod", "Node"}:
                _must_be_amounts(record)
            kind.applier(self.reading.state)(record)
        except _UNREADABLE as error:
            content = _content(item)
            yield from (f"{item.title}: {fault}" for fault in faults_of(item.kind, content, error))
            return
        if kind.kind == "Pod":
            self.reading.pods.append(record)
        elif kind.kind == "Node":
            self.reading.node_uids[record.name] = record.uid

    def _record(self, kind: ClusterKind, item: SavedObject) -> Any:
        raw: bytes | msgspec.Raw = item.raw
        if kind.resource.namespaced and not item.namespace:
            # As the API server does with an object that says no namespace.
            content = item.content()
            content["metadata"]["namespace"] = "default"
            raw = msgspec.json.encode(content)
        if kind.kind == "Pod":
            return self._pods.from_json(raw)
        if kind.kind == "Node":
            return self._nodes.from_json(raw)
        return msgspec.json.decode(raw)

    def _measure(self, pods: list[msgspec.Raw], nodes: list[msgspec.Raw]) -> Iterator[str]:
        if not pods:
            return
        try:
            self.reading.usage = readings_of(pods, nodes)
        except _UNREADABLE as error:
            yield f"PodMetrics or NodeMetrics: {error}"

    def _assumed(self) -> Iterator[str]:
        """A kind that the file says it has all of is known, even if there is none."""
        needs = needs_of(self.reading.pods)
        present = {item.kind for item in self._saved.objects} | self._saved.complete_kinds
        for kind in CLUSTER_KINDS:
            if kind.without and kind.kind not in present and kind.matters(needs):
                yield f"{kind.without}: the file has no {kind.resource.plural}"
        if needs.selects_namespaces and "Namespace" in present:
            yield from self._unknown_namespaces()

    def _unknown_namespaces(self) -> Iterator[str]:
        known = {item.name for item in self._saved.objects if item.kind == "Namespace"}
        missing = sorted({pod.namespace for pod in self.reading.pods} - known)
        if missing:
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            named = f"{', '.join(missing[:_NAMED])}{more}"
            yield f"namespaces that are not in the file have no labels but their names: {named}"


def _must_be_amounts(record: PodRecord | NodeRecord) -> None:
    """The API server takes no negative amounts. Raises ValueError."""
    asked = record.allocatable if isinstance(record, NodeRecord) else record.requests
    amounts = (asked.cpu_millis, asked.memory_bytes, asked.ephemeral_bytes, asked.pods)
    if min(amounts) < 0 or any(amount < 0 for _, amount in asked.extended):
        raise ValueError("less than nothing of a resource")


def _emptiness(saved: SavedCluster) -> Iterator[str]:
    present = {item.kind for item in saved.objects}
    if "Node" not in present:
        yield f"there are no nodes in it; {_HOW_TO_SAVE}"
    elif "Pod" not in present | saved.complete_kinds:
        yield f"there are no pods in it; {_HOW_TO_SAVE}"


def _duplicates(saved: SavedCluster) -> Iterator[str]:
    first: dict[tuple[str, str, str, str], SavedObject] = {}
    for item in saved.objects:
        group = item.api_version.rpartition("/")[0]
        before = first.setdefault((group, item.kind, item.namespace, item.name), item)
        if before is not item:
            yield f"{item.title}: it is there twice, as {before.place} and {item.place}"


def _time_faults(saved: SavedCluster) -> Iterator[str]:
    if saved.saved_at and _moment(saved.saved_at) is None:
        yield f'metadata.annotations["{SAVED_AT}"]: "{saved.saved_at}" is no time in RFC 3339'


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if text else None
        moment = found.astimezone(UTC) if found is not None and found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
    # In some time zone the first and the last years are not years any more.
    return moment if moment is not None and MINYEAR < moment.year < MAXYEAR else None


def _content(item: SavedObject) -> dict[str, Any]:
    try:
        return item.content()
    except _UNREADABLE:
        return {}


def _of_no_use(kind: str, items: list[SavedObject]) -> str:
    more = Counter(item.kind for item in items)[kind] - 1
    others = f" and {more} more of that kind are" if more else " is"
    return f"{items[0].title}{others} left out: no decision depends on it"
