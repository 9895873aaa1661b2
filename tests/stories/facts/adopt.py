"""Moves one pod of a ReplicaSet to a chosen node without downtime: the Adopt handover, step by step.

    1  create_copy         from the ReplicaSet's template, owned by a PodMigration, behind a scheduling gate
    2  nominate, open_gate the scheduler tries the target first, with all its rules
    3  until_settled       ready, available, and load balancers have noticed
    4  evict_source        within the budget, which the ready copy has raised by one; at once
       offer               the copy to the ReplicaSet, by `controller: false`
    5  until_adopted, disown

Up to the eviction everything can be rolled back by deleting the copy; after it there is only forward.
Knows nothing but the API: the same steps run on any control plane, real or simulated.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    ApiResource,
    Object,
    key_of,
    merge_patch,
    strategic_patch,
)
from rescheduler.kube.client import Client
from tests.stories.facts.podmigrations import PODMIGRATIONS, podmigration
from tests.stories.objects import key, ready_since
from tests.stories.waiting import until_object, wall_clock

__all__ = [
    "FINALIZER",
    "GATE",
    "BoundElsewhere",
    "Handover",
    "begin",
    "bring_up",
    "controller_of",
    "create_copy",
    "disown",
    "evict_source",
    "finish",
    "hand_over",
    "key",
    "move",
    "nominate",
    "offer",
    "open_gate",
    "owner_reference",
    "ready_since",
    "release",
    "until_adopted",
    "until_settled",
]

GATE = "rescheduler.dev/adopt"
FINALIZER = "rescheduler.dev/unfinished"
POD_LIST = PODS.as_json


class BoundElsewhere(Exception):  # noqa: N818 - reads as what happened
    """The target did not fit after all; the copy has been deleted."""


class Handover(NamedTuple):
    """The objects of a handover, as they were at the beginning; only their identity counts."""

    migration: Object
    source: Object
    replica_set: Object
    target: str


# -- the whole of it


async def move(
    client: Client,
    source: str,
    target: str,
    *,
    settle_s: float = 0.0,
    before_eviction: Callable[[Object], Awaitable[None]] | None = None,
) -> str:
    """Moves the pod with the key `source` to the node `target`; the key of the pod that took its place."""
    handover = await begin(client, source, target)
    copy = await bring_up(client, handover, settle_s=settle_s)
    if before_eviction:
        await before_eviction(copy)
    await hand_over(client, handover, copy)
    await finish(client, handover)
    return key(copy)


async def bring_up(
    client: Client, handover: Handover, *, settle_s: float = 0.0, now: Callable[[], datetime] = wall_clock
) -> Object:
    """Steps 1 to 3: a copy that serves on the target, beside the source."""
    copy = await create_copy(client, handover)
    await nominate(client, copy, handover.target)
    await open_gate(client, copy)
    bound = await until_object(client, POD_LIST, key(copy), lambda pod: pod["spec"].get("nodeName"))
    if bound["spec"]["nodeName"] != handover.target:
        await client.delete(PODS, key(copy), uid=copy["metadata"]["uid"], grace_s=0)
        raise BoundElsewhere(bound["spec"]["nodeName"])
    return await until_settled(client, handover, copy, settle_s=settle_s, now=now)


async def hand_over(client: Client, handover: Handover, copy: Object) -> None:
    """Steps 4 and 5: from the first accepted eviction on, nothing may delete the copy."""
    await evict_source(client, handover)
    await offer(client, handover, copy)
    await until_adopted(client, handover, copy)
    await disown(client, handover, copy)


# -- before


async def begin(
    client: Client,
    source: str,
    target: str,
    *,
    migrations: ApiResource[Object] = PODMIGRATIONS,
    finalizer: bool = True,
) -> Handover:
    pod = await client.get(POD_LIST, source)
    namespace, owner = pod["metadata"]["namespace"], controller_of(pod)
    assert owner is not None, f"{source} has no controller"
    assert owner["kind"] == "ReplicaSet", f"{source} belongs to a {owner['kind']}"
    replica_set = await client.get(REPLICA_SETS, key_of(namespace, owner["name"]))
    wanted = podmigration(namespace, f"move-{pod['metadata']['name']}", pod, target, migrations)
    if finalizer:
        wanted["metadata"]["finalizers"] = [FINALIZER]
    return Handover(await client.create(migrations, wanted), pod, replica_set, target)


# -- step 1


async def create_copy(client: Client, handover: Handover) -> Object:
    """Create the copy with its final labels: Services and budgets select it. A ReplicaSet ignores pods of
    others.
    """
    template, metadata = handover.replica_set["spec"]["template"], handover.source["metadata"]
    spec = template["spec"] | {
        "containers": _resized(template["spec"]["containers"], handover.source["spec"]["containers"]),
        "schedulingGates": [*template["spec"].get("schedulingGates", []), {"name": GATE}],
    }
    copy = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": metadata["namespace"],
            "generateName": f"{handover.replica_set['metadata']['name']}-",
            "labels": template["metadata"]["labels"],
            "annotations": template["metadata"].get("annotations", {}),
            "ownerReferences": [owner_reference(handover.migration, controller=True)],
        },
        "spec": spec,
    }
    return await client.create(POD_LIST, copy)


def _resized(containers: list[Object], live: list[Object]) -> list[Object]:
    """The live pod's resources: an in-place resize or an autoscaler's webhook may have changed them."""
    resources = {each["name"]: each.get("resources", {}) for each in live}
    return [each | {"resources": resources.get(each["name"], {})} for each in containers]


# -- step 2


async def nominate(client: Client, copy: Object, node: str) -> None:
    await client.patch(PODS.status, key(copy), merge_patch({"status": {"nominatedNodeName": node}}))


async def open_gate(client: Client, copy: Object) -> None:
    """Only ours: gates of others stay."""
    ours = {"$patch": "delete", "name": GATE}
    await client.patch(PODS, key(copy), strategic_patch({"spec": {"schedulingGates": [ours]}}))


# -- step 3


async def until_settled(
    client: Client, handover: Handover, copy: Object, *, settle_s: float, now: Callable[[], datetime]
) -> Object:
    """Ready for so long that the ReplicaSet calls it available and load balancers have noticed."""
    min_ready_s = handover.replica_set["spec"].get("minReadySeconds", 0)
    while True:
        ready = await until_object(client, POD_LIST, key(copy), ready_since)
        since = ready_since(ready)
        assert since is not None
        wait_s = (since + timedelta(seconds=min_ready_s + settle_s) - now()).total_seconds()
        if wait_s <= 0:
            return ready
        await asyncio.sleep(wait_s)


# -- step 4


async def evict_source(client: Client, handover: Handover) -> None:
    """Returns when it is accepted; asks again whenever the budget that refused allows one more."""
    uid = handover.source["metadata"]["uid"]
    while True:
        try:
            return await client.evict(key(handover.source), uid=uid)
        except errors.BudgetRefused as refused:
            (budget,) = refused.budgets
            await until_object(client, POD_DISRUPTION_BUDGETS, budget, _allows_one)


def _allows_one(budget: Object) -> bool:
    status = budget.get("status", {})
    is_current = status.get("observedGeneration") == budget["metadata"]["generation"]
    return bool(is_current and status.get("disruptionsAllowed", 0) > 0)


async def offer(client: Client, handover: Handover, copy: Object) -> None:
    """One patch that needs no read before: each millisecond counts now."""
    reference = owner_reference(handover.migration, controller=False)
    await client.patch(PODS, key(copy), strategic_patch({"metadata": {"ownerReferences": [reference]}}))


# -- step 5


async def until_adopted(client: Client, handover: Handover, copy: Object) -> Object:
    uid = handover.replica_set["metadata"]["uid"]
    return await until_object(
        client, POD_LIST, key(copy), lambda pod: (controller_of(pod) or {}).get("uid") == uid
    )


async def disown(client: Client, handover: Handover, copy: Object) -> None:
    """Before the PodMigration goes: else the pod might be collected with it."""
    ours = {"$patch": "delete", "uid": handover.migration["metadata"]["uid"]}
    await client.patch(PODS, key(copy), strategic_patch({"metadata": {"ownerReferences": [ours]}}))


async def finish(client: Client, handover: Handover) -> None:
    await release(client, handover)
    await client.delete(PODMIGRATIONS, key(handover.migration))


async def release(client: Client, handover: Handover) -> None:
    """Let the PodMigration go from now on."""
    without_finalizers = merge_patch({"metadata": {"finalizers": None}})
    await client.patch(PODMIGRATIONS, key(handover.migration), without_finalizers)


# -- references


def controller_of(item: Object) -> Object | None:
    references = item["metadata"].get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), None)


def owner_reference(owner: Object, **more: Any) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }
