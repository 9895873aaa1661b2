"""The few pods that are removed without a migration, each after a live read, by its uid and version."""

from rescheduler.controller.followed import Followed
from rescheduler.controller.recovering.families import Families
from rescheduler.controller.recovering.job_rules import forbids_eviction
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.resources import NODES, PODS
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.pods import PodRecord
from rescheduler.recovery.decision import is_confirmed_gone
from rescheduler.recovery.lines import has_identity

__all__ = ["Remover"]


class Remover:
    def __init__(self, client: Client, seen: Followed) -> None:
        self._client = client
        self._seen = seen

    async def restart(self, pod: PodRecord) -> bool:
        """By eviction, within its budget; whether it was. Raises `BudgetRefused`, to be tried again."""
        live = await self._live(pod)
        if live is None or live.is_terminating or live.resource_version != pod.resource_version:
            return False  # What has changed since is looked at first.
        try:
            await self._client.evict(pod.key, uid=pod.uid, version=pod.resource_version)
        except (errors.NotFound, errors.Conflict):
            await self._seen.read_pod(pod.key, pod.uid)
            return False
        await self._seen.read_pod(pod.key, pod.uid)
        return True

    async def remove_from_lost_node(self, pod: PodRecord) -> bool:
        """Without its kubelet's consent; whether it was. Not if the node has come back in this moment.

        Of a pod with an identity there may never be two: what vouches for its node is read live, too.
        """
        live = await self._live(pod)
        if live is None or live.node != pod.node:
            return False
        node = await self._live_node(pod.node)
        if node is not None and (node.is_ready or (has_identity(live) and not is_confirmed_gone(node))):
            return False
        return await self._delete(live, grace_s=0)

    async def remove_unplaced(self, pod: PodRecord, families: Families) -> bool:
        """One that never ran, and finds no place as it is; whether it was. Its controller makes another."""
        live = await self._live(pod)
        if live is None or live.node or live.is_terminating or pod.owner is None:
            return False
        job = families.item("Job", f"{pod.namespace}/{pod.owner.name}") if pod.owner.kind == "Job" else None
        if job is not None and forbids_eviction(job):
            return False
        return await self._delete(live)

    async def _live(self, pod: PodRecord) -> PodRecord | None:
        await self._seen.read_pod(pod.key, pod.uid)
        live = self._seen.pods.get(pod.key)
        return live if live is not None and live.uid == pod.uid else None

    async def _live_node(self, name: str) -> NodeRecord | None:
        try:
            return await self._client.get(NODES, name)
        except errors.NotFound:
            return None

    async def _delete(self, pod: PodRecord, *, grace_s: int | None = None) -> bool:
        try:
            await self._client.delete(
                PODS, pod.key, uid=pod.uid, version=pod.resource_version, grace_s=grace_s
            )
        except (errors.NotFound, errors.Conflict):
            await self._seen.read_pod(pod.key, pod.uid)
            return False
        await self._seen.read_pod(pod.key, pod.uid)
        return True
