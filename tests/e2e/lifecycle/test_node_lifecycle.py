"""Nodes that have to be emptied, on the real control plane: by a taint with a deadline, by the conditions of
KEP-5683, and by the label."""

import asyncio
import json
from typing import Any

from rescheduler.api.well_known_names import EMPTY_CONDITION, MAINTENANCE_LABEL
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import Object, merge_patch, strategic_patch
from rescheduler.kube.client import Client
from tests.e2e.lifecycle.conftest import Daemon, MakeShop
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.testbed import ControlPlane

SPOT = {"taint": "example.com/spot-interruption", "deadline": "60s"}
PLANNED = {"condition": "MaintenancePlanned", "urgency": "normal"}


async def drain_conditions(client: Client, node: str) -> dict[str, tuple[str, str]]:
    found = (await client.get(NODES, node)).conditions
    return {each.type: (each.status, each.reason) for each in found if each.type.startswith("Drain")}


async def test_a_spot_interruption_empties_the_node_before_its_deadline(
    control_plane: ControlPlane,
    client: Client,
    namespace: str,
    make_shop: MakeShop,
    daemon: Daemon,
    eventually: Any,
) -> None:
    """A single replica under a budget that allows nothing is never without a ready pod."""
    moves = await make_shop(3)
    await moves.sandbox.deployment(1)
    await moves.sandbox.budget(minAvailable=1)
    (pod,) = await moves.sandbox.pods()
    # An hour between two checks: the taint itself is what starts the evacuation.
    replica = await daemon(enabledStrategies=[], evacuateOn=[SPOT], reschedulingInterval="1h")
    async with observing(client, namespace) as seen:
        taint = "example.com/spot-interruption=:NoSchedule"
        await asyncio.to_thread(control_plane.kubectl, "taint", "node", node_of(pod), taint)

        async def moved() -> bool:
            pods = await moves.sandbox.pods()
            return [node_of(each) for each in pods] != [node_of(pod)] and len(pods) == 1

        await eventually(moved, timeout_s=50)
        await seen.caught_up()
    assert min(seen.ready) >= 1
    (migration,) = (await client.list(POD_MIGRATIONS, namespace=namespace)).items
    assert (migration["spec"]["strategy"], "deadline" in migration["spec"]) == ("Evacuation", True)
    assert replica.said("MaintenanceEmptying")


async def node_with_condition(client: Client, make_shop: MakeShop, condition: Object) -> str:
    """Set the condition on the node of a Deployment's only pod, and return the node's name."""
    moves = await make_shop(2)
    await moves.sandbox.deployment(1)
    (pod,) = await moves.sandbox.pods()
    await client.patch(NODES.status, node_of(pod), strategic_patch({"status": {"conditions": [condition]}}))
    return node_of(pod)


async def test_planned_maintenance_is_announced_by_one_condition_and_reported_by_others(
    client: Client, make_shop: MakeShop, daemon: Daemon, eventually: Any
) -> None:
    planned = {"type": "MaintenancePlanned", "status": "True", "reason": "KernelUpgrade"}
    node = await node_with_condition(client, make_shop, planned)
    await daemon(enabledStrategies=["LoadBalancing"], evacuateOn=[PLANNED])

    async def drained() -> bool:
        return await drain_conditions(client, node) == {
            "DrainInProgress": ("False", "Rescheduler"),
            "Drained": ("True", "Rescheduler"),
        }

    await eventually(drained)
    done = {"$patch": "delete", "type": "MaintenancePlanned"}
    await client.patch(NODES.status, node, strategic_patch({"status": {"conditions": [done]}}))

    async def is_held() -> bool:
        found = await client.get(NODES, node)
        empty = found.condition(EMPTY_CONDITION)
        return found.unschedulable and empty is not None and empty.reason == "SignalGone"

    await eventually(is_held)
    assert await drain_conditions(client, node) == {}
    # As if that was more than five minutes ago.
    earlier = {"type": EMPTY_CONDITION, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await client.patch(NODES.status, node, strategic_patch({"status": {"conditions": [earlier]}}))

    async def in_service() -> bool:
        found = await client.get(NODES, node)
        return not found.unschedulable and found.condition(EMPTY_CONDITION) is None

    await eventually(in_service)


async def test_conditions_of_an_administrator_are_left_alone(
    client: Client, make_shop: MakeShop, daemon: Daemon, eventually: Any
) -> None:
    theirs = {"type": "DrainInProgress", "status": "True", "reason": "Upgrade"}
    node = await node_with_condition(client, make_shop, theirs)
    await client.patch(NODES, node, merge_patch({"metadata": {"labels": {MAINTENANCE_LABEL: "true"}}}))
    await daemon(enabledStrategies=["NodeMaintenance"])

    async def is_empty() -> bool:
        found = (await client.get(NODES, node)).condition("rescheduler.dev/Empty")
        return found is not None and found.status == "True"

    await eventually(is_empty)
    assert await drain_conditions(client, node) == {"DrainInProgress": ("True", "Upgrade")}


async def test_node_autoscalers_are_found_by_what_the_server_shows(
    control_plane: ControlPlane, make_shop: MakeShop, daemon: Daemon, eventually: Any, namespace: str
) -> None:
    """As its own account: the daemon may read the status of the cluster autoscaler, and nothing beside it."""
    await make_shop(1)
    from datetime import UTC, datetime  # noqa: PLC0415

    stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.000000000 +0000 UTC")
    status = {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "namespace": "kube-system", "name": "cluster-autoscaler-status",
            "annotations": {"cluster-autoscaler.kubernetes.io/last-updated": stamp},
        },
        "data": {"status": "autoscalerStatus: Running"},
    }  # fmt: skip
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(status))
    try:
        await daemon()

        async def found() -> list[str]:
            get = "get", "configmap", "rescheduler-state", "-n", namespace, "-o", "json", "--ignore-not-found"
            text = await asyncio.to_thread(control_plane.kubectl, *get)
            state = json.loads(json.loads(text)["data"].get("status", "{}")) if text else {}
            return [each["name"] for each in state.get("autoscalers", ())]

        assert await eventually(found) == ["clusterAutoscaler"]
    finally:
        control_plane.kubectl("delete", "configmap", "cluster-autoscaler-status", "-n", "kube-system")
