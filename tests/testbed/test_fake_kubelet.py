"""The fake kubelet on a simulated API server, and its small parts by themselves."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from kubesim import ApiServer
from kubesim.apiserver.fault_injection import InjectedFault
from kubesim.behaviour import load_behaviour
from kubesim.virtual_time import run_virtual
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import LEASES, REPLICA_SETS
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from tests.testbed.fake_kubelet import FakeKubelet, NodeShape, node_shapes
from tests.testbed.fake_kubelet.heartbeats import Heartbeats, usual_period_s
from tests.testbed.fake_kubelet.nodes import is_ready, node_object
from tests.testbed.fake_kubelet.queue import WorkQueue
from tests.testbed.fake_kubelet.wakes import Wakes
from tests.testbed.filler import fill, plan
from tests.testbed.filler.filling import make_namespaces

AT_ONCE = {"pods": [{"startup": "0s", "termination": "0s"}]}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    made = Client(InProcessTransport(ApiServer(seed=1).handle))
    yield made
    await made.close()


def pod(name: str, node: str) -> dict[str, Any]:
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "x"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await look():  # noqa: ASYNC110 - only asking tells
            await asyncio.sleep(0.01)


async def _is(fact: bool) -> bool:
    return fact


class TestOnASimulatedServer:
    async def test_its_nodes_are_ready_and_have_a_heartbeat(self, client: Client) -> None:
        async with FakeKubelet(client).running() as kubelet:
            await kubelet.register(node_shapes(3))
            nodes = (await client.list(NODES.as_json)).items
            assert [is_ready(node) for node in nodes] == [True] * 3
            assert len((await client.list(LEASES, namespace="kube-node-lease")).items) == 3

    async def test_it_removes_what_it_added_and_nothing_else(self, client: Client) -> None:
        other = node_object(NodeShape("other"), "another", datetime.now(UTC))
        known = node_object(NodeShape("node-0001"), "fake", datetime.now(UTC))
        for node in (other, known):
            await client.create(NODES.as_json, node)
        async with FakeKubelet(client).running() as kubelet:
            await kubelet.register(node_shapes(2))
            await kubelet.remove_registered()
        left = [node["metadata"]["name"] for node in (await client.list(NODES.as_json)).items]
        assert sorted(left) == ["node-0001", "other"]

    async def test_pods_live_and_die_on_its_nodes_only(self, client: Client) -> None:
        await client.create(NODES.as_json, node_object(NodeShape("other"), "another", datetime.now(UTC)))
        async with FakeKubelet(client, load_behaviour(AT_ONCE)).running() as kubelet:
            await kubelet.register(node_shapes(1))
            await client.create(PODS.as_json, pod("ours", "node-0001"))
            await client.create(PODS.as_json, pod("theirs", "other"))

            async def runs() -> bool:
                return (await client.get(PODS.as_json, "default/ours"))["status"]["phase"] == "Running"

            async def gone() -> bool:
                return "default/ours" not in kubelet.pods

            await until(runs)
            theirs = await client.get(PODS.as_json, "default/theirs")
            assert "startTime" not in theirs["status"]
            await client.delete(PODS, "default/ours")
            await until(gone)

    async def test_a_dead_node_does_nothing_until_it_is_back(self, client: Client) -> None:
        async with FakeKubelet(client, load_behaviour(AT_ONCE)).running() as kubelet:
            await kubelet.register(node_shapes(2))
            kubelet.kill("node-0001")
            await client.create(PODS.as_json, pod("on-the-dead", "node-0001"))
            await client.create(PODS.as_json, pod("on-the-living", "node-0002"))

            def phases() -> dict[str, str]:
                return {held.key: held.whole()["status"]["phase"] for held in kubelet.pods}

            async def the_existing_runs() -> bool:
                return phases().get("default/on-the-living") == "Running"

            async def all_run() -> bool:
                return set(phases().values()) == {"Running"}

            await until(the_existing_runs)
            assert phases()["default/on-the-dead"] == "Pending"
            kubelet.revive("node-0001")
            await until(all_run)

    async def test_an_outage_ends_when_the_rules_say_so(self, client: Client) -> None:
        rules = AT_ONCE | {"nodes": [{"dead": {"until": "1s"}}]}
        async with FakeKubelet(client, load_behaviour(rules)).running() as kubelet:
            began = asyncio.get_running_loop().time()
            await kubelet.register(node_shapes(1))
            await client.create(PODS.as_json, pod("web", "node-0001"))

            async def runs() -> bool:
                return (await client.get(PODS.as_json, "default/web"))["status"]["phase"] == "Running"

            await until(runs)
            assert asyncio.get_running_loop().time() - began > 0.8

    async def test_a_write_that_fails_is_made_good(self) -> None:
        server = ApiServer(seed=1)
        client = Client(InProcessTransport(server.handle))
        async with FakeKubelet(client, load_behaviour(AT_ONCE)).running() as kubelet:
            await kubelet.register(node_shapes(1))
            server.inject(InjectedFault(kind="unavailable", verbs=("patch",), resource="pods/status"))
            await client.create(PODS.as_json, pod("web", "node-0001"))

            async def runs() -> bool:
                return (await client.get(PODS.as_json, "default/web"))["status"]["phase"] == "Running"

            await until(runs)
            assert kubelet.done["update"] == 2
        await client.close()

    @pytest.mark.parametrize(
        "refusal",
        [
            pytest.param(
                InjectedFault(kind="not-ready", verbs=("delete",)), id="by a server that just started"
            ),
            pytest.param(
                InjectedFault(kind="conflict", verbs=("delete",)), id="with a conflict that ends nothing"
            ),
        ],
    )
    async def test_a_terminated_pod_whose_removal_was_refused_is_removed_later(
        self, refusal: InjectedFault
    ) -> None:
        server = ApiServer(seed=1)
        client = Client(InProcessTransport(server.handle))
        async with FakeKubelet(client, load_behaviour(AT_ONCE)).running() as kubelet:
            await kubelet.register(node_shapes(1))
            await client.create(PODS.as_json, pod("web", "node-0001"))

            async def runs() -> bool:
                return (await client.get(PODS.as_json, "default/web"))["status"]["phase"] == "Running"

            async def gone() -> bool:
                return "default/web" not in kubelet.pods

            await until(runs)
            await client.delete(PODS, "default/web")
            server.inject(refusal)
            await until(gone)
            assert kubelet.done["delete"] == 2
        await client.close()

    async def test_a_node_that_was_dead_for_a_moment_only_has_missed_nothing(self, client: Client) -> None:
        async with FakeKubelet(client, load_behaviour(AT_ONCE), workers=1).running() as kubelet:
            await kubelet.register(node_shapes(1))
            await until(lambda: _is(kubelet.idle))
            kubelet._killed.add("node-0001")  # as `kill`, but its worker has not come to it yet
            await client.create(PODS.as_json, pod("web", "node-0001"))
            await until(lambda: _is(kubelet.idle and "default/web" in kubelet.pods))
            kubelet.revive("node-0001")

            async def runs() -> bool:
                return (await client.get(PODS.as_json, "default/web"))["status"]["phase"] == "Running"

            await until(runs)

    async def test_other_rules_count_from_then_on(self, client: Client) -> None:
        never_starts = load_behaviour({"pods": [{"startup": "0s", "blocked": "ContainerCreating"}]})
        async with FakeKubelet(client, never_starts).running() as kubelet:
            await kubelet.register(node_shapes(1))
            await client.create(PODS.as_json, pod("web", "node-0001"))

            async def seen() -> bool:
                return "startTime" in (await client.get(PODS.as_json, "default/web"))["status"]

            async def runs() -> bool:
                return (await client.get(PODS.as_json, "default/web"))["status"]["phase"] == "Running"

            await until(seen)
            assert not await runs()
            kubelet.behave(load_behaviour(AT_ONCE))
            await until(runs)


class TestQueue:
    async def test_a_key_is_there_once(self) -> None:
        queue = WorkQueue()
        for key in ("a", "b", "a"):
            queue.put(key)
        assert [await queue.take(), await queue.take()] == ["a", "b"]
        assert len(queue) == 2, "both are still in hand"

    async def test_a_key_in_hand_comes_back_when_it_is_done(self) -> None:
        queue = WorkQueue()
        queue.put("a")
        assert await queue.take() == "a"
        queue.put("a")
        assert len(queue) == 1, "no other worker gets it meanwhile"
        queue.done("a")
        assert await queue.take() == "a"
        queue.done("a")
        assert len(queue) == 0


class TestWakes:
    async def test_the_last_time_given_for_a_key_counts(self) -> None:
        fired: list[str] = []
        wakes = Wakes(fired.append)
        now = datetime.now(UTC)
        wakes.at("later", now + timedelta(hours=1))
        wakes.at("moved", now + timedelta(hours=1))
        wakes.at("dropped", now)
        wakes.at("moved", now)
        wakes.at("dropped", None)
        task = asyncio.create_task(wakes.run())

        async def has_fired() -> bool:
            return bool(fired)

        await until(has_fired)
        wakes.at("new", datetime.now(UTC))

        async def has_fired_twice() -> bool:
            return len(fired) == 2

        await until(has_fired_twice)
        assert (fired, len(wakes)) == (["moved", "new"], 1)
        task.cancel()


def test_heartbeats_stay_below_a_hundred_a_second() -> None:
    assert [usual_period_s(nodes) for nodes in (1, 1000, 5000)] == [10, 10, 50]


def test_heartbeats_that_were_held_up_follow_at_once() -> None:
    """As by a test that blocks the event loop; else nodes would count as lost, one after the other."""
    beats: list[tuple[float, str]] = []

    class SlowAtFirst:
        async def patch(self, _resource: Any, key: str, _patch: Any) -> None:
            beats.append((asyncio.get_running_loop().time(), key.rpartition("/")[2]))
            if len(beats) == 1:
                await asyncio.sleep(10)

    async def play() -> None:
        nodes = [{"metadata": {"name": name}} for name in "abc"]
        beating = asyncio.create_task(Heartbeats(cast("Client", SlowAtFirst()), lambda: nodes, 3).run())
        await asyncio.sleep(10.5)
        beating.cancel()

    run_virtual(play())
    (began, _), *late = beats
    assert {(round(at - began), name) for at, name in late} == {(10, "a"), (10, "b"), (10, "c")}


class TestFilling:
    async def test_it_can_be_taken_up_again_and_gives_each_pod_its_owner(self, client: Client) -> None:
        await make_namespaces(client)
        workloads = list(plan(["n1", "n2"], 30))
        await fill(client, workloads[:3], owners=True)
        await fill(client, workloads, owners=True)
        pods = (await client.list(PODS.as_json)).items
        owners = {owner["metadata"]["uid"] for owner in (await client.list(REPLICA_SETS)).items}
        assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} == owners
        assert [pod["status"]["phase"] for pod in pods] == ["Running"] * 30


class TestPlanOfAFill:
    def test_it_has_exactly_the_pods_asked_for_and_repeats(self) -> None:
        nodes = [f"n{number}" for number in range(50)]
        first, second = list(plan(nodes, 1500)), list(plan(nodes, 1500))
        assert first == second != list(plan(nodes, 1500, seed=1))
        assert sum(len(workload.nodes) for workload in first) == 1500
        assert len({(workload.namespace, workload.name) for workload in first}) == len(first)

    def test_some_nodes_are_hotter_than_others_but_none_is_full(self) -> None:
        nodes = [f"n{number}" for number in range(100)]
        places = Counter(node for workload in plan(nodes, 3000) for node in workload.nodes)
        assert len(places) == 100
        assert max(places.values()) < 80
        assert max(places.values()) > 1.5 * min(places.values())
