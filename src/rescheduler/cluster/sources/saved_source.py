"""Read a saved cluster, or report all errors in it with their paths.

Parsers stop at the first error and know only the part that they parse. So an object that fails to decode is
checked again as a whole against `object_fields`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Any

import msgspec

from kubevalues.bounded_yaml import json_error_text
from kubevalues.quantity import QuantityError, quantity_of
from kubevalues.saved_cluster import SAVED_AT, SavedCluster, SavedObject, UnreadableCluster, parse_cluster
from rescheduler.cluster.codecs.record_resources import NodeReader, PodReader
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.object_meta import UnreadableObject
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.cluster_kinds import (
    CLUSTER_KINDS,
    METRICS_KINDS,
    ClusterKind,
    ClusterReading,
    WebhookProbeResult,
    cluster_kind,
    pod_dependencies,
)
from rescheduler.cluster.sources.metrics_api import decode_custom_metric, decode_metrics
from rescheduler.cluster.sources.object_fields import FIELDS, FieldKind, FieldSpec
from rescheduler.cluster.usage_readings import (
    CustomReadings,
    MetricReadings,
    UsageOutcome,
    UsageReadings,
    UsageUnavailable,
    balanced_metrics,
    effective_usage_source,
)
from rescheduler.config.metric_settings import MetricSubject
from rescheduler.config.policy import Policy, UsageSource

__all__ = ["field_errors", "read_saved", "saved_usage", "valid_objects"]

_MOST = 20
_LONGEST = 60


def field_errors(kind: str, content: Any, error: Exception | None = None) -> list[str]:
    """Return the errors in the fields of an object; if there are none, that of the parser, `error`."""
    found = [fault for _, fault in zip(range(_MOST), _walk(content, FIELDS[kind], ""), strict=False)]
    if not found and error is not None:
        found.append(_parser_error_text(error))
    return found


def _parser_error_text(error: Exception) -> str:
    if isinstance(error, UnreadableObject):
        return error.fault
    if isinstance(error, KeyError):
        return f"metadata.{error.args[0]} is missing"
    return json_error_text("", error)


def _walk(value: Any, fields: FieldSpec, path: str) -> Iterator[str]:
    if value is None:
        return
    if isinstance(fields, FieldKind):
        if check := _CHECKS.get(fields):
            yield from check(value, path)
    elif isinstance(value, list):
        for place, each in enumerate(value):
            at = f"{path}[{place}]"
            if each is None:
                yield f"{at}: expected an object, got None"
            yield from _walk(each, fields, at)
    elif isinstance(value, dict):
        for name, part in value.items():
            if name in fields:
                yield from _walk(part, fields[name], f"{path}.{name}" if path else name)
    else:
        yield f"{path}: expected an object, got {_shown(value)}"


def _texts(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for place, each in enumerate(value):
            yield from _text(each, f"{path}[{place}]")
    else:
        yield from _text(value, path)


def _text(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{path}: expected a string, got {_shown(value)}"


def _quantity(value: Any, path: str) -> Iterator[str]:
    try:
        if quantity_of(value).nanos < 0:
            yield f"{path}: {_shown(value)} is negative"
    except QuantityError as error:
        yield f"{path}: {error}"
    except (TypeError, ValueError, OverflowError):
        yield f"{path}: expected a quantity, got {_shown(value)}"


def _entries(check: Callable[[Any, str], Iterator[str]]) -> Callable[[Any, str], Iterator[str]]:
    def each(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{path}: expected an object, got {_shown(value)}"
            return
        for name, part in value.items():
            yield from check(part, f'{path}["{name}"]')

    return each


def _requirements(value: Any, path: str) -> Iterator[str]:
    for place, each in enumerate(value if isinstance(value, list) else [value]):
        at = f"{path}[{place}]"
        if not isinstance(each, dict):
            yield f"{at}: expected an object, got {_shown(each)}"
            continue
        for name in ("key", "operator", "values", "value", "effect"):
            if each.get(name) is not None or (name == "key" and name in each):
                yield from _texts(each[name], f"{at}.{name}")


_CHECKS: Mapping[FieldKind, Callable[[Any, str], Iterator[str]]] = {
    **dict.fromkeys(
        (
            FieldKind.NAME, FieldKind.NAMESPACE, FieldKind.CLAIM, FieldKind.UID, FieldKind.KIND,
            FieldKind.DRIVER, FieldKind.CONDITION, FieldKind.ADDRESS, FieldKind.LABEL_KEY,
        ),
        _texts,
    ),
    FieldKind.LABELS: _entries(_text),
    FieldKind.ANNOTATIONS: _entries(_text),
    FieldKind.TIMES: _entries(_text),
    FieldKind.AMOUNTS: _entries(_quantity),
    FieldKind.REQUIREMENT: _requirements,
    FieldKind.FIELD_REQUIREMENT: _requirements,
    FieldKind.TAINT: _requirements,
}  # fmt: skip


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_UNREADABLE = (msgspec.DecodeError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""The errors that parsers raise for objects that no API server would return."""
_HOW_TO_SAVE = "save it with rescheduler snapshot, or kubectl get nodes,pods,... -A -o json"
_NAMED = 3
_SERVERS = {UsageSource.METRICS: "the metrics API", UsageSource.PROMETHEUS: "Prometheus"}
_METRICS = tuple(resource.kind for resource in METRICS_KINDS)


def read_saved(raw: bytes, *, source: str) -> ClusterReading:
    """Read a saved cluster; raise `UnreadableCluster` with every fault."""
    saved = parse_cluster(raw, source=source)
    reader = _Reader(saved)
    faults = [*_time_faults(saved), *_duplicates(saved), *reader.faults()]
    if not faults:
        faults += _emptiness(saved)
    if faults:
        raise UnreadableCluster(source, faults)
    return reader.reading


def saved_usage(reading: ClusterReading, policy: Policy) -> UsageOutcome:
    """Return the usage readings of the file that the policy uses."""
    return replace(_saved_usage(reading, policy), custom=_saved_metrics(reading, policy))


def _saved_metrics(reading: ClusterReading, policy: Policy) -> CustomReadings:
    """Return the custom metrics of which the file has values, in the usage of PodMetrics and NodeMetrics."""
    found: list[MetricReadings] = []
    notes: list[str] = []
    for metric in balanced_metrics(policy):
        try:
            read = decode_custom_metric(metric, *reading.saved_metrics)
            if not (read.nodes if metric.per is MetricSubject.NODE else read.pods):
                raise ValueError("the file has no values of it")
            if metric.capacity is None and not read.capacities:
                raise ValueError("the file has no capacity of it")
            found.append(read)
        except _UNREADABLE as error:
            notes.append(f"{metric.name} is not balanced: {error}")
    return CustomReadings(tuple(found), tuple(notes))


def _saved_usage(reading: ClusterReading, policy: Policy) -> UsageOutcome:
    wanted = effective_usage_source(policy)
    if wanted is UsageSource.REQUESTS:
        return UsageReadings(UsageSource.REQUESTS)
    if reading.usage.source is UsageSource.REQUESTS:
        return UsageUnavailable(wanted, "the file has no PodMetrics.")
    if wanted is not reading.usage.source:
        server = _SERVERS[reading.usage.source]
        reading.assumptions.append(
            f"usage comes from the PodMetrics in the file, which were saved from {server}"
        )
    return reading.usage


def valid_objects(raw: bytes, *, source: str) -> tuple[SavedCluster, list[dict[str, Any]]]:
    """Return all objects that matter, complete, to save them again; raise `UnreadableCluster`."""
    saved = parse_cluster(raw, source=source)
    found, faults = [], [*_time_faults(saved), *_duplicates(saved)]
    for item in saved.objects:
        if cluster_kind(item.api_version, item.kind) or item.kind in _METRICS:
            try:
                found.append(item.content())
            except _UNREADABLE as error:
                faults += [f"{item.title}: {fault}" for fault in field_errors(item.kind, {}, error)]
                continue
            faults += [f"{item.title}: {fault}" for fault in field_errors(item.kind, found[-1])]
    # An object without faults here may still be invalid for its decoder.
    if faults := faults or list(_Reader(saved).faults()):
        raise UnreadableCluster(source, faults)
    return saved, found


class _Reader:
    def __init__(self, saved: SavedCluster) -> None:
        self._saved = saved
        moment = _moment(saved.saved_at) or datetime.now(UTC)
        self.reading = ClusterReading(
            moment.timestamp(), webhook=WebhookProbeResult(saved.steered, saved.guarded)
        )
        # Separate readers, so that their caches don't keep the content of a foreign file.
        self._pods, self._nodes = PodReader(), NodeReader()

    def faults(self) -> Iterator[str]:
        """Read everything, and yield all faults."""
        left_out: dict[str, list[SavedObject]] = {}
        measured: dict[str, list[msgspec.Raw]] = {kind: [] for kind in _METRICS}
        for item in self._saved.objects:
            kind = cluster_kind(item.api_version, item.kind)
            if item.kind in measured:
                measured[item.kind].append(item.raw)
            elif kind is None:
                left_out.setdefault(item.kind, []).append(item)
            elif kind.decides:
                yield from self._apply(kind, item)
        yield from self._measure(*measured.values())
        self.reading.notes += [_ignored_kind_note(kind, items) for kind, items in sorted(left_out.items())]
        self.reading.assumptions += self._assumed()

    def _apply(self, kind: ClusterKind, item: SavedObject) -> Iterator[str]:
        try:
            record = self._record(kind, item)
            if kind.kind in {"Pod", "Node"}:
                _reject_negative_amounts(record)
            kind.applier(self.reading.state)(record)
        except _UNREADABLE as error:
            content = _content(item)
            yield from (f"{item.title}: {fault}" for fault in field_errors(item.kind, content, error))
            return
        if kind.kind == "Pod":
            self.reading.pods.append(record)
        elif kind.kind == "Node":
            self.reading.node_uids[record.name] = record.uid

    def _record(self, kind: ClusterKind, item: SavedObject) -> Any:
        raw: bytes | msgspec.Raw = item.raw
        if kind.resource.namespaced and not item.namespace:
            # The API server does the same with an object without a namespace.
            content = item.content()
            content["metadata"]["namespace"] = "default"
            raw = msgspec.json.encode(content)
        if kind.kind == "Pod":
            return self._pods.from_json(raw)
        if kind.kind == "Node":
            return self._nodes.from_json(raw)
        return msgspec.json.decode(raw)

    def _measure(self, pods: list[msgspec.Raw], nodes: list[msgspec.Raw]) -> Iterator[str]:
        self.reading.saved_metrics = pods, nodes
        if not pods:
            return
        try:
            measured = decode_metrics(pods, nodes)
        except _UNREADABLE as error:
            yield f"PodMetrics or NodeMetrics: {error}"
            return
        if measured.pods or measured.notes:
            is_ours = self._saved.usage_source == UsageSource.PROMETHEUS
            source = UsageSource.PROMETHEUS if is_ours else UsageSource.METRICS
            self.reading.usage = replace(measured, source=source)

    def _assumed(self) -> Iterator[str]:
        """Yield the assumptions for kinds of which the file has no objects, and does not say that there are
        none."""
        needs = pod_dependencies(self.reading.pods)
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
            yield f"namespaces missing from the file have no labels except their names: {named}"


def _reject_negative_amounts(record: PodRecord | NodeRecord) -> None:
    """Raise ValueError for negative amounts, which the API server refuses, too."""
    asked = record.allocatable if isinstance(record, NodeRecord) else record.requests
    amounts = (asked.cpu_millis, asked.memory_bytes, asked.ephemeral_bytes, asked.pods)
    if min(amounts) < 0 or any(amount < 0 for _, amount in asked.extended):
        raise ValueError("negative resource quantity")


def _emptiness(saved: SavedCluster) -> Iterator[str]:
    present = {item.kind for item in saved.objects}
    if "Node" not in present:
        yield f"the file contains no nodes; {_HOW_TO_SAVE}"
    elif "Pod" not in present | saved.complete_kinds:
        yield f"the file contains no pods; {_HOW_TO_SAVE}"


def _duplicates(saved: SavedCluster) -> Iterator[str]:
    first: dict[tuple[str, str, str, str], SavedObject] = {}
    for item in saved.objects:
        group = item.api_version.rpartition("/")[0]
        before = first.setdefault((group, item.kind, item.namespace, item.name), item)
        if before is not item:
            yield f"{item.title}: duplicate object, at {before.place} and {item.place}"


def _time_faults(saved: SavedCluster) -> Iterator[str]:
    if saved.saved_at and _moment(saved.saved_at) is None:
        yield f'metadata.annotations["{SAVED_AT}"]: "{saved.saved_at}" is not an RFC 3339 timestamp'


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if text else None
        moment = found.astimezone(UTC) if found is not None and found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
    # In some time zones, times in the first and the last year are out of range.
    return moment if moment is not None and MINYEAR < moment.year < MAXYEAR else None


def _content(item: SavedObject) -> dict[str, Any]:
    try:
        return item.content()
    except _UNREADABLE:
        return {}


def _ignored_kind_note(kind: str, items: list[SavedObject]) -> str:
    more = Counter(item.kind for item in items)[kind] - 1
    others = f" and {more} more of that kind are" if more else " is"
    return f"{items[0].title}{others} ignored, because no decision depends on this kind"
