"""A cluster into a file: all that matters for deciding, and nothing that could be a secret."""

import gzip
from collections.abc import Collection, Coroutine
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from rescheduler.kube import errors
from rescheduler.kube.client import PAGE_SIZE, Client
from rescheduler.kube.resources import Resource
from rescheduler.kube.wire.generic import Json
from rescheduler.model.migrations import GROUP as OUR_GROUP
from rescheduler.model.saved_cluster import GUARDED, SAVED_AT, SAVED_KINDS, STEERED
from rescheduler.sources.anonymise import anonymised
from rescheduler.sources.fields import FIELDS
from rescheduler.sources.kinds import CLUSTER_KINDS, METRICS_KINDS
from rescheduler.sources.saved import sound_objects
from rescheduler.sources.together import together
from rescheduler.sources.trimming import trimmed
from rescheduler.sources.webhook_probe import webhook_answers
from rescheduler.usage.metrics_api import GROUP as METRICS_GROUP

__all__ = ["Saving", "encoded", "saving_of_file", "saving_of_live"]

Object = dict[str, Any]
_EXTENSIONS = {OUR_GROUP, METRICS_GROUP}


@dataclass(frozen=True, slots=True)
class Saving:
    """What is to be written."""

    saved_at: str
    kinds: frozenset[str]
    """Of which all there are was read."""
    objects: list[Object]
    notes: tuple[str, ...] = field(default=())
    """What could not be read, and why."""
    steered: bool | None = None
    """Whether our webhook answers; None if nobody knows."""
    guarded: bool = False

    def without_names(self, keep: Collection[str] = ()) -> "Saving":
        return replace(self, objects=anonymised(self.objects, keep))


# --- from where


async def saving_of_live(client: Client) -> Saving:
    """Raises `KubeError` if pods or nodes can't be read."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    wanted = [(each.resource, each.required) for each in CLUSTER_KINDS]
    wanted += [(resource, False) for resource in METRICS_KINDS]
    work: list[Coroutine[Any, Any, Any]] = [_listed(client, *each) for each in wanted]
    work.append(webhook_answers(client))
    *found, webhook = await together(work)
    objects: list[Object] = []
    kinds, notes = set(), []
    for (resource, _), items in zip(wanted, found, strict=True):
        if isinstance(items, str):
            notes.append(items)
        else:
            kinds.add(resource.kind)
            objects += sorted(items, key=_key)
    return Saving(
        now, frozenset(kinds), objects, tuple(filter(None, notes)), webhook.steers, bool(webhook.guards)
    )


async def _listed(client: Client, resource: Resource[Any], required: bool) -> list[Object] | str:
    """Trimmed while it is read, page by page: a whole cluster may not fit into memory otherwise."""
    codec = Json(f"the {resource.kind} list", _trimming(resource), lambda _: "")
    trimming = replace(resource.as_json, codec=codec)
    try:
        # A metrics server knows no pages.
        page_size = 0 if resource in METRICS_KINDS else PAGE_SIZE
        return (await client.list(trimming, page_size=page_size)).items
    except (errors.NotFound, errors.Forbidden) as error:
        if required:
            raise
        if isinstance(error, errors.NotFound) and resource.group in _EXTENSIONS:
            return ""  # this cluster does without
        return f"{resource.plural} are not saved: {error}"
    except errors.KubeError as error:
        if resource in METRICS_KINDS:
            return f"usage is not saved: {error}"
        raise


def _trimming(resource: Resource[Any]) -> Any:
    head = {"apiVersion": resource.api_version, "kind": resource.kind}

    def read(raw: bytes | msgspec.Raw) -> Object:
        return trimmed(resource.kind, {**msgspec.json.decode(raw, type=Object), **head})

    return read


def saving_of_file(raw: bytes, *, source: str) -> Saving:
    """A saved cluster once more, for making it anonymous. Raises `UnreadableCluster`."""
    saved, objects = sound_objects(raw, source=source)
    kinds = saved.complete_kinds & FIELDS.keys()
    return Saving(
        saved.saved_at,
        frozenset(kinds),
        [trimmed(each["kind"], each) for each in objects],
        steered=saved.steered,
        guarded=saved.guarded,
    )


# --- into bytes


def encoded(saving: Saving, name: str) -> bytes:
    """YAML or JSON, gzipped or not, as the name of the file has it."""
    path = Path(name)
    packed = path.suffix == ".gz"
    suffix = Path(path.stem).suffix if packed else path.suffix
    content = _as_yaml(saving) if suffix in {".yaml", ".yml"} else _as_json(saving)
    return gzip.compress(content, mtime=0) if packed else content


def _head(saving: Saving) -> Object:
    told = {
        SAVED_AT: saving.saved_at,
        SAVED_KINDS: ",".join(sorted(saving.kinds)),
        STEERED: "" if saving.steered is None else str(saving.steered).lower(),
        GUARDED: "true" if saving.guarded else "",
    }
    annotations = {name: value for name, value in told.items() if value}
    return {"apiVersion": "v1", "kind": "List", "metadata": {"annotations": annotations}}


def _as_json(saving: Saving) -> bytes:
    """An object a line, so that two of them can be compared line by line."""
    head = msgspec.json.encode(_head(saving))[:-1]
    return head + b',"items":[\n' + b",\n".join(map(msgspec.json.encode, saving.objects)) + b"\n]}\n"


def _as_yaml(saving: Saving) -> bytes:
    content = {**_head(saving), "items": saving.objects}
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumper = type("_Plain", (dumper,), {"ignore_aliases": lambda *_: True})
    text: bytes = yaml.dump(content, Dumper=dumper, sort_keys=False, allow_unicode=True, encoding="utf-8")
    return text


def _key(item: Object) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
