"""Save a cluster to a file: the fields that decisions depend on, and nothing that could be a secret."""

import gzip
from collections.abc import Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kubevalues.saved_cluster import GUARDED, SAVED_AT, SAVED_KINDS, STEERED, USAGE_SOURCE
from rescheduler.api.well_known_names import GROUP as OUR_GROUP
from rescheduler.cluster.object_meta import is_kept_annotation
from rescheduler.cluster.sources.anonymizer import anonymize
from rescheduler.cluster.sources.cluster_kinds import CLUSTER_KINDS, METRICS_KINDS
from rescheduler.cluster.sources.live_source import gather_all, probe_webhook_if_registered
from rescheduler.cluster.sources.metrics_api import METRICS_GROUP, add_custom_metrics, metrics_objects
from rescheduler.cluster.sources.object_fields import FIELDS, STRUCT_FIELDS, FieldKind, FieldSpec
from rescheduler.cluster.sources.saved_source import valid_objects
from rescheduler.cluster.sources.usage_sources import usage_reader
from rescheduler.cluster.usage_readings import (
    UsageOutcome,
    UsageReadings,
    UsageUnavailable,
    effective_usage_source,
)
from rescheduler.config.policy import Policy, UsageSource
from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiResource
from rescheduler.kube.client import PAGE_SIZE, Client
from rescheduler.kube.codecs.codec import JsonCodec

__all__ = [
    "STORAGE_ANNOTATIONS",
    "ClusterExport",
    "encode_export",
    "export_of_file",
    "export_of_live",
    "trim_object",
]

JsonObject = dict[str, Any]

STORAGE_ANNOTATIONS = frozenset(
    {
        "pv.kubernetes.io/bind-completed",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "storageclass.kubernetes.io/is-default-class",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
    }
)
"""Annotations that the scheduler's volume rules read."""


def trim_object(kind: str, content: JsonObject) -> JsonObject:
    """Return the fields of an object that matter. A field of an unexpected type is left as it is."""
    kept: JsonObject = {name: content[name] for name in ("apiVersion", "kind") if name in content}
    rest: JsonObject = _cut(content, FIELDS[kind])
    return kept | rest


def _cut(value: Any, fields: FieldSpec) -> Any:
    if isinstance(fields, Mapping):
        if isinstance(value, list):
            return [_cut(each, fields) for each in value]
        if isinstance(value, dict):
            return {
                name: _cut(part, fields[name])
                for name, part in value.items()
                if name in fields and part is not None
            }
    elif fields in STRUCT_FIELDS:
        return _with_parts(value, STRUCT_FIELDS[fields])
    elif fields is FieldKind.ANNOTATIONS and isinstance(value, dict):
        return {
            name: text
            for name, text in value.items()
            if is_kept_annotation(name) or name in STORAGE_ANNOTATIONS
        }
    elif fields is FieldKind.ANYTHING and isinstance(value, list):
        return [{} for _ in value]
    return value


def _with_parts(value: Any, parts: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_with_parts(each, parts) for each in value]
    if isinstance(value, dict):
        return {name: part for name, part in value.items() if name in parts}
    return value


Object = dict[str, Any]
_OPTIONAL_GROUPS = {OUR_GROUP, METRICS_GROUP}


@dataclass(frozen=True, slots=True)
class ClusterExport:
    """A cluster as it is written to a file."""

    saved_at: str
    kinds: frozenset[str]
    """The kinds of which all objects were read."""
    objects: list[Object]
    notes: tuple[str, ...] = field(default=())
    """Messages about kinds and values that could not be read."""
    steered: bool | None = None
    """Whether our webhook answers; None if that is not known."""
    guarded: bool = False
    usage_source: str = ""
    """The source of PodMetrics and NodeMetrics; empty for the metrics API."""

    def without_names(self, keep: Collection[str] = ()) -> "ClusterExport":
        return replace(self, objects=anonymize(self.objects, keep))


# --- reading


async def export_of_live(client: Client, policy: Policy) -> ClusterExport:
    """Read a live cluster and its usage by this policy; raise `KubeError` if pods or nodes can't be read."""
    now = datetime.now(UTC).replace(microsecond=0)
    uses_metrics_api = effective_usage_source(policy) is not UsageSource.PROMETHEUS
    wanted = [(each.resource, each.required) for each in CLUSTER_KINDS]
    wanted += [(resource, False) for resource in METRICS_KINDS if uses_metrics_api]
    work: list[Coroutine[Any, Any, Any]] = [_listed(client, *each) for each in wanted]
    work += [_from_prometheus(client, policy), probe_webhook_if_registered(client)]
    *found, measured, webhook = await gather_all(work)
    objects: list[Object] = []
    kinds, notes = set(), []
    for (resource, _), items in zip(wanted, found, strict=True):
        if isinstance(items, str):
            notes.append(items)
        else:
            kinds.add(resource.kind)
            objects += sorted(items, key=_key)
    is_prometheus = measured.source is UsageSource.PROMETHEUS
    return ClusterExport(
        now.isoformat().replace("+00:00", "Z"),
        frozenset(kinds),
        _with_measured(objects, measured, now),
        (*filter(None, notes), *_unmeasured(measured)),
        webhook.steers,
        bool(webhook.guards),
        UsageSource.PROMETHEUS if is_prometheus else "",
    )


async def _from_prometheus(client: Client, policy: Policy) -> UsageOutcome:
    """Read custom metrics from Prometheus, and usage if Prometheus is its source."""
    if effective_usage_source(policy) is not UsageSource.PROMETHEUS:
        policy = replace(policy, usage_source=UsageSource.REQUESTS)
    reader = usage_reader(policy, client)
    try:
        return await reader.read()
    finally:
        await reader.close()


def _with_measured(objects: list[Object], measured: UsageOutcome, now: datetime) -> list[Object]:
    """Return the objects with PodMetrics and NodeMetrics of what was measured."""
    pods, nodes = ({"/".join(filter(None, _key(each))) for each in objects if each["kind"] == kind}
                   for kind in ("Pod", "Node"))  # fmt: skip
    read = metrics_objects(measured, pods, nodes) if isinstance(measured, UsageReadings) else []
    metrics_kinds = {resource.kind for resource in METRICS_KINDS}
    metrics = [each for each in objects if each["kind"] in metrics_kinds] + read
    add_custom_metrics(metrics, measured.custom.metrics, pods, nodes, now)
    others = [each for each in objects if each["kind"] not in metrics_kinds]
    return others + sorted(metrics, key=lambda each: (each["kind"] != "PodMetrics", _key(each)))


def _unmeasured(measured: UsageOutcome) -> Iterator[str]:
    if isinstance(measured, UsageUnavailable):
        yield f"usage is not saved: {measured.why}"
    elif measured.source is UsageSource.PROMETHEUS:
        yield from measured.notes
    yield from measured.custom.notes


async def _listed(client: Client, resource: ApiResource[Any], required: bool) -> list[Object] | str:
    """List objects page by page and trim each page, because a whole cluster may not fit into memory."""
    codec = JsonCodec(f"the {resource.kind} list", _trimming(resource), lambda _: "")
    trimming = replace(resource.as_json, codec=codec)
    try:
        # A metrics server does not support pages.
        page_size = 0 if resource in METRICS_KINDS else PAGE_SIZE
        return (await client.list(trimming, page_size=page_size)).items
    except (errors.NotFound, errors.Forbidden) as error:
        if required:
            raise
        if isinstance(error, errors.NotFound) and resource.group in _OPTIONAL_GROUPS:
            return ""  # the cluster does not have this kind
        return f"{resource.plural} are not saved: {error}"
    except errors.KubeError as error:
        if resource in METRICS_KINDS:
            return f"usage is not saved: {error}"
        raise


def _trimming(resource: ApiResource[Any]) -> Any:
    head = {"apiVersion": resource.api_version, "kind": resource.kind}

    def read(raw: bytes | msgspec.Raw) -> Object:
        return trim_object(resource.kind, {**msgspec.json.decode(raw, type=Object), **head})

    return read


def export_of_file(raw: bytes, *, source: str) -> ClusterExport:
    """Read a saved cluster again, to anonymize it; raise `UnreadableCluster`."""
    saved, objects = valid_objects(raw, source=source)
    kinds = saved.complete_kinds & FIELDS.keys()
    return ClusterExport(
        saved.saved_at,
        frozenset(kinds),
        [trim_object(each["kind"], each) for each in objects],
        steered=saved.steered,
        guarded=saved.guarded,
        usage_source=saved.usage_source,
    )


# --- encoding


def encode_export(saving: ClusterExport, name: str) -> bytes:
    """Encode the export as YAML or JSON, gzipped or not, as the name of the file says."""
    path = Path(name)
    packed = path.suffix == ".gz"
    suffix = Path(path.stem).suffix if packed else path.suffix
    content = _as_yaml(saving) if suffix in {".yaml", ".yml"} else _as_json(saving)
    return gzip.compress(content, mtime=0) if packed else content


def _head(saving: ClusterExport) -> Object:
    found = {
        SAVED_AT: saving.saved_at,
        SAVED_KINDS: ",".join(sorted(saving.kinds)),
        STEERED: "" if saving.steered is None else str(saving.steered).lower(),
        GUARDED: "true" if saving.guarded else "",
        USAGE_SOURCE: saving.usage_source,
    }
    annotations = {name: value for name, value in found.items() if value}
    return {"apiVersion": "v1", "kind": "List", "metadata": {"annotations": annotations}}


def _as_json(saving: ClusterExport) -> bytes:
    """Write one object per line, so that two exports can be compared line by line."""
    head = msgspec.json.encode(_head(saving))[:-1]
    return head + b',"items":[\n' + b",\n".join(map(msgspec.json.encode, saving.objects)) + b"\n]}\n"


def _as_yaml(saving: ClusterExport) -> bytes:
    content = {**_head(saving), "items": saving.objects}
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumper = type("_Plain", (dumper,), {"ignore_aliases": lambda *_: True})
    text: bytes = yaml.dump(content, Dumper=dumper, sort_keys=False, allow_unicode=True, encoding="utf-8")
    return text


def _key(item: Object) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
