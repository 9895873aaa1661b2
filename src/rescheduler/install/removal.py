"""Removes an installation from a cluster, and finds out what is left of it.

In an order in which each step still has what it needs. The programs end first, and all their pods are gone
before anything is removed that they use or could make again. Then go the marks on objects of others; then
what was installed, one by one and with its uid as a precondition; then the namespace and the definition.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME as DEFINITION
from rescheduler.api.well_known_names import INSTALL_ID, SHARED_INSTALL_ID, install_id
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.install.cluster_installation import installed_namespaces
from rescheduler.install.leftovers import (
    LEFTOVER_SEARCHES,
    InstalledObject,
    Leftover,
    LeftoverKind,
    LeftoverSearch,
    definition_leftovers,
    has_install_id,
    installed_leftovers,
    inventory,
)
from rescheduler.install.object_metadata import DAEMON
from rescheduler.install.removal_guards import WorkloadLabels, other_contents, was_created_with_id
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    ApiResource,
    Object,
)
from rescheduler.kube.client import Client

__all__ = ["Removal", "RemovalFindings"]

_MAX_ATTEMPTS: Final = 5
_POLL_INTERVAL_S: Final = 0.5
_MAX_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class RemovalFindings:
    traces: list[Leftover] = field(default_factory=list)
    """What is to be removed, in this order."""
    kept: list[str] = field(default_factory=list)
    """What stays, and why, in whole sentences."""
    failures: list[str] = field(default_factory=list)
    """What could not be read or removed, and why."""


class Removal:
    def __init__(
        self, client: Client, namespace: str, *, lease_name: str = DAEMON, with_history: bool = False
    ) -> None:
        """`namespace` is that of the installation, or of the Lease and the state if there is none."""
        self._client = client
        self._namespace = namespace
        self._inventory = inventory(namespace, lease_name)
        self._with_history = with_history

    async def find(self) -> RemovalFindings:
        """Return what is to go, in the order in which it goes. Changes nothing."""
        found = RemovalFindings()
        others = await self._others(found)
        if others:
            found.kept.append(
                "Migrations, marks and the definition of PodMigration stay: rescheduler is also installed in "
                f"namespace {', '.join(others)} and uses them."
            )
        else:
            for search in LEFTOVER_SEARCHES:
                found.traces.extend(self._chosen(await self._search(search, found)))
        for each in self._inventory:
            found.traces.extend(await self._installed(each, found))
        found.traces.extend(await self._home(found))
        if not others:
            found.traces.extend(await self._definition(found))
        return found

    async def stop(self, *, patience_s: float) -> list[str]:
        """Delete the Deployments and wait until all of their pods are gone; return the pods that are not.

        In the foreground: a Deployment goes when all its pods have. Pods of one that was deleted before count
        as well. Raises `KubeError`: then the programs still run, and nothing else may be removed.
        """
        stopped: dict[str, str] = {}
        for each in self._inventory:
            if each.resource.kind != DEPLOYMENTS.kind:
                continue
            with contextlib.suppress(errors.NotFound):
                item = await self._client.get(each.resource, each.key)
                if has_install_id(item, self._namespace):
                    uid = item["metadata"]["uid"]
                    await self._client.delete(each.resource, each.key, uid=uid, propagation="Foreground")
                    stopped[each.key] = uid
        return await self._gone(stopped, patience_s)

    async def clean(self) -> list[str]:
        """Remove everything but running migrations, which have to be brought to their end before.

        Returns what failed, and why. A failure does not keep the rest from being removed.
        """
        found = await self.find()
        failures = list(found.failures)
        for trace in found.traces:
            if trace.sort is LeftoverKind.RUNNING or trace.resource.kind in {
                NAMESPACES.kind,
                CUSTOM_RESOURCE_DEFINITIONS.kind,
            }:
                continue
            failures += await self._attempt(
                trace, self._remove_mark(trace) if trace.patch else self._remove(trace)
            )
        # What these hold is asked for again now: they go only if nothing is left in them.
        last = RemovalFindings()
        for trace in [*await self._home(last), *(await self._last_definition(last))]:
            failures += await self._attempt(trace, self._remove(trace))
        return failures + last.failures

    # -- finding

    async def _others(self, found: RemovalFindings) -> list[str]:
        try:
            return [each for each in await installed_namespaces(self._client) if each != self._namespace]
        except errors.KubeError as error:
            found.failures.append(f"other installations can't be looked for: {error}")
            return []

    def _chosen(self, traces: list[Leftover]) -> Iterator[Leftover]:
        return (each for each in traces if self._with_history or each.sort is not LeftoverKind.HISTORY)

    async def _search(self, search: LeftoverSearch, found: RemovalFindings) -> list[Leftover]:
        try:
            page = await self._client.list(search.resource, labels=search.labels)
        except errors.NotFound:  # a kind that is not served has no objects
            return []
        except errors.KubeError as error:
            found.failures.append(f"{search.resource.label} can't be looked through: {error}")
            return []
        traces = [(item, trace) for item in page.items if (trace := search.look(search.resource, item))]
        if search.resource.kind != PODS.kind:
            return [trace for _, trace in traces]
        workloads = WorkloadLabels(self._client)
        try:
            return [trace for item, trace in traces if not await workloads.include_marks(item)]
        except errors.KubeError as error:
            found.failures.append(f"workloads of marked pods can't be read: {error}")
            return []

    async def _installed(self, expected: InstalledObject, found: RemovalFindings) -> list[Leftover]:
        item = await self._read(expected.resource, expected.key, found)
        if item is None:
            return []
        if not has_install_id(item, self._namespace):
            found.kept.append(
                f"{expected.name} stays: it has a name that rescheduler uses, but not the label "
                f"{INSTALL_ID}={install_id(self._namespace)}. If it is of rescheduler, delete it yourself."
            )
            return []
        return installed_leftovers(expected.resource, item)

    async def _home(self, found: RemovalFindings) -> list[Leftover]:
        """Return the namespace, if it was created with rescheduler and holds nothing else."""
        item = await self._read(NAMESPACES, self._namespace, found)
        if item is None or not has_install_id(item, self._namespace):
            return []
        if not was_created_with_id(item):
            found.kept.append(f"Namespace {self._namespace} stays: it was not created with rescheduler.")
            return []
        others = await other_contents(self._client, self._namespace, self._is_own)
        if others:
            named = ", ".join(others[:_MAX_NAMED]) + (", …" if len(others) > _MAX_NAMED else "")
            found.kept.append(f"Namespace {self._namespace} stays: it also holds {named}.")
            return []
        return installed_leftovers(NAMESPACES, item)

    def _is_own(self, resource: ApiResource[Any], item: Object) -> bool:
        """Return whether it is of the installation, or a ReplicaSet or pod of its Deployments."""
        if not has_install_id(item, self._namespace):
            return False
        key = f"{self._namespace}/{item['metadata']['name']}"
        is_listed = any(each.key == key and each.resource.kind == resource.kind for each in self._inventory)
        is_owned = any(each.get("controller") for each in item["metadata"].get("ownerReferences") or ())
        return is_listed or (resource.kind in {"ReplicaSet", PODS.kind} and is_owned)

    async def _definition(self, found: RemovalFindings) -> list[Leftover]:
        item = await self._read(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION, found)
        if item is None or not self._with_history:
            return []
        if (item["metadata"].get("labels") or {}).get(INSTALL_ID) != SHARED_INSTALL_ID:
            found.kept.append(
                f"CustomResourceDefinition {DEFINITION} stays: "
                f"it has no label {INSTALL_ID}={SHARED_INSTALL_ID}."
            )
            return []
        return definition_leftovers(CUSTOM_RESOURCE_DEFINITIONS, item)

    async def _last_definition(self, found: RemovalFindings) -> list[Leftover]:
        """With the definition all PodMigrations would go: only when none is left, and nobody else uses it."""
        unsaid = RemovalFindings()
        if await self._others(unsaid) or unsaid.failures:
            return []
        definition = await self._definition(unsaid)
        left = await self._search(LEFTOVER_SEARCHES[0], found) if definition else []
        if left:
            names = ", ".join(each.key for each in left[:_MAX_NAMED])
            found.failures.append(f"CustomResourceDefinition {DEFINITION} stays: there are still {names}")
        return [] if left else definition

    async def _read(self, resource: ApiResource[Object], key: str, found: RemovalFindings) -> Object | None:
        try:
            return await self._client.get(resource, key)
        except errors.NotFound:
            return None
        except errors.KubeError as error:
            found.failures.append(f"{resource.kind} {key} can't be read: {error}")
            return None

    # -- removing

    async def _attempt(self, trace: Leftover, removing: Awaitable[None]) -> list[str]:
        try:
            await removing
        except errors.KubeError as error:
            return [f"{trace.name} can't be removed: {error}"]
        return []

    async def _remove_mark(self, trace: Leftover) -> None:
        """A node's kubelet writes its status all the time: after a conflict, read again and retry."""
        for last in (*(False,) * (_MAX_ATTEMPTS - 1), True):
            try:
                return await self._remove(trace)
            except errors.Conflict:
                again = None if last else await self._again(trace)
                if last:
                    raise
                if again is None:
                    return None
                trace = again
        return None

    async def _again(self, trace: Leftover) -> Leftover | None:
        for search in LEFTOVER_SEARCHES:
            if search.resource.plural != trace.resource.plural:
                continue
            item = await self._read(search.resource, trace.key, RemovalFindings())
            found = None if item is None else search.look(search.resource, item)
            if found is not None and found.resource == trace.resource:
                return found
        return None

    async def _remove(self, trace: Leftover) -> None:
        with contextlib.suppress(errors.NotFound):
            if trace.patch is not None:
                await self._client.patch(trace.resource, trace.key, trace.patch)
            else:
                await self._client.delete(trace.resource, trace.key, uid=trace.uid)

    async def _gone(self, deployments: dict[str, str], patience_s: float) -> list[str]:
        """Wait for these Deployments (key → uid) and all pods of the installation; return what is left."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + patience_s
        while True:
            pods = await self._client.list(
                PODS, namespace=self._namespace, labels=f"{INSTALL_ID}={install_id(self._namespace)}"
            )
            left = [f"Pod {each.key}" for each in pods.items]
            for key, uid in deployments.items():
                with contextlib.suppress(errors.NotFound):
                    item = await self._client.get(DEPLOYMENTS, key)
                    left += [f"Deployment {key}"] if item["metadata"]["uid"] == uid else []
            if not left or loop.time() > until_s:
                return left
            await asyncio.sleep(_POLL_INTERVAL_S)
