"""Attempts to misuse safe evictions, on a simulated cluster with the real webhook."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from rescheduler.api.podmigration import EVICTION
from rescheduler.api.well_known_names import EVICTION_TURNS_CONFIG_MAP
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy import Policy, SafeEvictions
from rescheduler.kube import errors
from rescheduler.kube.api_resources import CONFIG_MAPS, NAMESPACES, STATEFUL_SETS, Object, merge_patch
from rescheduler.kube.client import Client
from rescheduler.steering.steering_server import SteeringServer
from rescheduler.steering.steering_service import SteeringService
from rescheduler.steering.webhook import eviction_caches
from rescheduler.steering.webhook.eviction_guard import EvictionGuard, EvictionSettings
from tests.unit.steering.test_eviction_guard import READY, lead, migrations, put_status, run_web

POD = "shop/web-1-0"


def review(name: str = "web-1-0", namespace: str = "shop", **more: Any) -> bytes:
    request = {
        "uid": "1", "name": name, "namespace": namespace, "operation": "CREATE", "subResource": "eviction",
        "userInfo": {"username": "alice"}, "object": {}, **more,
    }  # fmt: skip
    return json.dumps({"request": request}).encode()


def guard_of(webhook: SteeringServer) -> EvictionGuard:
    guard = webhook._service.evictions
    assert guard is not None
    return guard


async def is_held(webhook: SteeringServer, body: bytes) -> bool:
    return not json.loads(await guard_of(webhook).answer(body))["response"]["allowed"]


class Clock:
    """The time of the webhook, which a test moves on."""

    def __init__(self) -> None:
        self.passed = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.passed


@pytest.fixture
async def webhook(client: Client, guarded: Any) -> AsyncIterator[SteeringServer]:
    await run_web(client)
    await lead(client)
    async with guarded(Policy(safe_evictions=SafeEvictions(deadline=timedelta(minutes=10)))) as made:
        yield made


# -- block a drain


async def test_deleting_the_record_does_not_restart_the_deadline(
    client: Client, webhook: SteeringServer, eventually: Any
) -> None:
    """A tenant deletes the PodMigration again and again, so that the eviction is held again each time."""
    clock = Clock()
    guard_of(webhook)._now = clock.now
    for _ in range(4):
        assert await is_held(webhook, review())
        (made,) = await eventually(lambda: migrations(client))
        await client.delete(POD_MIGRATIONS, f"shop/{made['metadata']['name']}")
        await eventually(lambda: _is_forgotten(webhook))
        clock.passed += timedelta(minutes=3)
    assert not await is_held(webhook, review()), "twelve minutes after the first"


async def _is_forgotten(webhook: SteeringServer) -> bool:
    return not guard_of(webhook)._caches._of_pod


async def test_a_record_that_another_client_made_first_holds_nothing_for_longer(
    client: Client, webhook: SteeringServer, eventually: Any
) -> None:
    """A tenant takes the name of the PodMigration, with a spec that never moves anything."""
    pod = await client.get(PODS.as_json, POD)
    uid = pod["metadata"]["uid"]
    taken: Object = {
        "apiVersion": POD_MIGRATIONS.api_version,
        "kind": POD_MIGRATIONS.kind,
        "metadata": {"namespace": "shop", "name": f"eviction-{uid}"},
        "spec": {
            "pod": {"name": "other", "uid": "other"}, "sourceNode": "n1", "strategy": EVICTION,
            "handover": "Adopt",
        },
    }  # fmt: skip
    await client.create(POD_MIGRATIONS, taken)
    clock = Clock()
    guard_of(webhook)._now = clock.now
    assert await is_held(webhook, review())
    clock.passed = timedelta(minutes=10)
    assert not await is_held(webhook, review())
    assert len(await migrations(client)) == 1


async def test_a_record_in_another_namespace_says_nothing_of_the_pod(
    client: Client, webhook: SteeringServer, eventually: Any
) -> None:
    """A tenant records a move of a pod with the uid of another tenant's pod. It must not count as the move of
    that pod, which would then be held without one, or evicted without one when that has failed."""
    await client.create(NAMESPACES, {"metadata": {"name": "mine"}})
    pod = await client.get(PODS.as_json, POD)
    forged: Object = {
        "apiVersion": POD_MIGRATIONS.api_version,
        "kind": POD_MIGRATIONS.kind,
        "metadata": {"namespace": "mine", "name": "forged"},
        "spec": {
            "pod": {"name": "web-1-0", "uid": pod["metadata"]["uid"]}, "sourceNode": "n1",
            "strategy": EVICTION, "handover": "Adopt",
        },
    }  # fmt: skip
    await client.create(POD_MIGRATIONS, forged)
    await eventually(lambda: _is_known(webhook))
    assert await is_held(webhook, review())
    assert len(await eventually(lambda: _two(client))) == 2, "and it is moved"


async def _is_known(webhook: SteeringServer) -> bool:
    return not await _is_forgotten(webhook)


async def _two(client: Client) -> list[Object]:
    found = await migrations(client)
    return found if len(found) == 2 else []


async def test_what_kubectl_prints_has_no_control_characters(
    client: Client, webhook: SteeringServer, eventually: Any
) -> None:
    """A tenant chooses the target node of a PodMigration, and an administrator reads it in a terminal."""
    pod = await client.get(PODS.as_json, POD)
    made: Object = {
        "apiVersion": POD_MIGRATIONS.api_version,
        "kind": POD_MIGRATIONS.kind,
        "metadata": {"namespace": "shop", "name": "mine"},
        "spec": {
            "pod": {"name": "web-1-0", "uid": pod["metadata"]["uid"]}, "sourceNode": "n1",
            "strategy": EVICTION, "targetNode": "\x1b]0;owned\x07\n",
        },
    }  # fmt: skip
    await client.create(POD_MIGRATIONS, made)
    await eventually(lambda: _is_known(webhook))
    answer = json.loads(await guard_of(webhook).answer(review()))["response"]
    assert "owned" in answer["status"]["message"]
    assert answer["status"]["message"].isprintable()


async def test_a_client_that_evicts_pod_after_pod_has_one_deadline(
    client: Client, webhook: SteeringServer, eventually: Any
) -> None:
    """Each pod is evicted for the first time when the one before it is gone. The node is drained in time
    nevertheless."""
    clock = Clock()
    await run_web(client, name="api", pods=4)
    guard = guard_of(webhook)
    guard._now = clock.now
    await client.patch(NODES, "n1", merge_patch({"spec": {"unschedulable": True}}))
    for number in range(4):
        await eventually(lambda number=number: _sees(webhook, f"shop/api-1-{number}"))

    async def is_cordoned() -> bool:
        return guard._caches.is_emptied("n1")

    await eventually(is_cordoned)
    for number in range(2):
        assert await is_held(webhook, review(f"api-1-{number}"))
        clock.passed += timedelta(minutes=4)
        assert await is_held(webhook, review(f"api-1-{number}"))
        clock.passed += timedelta(minutes=1)
    assert not await is_held(webhook, review("api-1-2"))
    assert await is_held(webhook, review("api-1-2", userInfo={"username": "bob"})), (
        "alice can't use up the time of others"
    )
    clock.passed += timedelta(minutes=30)
    assert not await is_held(webhook, review("api-1-3")), "who waits a little gains nothing"
    await client.patch(NODES, "n1", merge_patch({"spec": {"unschedulable": None}}))

    async def is_in_service() -> bool:
        return not guard._caches.is_emptied("n1")

    await eventually(is_in_service)
    assert await is_held(webhook, review("api-1-3"))


async def _sees(webhook: SteeringServer, key: str) -> bool:
    pod = guard_of(webhook)._caches.pod(key)
    return pod is not None and pod.is_ready


# -- loops and double moves


async def test_a_storm_of_evictions_records_one_move(
    client: Client, webhook: SteeringServer, eventually: Any
) -> None:
    async def evict() -> None:
        with contextlib.suppress(errors.Overloaded):
            await client.with_quick_retries().evict(POD)

    await asyncio.gather(*(evict() for _ in range(30)))
    await eventually(lambda: migrations(client))
    assert len(await migrations(client)) == 1
    assert (await client.get(PODS.as_json, POD))["metadata"].get("deletionTimestamp") is None


async def test_a_pod_that_is_moving_gets_no_second_move(
    client: Client, webhook: SteeringServer, eventually: Any
) -> None:
    """Balancing moves it already: that move is waited for."""
    pod = await client.get(PODS.as_json, POD)
    running: Object = {
        "apiVersion": POD_MIGRATIONS.api_version,
        "kind": POD_MIGRATIONS.kind,
        "metadata": {"namespace": "shop", "name": "balancing"},
        "spec": {
            "pod": {"name": "web-1-0", "uid": pod["metadata"]["uid"]}, "sourceNode": "n1",
            "targetNode": "n2", "strategy": "LoadBalancing",
        },
    }  # fmt: skip
    made = await client.create(POD_MIGRATIONS, running)
    status = {"phase": "InProgress", "step": "Starting", "handover": "Adopt", "targetNode": "n2"}
    await client.replace(POD_MIGRATIONS.status, {**made, "status": status})

    async def knows() -> bool:
        known = guard_of(webhook)._caches._of_pod.get(pod["metadata"]["uid"], {})
        return any(each.status.step == "Starting" for each in known.values())

    await eventually(knows)
    with pytest.raises(errors.Overloaded, match="is being moved to n2 first: PodMigration balancing"):
        await client.with_quick_retries().evict(POD)
    assert len(await migrations(client)) == 1


async def test_the_copy_of_a_move_is_not_moved_itself(
    client: Client, webhook: SteeringServer, eventually: Any
) -> None:
    """An eviction of the copy is up to its budget: a move of a move would never end."""
    owner = {
        "apiVersion": POD_MIGRATIONS.api_version, "kind": POD_MIGRATIONS.kind, "name": "eviction-1",
        "uid": "1", "controller": True,
    }  # fmt: skip
    about = {"namespace": "shop", "name": "copy", "labels": {"app": "web"}, "ownerReferences": [owner]}
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n1"}
    await client.create(PODS.as_json, {"metadata": about, "spec": spec})
    await put_status(client, PODS.as_json, "shop/copy", {"phase": "Running", "conditions": READY})

    async def knows() -> bool:
        known = guard_of(webhook)._caches.pod("shop/copy")
        return known is not None and known.is_ready

    await eventually(knows)
    assert not await is_held(webhook, review("copy"))
    assert not await migrations(client)


# -- two replicas of the webhook


@pytest.mark.parametrize("drained", [pytest.param(2, id="drained"), pytest.param(0, id="not drained")])
async def test_two_replicas_never_let_two_pods_of_a_set_go_at_once(
    drained: int, client: Client, webhook: SteeringServer, guarded: Any, eventually: Any
) -> None:
    """Two clients evict two pods at the same moment, and reach different replicas, whose caches stay as they
    are. On drained nodes and on others."""
    await run_set(client, pods=3, drained=drained)
    async with guarded() as other:
        for each in (webhook, other):
            await eventually(lambda each=each: knows_set(each, 3))
        found = await asyncio.gather(is_held(webhook, review("db-0")), is_held(other, review("db-1")))
        assert sorted(found) == [False, True]
        again = await asyncio.gather(is_held(webhook, review("db-0")), is_held(other, review("db-1")))
        assert again == found, "the one that went may try again, the other waits"


async def test_a_turn_ends_when_caches_must_have_seen_it(
    client: Client, webhook: SteeringServer, guarded: Any, eventually: Any
) -> None:
    """Of a pod whose eviction was refused after all, such as by another webhook, and that stays."""
    clock = Clock()
    await run_set(client, pods=3, drained=0)
    async with guarded() as other:
        for each in (webhook, other):
            guard_of(each)._turns._monotonic_s = guard_of(each)._monotonic_s = lambda: clock.now().timestamp()
            await eventually(lambda each=each: knows_set(each, 3))
        assert not await is_held(webhook, review("db-0"))
        assert await is_held(other, review("db-1"))
        clock.passed += timedelta(seconds=11)
        assert not await is_held(other, review("db-1"))
        assert await is_held(webhook, review("db-0"))


async def test_a_slow_api_server_holds_no_answer_up(
    client: Client, webhook: SteeringServer, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod waits for its turn at most a second: then its eviction is held, and the client tries again."""
    await run_set(client, pods=3, drained=0)
    await eventually(lambda: knows_set(webhook, 3))
    turns = guard_of(webhook)._turns
    replace = turns._client.replace

    async def never(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(turns._client, "replace", never)
    began_s = time.monotonic()
    assert await is_held(webhook, review("db-0"))
    assert time.monotonic() - began_s < 1.9, "API servers wait two seconds"
    monkeypatch.setattr(turns._client, "replace", replace)
    assert not await is_held(webhook, review("db-0"))


async def test_without_the_config_map_evictions_of_sets_pass(
    client: Client, webhook: SteeringServer, eventually: Any
) -> None:
    """As without rescheduler, until it is installed again."""
    await run_set(client, pods=3, drained=0)
    await eventually(lambda: knows_set(webhook, 3))
    await client.delete(CONFIG_MAPS, f"ours/{EVICTION_TURNS_CONFIG_MAP}")
    await eventually(lambda: _has_no_turns(webhook))
    assert not await is_held(webhook, review("db-0"))
    assert await is_held(webhook, review("db-1")), "this replica knows what it let pass"


async def _has_no_turns(webhook: SteeringServer) -> bool:
    return guard_of(webhook)._turns._item is None


async def test_turns_are_where_the_webhook_is_installed(client: Client, webhook: SteeringServer) -> None:
    """The Lease of the daemon may be in another namespace (`resourceNamespace`)."""
    settings = EvictionSettings(Policy(), "elsewhere", "rescheduler", "ours")
    guard, pod = SteeringService(client, evictions=settings).evictions, guard_of(webhook)._caches.pod(POD)
    assert guard is not None
    assert pod is not None
    assert await guard._turns.take(pod)
    written = await client.get(CONFIG_MAPS, f"ours/{EVICTION_TURNS_CONFIG_MAP}")
    assert [turn.split()[0] for turn in written["data"].values()] == [POD]


async def test_a_tenant_with_many_sets_leaves_turns_to_others(
    webhook: SteeringServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction_caches, "_TURN_TIMEOUT_S", 60.0)  # on a busy machine
    turns, pod = guard_of(webhook)._turns, guard_of(webhook)._caches.pod(POD)
    assert pod is not None
    owned = [
        msgspec.structs.replace(pod, owners=(msgspec.structs.replace(pod.owners[0], uid=f"set-{number}"),))
        for number in range(2_001)
    ]
    given = await asyncio.gather(*(turns.take(each) for each in owned))
    assert given.count(False) == 1
    other = msgspec.structs.replace(owned[-1], key="bank/db-0", namespace="bank")
    assert await turns.take(other)


async def test_a_set_waits_for_a_pod_that_terminates_slowly(
    client: Client, webhook: SteeringServer, eventually: Any
) -> None:
    """Its StatefulSet counts it as ready until its containers have ended."""
    clock = Clock()
    guard_of(webhook)._monotonic_s = lambda: clock.now().timestamp()
    await run_set(client, pods=3, drained=0)
    await eventually(lambda: knows_set(webhook, 3))
    change = {"metadata": {"finalizers": ["example.com/waits"]}}
    await client.patch(PODS, "shop/db-0", merge_patch(change))
    await client.delete(PODS, "shop/db-0")

    async def is_seen() -> bool:
        pod = guard_of(webhook)._caches.pod("shop/db-0")
        return pod is not None and pod.is_terminating

    await eventually(is_seen)
    clock.passed += timedelta(minutes=1)
    assert await is_held(webhook, review("db-1"))


async def run_set(client: Client, pods: int, drained: int) -> None:
    """A StatefulSet of which each pod has a node of its own; so many nodes are cordoned."""
    about = {"namespace": "shop", "name": "db"}
    labels = {"app": "db"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": pods, "selector": {"matchLabels": labels}, "serviceName": "db", "template": template}
    made = await client.create(STATEFUL_SETS, {"metadata": about, "spec": spec})
    await put_status(client, STATEFUL_SETS, "shop/db", {"replicas": pods, "readyReplicas": pods})
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True}
    owner["uid"] = made["metadata"]["uid"]
    for number in range(pods):
        node, name = f"node-{number}", f"db-{number}"
        is_drained = number < drained
        await client.create(NODES.as_json, {"metadata": {"name": node}, "spec": {}})
        await put_status(client, NODES.as_json, node, {"conditions": READY})
        if is_drained:
            await client.patch(NODES, node, merge_patch({"spec": {"unschedulable": True}}))
        metadata = {"namespace": "shop", "name": name, "labels": labels, "ownerReferences": [owner]}
        await client.create(
            PODS.as_json, {"metadata": metadata, "spec": {**template["spec"], "nodeName": node}}
        )
        await put_status(client, PODS.as_json, f"shop/{name}", {"phase": "Running", "conditions": READY})


async def knows_set(webhook: SteeringServer, ready: int) -> bool:
    caches = guard_of(webhook)._caches
    pod = caches.pod("shop/db-2")
    set_of = None if pod is None else caches._workload("shop", pod.owner)
    return pod is not None and pod.is_ready and set_of is not None and set_of.ready_replicas == ready


# -- slow it down


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * 1_000_000, id="nested a million times"),
        pytest.param(review(userInfo={"username": "a" * 1_000_000}), id="a name of a megabyte"),
        pytest.param(
            review(userInfo={"username": "a", "extra": {f"k{n}": ["v"] * 20 for n in range(2_000)}}),
            id="2,000 extra fields of the user",
        ),
        pytest.param(
            review(object={"metadata": {"labels": {str(n): "x" for n in range(20_000)}}}), id="labels"
        ),
    ],
)
async def test_no_review_takes_long(body: bytes, webhook: SteeringServer) -> None:
    began_s = time.thread_time()
    answer = await guard_of(webhook).answer(body)
    assert time.thread_time() - began_s < 0.2
    assert len(answer) < 5_000
    assert json.loads(answer)["response"] is not None


# -- have pods of others moved


async def test_a_user_gets_no_pod_of_another_namespace_moved(client: Client, webhook: SteeringServer) -> None:
    """API servers say in which namespace the request was authorized; nothing else in it counts."""
    await client.create(NAMESPACES, {"metadata": {"name": "mine"}})
    other = review(namespace="mine", object={"metadata": {"namespace": "shop", "name": "web-1-0"}})
    assert not await is_held(webhook, other)
    assert not await migrations(client)


async def test_a_name_of_a_user_can_t_forge_lines_or_fill_the_record(
    client: Client, webhook: SteeringServer, eventually: Any
) -> None:
    name = "eve\nevicted by admin\x1b[31m" + "x" * 100_000
    assert await is_held(webhook, review(userInfo={"username": name}))
    (made,) = await eventually(lambda: migrations(client))
    reason = made["spec"]["reason"]
    assert len(reason) <= 500
    assert reason.isprintable()
