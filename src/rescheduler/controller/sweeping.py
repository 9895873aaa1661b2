"""Pods that are marked by a migration which is no more: it was removed by force, finalizer and all, or a
request of a process that has long ended arrived only after the end.

The lock of a pod that still stands is taken off, and its copy removed, as is a copy that never ran; where the
source has gone already, the copy is all there is, and it is let go. So is one that its workload has adopted.
"""

import contextlib

from rescheduler.controller.followed import POD_MIGRATIONS, Followed
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.patches import merge_patch
from rescheduler.kube.resources import PODS
from rescheduler.migrations.marks import (
    MIGRATED_FROM,
    ORIGINAL_POD,
    STATUS,
    MarkStatus,
    label_value,
    lock_of,
    superfluous,
    unmarked_labels,
)
from rescheduler.model.migrations import KIND
from rescheduler.model.pods import PodRecord

__all__ = ["Sweeper"]


class Sweeper:
    def __init__(self, client: Client, seen: Followed) -> None:
        self._client = client
        self._seen = seen

    async def sweep(self, key: str) -> None:
        """`key` is of a migration that is not there."""
        namespace, _, name = key.partition("/")
        mark = label_value(name)
        marked = [pod for pod in self._seen.pods.find("mark", (namespace, mark)) if lock_of(pod)]
        if not marked or await self._is_alive(namespace, mark):
            return
        # The locks first: a pod whose lock could be taken off stands, and no eviction that is still on its
        # way can take it any more. Only then is its copy one too many.
        copies = _copies(marked)
        standing = {pod.uid for pod in marked if pod not in copies and _stands(pod)}
        for pod in marked:
            if pod not in copies and not pod.is_terminating:
                await self._unlock(pod)
        for pod in copies:
            if not pod.is_terminating:
                await self._sweep_copy(pod, standing)

    async def _sweep_copy(self, copy: PodRecord, standing: set[str]) -> None:
        if not await self._is_spare(copy, standing):
            await self._change(copy, {"labels": {STATUS: MarkStatus.COMPLETED}})
            return
        with contextlib.suppress(errors.NotFound):
            if copy.is_ready:
                # Within its budget: others may have been evicted because it was there.
                await self._client.evict(copy.key, uid=copy.uid)
            else:
                # Unchanged: else it may have begun to run.
                await self._client.delete(PODS, copy.key, uid=copy.uid, version=copy.resource_version)

    async def _is_spare(self, copy: PodRecord, standing: set[str]) -> bool:
        """One that its workload has adopted is not: that counts its pods by itself."""
        if not copy.node:
            return True
        if copy.owner is not None and copy.owner.kind != KIND:
            return False
        return copy.marks[ORIGINAL_POD] in standing or await self._has_source(copy)

    async def _has_source(self, copy: PodRecord) -> bool:
        """Whether the pod that it was made of stands, its lock long taken off. Read live."""
        alike = await self._seen.read_pods(copy.namespace, unmarked_labels(copy))
        return any(pod.uid == copy.marks[ORIGINAL_POD] and _stands(pod) for pod in alike)

    async def _unlock(self, pod: PodRecord) -> None:
        labels, annotations = superfluous(pod)
        await self._change(pod, {"labels": dict.fromkeys(labels), "annotations": dict.fromkeys(annotations)})

    async def _is_alive(self, namespace: str, mark: str) -> bool:
        """Read live: a pod may be heard of before the migration that has marked it."""
        page = await self._client.list(POD_MIGRATIONS, namespace=namespace)
        return any(label_value(item["metadata"]["name"]) == mark for item in page.items)

    async def _change(self, pod: PodRecord, metadata: dict[str, object]) -> None:
        """Raises `Conflict` if it has changed since it was seen: then all is looked at anew."""
        patch = merge_patch({"metadata": {"resourceVersion": pod.resource_version, **metadata}})
        try:
            self._seen.pods.learn(await self._client.patch(PODS, pod.key, patch))
        except (errors.Conflict, errors.NotFound):
            await self._seen.read_pod(pod.key, pod.uid)
            raise


def _stands(pod: PodRecord) -> bool:
    """Of one that has ended by itself only its record is left: its copy is what serves."""
    return not pod.is_terminating and not pod.is_finished


def _copies(marked: list[PodRecord]) -> list[PodRecord]:
    """A source that was moved before names an original, too; but it is where it was marked."""
    uids = {pod.uid for pod in marked}

    def is_copy(pod: PodRecord) -> bool:
        original = pod.marks.get(ORIGINAL_POD, pod.uid)
        is_where_marked = label_value(pod.node) == pod.labels.get(MIGRATED_FROM)
        return original != pod.uid and (original in uids or not is_where_marked)

    return [pod for pod in marked if is_copy(pod)]
