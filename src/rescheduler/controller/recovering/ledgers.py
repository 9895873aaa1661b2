"""The record of failed tries, on the object that holds it: one annotation, compared and then exchanged.

Every write names the version that it was worked out from; whoever was slower reads anew and works it out
again. Nothing else of the object is touched.
"""

from collections.abc import Callable
from typing import Any, Final

from rescheduler.controller.freshest import Freshest
from rescheduler.controller.known_cluster import KnownCluster
from rescheduler.controller.recovering.families import POD
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.patches import Patch, merge_patch
from rescheduler.kube.resources import split_key
from rescheduler.recovery.carried_over import OLDER_RECORDS
from rescheduler.recovery.examining import Examination, Holder
from rescheduler.recovery.ledger import FAILED_ATTEMPTS, Ledger

__all__ = ["Ledgers"]

_MOST_TRIES: Final = 8
"""Controllers write the status of a busy workload several times a second, but not for ever."""

Look = Callable[[], Examination | None]
Wanted = Callable[[Examination], Ledger]


class Ledgers:
    def __init__(self, client: Client, cluster: KnownCluster) -> None:
        self._client = client
        self._cluster = cluster

    async def change(self, look: Look, wanted: Wanted) -> Examination | None:
        """What was seen when it was written, or found to be as wanted; None if the holder is gone.

        `look` is asked again after each conflict. Raises `KubeError`, the last `Conflict` among them.
        """
        for left in reversed(range(_MOST_TRIES)):
            seen = look()
            if seen is None:
                return None
            ledger = wanted(seen)
            if ledger == seen.ledger and not seen.is_carried_over and not seen.ledger.is_damaged:
                return seen
            try:
                await self._write(seen.holder, ledger)
            except errors.NotFound:
                return None
            except errors.Conflict:
                if not left:
                    raise
                await self._read(seen.holder)
            else:
                return seen
        return None

    async def _write(self, holder: Holder, ledger: Ledger) -> None:
        known = self._known(holder)
        item = known.get(holder.key)
        assert item is not None, "it was looked at a moment ago"
        resource = known.informer.resource
        patch = _patch(holder, resource.identify(item).version, ledger)
        known.learn(await self._client.patch(resource, holder.key, patch))

    async def _read(self, holder: Holder) -> None:
        """By a list of one: whoever follows workloads may do that, and needs no right to get them."""
        known, (namespace, name) = self._known(holder), split_key(holder.key)
        page = await self._client.list(
            known.informer.resource, namespace=namespace, fields=f"metadata.name={name}"
        )
        for item in page.items:
            known.learn(item)
        if not page.items:
            known.learn_gone(holder.key, holder.uid)

    def _known(self, holder: Holder) -> Freshest[Any]:
        return self._cluster.followed.pods if holder.kind == POD else self._cluster.workloads[holder.kind]


def _patch(holder: Holder, version: str, ledger: Ledger) -> Patch:
    annotations: dict[str, str | None] = {FAILED_ATTEMPTS: ledger.written(holder.uid) or None}
    older = OLDER_RECORDS.get(holder.kind, "")
    if older in holder.marks:
        annotations[older] = None
    metadata = {"resourceVersion": version, "uid": holder.uid, "annotations": annotations}
    return merge_patch({"metadata": metadata})
