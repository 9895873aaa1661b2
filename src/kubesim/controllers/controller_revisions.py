"""ControllerRevisions: the numbered history of templates of a StatefulSet or DaemonSet."""

from collections.abc import Iterable
from typing import NamedTuple

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.controllers.controller_base import ControllerContext, ControllerWrites
from kubesim.controllers.owned_objects import controller_reference, template_hash
from kubesim.controllers.pod_index import IndexedPod

__all__ = ["REVISION_HASH", "ControllerRevisions", "RevisionHistory", "template_of"]

REVISION_HASH = "controller-revision-hash"


class RevisionHistory(NamedTuple):
    latest: Object
    """The revision of the current template."""
    all: list[Object]
    """Revisions by number, the latest last."""

    def named(self, name: str) -> Object | None:
        return next((each for each in self.all if each["metadata"]["name"] == name), None)


class ControllerRevisions:
    def __init__(
        self, context: ControllerContext, writes: ControllerWrites, owner_kind: ResourceKind, hash_label: str
    ) -> None:
        self._context = context
        self._writes = writes
        self._owner_kind = owner_kind
        self._hash_label = hash_label
        self._kind = context.cluster.kind("apps/v1", "ControllerRevision")

    async def of(self, owner: Object, pods: Iterable[IndexedPod]) -> RevisionHistory:
        """Return the history with a revision for the current template, reused or new.

        Loaded pods may lack the revisions that their labels name. Then the revision of the newest pod
        counts as the current one; otherwise all pods would be replaced.
        """
        known = self._known(owner)
        data = {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}
        number = known[-1]["revision"] + 1 if known else 1
        same = next((each for each in reversed(known) if each["data"] == data), None)
        if same is None:
            hash_ = (None if known else _hash_in_use(owner, pods)) or template_hash(
                owner["spec"]["template"],
                number,  # the number keeps names apart that would collide
            )
            latest = await self._create(owner, data, number, hash_)
        elif same is known[-1]:
            latest = same
        else:

            def renumber(live: Object) -> None:
                live["revision"] = number

            latest = await self._writes.change(self._kind, same, renumber)
        others = [each for each in known if each["metadata"]["uid"] != latest["metadata"]["uid"]]
        return RevisionHistory(latest, [*others, latest])

    def _known(self, owner: Object) -> list[Object]:
        dependents = self._context.store.dependents(owner["metadata"]["uid"])
        found = [record.object for kind, record in dependents if kind == self._kind]
        return sorted(found, key=lambda each: (each["revision"], each["metadata"]["name"]))

    async def _create(self, owner: Object, data: Object, number: int, hash_: str) -> Object:
        metadata, template = owner["metadata"], owner["spec"]["template"]
        labels = {**(template["metadata"].get("labels") or {}), self._hash_label: hash_}
        content: Object = {
            "metadata": {
                "name": f"{metadata['name'][:223]}-{hash_}",
                "labels": labels,
                "ownerReferences": [controller_reference(self._owner_kind, owner)],
            },
            "data": data,
            "revision": number,
        }
        if metadata.get("annotations"):
            content["metadata"]["annotations"] = dict(metadata["annotations"])
        return await self._writes.create(self._kind, metadata["namespace"], content)

    async def truncate(self, history: RevisionHistory, in_use: set[str], limit: int) -> None:
        """Remove the oldest revisions that no pod uses, except the given number."""
        unused = [each for each in history.all[:-1] if each["metadata"]["name"] not in in_use]
        for each in unused[: max(0, len(unused) - limit)]:
            metadata = each["metadata"]
            await self._writes.delete(self._kind, metadata["namespace"], metadata["name"], metadata["uid"])


def _hash_in_use(owner: Object, pods: Iterable[IndexedPod]) -> str | None:
    newest = max(pods, key=lambda pod: (pod.metadata.creation_timestamp, pod.name), default=None)
    label = newest.labels.get(REVISION_HASH) if newest is not None else None
    return label.removeprefix(f"{owner['metadata']['name']}-") if label else None


def template_of(revision: Object) -> Object:
    template: Object = revision["data"]["spec"]["template"]
    return {field: value for field, value in template.items() if field != "$patch"}
