"""Create and update objects, with all checks that the API server makes before it stores them."""

from collections.abc import Callable
from typing import Protocol

from kubesim.apiserver import server_metadata
from kubesim.apiserver.api_messages import Object, encode
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import ObjectStore, StoredObject, key_of
from kubesim.apiserver.server_metadata import ObjectNaming
from kubesim.apiserver.status_errors import FieldError, StatusError, bad_request, conflict, invalid, not_found
from kubesim.apiserver.write_options import WriteOptions, exists, namespace_terminating, version_missing
from kubesim.patches.merge_schema import MergeNode
from kubesim.patches.server_side_apply import track_update
from kubesim.virtual_time import Clock

__all__ = ["AdmissionSteps", "ObjectWriter"]

Transform = Callable[[Object | None], Object]
"""Returns the wanted object for the current one, which is None if it does not exist."""

_MOST_TRIES = 8
_SET_ONCE = ("qosClass", "observedGeneration")


class AdmissionSteps(Protocol):
    """Defaults, webhooks and validation, in that order; raises `StatusError` if the object is rejected."""

    async def admit(
        self, kind: ResourceKind, new: Object, old: Object | None, *, subresource: str, options: WriteOptions
    ) -> Object: ...

    def merge_schema(self, kind: ResourceKind) -> MergeNode: ...


class ObjectWriter:
    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        naming: ObjectNaming,
        admission: AdmissionSteps,
        namespaces: ResourceKind,
    ) -> None:
        self._store = store
        self._clock = clock
        self._naming = naming
        self._admission = admission
        self._namespaces = namespaces

    async def create(
        self, kind: ResourceKind, namespace: str, content: Object, options: WriteOptions
    ) -> bytes:
        """Create an object and return its stored bytes. The caller hands over `content`."""
        _expect_kind(kind, content)
        server_metadata.check_namespace(kind, content, namespace)
        meta = content["metadata"]
        if meta.get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        generated = bool(meta.get("generateName")) and not meta.get("name")
        if generated:
            meta["name"] = self._generated_name(kind, namespace, meta["generateName"])
        if not meta.get("name"):
            raise invalid(
                kind,
                "",
                [
                    FieldError(
                        "metadata.name",
                        "FieldValueRequired",
                        "Required value: name or generateName is required",
                    )
                ],
            )
        self._expect_namespace(kind, namespace, meta["name"])
        server_metadata.fill_in(kind, content, uid=self._naming.uid(), now=self._clock.now())
        _drop_status(kind, content)
        content = await self._admission.admit(kind, content, None, subresource="", options=options)
        self._expect_namespace(kind, namespace, meta["name"])  # webhooks take time: it may have gone
        existing = self._store.find(kind, namespace, meta["name"])
        if existing is not None:
            raise exists(kind, existing, generated=generated)
        if options.dry_run:
            return _unstored(content)
        return self._store.put(kind, content).raw

    def _generated_name(self, kind: ResourceKind, namespace: str, base: str) -> str:
        prefix = key_of(namespace, "")
        records = self._store.collection(kind).records

        class Taken:
            def __contains__(self, name: object) -> bool:
                return f"{prefix}{name}" in records

        return self._naming.name(base, Taken())

    def _expect_namespace(self, kind: ResourceKind, namespace: str, name: str) -> None:
        if not kind.namespaced:
            return
        record = self._store.find(self._namespaces, "", namespace)
        if record is None:
            raise not_found(self._namespaces, namespace)
        if record.deleting:
            raise namespace_terminating(kind, name, namespace)

    async def change(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        transform: Transform,
        options: WriteOptions,
        *,
        subresource: str = "",
        may_create: bool = False,
    ) -> tuple[bytes, bool]:
        """Update an object; return the stored bytes, and whether it was created.

        The object may change while webhooks run: then the update starts again, and fails if the caller gave
        a version.
        """
        for _ in range(_MOST_TRIES):
            record = self._store.find(kind, namespace, name)
            if record is None:
                if not may_create:
                    raise not_found(kind, name)
                return await self.create(kind, namespace, _named(transform(None), name), options), True
            old = record.object
            wanted = transform(_labelled(kind, record.object))
            new = self._merged(kind, wanted, old, record, subresource)
            new = await self._admission.admit(kind, new, old, subresource=subresource, options=options)
            faults = server_metadata.carry_over(kind, new, old)
            if faults:
                raise invalid(kind, name, faults)
            if not options.applies:
                self._track(kind, new, old, options)
            if self._store.find(kind, namespace, name) is record:
                return self._stored(kind, record, new, old, options), False
        raise conflict(kind, name)

    def _track(self, kind: ResourceKind, new: Object, old: Object, options: WriteOptions) -> None:
        recorded = old["metadata"].get("managedFields")
        if recorded:
            new["metadata"].setdefault("managedFields", recorded)
            schema = self._admission.merge_schema(kind)
            track_update(old, new, schema, manager=options.manager, now=self._clock.now())

    def _merged(
        self, kind: ResourceKind, wanted: Object, old: Object, record: StoredObject, subresource: str
    ) -> Object:
        """Return the wanted object, limited to the fields that this request may change."""
        _expect_kind(kind, wanted)
        server_metadata.check_namespace(kind, wanted, record.namespace)
        meta = wanted["metadata"]
        if not meta.get("name"):
            raise bad_request(
                f"the name of the object ({record.name} based on URL) was undeterminable: "
                "name must be provided"
            )
        if meta["name"] != record.name:
            raise bad_request(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({record.name})"
            )
        version = meta.pop("resourceVersion", "")
        if not version and kind.must_name_version:
            raise version_missing(kind, record.name)
        if version and version != str(record.version):
            raise conflict(kind, record.name)
        meta["resourceVersion"] = str(record.version)
        if subresource == "status":
            return _status_only(kind, wanted, old)
        if "status" in kind.subresources:
            wanted = server_metadata.without(wanted, "status")
            if "status" in old:
                wanted["status"] = old["status"]
        return wanted

    def _stored(
        self, kind: ResourceKind, record: StoredObject, new: Object, old: Object, options: WriteOptions
    ) -> bytes:
        new.pop("apiVersion", None)
        new.pop("kind", None)
        new["metadata"]["resourceVersion"] = str(record.version)
        if new == old:  # nothing changed: no new version, no event
            return record.raw
        if options.dry_run:
            return encode(new)
        if _emptied_of_finalizers(kind, new, old):
            self._store.remove(kind, record)
            return encode(new)
        return self._store.put(kind, new).raw


def _expect_kind(kind: ResourceKind, content: Object) -> None:
    given_kind = content.get("kind") or kind.name
    version = content.get("apiVersion") or kind.api_version
    if given_kind != kind.name:
        raise bad_request(
            f'{given_kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind.name}: '
            f"converting ({version}.{given_kind}) to ({kind.name}): unknown conversion"
        )
    if version != kind.api_version:
        raise bad_request(
            f'{given_kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind.name}: '
            f'no kind "{given_kind}" is registered for version "{version}" in scheme'
        )
    if not isinstance(content.setdefault("metadata", {}), dict):
        raise bad_request(f"{kind.name}.metadata: expected an object")


def _named(content: Object, name: str) -> Object:
    meta = content["metadata"] = content.get("metadata") or {}
    meta.setdefault("name", name)
    for field in ("resourceVersion", "uid", "creationTimestamp"):
        meta.pop(field, None)
    return content


def _labelled(kind: ResourceKind, content: Object) -> Object:
    return {"kind": kind.name, "apiVersion": kind.api_version, **content}


def _drop_status(kind: ResourceKind, content: Object) -> None:
    # A kubelet registers its node together with its status; all other clients write it separately.
    if "status" in kind.subresources and kind.name != "Node":
        content.pop("status", None)


def _status_only(kind: ResourceKind, wanted: Object, old: Object) -> Object:
    new = dict(old)
    if kind.name in {"Pod", "Node"} and not kind.group:
        # Kubelets write labels and conditions in one request; they can't change owners.
        new["metadata"] = dict(wanted["metadata"])
        new["metadata"].pop("ownerReferences", None)
        if "ownerReferences" in old["metadata"]:
            new["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]
    else:
        new["metadata"] = dict(old["metadata"])
    if not isinstance(wanted.get("status", {}), dict):
        raise bad_request(f"{kind.name}.status: expected an object")
    if "status" in wanted:
        new["status"] = dict(wanted["status"])
        for field in _SET_ONCE if kind.name == "Pod" else ():
            if field in old.get("status", {}):
                new["status"].setdefault(field, old["status"][field])
    else:
        new.pop("status", None)
    return new


def _emptied_of_finalizers(kind: ResourceKind, new: Object, old: Object) -> bool:
    if new["metadata"].get("finalizers") or "deletionTimestamp" not in old["metadata"]:
        return False
    if kind.name == "Namespace" and not kind.group and new.get("spec", {}).get("finalizers"):
        return False
    return not old["metadata"].get("deletionGracePeriodSeconds")


def _unstored(content: Object) -> bytes:
    return encode(server_metadata.without(content, "kind", "apiVersion"))
