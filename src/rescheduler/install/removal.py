"""Takes the product out of a cluster, and looks afterwards whether anything of it is left."""

from typing import Final

from rescheduler.install.traces import SEARCHED, Search, Sort, Trace
from rescheduler.install.workload_labels import WorkloadLabels
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.resources import DEPLOYMENTS, PODS

__all__ = ["Removal"]

_TRIES: Final = 5


class Removal:
    def __init__(self, client: Client, *, with_history: bool = False) -> None:
        self._client = client
        self._with_history = with_history

    async def find(self) -> list[Trace]:
        """What is to go, in the order in which it goes. Raises `KubeError`."""
        found: list[Trace] = []
        for search in SEARCHED:
            found += await self._search(search)
        return [each for each in found if self._with_history or each.sort is not Sort.HISTORY]

    async def _search(self, search: Search) -> list[Trace]:
        try:
            page = await self._client.list(search.resource, labels=search.labels, fields=search.fields)
        except errors.NotFound:  # a kind that is not served has no objects
            return []
        found = [(item, trace) for item in page.items if (trace := search.look(search.resource, item))]
        if search.resource.kind != PODS.kind:
            return [trace for _, trace in found]
        workloads = WorkloadLabels(self._client)
        return [trace for item, trace in found if not await workloads.include_marks(item)]

    async def stop(self, traces: list[Trace]) -> bool:
        """The programs that act: what is installed of them is deleted first. Whether there were any."""
        installed = [
            trace
            for trace in traces
            if trace.resource.kind == DEPLOYMENTS.kind and trace.sort is Sort.INSTALLED
        ]
        for trace in installed:
            await self._remove(trace)
        return bool(installed)

    async def clean(self) -> None:
        """All but running migrations, which have to be brought to their end before. Raises `KubeError`."""
        for search in SEARCHED:
            for trace in await self._search(search):
                if trace.sort is Sort.RUNNING or (trace.sort is Sort.HISTORY and not self._with_history):
                    continue
                await self._take_away(search, trace)

    async def _take_away(self, search: Search, trace: Trace) -> None:
        """A node's kubelet writes its status all the time: seen anew, tried again."""
        for last in (*(False,) * (_TRIES - 1), True):
            try:
                await self._remove(trace)
            except errors.Conflict:
                if last:
                    raise
                anew = [each for each in await self._search(search) if each.key == trace.key]
                if not anew:
                    return
                trace = anew[0]
                continue
            return

    async def _remove(self, trace: Trace) -> None:
        try:
            if trace.patch is not None:
                await self._client.patch(trace.resource, trace.key, trace.patch)
            else:
                await self._client.delete(trace.resource, trace.key, uid=trace.uid)
        except errors.NotFound:
            return
