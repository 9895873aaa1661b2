"""How controllers change objects: through the same checks as anyone who uses the API.

A write takes a moment, as it does over a network. What a controller decided, it decided on what was there
before that moment: an eviction that comes in between is one it has not seen.
"""

from collections.abc import Callable

from rescheduler.simulator.clock import pause
from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.deletion import DeleteOptions
from rescheduler.simulator.exchange import Object, decode
from rescheduler.simulator.failures import Failure
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.options import Preconditions, WriteOptions

__all__ = ["Writes"]


class Writes:
    def __init__(self, cluster: Cluster, controller: str, takes_s: float) -> None:
        """`controller` is the service account's name, as in `replicaset-controller`."""
        self._cluster = cluster
        self._takes_s = takes_s
        self._options = WriteOptions(
            manager="kube-controller-manager",
            user=f"system:serviceaccount:kube-system:{controller}",
            groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
        )

    async def create(self, kind: Kind, namespace: str, content: Object) -> Object:
        await self._travel()
        raw = await self._cluster.writer.create(kind, namespace, content, self._options)
        return _decoded(raw)

    async def change(
        self, kind: Kind, content: Object, edit: Callable[[Object], None], *, subresource: str = ""
    ) -> Object:
        """An update: refused if the object is no longer as it was looked at."""
        version = content["metadata"]["resourceVersion"]

        def edit_that_version(live: Object) -> None:
            edit(live)
            live["metadata"]["resourceVersion"] = version

        return await self.patch(kind, content, edit_that_version, subresource=subresource)

    async def patch(
        self, kind: Kind, content: Object, edit: Callable[[Object], None], *, subresource: str = ""
    ) -> Object:
        """Edits the object as it is by then, as long as it is still the same one."""
        metadata = content["metadata"]

        def edited(live: Object | None) -> Object:
            assert live is not None
            if live["metadata"]["uid"] != metadata["uid"]:
                raise _replaced(kind, metadata["name"])
            edit(live)
            return live

        await self._travel()
        raw, _ = await self._cluster.writer.change(
            kind,
            metadata.get("namespace", ""),
            metadata["name"],
            edited,
            self._options,
            subresource=subresource,
        )
        return _decoded(raw)

    async def set_status(self, kind: Kind, content: Object, status: Object) -> Object:
        """Only if it differs from what was looked at: most looks find nothing new."""
        if content.get("status", {}) == status:
            return content

        def edit(live: Object) -> None:
            live["status"] = status

        return await self.change(kind, content, edit, subresource="status")

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, *, policy: str = "", grace_s: int | None = None
    ) -> bool:
        """Whether there was something to delete: what is gone already is no failure."""
        await self._travel()
        options = DeleteOptions(grace_s=grace_s, policy=policy, preconditions=Preconditions(uid=uid))
        record = self._cluster.store.find(kind, namespace, name)
        if record is not None and record.uid == uid:
            await self._cluster.admission.webhooks.review_deletion(kind, record, self._options)
        try:
            self._cluster.deletion.delete(kind, namespace, name, options)
        except Failure as failure:
            if failure.code not in {404, 409}:
                raise
            return False
        return True

    async def _travel(self) -> None:
        if self._takes_s:
            await pause(self._cluster.clock, self._takes_s)


def _decoded(raw: bytes) -> Object:
    content: Object = decode(raw)
    return content


def _replaced(kind: Kind, name: str) -> Failure:
    return Failure(409, "Conflict", f'{kind.resource} "{name}" is no longer the object that was looked at')
