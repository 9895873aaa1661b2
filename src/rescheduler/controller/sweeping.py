"""Pods that are marked by a migration which is no more: it was removed by force, finalizer and all, or a
request of a process that has long ended arrived only after the end.

The lock of a pod that still stands is taken off, and its copy removed; where the source has gone already, the
copy is all there is, and it is let go.
"""

import contextlib

from rescheduler.controller.followed import POD_MIGRATIONS, Followed
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.patches import merge_patch
from rescheduler.kube.resources import PODS
from rescheduler.migrations.marks import ORIGINAL_POD, STATUS, MarkStatus, label_value, lock_of, superfluous
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
        standing = {pod.uid for pod in marked if not _is_copy(pod) and not pod.is_terminating}
        for pod in marked:
            if pod.uid in standing:
                await self._unlock(pod)
        for pod in marked:
            if _is_copy(pod) and pod.marks.get(ORIGINAL_POD) in standing:
                with contextlib.suppress(errors.NotFound, errors.Conflict):
                    await self._client.delete(PODS, pod.key, uid=pod.uid)
            elif _is_copy(pod):
                await self._change(pod, {"labels": {STATUS: MarkStatus.COMPLETED}})

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


def _is_copy(pod: PodRecord) -> bool:
    return pod.marks.get(ORIGINAL_POD, pod.uid) != pod.uid
