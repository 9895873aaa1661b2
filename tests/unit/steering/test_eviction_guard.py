"""Evictions on a simulated cluster, answered by the real webhook over HTTPS."""

import contextlib
import json
import statistics
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from kubevalues import parse_selector
from rescheduler.api.daemon_status import DaemonStatus, Halt, HaltReason, Pause, encode_state
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy import Policy
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    REPLICA_SETS,
    merge_patch,
)
from rescheduler.kube.client import Client
from rescheduler.steering.webhook.eviction_guard import has_turn

SELECTOR = {"matchLabels": {"app": "web"}}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
READY = [{"type": "Ready", "status": "True"}]


async def put_status(client: Client, kind: Any, key: str, status: dict[str, Any]) -> None:
    # A patch: kubelets write the status of pods at the same time.
    await client.patch(kind.status, key, merge_patch({"status": status}))


async def lead(client: Client) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "daemon", "leaseDurationSeconds": 3600, "renewTime": now, "acquireTime": now}
    about = {"namespace": "ours", "name": "rescheduler"}
    await client.create(LEASES, {"apiVersion": "coordination.k8s.io/v1", "metadata": about, "spec": spec})


async def run_web(client: Client, pods: int = 1, name: str = "web") -> str:
    """A Deployment with ready pods; the uid of the first."""
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(NODES.as_json, {"metadata": {"name": "n1"}, "spec": {}})
    await put_status(client, NODES.as_json, "n1", {"conditions": READY})
    about = {"namespace": "shop", "name": name}
    spec = {"replicas": pods, "selector": SELECTOR, "template": TEMPLATE}
    above = await client.create(DEPLOYMENTS, {"metadata": about, "spec": spec})
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "controller": True}
    about = {**about, "name": f"{name}-1", "ownerReferences": [{**owner, "uid": above["metadata"]["uid"]}]}
    made = await client.create(REPLICA_SETS, {"metadata": about, "spec": spec})
    await put_status(client, REPLICA_SETS, f"shop/{name}-1", {"replicas": pods, "readyReplicas": pods})
    owner = {**owner, "kind": "ReplicaSet", "name": f"{name}-1", "uid": made["metadata"]["uid"]}
    uids = []
    for number in range(pods):
        pod_name = f"{name}-1-{number}"
        about = {
            "namespace": "shop",
            "name": pod_name,
            "labels": {"app": "web"},
            "ownerReferences": [owner],
        }
        pod = await client.create(
            PODS.as_json, {"metadata": about, "spec": {**TEMPLATE["spec"], "nodeName": "n1"}}
        )
        await put_status(client, PODS.as_json, f"shop/{pod_name}", {"phase": "Running", "conditions": READY})
        uids.append(pod["metadata"]["uid"])
    return str(uids[0])


async def migrations(client: Client) -> list[Any]:
    return (await client.list(POD_MIGRATIONS)).items


async def test_an_eviction_becomes_a_move(client: Client, guarded: Any, eventually: Any) -> None:
    uid = await run_web(client)
    await lead(client)
    async with guarded() as webhook:
        with pytest.raises(errors.Overloaded, match="is being moved to another node first"):
            await client.evict("shop/web-1-0")
        (made,) = await eventually(lambda: migrations(client))
        assert made["metadata"]["name"] == f"eviction-{uid}"
        assert (made["spec"]["strategy"], made["spec"]["handover"]) == ("Eviction", "Adopt")
        assert made["spec"]["reason"] == "evicted by system:admin"
        assert b"rescheduler_evictions_intercepted_total 1.0" in webhook._service.evictions.metrics.text()


@pytest.mark.parametrize(
    "obstacle",
    [
        pytest.param({"pause": encode_state(Pause(paused=True))}, id="paused"),
        pytest.param(
            {
                "status": encode_state(
                    DaemonStatus(halts=(Halt(HaltReason.API_FAILING, datetime.now(UTC), "", ""),))
                )
            },
            id="halted",
        ),
        pytest.param({"pause": "?"}, id="with a state that can't be read"),
        pytest.param(None, id="without a leader"),
    ],
)
async def test_passes(obstacle: dict[str, str] | None, client: Client, guarded: Any) -> None:
    await run_web(client)
    if obstacle is not None:
        await lead(client)
        about = {"namespace": "ours", "name": "rescheduler-state"}
        await client.create(CONFIG_MAPS, {"metadata": about, "data": obstacle})
    async with guarded():
        await client.evict("shop/web-1-0")
        assert not await migrations(client)


@pytest.mark.parametrize(
    ("reason", "namespace", "is_held"),
    [
        pytest.param(HaltReason.NODES_NOT_READY, "", True, id="nodes are not Ready"),
        pytest.param(HaltReason.CACHES_STALE, "", True, id="caches are stale"),
        pytest.param(HaltReason.NAMESPACE_FAILING, "bank", True, id="moves of another namespace fail"),
        pytest.param(HaltReason.NAMESPACE_FAILING, "shop", False, id="moves of its namespace fail"),
        pytest.param(HaltReason.FAILURE_RATIO, "", False, id="moves fail"),
    ],
)
async def test_under_a_halt(
    reason: HaltReason, namespace: str, is_held: bool, client: Client, guarded: Any
) -> None:
    """A halt that protects from balancing on incomplete data holds up no eviction by others, and lets no pod
    go without its move."""
    await run_web(client)
    await lead(client)
    halt = Halt(reason, datetime.now(UTC), "", "", namespace=namespace)
    about = {"namespace": "ours", "name": "rescheduler-state"}
    data = {"status": encode_state(DaemonStatus(halts=(halt,)))}
    await client.create(CONFIG_MAPS, {"metadata": about, "data": data})
    async with guarded():
        if is_held:
            with pytest.raises(errors.Overloaded, match="is being moved to another node first"):
                await client.with_quick_retries().evict("shop/web-1-0")
        else:
            await client.evict("shop/web-1-0")


async def test_passes_when_the_leader_has_died(client: Client, guarded: Any) -> None:
    """Its Lease stays, and counts by our own clock."""
    await run_web(client)
    await lead(client)
    async with guarded() as webhook:
        daemon = webhook._service.evictions._caches.daemon
        began_s = daemon._monotonic_s()
        assert daemon.obstacle("shop") == ""
        daemon._monotonic_s = lambda: began_s + 3600 + 6
        await client.evict("shop/web-1-0")
        assert not await migrations(client)


async def test_passes_while_the_caches_are_stale(
    client: Client, guarded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they show may be hours old."""
    await run_web(client)
    await lead(client)
    async with guarded() as webhook:
        guard = webhook._service.evictions
        monkeypatch.setattr(type(guard._caches), "is_ready", False)
        await client.evict("shop/web-1-0")
        assert b'evictions_passed_total{reason="CachesNotReady"} 1.0' in guard.metrics.text()


async def test_an_event_says_why_a_pod_is_evicted_without_a_move(
    client: Client, guarded: Any, eventually: Any
) -> None:
    """On pod, workload and node, once however often it is tried: there is no PodMigration to look at."""
    await run_web(client)
    await lead(client)
    about = {"namespace": "ours", "name": "rescheduler-state"}
    data = {"pause": encode_state(Pause(paused=True))}
    await client.create(CONFIG_MAPS, {"metadata": about, "data": data})
    body = {
        "uid": "1",
        "name": "web-1-0",
        "namespace": "shop",
        "operation": "CREATE",
        "subResource": "eviction",
    }
    async with guarded() as webhook, guarded() as other:
        for each in (webhook, other, webhook):
            guard = each._service.evictions
            answer = json.loads(await guard.answer(json.dumps({"request": body}).encode()))["response"]
            assert answer["allowed"], answer

    async def written() -> list[Any]:
        found = (await client.list(EVENTS)).items
        return found if len(found) >= 3 else []

    events = await eventually(written)
    about = {(each["involvedObject"]["kind"], each["reason"], each["type"], each["count"]) for each in events}
    assert about == {(kind, "EvictionPassed", "Warning", 1) for kind in ("Pod", "Deployment", "Node")}
    assert len(events) == 3
    words = "pod shop/web-1-0 is not moved before it is evicted: no move starts now: rescheduler is paused"
    assert {each["message"] for each in events} == {words}


async def test_a_dry_run_holds_nothing_and_says_nothing(client: Client, guarded: Any) -> None:
    """A new installation is a dry run: no Event may complain of that at each eviction."""
    await run_web(client)
    await lead(client)
    async with guarded(Policy(dry_run=True)) as webhook:
        await client.evict("shop/web-1-0")
    assert b'evictions_passed_total{reason="Off"} 1.0' in webhook._service.evictions.metrics.text()
    assert not (await client.list(EVENTS)).items


async def test_an_event_says_why_no_move_was_recorded(
    client: Client, guarded: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_web(client)
    await lead(client)
    async with guarded() as webhook:
        guard = webhook._service.evictions

        async def refuse(*_: Any, **__: Any) -> Any:
            raise errors.Forbidden("create podmigrations", "exceeded quota")

        monkeypatch.setattr(guard._client, "create", refuse)
        with pytest.raises(errors.Overloaded):
            await client.with_quick_retries().evict("shop/web-1-0")

        async def is_refused() -> bool:
            return bool(guard._refused)

        await eventually(is_refused)
        monkeypatch.undo()
        await client.evict("shop/web-1-0")

    async def said() -> bool:
        return any("exceeded quota" in each["message"] for each in (await client.list(EVENTS)).items)

    assert await eventually(said)


async def test_namespaces_opt_out_of_safe_evictions_by_their_labels(client: Client, guarded: Any) -> None:
    await run_web(client)
    await lead(client)
    await client.patch(NAMESPACES, "shop", merge_patch({"metadata": {"labels": {"rescheduling": "off"}}}))
    async with guarded(Policy(namespace_selector=parse_selector("rescheduling!=off"))):
        await client.evict("shop/web-1-0")
        assert not await migrations(client)


async def test_an_eviction_in_a_selected_namespace_becomes_a_move(client: Client, guarded: Any) -> None:
    await run_web(client)
    await lead(client)
    async with guarded(Policy(namespace_selector=parse_selector("kubernetes.io/metadata.name=shop"))):
        with pytest.raises(errors.Overloaded, match="is being moved to another node first"):
            await client.evict("shop/web-1-0")


async def test_answers_take_less_than_five_milliseconds(client: Client, guarded: Any) -> None:
    """From caches alone: 99 of 100, in time of the processor."""
    await run_web(client, pods=50)
    await lead(client)
    async with guarded() as webhook:
        guard = webhook._service.evictions
        took_s = []
        for number in range(500):
            request = {
                "uid": "1", "name": f"web-1-{number % 50}", "namespace": "shop", "operation": "CREATE",
                "subResource": "eviction", "userInfo": {"username": "alice"}, "object": {},
            }  # fmt: skip
            body = json.dumps({"request": request}).encode()
            began = time.thread_time()
            answer = await guard.answer(body)
            took_s.append(time.thread_time() - began)
            assert json.loads(answer)["response"]["status"]["code"] == 429
        assert statistics.quantiles(took_s, n=100)[98] < 0.005


def test_one_namespace_leaves_places_for_the_moves_of_others() -> None:
    flood = ["attacker"] * 50
    assert not has_turn(flood, "attacker")
    assert has_turn(flood, "shop")
    assert has_turn(flood[:49], "attacker")
    assert not has_turn([*flood, *(f"n{number}" for number in range(50))], "shop"), "all together"
