"""Who controls what: owner references, and the claims of a controller on objects that match its selector.

Owned and matching: kept. Owned and no longer matching: released. Owned by nobody and matching: adopted.
Controlled by somebody else: left alone, whatever its labels say.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from rescheduler.model.selectors import Selector
from rescheduler.simulator.controllers.pods import OwnerReference, Pod
from rescheduler.simulator.controllers.writes import Writes
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Failure
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.store import Store

__all__ = ["Claims", "controller_reference", "is_deleting"]


class Claimed(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def labels(self) -> dict[str, str]: ...
    @property
    def deleting(self) -> bool: ...
    @property
    def controller(self) -> OwnerReference | None: ...


def controller_reference(kind: Kind, owner: Object) -> Object:
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


class Claims:
    """The claims of one owner on objects of one kind."""

    def __init__(
        self, writes: Writes, store: Store, *, owner_kind: Kind, owner: Object, claimed_kind: Kind
    ) -> None:
        self._writes = writes
        self._store = store
        self._owner_kind = owner_kind
        self._owner = owner
        self._claimed_kind = claimed_kind

    async def of_pods(self, candidates: Iterable[Pod], selector: Selector) -> list[Pod]:
        """Those that are the owner's own when all claims are settled."""
        return [pod for pod in candidates if await self.settle(pod, selector)]

    async def settle(self, found: Claimed, selector: Selector) -> bool:
        """Whether it is the owner's own in the end."""
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

    async def _edit_references(self, found: Claimed, edit: Callable[[Object], None]) -> bool:
        record = self._store.find(self._claimed_kind, found.namespace, found.name)
        if record is None:
            return False
        try:
            await self._writes.patch(self._claimed_kind, record.object, edit)
        except Failure as failure:
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
