"""Turns of pods of one set, under attack: forged owners, controllers that stand still, random interleavings
of several replicas of the webhook, and turns that fill the ConfigMap."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from kubesim import ApiServer
from rescheduler.api.well_known_names import EVICTION_TURNS_CONFIG_MAP, SAFE_EVICTIONS_DEADLINE_ANNOTATION
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.object_meta import OwnerReference
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    STATEFUL_SETS,
    Object,
    merge_patch,
)
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from rescheduler.steering.steering_server import SteeringServer
from rescheduler.steering.webhook import eviction_caches
from rescheduler.steering.webhook.eviction_caches import EvictionTurns
from rescheduler.steering.webhook.eviction_guard import EvictionGuard
from tests.unit.steering.test_eviction_guard import READY, lead, put_status, run_web
from tests.unit.steering.test_hostile_evictions import Clock, guard_of, is_held, knows_set, review, run_set

TURNS = f"ours/{EVICTION_TURNS_CONFIG_MAP}"


@pytest.fixture
async def webhook(client: Client, guarded: Any, eventually: Any) -> AsyncIterator[SteeringServer]:
    await lead(client)
    await run_set(client, pods=3, drained=0)
    async with guarded() as made:
        await eventually(lambda: knows_set(made, 3))
        yield made


@pytest.fixture
def clock(webhook: SteeringServer) -> Clock:
    made, guard = Clock(), guard_of(webhook)
    guard._now = made.now
    guard._turns._monotonic_s = guard._monotonic_s = lambda: made.now().timestamp()
    return made


# -- pods that name the set of another namespace as their owner


async def _forge(client: Client, name: str, **metadata: Any) -> None:
    """A ready pod in the namespace of another tenant, whose owner has the uid of the set of the victim."""
    victim = await client.get(PODS.as_json, "shop/db-0")
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": "mine"}})
    about = {"namespace": "mine", "name": name, "ownerReferences": victim["metadata"]["ownerReferences"]}
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "node-0"}
    await client.create(PODS.as_json, {"metadata": about | metadata, "spec": spec})
    await put_status(client, PODS.as_json, f"mine/{name}", {"phase": "Running", "conditions": READY})


async def test_a_forged_sibling_that_never_ends_holds_no_set_up(
    client: Client, webhook: SteeringServer, eventually: Any
) -> None:
    await _forge(client, "forged", finalizers=["example.com/never"])
    await client.delete(PODS, "mine/forged")
    await eventually(lambda: _sees(webhook, "mine/forged", terminating=True))
    assert not await is_held(webhook, review("db-0"))


async def test_the_eviction_of_a_forged_sibling_holds_no_set_up(
    client: Client, webhook: SteeringServer, eventually: Any
) -> None:
    await _forge(client, "forged")
    await eventually(lambda: _sees(webhook, "mine/forged"))
    assert not await is_held(webhook, review("forged", namespace="mine"))
    assert not await is_held(webhook, review("db-0"))


async def _sees(webhook: SteeringServer, key: str, *, terminating: bool = False) -> bool:
    pod = guard_of(webhook)._caches.pod(key)
    return pod is not None and pod.is_ready and pod.is_terminating == terminating


# -- a controller that stands still


async def test_a_set_whose_controller_stands_still_loses_one_pod(
    client: Client, webhook: SteeringServer, clock: Clock, eventually: Any
) -> None:
    """The controller manager is restarted: the status still counts a pod that is gone, and nothing replaces
    it. Without this, all pods of the set would go one after the other."""
    assert not await is_held(webhook, review("db-0"))
    await client.delete(PODS, "shop/db-0", grace_s=0)
    await eventually(lambda: _is_gone(webhook, "shop/db-0"))
    clock.passed += timedelta(minutes=1)
    assert await is_held(webhook, review("db-1"))


async def _is_gone(webhook: SteeringServer, key: str) -> bool:
    return guard_of(webhook)._caches.pod(key) is None


class RandomSet:
    """The set of three pods, whose kubelet and controllers do their work at random moments or not at all."""

    def __init__(self, client: Client, owner: list[Object], rng: random.Random) -> None:
        self._client, self._owner, self._rng = client, owner, rng
        self._controller_runs = True

    async def pods(self) -> dict[str, Object]:
        found = (await self._client.list(PODS.as_json, namespace="shop")).items
        return {pod["metadata"]["name"]: pod for pod in found if pod["metadata"]["name"] != "marker"}

    async def ready(self) -> set[str]:
        return {name for name, pod in (await self.pods()).items() if _serves(pod)}

    async def evict(self, name: str) -> None:
        held_up = merge_patch({"metadata": {"finalizers": ["example.com/kubelet"]}})
        await self._client.patch(PODS.as_json, f"shop/{name}", held_up)
        await self._client.delete(PODS, f"shop/{name}")

    async def step(self) -> None:
        works = [self._end_pods, self._create_pods, self._start_pods, self._write_status] * 3
        await self._rng.choice([*works, self._stop_or_start])()

    async def _end_pods(self) -> None:
        for name, pod in (await self.pods()).items():
            if "deletionTimestamp" in pod["metadata"]:
                change = merge_patch({"metadata": {"finalizers": None}})
                await self._client.patch(PODS.as_json, f"shop/{name}", change)
                with contextlib.suppress(errors.NotFound):
                    await self._client.delete(PODS, f"shop/{name}", grace_s=0)

    async def _create_pods(self) -> None:
        missing = {f"db-{number}" for number in range(3)} - (await self.pods()).keys()
        for name in sorted(missing) if self._controller_runs else ():
            about = {
                "namespace": "shop",
                "name": name,
                "labels": {"app": "db"},
                "ownerReferences": self._owner,
            }
            spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": f"node-{name[-1]}"}
            await self._client.create(PODS.as_json, {"metadata": about, "spec": spec})

    async def _start_pods(self) -> None:
        for name, pod in (await self.pods()).items():
            if "deletionTimestamp" not in pod["metadata"] and not _serves(pod):
                status = {"phase": "Running", "conditions": READY}
                await put_status(self._client, PODS.as_json, f"shop/{name}", status)

    async def _write_status(self) -> None:
        if self._controller_runs:
            status = {"replicas": 3, "readyReplicas": len(await self.ready())}
            await put_status(self._client, STATEFUL_SETS, "shop/db", status)

    async def _stop_or_start(self) -> None:
        self._controller_runs = not self._controller_runs


def _serves(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return "deletionTimestamp" not in pod["metadata"] and any(each["status"] == "True" for each in conditions)


@pytest.mark.parametrize("seed", range(2))
async def test_a_set_never_misses_two_pods(
    seed: int, client: Client, webhook: SteeringServer, guarded: Any, clock: Clock, eventually: Any
) -> None:
    """However its controllers lag, and whichever replicas of the webhook are asked at the same moment."""
    rng, gone = random.Random(seed), 0
    owner = (await client.get(PODS.as_json, "shop/db-0"))["metadata"]["ownerReferences"]
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await client.create(PODS.as_json, {"metadata": {"namespace": "shop", "name": "marker"}, "spec": spec})
    db = RandomSet(client, owner, rng)
    async with guarded() as other:
        guards = [guard_of(webhook), guard_of(other)]
        for each in guards:
            each._now = clock.now
            each._turns._monotonic_s = each._monotonic_s = lambda: clock.now().timestamp()
        await eventually(lambda: knows_set(other, 3))
        for _ in range(200):
            ready = await db.ready()
            asked = [
                (rng.choice([webhook, other]), f"db-{rng.randrange(3)}") for _ in range(rng.randrange(1, 4))
            ]
            held = await asyncio.gather(*(is_held(each, review(name)) for each, name in asked))
            let_go = ready & {name for (_, name), is_up in zip(asked, held, strict=True) if not is_up}
            assert not let_go or (len(let_go), len(ready)) == (1, 3)
            for each in let_go:
                await db.evict(each)
                gone += 1
            for _ in range(rng.randrange(4)):
                await db.step()
            if rng.random() < 0.3:
                await _until_current(client, guards)
                clock.passed += timedelta(seconds=rng.choice([2, 11, 30]))
                for each in guards:
                    each._held.clear()  # the deadline is not the point here
    assert gone > 2


async def _until_current(client: Client, guards: list[EvictionGuard]) -> None:
    change = merge_patch({"metadata": {"annotations": {"changed": str(random.random())}}})
    version = int((await client.patch(PODS.as_json, "shop/marker", change))["metadata"]["resourceVersion"])

    def is_current(guard: EvictionGuard) -> bool:
        known = guard._caches.pod("shop/marker")
        return known is not None and int(known.resource_version) >= version

    async with asyncio.timeout(30):
        while not all(map(is_current, guards)):  # noqa: ASYNC110 - caches have no event for it
            await asyncio.sleep(0.002)


# -- Events


async def test_a_pod_without_a_deadline_fills_no_node_with_events(
    client: Client, webhook: SteeringServer, clock: Clock, eventually: Any
) -> None:
    """A tenant has such a pod evicted all the time, while its budget refuses that: the Events about the
    node would be used up for the pods of others."""
    await run_web(client)
    deadline = {SAFE_EVICTIONS_DEADLINE_ANNOTATION: "0s"}
    await client.patch(DEPLOYMENTS, "shop/web", merge_patch({"metadata": {"annotations": deadline}}))
    caches = guard_of(webhook)._caches

    async def is_known() -> bool:
        top = caches._workloads["Deployment"].get("shop/web")
        pod = caches.pod("shop/web-1-0")
        is_set = top is not None and SAFE_EVICTIONS_DEADLINE_ANNOTATION in top.record.annotations
        return is_set and pod is not None and pod.is_ready and caches._nodes.get("n1") is not None

    await eventually(is_known)

    async def written() -> set[str]:
        found = (await client.list(EVENTS)).items
        return {each["message"] for each in found if each["involvedObject"]["kind"] == "Node"}

    for _ in range(3):
        assert not await is_held(webhook, review("web-1-0"))
        clock.passed += timedelta(seconds=2)
    await eventually(written)
    await asyncio.sleep(0.2)
    assert len(await written()) == 1


# -- turns


def pod_of_set(number: int, pod: int, namespace: str = "shop", length: int = 0) -> PodRecord:
    owner = OwnerReference("StatefulSet", f"db-{number}", f"set-{number:032}", "apps/v1", controller=True)
    name = f"{owner.name}-{pod}".ljust(length, "x")
    return PodRecord(f"{namespace}/{name}", namespace, f"{number:030}-{pod:05}", owners=(owner,))


class Faults:
    """A network that loses requests and answers, and other clients that write the ConfigMap."""

    def __init__(self, server: ApiServer, rng: random.Random) -> None:
        self._server, self._rng = server, rng

    async def handle(self, method: str, target: str, headers: Any, body: bytes) -> Any:
        await asyncio.sleep(self._rng.random() * 0.003)
        fate = self._rng.random() if method == "PUT" else 1.0
        if fate < 0.1:
            raise ConnectionError
        answer = await self._server.handle(method, target, headers, body)
        if fate < 0.2:
            raise ConnectionError
        await asyncio.sleep(self._rng.random() * 0.003)
        return answer


@pytest.mark.parametrize("seed", range(8))
async def test_no_interleaving_gives_two_pods_of_a_set_a_turn(
    seed: int, server: ApiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three replicas, two sets of three pods, lost requests and answers, and a client that writes garbage."""
    monkeypatch.setattr(eviction_caches, "_WRITE_PAUSE_S", 0.001)
    rng, now_s, given = random.Random(seed), [1_000.0], 0
    await client.create(CONFIG_MAPS, {"metadata": {"namespace": "ours", "name": EVICTION_TURNS_CONFIG_MAP}})
    last: dict[str, tuple[str, float]] = {}
    async with contextlib.AsyncExitStack() as stack:
        replicas = []
        for _ in range(3):
            own = Client(InProcessTransport(Faults(server, rng).handle))
            stack.push_async_callback(own.close)
            replicas.append(EvictionTurns(own, "ours", lambda: now_s[0]))
            await stack.enter_async_context(replicas[-1].running())
        for _ in range(60):
            asked = [pod_of_set(rng.randrange(2), rng.randrange(3)) for _ in range(rng.randrange(5))]
            if rng.random() < 0.3:
                garbage = {
                    "data": {rng.choice(["x", "set-", "a" * 200]): rng.choice(["", " ", "/", "\n" * 99])}
                }
                await client.patch(CONFIG_MAPS, TURNS, merge_patch(garbage))
            answers = await asyncio.gather(*(rng.choice(replicas).take(pod) for pod in asked))
            for pod in (pod for pod, may_go in zip(asked, answers, strict=True) if may_go):
                uid, at_s = last.get(pod.owners[0].uid, (pod.uid, 0.0))
                assert uid == pod.uid or now_s[0] - at_s >= 10
                last[pod.owners[0].uid] = pod.uid, now_s[0]
                given += 1
            now_s[0] += rng.choice([0, 0, 1, 4])
    assert given > 10


async def test_turns_of_the_longest_names_fit_into_the_config_map(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server stores at most a MiB. If tenants could fill it, all others would go without turns."""
    monkeypatch.setattr(eviction_caches, "_TURN_TIMEOUT_S", 60.0)  # on a busy machine
    about = {"namespace": "ours", "name": EVICTION_TURNS_CONFIG_MAP}
    await client.create(CONFIG_MAPS, {"metadata": about})
    turns = EvictionTurns(client, "ours", asyncio.get_running_loop().time)
    pods = [pod_of_set(number, 0, f"{number % 2}".ljust(63, "n"), 253) for number in range(4_000)]
    answers = await asyncio.gather(*(turns.take(pod) for pod in pods))
    assert all(answers)
    data = (await client.get(CONFIG_MAPS, TURNS))["data"]
    assert len(data) == 4_000
    assert sum(len(key) + len(value) for key, value in data.items()) < 2**20


async def test_a_client_that_asks_all_the_time_causes_few_writes(client: Client) -> None:
    """Its evictions are refused after the webhook has let them pass, such as for a version that is no longer
    current. It would have the ConfigMap written a hundred times per second, and other replicas would find no
    moment to write theirs."""
    about = {"namespace": "ours", "name": EVICTION_TURNS_CONFIG_MAP}
    await client.create(CONFIG_MAPS, {"metadata": about})
    turns, loop = EvictionTurns(client, "ours", asyncio.get_running_loop().time), asyncio.get_running_loop()
    began_s = loop.time()
    for _ in range(5):
        assert await turns.take(pod_of_set(0, 0))
    assert loop.time() - began_s >= 0.2


# -- drains


async def test_service_accounts_of_a_namespace_are_one_client(
    client: Client, webhook: SteeringServer, clock: Clock, eventually: Any
) -> None:
    """A tenant may create thousands of them, and have the webhook forget the drains of others."""
    guard = guard_of(webhook)
    await client.patch(NODES, "node-0", merge_patch({"spec": {"unschedulable": True}}))
    await put_status(client, STATEFUL_SETS, "shop/db", {"replicas": 3, "readyReplicas": 2})
    await eventually(lambda: knows_set(webhook, 2))

    async def is_cordoned() -> bool:
        return guard._caches.is_emptied("node-0")

    await eventually(is_cordoned)
    for user in ("system:serviceaccount:mine:a", "system:serviceaccount:mine:b", "alice", "a:b", "a:c"):
        assert await is_held(webhook, review("db-0", userInfo={"username": user}))
    users = {user for _, user in guard._drains}
    assert users == {"system:serviceaccount:mine", "alice", "a:b", "a:c"}
