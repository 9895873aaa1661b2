"""Remove an installation from a cluster, and find what is left of it.

The Deployments are deleted first. When all their pods are gone, so that none can recreate anything, the marks
on other objects are removed, then the installed objects, each with its uid as a precondition, and last the
namespace and the CRD.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME as DEFINITION
from rescheduler.api.well_known_names import INSTALL_ID, SHARED_INSTALL_ID, install_id
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.object_meta import OwnerKey, UnreadableObject
from rescheduler.cluster.workload_record import WORKLOAD_KINDS, decode_workload
from rescheduler.install.cluster_installation import installed_namespaces, other_contents, was_created_with_id
from rescheduler.install.install_options import DAEMON
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
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    REPLICA_SETS,
    STATEFUL_SETS,
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
    leftovers: list[Leftover] = field(default_factory=list)
    """The leftovers to remove, in this order."""
    kept: list[str] = field(default_factory=list)
    """The objects that stay and why, as sentences."""
    failures: list[str] = field(default_factory=list)
    """The reads and removals that failed, and why."""
    history: list[Leftover] = field(default_factory=list)
    """The history, which is kept because its removal was not requested."""


class Removal:
    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        lease_name: str = DAEMON,
        with_history: bool = False,
        written_before: str = "",
    ) -> None:
        """`namespace` is the one of the installation, or of the Lease and the state if there is none.

        `written_before` is the namespace in which commands wrote before the installation.
        """
        self._client = client
        self._namespace = namespace
        self._inventory = inventory(namespace, lease_name)
        self._written_before = written_before
        self._earlier = [
            each
            for each in (
                inventory(written_before, lease_name) if written_before not in {"", namespace} else ()
            )
            if each.kind is LeftoverKind.WRITTEN
        ]
        self._with_history = with_history

    async def find(self) -> RemovalFindings:
        """Return what to remove, in the order of removal; change nothing."""
        found = RemovalFindings()
        others = await self._others(found)
        if others:
            found.kept.append(
                "PodMigrations, their CRD, and changes in other objects stay: rescheduler is also installed "
                f"in namespace {', '.join(others)} and uses them."
            )
        else:
            for search in LEFTOVER_SEARCHES:
                found.leftovers.extend(self._chosen(await self._search(search, found), found))
        for each in self._inventory:
            found.leftovers.extend(await self._installed(each, self._namespace, found))
        for each in self._earlier if not others else ():
            found.leftovers.extend(await self._installed(each, self._written_before, found))
        found.leftovers.extend(await self._own_namespace(found))
        if not others:
            found.leftovers.extend(await self._definition(found))
        return found

    async def stop(self, *, timeout_s: float) -> list[str]:
        """Delete the Deployments and wait until all of their pods are gone; return what is left.

        The deletion is in the foreground: a Deployment is gone when all its pods are. Pods of Deployments
        that were deleted earlier count as well. Raises `KubeError`; then nothing else may be removed.
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
        return await self._gone(stopped, timeout_s)

    async def clean(self) -> list[str]:
        """Remove everything except running migrations, which must be finished before.

        Returns what failed and why. After a failure, the rest is still removed.
        """
        found = await self.find()
        failures = list(found.failures)
        for leftover in found.leftovers:
            if leftover.kind is LeftoverKind.RUNNING or leftover.resource.kind in {
                NAMESPACES.kind,
                CUSTOM_RESOURCE_DEFINITIONS.kind,
            }:
                continue
            failures += await self._attempt(
                leftover, self._remove_mark(leftover) if leftover.patch else self._remove(leftover)
            )
        # Read again what these contain: they are removed only if nothing is left in them.
        last = RemovalFindings()
        for leftover in [*await self._own_namespace(last), *(await self._last_definition(last))]:
            failures += await self._attempt(leftover, self._remove(leftover))
        return failures + last.failures

    async def deleted(self, *, timeout_s: float) -> list[str]:
        """Wait until the namespace and the CRD are gone if they are being deleted; return what is not gone.

        Until then, a new installation would fail.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        awaited = [(NAMESPACES, self._namespace), (CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)]
        while True:
            left = []
            for resource, key in awaited:
                with contextlib.suppress(errors.Forbidden):
                    item = await self._client.get_or_none(resource, key)
                    if item is not None and "deletionTimestamp" in item["metadata"]:
                        left.append(f"{resource.kind} {key}")
            if not left or loop.time() > until_s:
                return left
            await asyncio.sleep(_POLL_INTERVAL_S)

    # -- finding

    async def _others(self, findings: RemovalFindings) -> list[str]:
        try:
            return [each for each in await installed_namespaces(self._client) if each != self._namespace]
        except errors.KubeError as error:
            findings.failures.append(f"can't look for other installations: {error}")
            return []

    def _chosen(self, leftovers: list[Leftover], findings: RemovalFindings) -> Iterator[Leftover]:
        for each in leftovers:
            if self._with_history or each.kind is not LeftoverKind.HISTORY:
                yield each
            else:
                findings.history.append(each)

    async def _search(self, search: LeftoverSearch, findings: RemovalFindings) -> list[Leftover]:
        try:
            page = await self._client.list(search.resource, labels=search.labels)
        except errors.NotFound:  # a kind that is not served has no objects
            return []
        except errors.KubeError as error:
            if str(error) not in findings.failures:  # nodes are searched more than once
                findings.failures.append(str(error))
            return []
        leftovers = [
            (item, leftover) for item in page.items if (leftover := search.find(search.resource, item))
        ]
        if search.resource.kind != PODS.kind:
            return [leftover for _, leftover in leftovers]
        workloads = WorkloadLabels(self._client)
        try:
            return [leftover for item, leftover in leftovers if not await workloads.include_marks(item)]
        except errors.KubeError as error:
            findings.failures.append(f"can't read the workloads of marked pods: {error}")
            return []

    async def _installed(
        self, expected: InstalledObject, namespace: str, findings: RemovalFindings
    ) -> list[Leftover]:
        item = await self._read(expected.resource, expected.key, findings)
        if item is None:
            return []
        if not has_install_id(item, namespace):
            findings.kept.append(
                f"{expected.name} stays: it has a name that rescheduler uses, but not the label "
                f"{INSTALL_ID}={install_id(namespace)}. If rescheduler created it, delete it yourself."
            )
            return []
        return installed_leftovers(expected.resource, item, expected.kind)

    async def _own_namespace(self, findings: RemovalFindings) -> list[Leftover]:
        """Return the namespace, if it was created with rescheduler and holds nothing else."""
        item = await self._read(NAMESPACES, self._namespace, findings)
        if item is None or not has_install_id(item, self._namespace):
            return []
        if not was_created_with_id(item):
            findings.kept.append(f"Namespace {self._namespace} stays: it was not created with rescheduler.")
            return []
        others = await other_contents(self._client, self._namespace, self._is_own)
        if others:
            named = ", ".join(others[:_MAX_NAMED]) + (", …" if len(others) > _MAX_NAMED else "")
            findings.kept.append(f"Namespace {self._namespace} stays: it also contains {named}.")
            return []
        return installed_leftovers(NAMESPACES, item)

    def _is_own(self, resource: ApiResource[Any], item: Object) -> bool:
        """Return whether the object belongs to the installation or to one of its Deployments."""
        if not has_install_id(item, self._namespace):
            return False
        key = f"{self._namespace}/{item['metadata']['name']}"
        is_listed = any(each.key == key and each.resource.kind == resource.kind for each in self._inventory)
        is_owned = any(each.get("controller") for each in item["metadata"].get("ownerReferences") or ())
        return is_listed or (resource.kind in {"ReplicaSet", PODS.kind} and is_owned)

    async def _definition(self, findings: RemovalFindings) -> list[Leftover]:
        item = await self._read(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION, findings)
        if item is None:
            return []
        if not self._with_history:
            findings.history.extend(definition_leftovers(CUSTOM_RESOURCE_DEFINITIONS, item))
            return []
        if (item["metadata"].get("labels") or {}).get(INSTALL_ID) != SHARED_INSTALL_ID:
            findings.kept.append(
                f"CustomResourceDefinition {DEFINITION} stays: "
                f"it has no label {INSTALL_ID}={SHARED_INSTALL_ID}."
            )
            return []
        return definition_leftovers(CUSTOM_RESOURCE_DEFINITIONS, item)

    async def _last_definition(self, findings: RemovalFindings) -> list[Leftover]:
        """Return the CRD only if no PodMigration is left and no other installation uses it."""
        unreported = RemovalFindings()
        if await self._others(unreported) or unreported.failures:
            return []
        definition = await self._definition(unreported)
        left = await self._search(LEFTOVER_SEARCHES[0], findings) if definition else []
        if left:
            names = ", ".join(each.key for each in left[:_MAX_NAMED])
            findings.failures.append(f"CustomResourceDefinition {DEFINITION} stays: {names} still exist")
        return [] if left else definition

    async def _read(
        self, resource: ApiResource[Object], key: str, findings: RemovalFindings
    ) -> Object | None:
        try:
            return await self._client.get_or_none(resource, key)
        except errors.KubeError as error:
            findings.failures.append(f"can't read {resource.kind} {key}: {error}")
            return None

    # -- removing

    async def _attempt(self, leftover: Leftover, removing: Awaitable[None]) -> list[str]:
        try:
            await removing
        except errors.KubeError as error:
            return [f"can't remove {leftover.name}: {error}"]
        return []

    async def _remove_mark(self, leftover: Leftover) -> None:
        """Remove a mark; after a conflict, for example with a kubelet, read the object again and retry."""
        for last in (*(False,) * (_MAX_ATTEMPTS - 1), True):
            try:
                return await self._remove(leftover)
            except errors.Conflict:
                again = None if last else await self._again(leftover)
                if last:
                    raise
                if again is None:
                    return None
                leftover = again
        return None

    async def _again(self, leftover: Leftover) -> Leftover | None:
        for search in LEFTOVER_SEARCHES:
            if search.resource.plural != leftover.resource.plural:
                continue
            item = await self._read(search.resource, leftover.key, RemovalFindings())
            found = None if item is None else search.find(search.resource, item)
            if found is not None and found.resource == leftover.resource:
                return found
        return None

    async def _remove(self, leftover: Leftover) -> None:
        with contextlib.suppress(errors.NotFound):
            if leftover.patch is not None:
                await self._client.patch(leftover.resource, leftover.key, leftover.patch)
            else:
                await self._client.delete(leftover.resource, leftover.key, uid=leftover.uid)

    async def _gone(self, deployments: dict[str, str], timeout_s: float) -> list[str]:
        """Wait for these Deployments (key → uid) and all pods of the installation; return what is left."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
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


_CONTROLLERS: Final[dict[str, ApiResource[Object]]] = {
    each.kind: each for each in (REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS)
}
"""The controllers whose pods may have migration labels from a template."""


class WorkloadLabels:
    """Finds out whether pods get migration labels from their workload; reads each controller once.

    If a label that a selector uses is removed from a pod, the controller releases the pod and creates another
    one.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[OwnerKey, bool] = {}

    async def include_marks(self, pod: Object) -> bool:
        """Return whether the pod has its migration labels from its workload, or may have: then they stay.

        Labels of pods with an unknown kind of controller stay. Raises `KubeError`.
        """
        metadata = pod["metadata"]
        for owner in metadata.get("ownerReferences") or ():
            if owner.get("controller"):
                resource = _CONTROLLERS.get(owner["kind"])
                if resource is None or WORKLOAD_KINDS[owner["kind"]] != owner["apiVersion"]:
                    return True
                key = OwnerKey(metadata["namespace"], owner["kind"], owner["name"], owner["uid"])
                if key not in self._known:
                    self._known[key] = await self._read(resource, key)
                return self._known[key]
        return False

    async def _read(self, resource: ApiResource[Object], owner: OwnerKey) -> bool:
        try:
            item = await self._client.get(resource, f"{owner.namespace}/{owner.name}")
            record = decode_workload(item, owner.kind)
        except (errors.NotFound, errors.InvalidName):
            return False
        except UnreadableObject:
            return True
        return record.uid == owner.uid and bool(record.own_migration_labels)
