"""A sandbox in which the controller moves pods: migrations, their end, and what is left of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from kubesim.behaviour import load_behaviour
from rescheduler.api.podmigration import EVICTION, ControllerReference, Handover, Migration, decode_migration
from rescheduler.api.well_known_names import FINALIZER
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, WatchedObjects
from rescheduler.config.policy import Policy
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, Object, merge_patch, strategic_patch
from rescheduler.kube.client import Client
from rescheduler.migrations import labels_and_names
from rescheduler.migrations.controller.migration_controller import MigrationController
from rescheduler.migrations.observation import RevalidationOutcome, RevalidationResult
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder
from tests.stories.sandbox import Sandbox, node_of
from tests.stories.waiting import until, until_object, wall_clock

__all__ = ["ApprovingRevalidator", "MakeMoves", "Moves"]

MakeMoves = Callable[..., Any]
_BY_KIND = {"ReplicaSet": Handover.ADOPT, "StatefulSet": Handover.EVICT}


@dataclass(frozen=True)
class ApprovingRevalidator:
    """Approves every move, and chooses the handover by what controls the pod."""

    seen: WatchedObjects

    async def prepare(self, _migration: Migration) -> None:
        pass

    def revalidate(self, migration: Migration, has_room_at: Callable[[str], bool]) -> RevalidationResult:
        pod = self.seen.pods.get(migration.pod_key)
        assert pod is not None
        owner = pod.owner
        handover = migration.spec.handover
        if handover is Handover.AUTO:
            handover = Handover.COPY if owner is None else _BY_KIND.get(owner.kind, Handover.EVICT)
        reference = owner and ControllerReference(owner.api_version, owner.kind, owner.name, owner.uid)
        target = migration.spec.target_node
        waits = not target and migration.spec.strategy == EVICTION
        return RevalidationResult(
            RevalidationOutcome.APPROVED, handover, target, reference, message="good", waits_for_room=waits
        )

    def may_preempt(self, _migration: Migration) -> str:
        return ""

    def no_room(self, _migration: Migration) -> str:
        return ""


@dataclass
class Moves:
    sandbox: Sandbox
    now: Callable[[], datetime] = wall_clock
    policy: Policy = field(
        default_factory=lambda: Policy(settle_time=timedelta(milliseconds=100), allow_unsteered=True)
    )
    created: int = 0
    ours: Client | None = None
    """With which the controller works, if not as the administrator whom the sandbox belongs to."""

    @property
    def client(self) -> Client:
        return self.sandbox.client

    # -- executing

    def controller(self, client: Client | None = None, **policy: Any) -> MigrationController:
        client = client or self.ours or self.client
        seen = WatchedObjects(client)
        return MigrationController(
            client,
            RuntimeStateHolder(RuntimeState(replace(self.policy, **policy))),
            ApprovingRevalidator(seen),
            watched=seen,
            now=self.now,
            workers=4,
        )

    @contextlib.asynccontextmanager
    async def executing(
        self, client: Client | None = None, **policy: Any
    ) -> AsyncIterator[MigrationController]:
        controller = self.controller(client, **policy)
        async with controller.watched.running(), controller.running():
            yield controller

    # -- migrations

    async def create_migration(self, pod: Object, to: str, *, held: bool = True, **spec: Any) -> str:
        """The key of a new migration. `held`: with our finalizer, as the program makes them."""
        self.created += 1
        name = f"move-{self.created}"
        metadata = {"namespace": self.sandbox.namespace, "name": name}
        if held:
            metadata["finalizers"] = [FINALIZER]
        wanted = {
            "apiVersion": POD_MIGRATIONS.api_version,
            "kind": POD_MIGRATIONS.kind,
            "metadata": metadata,
            "spec": {
                "pod": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
                "sourceNode": node_of(pod),
                "targetNode": to,
                **spec,
            },
        }
        await self.client.create(POD_MIGRATIONS, wanted)
        return self.sandbox.key(name)

    async def until(
        self, key: str, holds: Callable[[Migration], object], *, timeout_s: float = 120.0
    ) -> Migration:
        found = await until_object(
            self.client,
            POD_MIGRATIONS,
            key,
            lambda item: holds(decode_migration(item)),
            timeout_s=timeout_s,
        )
        return decode_migration(found)

    async def until_finished(self, key: str, *, timeout_s: float = 120.0) -> Migration:
        """Over, and nothing holds it any more."""
        return await self.until(
            key, lambda migration: migration.is_finished and not migration.finalizers, timeout_s=timeout_s
        )

    async def until_over(self, key: str, *, timeout_s: float = 120.0) -> Migration | None:
        """Finished, or gone because it was cancelled."""
        name = key.split("/")[1]

        def over(seen: Mapping[str, Object]) -> list[Migration | None]:
            if name not in seen:
                return [None]
            migration = decode_migration(seen[name])
            return [migration] if migration.is_finished and not migration.finalizers else []

        (ended,) = await until(self.client, POD_MIGRATIONS, self.sandbox.namespace, over, timeout_s=timeout_s)
        return ended

    async def move(self, pod: Object, to: str, **policy: Any) -> Migration:
        key = await self.create_migration(pod, to)
        async with self.executing(**policy):
            return await self.until_finished(key)

    async def until_pods(self, holds: Callable[[Mapping[str, Object]], Any], **more: Any) -> Any:
        return await until(self.client, PODS.as_json, self.sandbox.namespace, holds, **more)

    async def until_served(self, count: int) -> None:
        """Exactly so many pods, all of them ready."""
        if count:
            await self.sandbox.until_ready(count)
        else:
            await self.until_pods(lambda pods: not pods, labels="app=web")

    async def copy_of(self, key: str, holds: Callable[[Object], object] = bool) -> Object:
        """The copy that the migration has made, once it is there and `holds` is true of it."""
        name = key.split("/")[1]

        def found(pods: Mapping[str, Object]) -> Object | None:
            for pod in pods.values():
                labels, annotations = (
                    pod["metadata"].get("labels", {}),
                    pod["metadata"].get("annotations", {}),
                )
                is_other = annotations.get(labels_and_names.ORIGINAL_POD_ANNOTATION) != pod["metadata"]["uid"]
                if labels.get(labels_and_names.MIGRATION_ID_LABEL) == name and is_other and holds(pod):
                    return pod
            return None

        return await self.until_pods(found)

    async def lose_node(self, name: str) -> None:
        """Its kubelet is silent from now on, and the node lifecycle controller would say so after a while."""
        ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        rules = load_behaviour({"nodes": [{"match": {"name": name}, "dead": [{"after": "0s"}]}]})
        self.sandbox.kubelet.behave(rules)
        patch = strategic_patch({"status": {"conditions": [ready]}})
        await self.client.patch(NODES.as_json.status, name, patch)

    async def allow_all(self, budget: str) -> None:
        """Let that budget allow every eviction from now on."""
        await self.client.patch(
            POD_DISRUPTION_BUDGETS, budget, merge_patch({"spec": {"minAvailable": 0, "maxUnavailable": None}})
        )

    # -- what is left

    async def leftovers(self) -> list[str]:
        """Everything of ours that must not be there once all migrations are over, in words."""
        found = []
        for pod in (await self.client.list(PODS.as_json, namespace=self.sandbox.namespace)).items:
            found += _left_on_pod(pod)
        budgets = await self.client.list(POD_DISRUPTION_BUDGETS, namespace=self.sandbox.namespace)
        found += [f"budget {each['metadata']['name']}" for each in budgets.items if _is_ours(each)]
        for item in (await self.client.list(POD_MIGRATIONS, namespace=self.sandbox.namespace)).items:
            if item["metadata"].get("finalizers"):
                found.append(f"finalizer on {item['metadata']['name']}")
        return found

    async def until_nothing_left(self) -> None:
        """Pods that are on their way out are given the time to go."""
        async with asyncio.timeout(60):
            while left := await self.leftovers():
                self.last_left = left
                await asyncio.sleep(0.1)


def _is_ours(item: Object) -> bool:
    return labels_and_names.MIGRATION_ID_LABEL in item["metadata"].get("labels", {})


def _left_on_pod(pod: Object) -> list[str]:
    metadata = pod["metadata"]
    name, labels = metadata["name"], metadata.get("labels", {})
    found = [
        f"owner reference of {name}"
        for owner in metadata.get("ownerReferences", ())
        if owner["kind"] == POD_MIGRATIONS.kind
    ]
    if (
        _is_ours(pod)
        and labels.get(labels_and_names.STATUS_LABEL) != labels_and_names.MigrationLabelStatus.COMPLETED
    ):
        found.append(f"marks of {name}")
    if pod["spec"].get("schedulingGates"):
        found.append(f"gate of {name}")
    return found
