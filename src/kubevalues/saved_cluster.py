"""Read a saved cluster: a `v1 List` in JSON or YAML, gzipped or not, as from `kubectl get … -A -o json`.

Only the list and the identity of each object are decoded here, because a cluster can have hundreds of
megabytes; callers decode the objects that they need. YAML is converted to JSON first, with kubectl's
meaning of plain values: dates are strings, and numbers as keys become strings. Aliases are an error:
kubectl never writes them, and they let a small file become huge.
"""

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec
import yaml
from msgspec import Raw

from kubevalues.bounded_yaml import BoundedLoader, json_error_text

__all__ = [
    "GUARDED",
    "MAX_SAVED_BYTES",
    "SAVED_AT",
    "SAVED_KINDS",
    "STEERED",
    "USAGE_SOURCE",
    "NotJsonCompatible",
    "SavedCluster",
    "SavedObject",
    "UnreadableCluster",
    "json_from_yaml",
    "parse_cluster",
    "read_bounded",
]

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class NotJsonCompatible(ValueError):  # noqa: N818 - says what the content is
    """The YAML is valid, but JSON can't represent it."""


class _Loader(BoundedLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012 - yaml's own, without timestamps
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in BoundedLoader.yaml_implicit_resolvers.items()
    }


def json_from_yaml(raw: bytes) -> bytes:
    """Return the YAML document as JSON. Raises `yaml.YAMLError` and `NotJsonCompatible`."""
    try:
        content = yaml.load(raw, Loader=_Loader)  # noqa: S506 - it is a safe loader
    except (ValueError, OverflowError, AttributeError) as error:
        # A number or a character that YAML's grammar allows and its constructors reject.
        raise NotJsonCompatible(str(error)) from error
    return msgspec.json.encode(_Plain().value(content, ""))


class _Plain:
    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}
        """The containers by id; holding them keeps Python from using an id twice."""

    def value(self, value: Any, path: str) -> Any:
        if isinstance(value, dict | list):
            if value and id(value) in self._seen:
                raise NotJsonCompatible(f"{path or 'the file'} is an alias (*name): write out the value")
            self._seen[id(value)] = value
        if isinstance(value, dict):
            return {_key(key, path): self.value(part, f"{path}.{key}") for key, part in value.items()}
        if isinstance(value, list):
            return [self.value(part, f"{path}[{place}]") for place, part in enumerate(value)]
        if value is None or isinstance(value, str | bool | int | float):
            return value
        raise NotJsonCompatible(f"{path.lstrip('.')} is a {type(value).__name__}, which JSON doesn't support")


def _key(key: Any, path: str) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, int | float):
        return str(key)
    raise NotJsonCompatible(
        f"{path.lstrip('.') or 'the file'} has a key that is neither a string nor a number"
    )


SAVED_AT = "rescheduler.dev/saved-at"
"""Annotation of the list: when the cluster looked like this, in RFC 3339."""

SAVED_KINDS = "rescheduler.dev/saved-kinds"
"""Annotation of the list: the kinds of which it has all objects, even if there were none."""

STEERED = "rescheduler.dev/steered"
"""Annotation of the list: whether our webhook answered, `true` or `false`; absent if unknown."""

GUARDED = "rescheduler.dev/guarded"
"""Annotation of the list: `true` if our webhook was seen to guard handovers."""

USAGE_SOURCE = "rescheduler.dev/usage-source"
"""Annotation of the list: `prometheus` if PodMetrics and NodeMetrics were read from there."""

_GZIP_MAGIC = b"\x1f\x8b"

MAX_SAVED_BYTES = 2 << 30
"""150,000 pods, as `kubectl get -o json` prints them, take less than half of this."""
_CHUNK_BYTES = 1 << 20
_ALWAYS_ALLOWED_BYTES = 64 << 20
_LARGEST_EXPANSION = 200
"""gzip shrinks saved clusters to a twentieth or fiftieth; only malicious files shrink to a thousandth."""

_MOST_FAULTS = 20
_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class UnreadableCluster(ValueError):  # noqa: N818 - says what the file is
    """The file is not a saved cluster, or has invalid objects; the message lists them."""

    def __init__(self, source: str, faults: Iterable[str]) -> None:
        self.source = source
        self.faults = tuple(faults)
        super().__init__(self._message())

    def _message(self) -> str:
        if len(self.faults) == 1:
            return f"{self.source}: {self.faults[0]}"
        shown = [*self.faults[:_MOST_FAULTS]]
        if len(self.faults) > _MOST_FAULTS:
            shown.append(f"and {len(self.faults) - _MOST_FAULTS} more")
        return "\n  ".join([f"{self.source}: {len(self.faults)} errors", *shown])


@dataclass(frozen=True, slots=True)
class SavedObject:
    place: str
    """The place in the file: `items[3]`."""
    api_version: str
    kind: str
    namespace: str
    name: str
    raw: Raw
    """The JSON of the object; its kind and apiVersion may be in the list around it instead."""

    @property
    def title(self) -> str:
        """Return the name for messages: `Pod shop/web-1`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def content(self) -> dict[str, Any]:
        """Return the whole content, decoded again at every call."""
        found: dict[str, Any] = msgspec.json.decode(self.raw)
        found.setdefault("kind", self.kind)
        found.setdefault("apiVersion", self.api_version)
        return found


@dataclass(frozen=True, slots=True)
class SavedCluster:
    source: str
    """The file, as messages name it."""
    objects: tuple[SavedObject, ...]
    saved_at: str
    """The time in the file; empty if it has none."""
    complete_kinds: frozenset[str]
    """The kinds of which it has all objects."""
    steered: bool | None = None
    """Whether our webhook answered; None if the file doesn't say."""
    guarded: bool = False
    usage_source: str = ""
    """The source of PodMetrics and NodeMetrics; empty for the metrics API."""


def parse_cluster(raw: bytes, *, source: str) -> SavedCluster:
    """Parse a saved cluster; raise `UnreadableCluster` with every fault that can be found."""
    object_list = _object_list(source, _as_json(source, _unpacked(source, raw)))
    faults: list[str] = []
    objects = tuple(_objects(object_list, "", faults))
    if faults:
        raise UnreadableCluster(source, faults)
    annotations = object_list.annotations
    complete = frozenset(kind for kind in annotations.get(SAVED_KINDS, "").split(",") if kind)
    steered = {"true": True, "false": False}.get(annotations.get(STEERED, ""))
    guarded = annotations.get(GUARDED) == "true"
    return SavedCluster(
        source,
        objects,
        annotations.get(SAVED_AT, ""),
        complete,
        steered,
        guarded,
        annotations.get(USAGE_SOURCE, ""),
    )


# --- from bytes to the list


def read_bounded(stream: BinaryIO | gzip.GzipFile, most: int) -> bytes | None:
    """Return the whole content of the stream, or None if it is longer than `most` bytes."""
    chunks: list[bytes] = []
    left = most
    while chunk := stream.read(_CHUNK_BYTES):
        left -= len(chunk)
        if left < 0:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _unpacked(source: str, raw: bytes) -> bytes:
    if not raw.startswith(_GZIP_MAGIC):
        return raw
    most = min(MAX_SAVED_BYTES, max(_ALWAYS_ALLOWED_BYTES, _LARGEST_EXPANSION * len(raw)))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
            content = read_bounded(packed, most)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableCluster(source, [f"corrupt gzip data: {error}"]) from error
    if content is None:
        sizes = f"{len(raw)} bytes of gzip data unpack to more than {most} bytes"
        raise UnreadableCluster(source, [f"{sizes}, which is too large for a saved cluster"])
    return content


def _as_json(source: str, raw: bytes) -> bytes:
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if raw.lstrip()[:1] in (b"{", b"["):
        return raw
    try:
        return json_from_yaml(raw)
    except yaml.YAMLError as error:
        why = " ".join(str(error).replace('in "<byte string>",', "at").split())
        raise UnreadableCluster(source, [f"neither JSON nor YAML: {why}"]) from error
    except NotJsonCompatible as error:
        raise UnreadableCluster(source, [str(error)]) from error


class _ObjectList(msgspec.Struct):
    """A list of objects: the whole file, or a list inside it."""

    kind: str | None = None
    api_version: str | None = msgspec.field(name="apiVersion", default=None)
    metadata: "_ListMeta | None" = None
    items: list[Raw] | None = None

    @property
    def annotations(self) -> dict[str, str]:
        return (self.metadata and self.metadata.annotations) or {}

    @property
    def kind_of_items(self) -> str:
        """Return `Pod` for a `PodList`; a plain `List` says nothing about its items."""
        return (self.kind or "").removesuffix("List")


class _ListMeta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Head(msgspec.Struct):
    """The fields of an object that identify it."""

    kind: str | None = None
    api_version: str | None = msgspec.field(name="apiVersion", default=None)
    metadata: "_Name | None" = None
    items: Raw = Raw(b"")


class _Name(msgspec.Struct):
    name: str | None = None
    namespace: str | None = None


_decode_list = msgspec.json.Decoder(_ObjectList).decode
_decode_head = msgspec.json.Decoder(_Head).decode
_NO_LIST = (
    "not a list of objects; save one with rescheduler snapshot, or kubectl get nodes,pods,... -A -o json"
)


def _object_list(source: str, raw: bytes) -> _ObjectList:
    try:
        object_list = _decode_list(raw)
    except msgspec.ValidationError as error:
        raise UnreadableCluster(source, [f"{_NO_LIST} ({json_error_text('', error)})"]) from error
    except _FAULTS as error:
        raise UnreadableCluster(source, [f"invalid JSON: {error}"]) from error
    if object_list.items is None:
        raise UnreadableCluster(source, [_NO_LIST])
    return object_list


def _objects(object_list: _ObjectList, around: str, faults: list[str]) -> Iterator[SavedObject]:
    """Yield the objects of a list, and of lists inside it, whose items may omit their kind."""
    for position, raw in enumerate(object_list.items or ()):
        place = f"{around}items[{position}]"
        try:
            head = _decode_head(raw)
            if bytes(head.items)[:1] == b"[":
                yield from _objects(_decode_list(raw), f"{place}.", faults)
                continue
        except _FAULTS as error:
            faults.append(json_error_text(place, error))
            continue
        found = _object(place, head, object_list, raw)
        if isinstance(found, str):
            faults.append(found)
        else:
            yield found


def _object(place: str, head: _Head, object_list: _ObjectList, raw: Raw) -> SavedObject | str:
    kind = head.kind or object_list.kind_of_items
    api_version = head.api_version or (object_list.api_version if object_list.kind_of_items else "") or ""
    name = (head.metadata and head.metadata.name) or ""
    if not kind or not name:
        return f"{place} has no kind or no metadata.name"
    if not api_version:
        return f"{place} ({kind} {name}) has no apiVersion"
    namespace = (head.metadata and head.metadata.namespace) or ""
    return SavedObject(place, api_version, kind, namespace, name, raw)
