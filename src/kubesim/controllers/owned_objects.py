"""Owner references, adoption and release, and pods made from templates.

A controller keeps what it owns and selects, releases what it owns but no longer selects, adopts what it
selects and no controller owns, and ignores what another controller owns.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kubesim.apiserver.api_messages import Object, encode
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import ObjectStore, key_of
from kubesim.apiserver.status_errors import StatusError
from kubesim.controllers.controller_base import (
    ChangeHandler,
    ControllerContext,
    ControllerWrites,
    SelectingController,
)
from kubesim.controllers.pod_index import IndexedOwnerReference, IndexedPod
from kubesim.controllers.selector_index import SelectorIndex
from kubevalues import Selector

__all__ = [
    "OwnershipClaims",
    "PodOwnerController",
    "controller_reference",
    "is_deleting",
    "pod_from_template",
    "template_hash",
]


class ClaimableObject(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def labels(self) -> dict[str, str]: ...
    @property
    def deleting(self) -> bool: ...
    @property
    def controller(self) -> IndexedOwnerReference | None: ...


def controller_reference(kind: ResourceKind, owner: Object) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_deleting(content: Object) -> bool:
    return "deletionTimestamp" in content["metadata"]


class OwnershipClaims:
    """The claims of one owner on objects of one kind."""

    def __init__(
        self,
        writes: ControllerWrites,
        store: ObjectStore,
        *,
        owner_kind: ResourceKind,
        owner: Object,
        claimed_kind: ResourceKind,
    ) -> None:
        self._writes = writes
        self._store = store
        self._owner_kind = owner_kind
        self._owner = owner
        self._claimed_kind = claimed_kind

    async def of_pods(self, candidates: Iterable[IndexedPod], selector: Selector) -> list[IndexedPod]:
        """Return the pods that belong to the owner after adoption and release."""
        return [pod for pod in candidates if await self.settle(pod, selector)]

    async def settle(self, found: ClaimableObject, selector: Selector) -> bool:
        """Adopt or release an object, and return whether it belongs to the owner."""
        uid = self._owner["metadata"]["uid"]
        if found.controller is not None:
            if found.controller.uid != uid:
                return False
            if selector.matches(found.labels):
                return True
            if not is_deleting(self._owner):
                await self._edit_references(found, self._released)
            return False
        if is_deleting(self._owner) or found.deleting or not selector.matches(found.labels):
            return False
        return await self._edit_references(found, self._adopted)

    async def _edit_references(self, found: ClaimableObject, edit: Callable[[Object], None]) -> bool:
        record = self._store.find(self._claimed_kind, found.namespace, found.name)
        if record is None:
            return False
        try:
            await self._writes.patch(self._claimed_kind, record.object, edit)
        except StatusError as failure:
            if failure.code != 404:
                raise
            return False
        return True

    def _adopted(self, content: Object) -> None:
        ours = controller_reference(self._owner_kind, self._owner)
        others = [
            ref for ref in content["metadata"].get("ownerReferences") or () if ref["uid"] != ours["uid"]
        ]
        content["metadata"]["ownerReferences"] = [*others, ours]

    def _released(self, content: Object) -> None:
        uid = self._owner["metadata"]["uid"]
        references = content["metadata"].get("ownerReferences") or ()
        content["metadata"]["ownerReferences"] = [ref for ref in references if ref["uid"] != uid]


_SAFE = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET, _FNV_PRIME = 2166136261, 16777619


def pod_from_template(template: Object, owner_kind: ResourceKind, owner: Object) -> Object:
    """Return a pod that the server names after its owner."""
    described = template.get("metadata") or {}
    metadata: Object = {
        "generateName": f"{owner['metadata']['name']}-",
        "labels": dict(described.get("labels") or {}),
        "annotations": dict(described.get("annotations") or {}),
        "finalizers": list(described.get("finalizers") or ()),
        "ownerReferences": [controller_reference(owner_kind, owner)],
    }
    return {
        "metadata": {field: value for field, value in metadata.items() if value},
        "spec": dict(template["spec"]),
    }


def template_hash(template: Object, collisions: int = 0) -> str:
    """Return a hash in the form of the real one, which hashes Go's text form; its value is unspecified."""
    return _text_hash(encode(_sorted(template)) + (f"/{collisions}".encode() if collisions else b""))


def _text_hash(text: bytes) -> str:
    """Return the FNV-1a hash, with its decimal digits as letters that make no words."""
    number = _FNV_OFFSET
    for byte in text:
        number = ((number ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {field: _sorted(value[field]) for field in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


class PodOwnerController(SelectingController):
    owner: tuple[str, str]
    """API version and kind of the objects that own the pods."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.owner_kind: ResourceKind = self.kind(*self.owner)
        self.selectors = SelectorIndex(context.store.collection(self.owner_kind).ordered())

    def watches(self) -> Mapping[ResourceKind, ChangeHandler]:
        return {self.owner_kind: self.own_changed}

    def pod_changed(self, before: IndexedPod | None, after: IndexedPod | None) -> None:
        old = before.controller if before is not None else None
        new = after.controller if after is not None else None
        if before is not None and old is not None and (new is None or new.uid != old.uid):
            self._enqueue_owner(before.namespace, old)
        if after is None:
            return
        if new is not None:
            self._enqueue_owner(after.namespace, new)
        elif before is None or old is not None or before.labels != after.labels:
            # Any selecting owner may adopt an orphan; only changes that affect adoption matter.
            for key in self.selectors.matching(after.namespace, after.labels):
                self.queue.add(key)

    def _enqueue_owner(self, namespace: str, reference: IndexedOwnerReference) -> None:
        if reference.kind == self.owner_kind.name and reference.api_version == self.owner_kind.api_version:
            self.queue.add(key_of(namespace, reference.name))

    def candidates(self, owner: Object) -> list[IndexedPod]:
        """Return the owner's pods and pods without an owner."""
        metadata = owner["metadata"]
        return [
            *self.context.pods.controlled_by(metadata["uid"]),
            *self.context.pods.orphans(metadata["namespace"]),
        ]

    async def claim(
        self, owner: Object, selector: Selector, candidates: Iterable[IndexedPod]
    ) -> list[IndexedPod]:
        claims = OwnershipClaims(
            self.writes,
            self.context.store,
            owner_kind=self.owner_kind,
            owner=owner,
            claimed_kind=self.context.pod_kind,
        )
        return await claims.of_pods(candidates, selector)

    async def create_pod(self, owner: Object, template: Object) -> Object:
        pod = pod_from_template(template, self.owner_kind, owner)
        return await self.writes.create(self.context.pod_kind, owner["metadata"]["namespace"], pod)

    async def delete_pod(self, pod: IndexedPod) -> bool:
        return await self.writes.delete(self.context.pod_kind, pod.namespace, pod.name, pod.uid)
