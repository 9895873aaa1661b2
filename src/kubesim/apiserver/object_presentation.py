"""Present stored objects to clients: in full, as metadata only, or as rows of a table."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from kubesim.apiserver import event_conversion
from kubesim.apiserver.api_messages import Object, decode, encode
from kubesim.apiserver.content_negotiation import ResponseForm, ResponseFormat, to_yaml
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import StoredObject
from kubesim.apiserver.status_errors import bad_request
from kubesim.printers import table

__all__ = ["ObjectPresentation"]

Columns = Callable[[ResourceKind], Any]

_INCLUDED = frozenset({"Metadata", "Object", "None"})
"""What the rows of a table can contain of their objects."""


class ObjectPresentation:
    """The presentation that one request asks for."""

    def __init__(
        self,
        kind: ResourceKind,
        view: ResponseFormat,
        *,
        now: Callable[[], datetime],
        columns: Columns,
        include_object: str = "Metadata",
    ) -> None:
        self.content_type = view.content_type
        self._kind = kind
        self._view = view
        self._now = now
        self._columns = columns
        self._include_object = include_object or "Metadata"
        if view.form is ResponseForm.TABLE and self._include_object not in _INCLUDED:
            raise bad_request(
                "Unable to convert to Table as requested: includeObject: "
                f"Invalid value: \"{include_object}\": must be 'Metadata', 'Object', 'None', or empty"
            )
        self._prefix = b'{"kind":"%s","apiVersion":"%s",' % (kind.name.encode(), kind.api_version.encode())
        self._header_shown = False

    def one(self, raw: bytes) -> bytes:
        """Return the bytes of one stored object in the requested form."""
        if self._view.form is ResponseForm.TABLE:
            return self._finish(self._table([self._whole(raw)], {}))
        if self._view.form is ResponseForm.WHOLE:
            shown = self._whole_bytes(raw)
            return shown if self.content_type.endswith("json") else to_yaml(decode(shown))
        return self._finish(self._bare(raw))

    def event(self, kind_of_event: str, raw: bytes) -> bytes:
        """Return one line of a watch."""
        if self._view.form is ResponseForm.TABLE:
            table = self._table([self._whole(raw)], {})
            # Clients keep the columns of a watch's first table.
            if self._header_shown:
                table.pop("columnDefinitions", None)
                table["columnDefinitions"] = []
            self._header_shown = True
            shown = encode(table)
        elif self._view.form is ResponseForm.WHOLE:
            shown = self._whole_bytes(raw)
        else:
            shown = encode(self._bare(raw))
        return b'{"type":"%s","object":%s}\n' % (kind_of_event.encode(), shown)

    def bookmark(self, version: int, annotations: dict[str, str] | None = None) -> bytes:
        metadata: Object = {"resourceVersion": str(version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        content: Object = {
            "kind": self._kind.name,
            "apiVersion": self._kind.api_version,
            "metadata": metadata,
        }
        if self._view.form is ResponseForm.TABLE:
            content = self._table([], {"resourceVersion": str(version)})
        elif self._view.form is not ResponseForm.WHOLE:
            content |= {
                "kind": ResponseForm.METADATA.value,
                "apiVersion": f"meta.k8s.io/{self._view.version}",
            }
        return b'{"type":"BOOKMARK","object":%s}\n' % encode(content)

    def many(self, records: Sequence[StoredObject], metadata: Object) -> bytes:
        if self._view.form is ResponseForm.TABLE:
            return self._finish(self._table([self._whole(record.raw) for record in records], metadata))
        if self._view.form is not ResponseForm.WHOLE:
            items = [self._bare(record.raw) for record in records]
            version = f"meta.k8s.io/{self._view.version}"
            return self._finish(
                {
                    "kind": ResponseForm.METADATA_LIST.value,
                    "apiVersion": version,
                    "metadata": metadata,
                    "items": items,
                }
            )
        body = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[%s]}' % (
            self._kind.list_name.encode(),
            self._kind.api_version.encode(),
            encode(metadata),
            b",".join(map(self._item_bytes, records)),
        )
        return body if self.content_type.endswith("json") else to_yaml(decode(body))

    def _item_bytes(self, record: StoredObject) -> bytes:
        # Items of built-in lists don't say their kind, those of custom resources do.
        if self._kind.custom:
            return self._prefix + record.raw[1:]
        return event_conversion.shown(self._kind, record.raw)

    def _whole_bytes(self, raw: bytes) -> bytes:
        return self._prefix + event_conversion.shown(self._kind, raw)[1:]

    def _whole(self, raw: bytes) -> Object:
        content: Object = decode(self._whole_bytes(raw))
        return content

    def _bare(self, raw: bytes) -> Object:
        return {
            "kind": ResponseForm.METADATA.value,
            "apiVersion": f"meta.k8s.io/{self._view.version}",
            "metadata": decode(raw)["metadata"],
        }

    def _table(self, objects: list[Object], metadata: Object) -> Object:
        return table(
            self._kind,
            objects,
            self._now(),
            self._columns(self._kind),
            list_metadata=metadata,
            include_object=self._include_object,
        )

    def _finish(self, content: Object) -> bytes:
        return encode(content) if self.content_type.endswith("json") else to_yaml(content)
