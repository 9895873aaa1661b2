"""Removes pods without a migration, each after a live read, by its uid and resourceVersion.

The Job controller counts every pod that is deleted before it succeeded as failed, also evicted ones
(`isPodFailed` in its source, v1.37), unless `podFailurePolicy` ignores the condition DisruptionTarget, which
evictions set. If more pods fail than `backoffLimit` allows, the Job fails. So rescheduler never causes the
last failure.
"""

from typing import Any, Final

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_objects import WatchedObjects, nested_field
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object
from rescheduler.kube.client import Client
from rescheduler.recovery.controller.owner_trees import OwnerTrees
from rescheduler.recovery.recovery_decision import is_confirmed_down
from rescheduler.recovery.replica_lineage import has_identity

__all__ = ["PodRemover", "job_forbids_eviction"]

_DEFAULT_BACKOFF_LIMIT: Final = 6


def job_forbids_eviction(job: Object) -> str:
    """Return why a pod of the Job must not be evicted; empty if the Job would create another one."""
    if _ignores_disruptions(job):
        return ""
    failed, limit = _number(nested_field(job, "status", "failed"), 0), _backoff_limit(job)
    if failed < limit:
        return ""
    return f"its Job would fail: {failed} of its pods failed, and backoffLimit is {limit}"


def _backoff_limit(job: Object) -> int:
    per_index = nested_field(job, "spec", "backoffLimitPerIndex")
    if per_index is not None:
        # How often an index has failed is known only to its pods: only a limit of 0 is clear.
        return 0 if per_index == 0 else 1 << 31
    return _number(nested_field(job, "spec", "backoffLimit"), _DEFAULT_BACKOFF_LIMIT)


def _ignores_disruptions(job: Object) -> bool:
    """Return the result of the first rule that applies. Rules about exit codes don't while containers run."""
    for rule in nested_field(job, "spec", "podFailurePolicy", "rules") or ():
        conditions = rule.get("onPodConditions") or ()
        if any(_is_disruption(each) for each in conditions):
            return bool(rule.get("action") == "Ignore")
    return False


def _is_disruption(condition: Any) -> bool:
    return bool(condition.get("type") == "DisruptionTarget" and condition.get("status", "True") == "True")


def _number(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


class PodRemover:
    def __init__(self, client: Client, seen: WatchedObjects) -> None:
        self._client = client
        self._seen = seen

    async def restart(self, pod: PodRecord) -> bool:
        """Evict a pod within its budget, and return whether it was evicted. Raises `BudgetRefused`, to be
        retried."""
        live = await self._live(pod)
        if live is None or live.is_terminating or live.resource_version != pod.resource_version:
            return False  # It has changed: examine it first.
        try:
            await self._client.evict(pod.key, uid=pod.uid, version=pod.resource_version)
        except (errors.NotFound, errors.Conflict):
            await self._seen.read_pod(pod.key, pod.uid)
            return False
        await self._seen.read_pod(pod.key, pod.uid)
        return True

    async def remove_from_lost_node(self, pod: PodRecord) -> bool:
        """Force-delete a pod, and return whether it was deleted. Not if its node is ready again.

        A pod with an identity must never run twice, so the confirmation on its node is read live, too.
        """
        live = await self._live(pod)
        if live is None or live.node != pod.node:
            return False
        node = await self._live_node(pod.node)
        if node is not None and (node.is_ready or (has_identity(live) and not is_confirmed_down(node))):
            return False
        return await self._delete(live, grace_s=0)

    async def remove_unplaced(self, pod: PodRecord, trees: OwnerTrees) -> bool:
        """Delete a pod that can't be scheduled, and return whether it was deleted. Its controller creates
        another."""
        live = await self._live(pod)
        if live is None or live.node or live.is_terminating or pod.owner is None:
            return False
        job = trees.item("Job", f"{pod.namespace}/{pod.owner.name}") if pod.owner.kind == "Job" else None
        if job is not None and job_forbids_eviction(job):
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
