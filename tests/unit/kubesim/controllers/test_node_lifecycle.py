"""Lost and unhealthy nodes: their taints, and what happens to their pods."""

import asyncio

import pytest

from tests.unit.kubesim.controllers.conftest import STRATEGIC, is_ready, template, workload

NO_EXECUTE = {"operator": "Exists", "effect": "NoExecute"}


async def taints(sim, name="n1"):
    node = await sim.get("nodes", name)
    return {(each["key"].rpartition("/")[2], each["effect"]) for each in node["spec"].get("taints", ())}


async def say(sim, name, **conditions):
    reported = [{"type": type_, "status": status} for type_, status in conditions.items()]
    await sim.patch("nodes", f"{name}/status", {"status": {"conditions": reported}}, STRATEGIC)
    await asyncio.sleep(0.05)


async def renew(sim, name):
    """A heartbeat."""
    lease = {"metadata": {"name": name}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40}}
    known = [each["metadata"]["name"] for each in await sim.all("leases")]
    if name in known:
        await sim.patch("leases", name, {"metadata": {"annotations": {"n": str(sim.server.store.version)}}})
    else:
        await sim.create("leases", lease)


class TestTaints:
    async def test_a_new_node_is_tainted_until_it_is_ready(self, sim):
        await sim.add_node("n4", ready=False)
        await asyncio.sleep(0.05)
        assert await taints(sim, "n4") == {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}
        await say(sim, "n4", Ready="True")
        assert await taints(sim, "n4") == set()

    @pytest.mark.parametrize(
        ("condition", "value", "expected"),
        [
            ("Ready", "False", {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}),
            ("Ready", "Unknown", {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}),
            ("MemoryPressure", "True", {("memory-pressure", "NoSchedule")}),
            ("DiskPressure", "True", {("disk-pressure", "NoSchedule")}),
            ("PIDPressure", "True", {("pid-pressure", "NoSchedule")}),
        ],
    )
    async def test_by_condition(self, sim, condition, value, expected):
        await say(sim, "n1", **{condition: value})
        assert await taints(sim) == expected

    async def test_a_cordoned_node(self, sim):
        await sim.patch("nodes", "n1", {"spec": {"unschedulable": True}})
        await asyncio.sleep(0.05)
        assert await taints(sim) == {("unschedulable", "NoSchedule")}
        await sim.patch("nodes", "n1", {"spec": {"unschedulable": None}})
        await asyncio.sleep(0.05)
        assert await taints(sim) == set()

    async def test_those_of_others_stay(self, sim):
        own = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
        await sim.patch("nodes", "n1", {"spec": {"taints": [own]}})
        await say(sim, "n1", Ready="False")
        await say(sim, "n1", Ready="True")
        assert (await sim.get("nodes", "n1"))["spec"]["taints"] == [own]


class TestSilence:
    async def test_a_node_that_stops_renewing_its_lease_is_lost_and_its_pods_are_not_ready(self, sim):
        await sim.create("replicasets", workload("web", 3))
        await sim.until_ready(3)
        for _ in range(5):
            await renew(sim, "n1")
            await asyncio.sleep(30)
        assert await taints(sim) == set()
        sim.kubelets.kill("n1")
        await asyncio.sleep(30)
        node = await sim.get("nodes", "n1")
        ready = next(each for each in node["status"]["conditions"] if each["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
        assert ready["message"] == "Kubelet stopped posting node status."
        assert ("unreachable", "NoExecute") in await taints(sim)
        (pod,) = [each for each in await sim.pods() if each["spec"]["nodeName"] == "n1"]
        assert not is_ready(pod)

    async def test_a_node_without_a_lease_is_believed(self, sim):
        await asyncio.sleep(3600)
        assert await taints(sim) == set()


class TestPodsOnLostNodes:
    async def test_go_after_five_minutes_and_come_back_elsewhere(self, sim):
        await sim.create("replicasets", workload("web", 3))
        await sim.until_ready(3)
        sim.kubelets.kill("n1")
        await say(sim, "n1", Ready="Unknown")
        await asyncio.sleep(290)
        assert "n1" in {pod["spec"]["nodeName"] for pod in await sim.pods()}
        await asyncio.sleep(20)
        assert "n1" not in {pod["spec"]["nodeName"] for pod in await sim.until_ready(3)}
        (lost,) = [pod for pod in await sim.all("pods") if pod["spec"]["nodeName"] == "n1"]
        target = next(each for each in lost["status"]["conditions"] if each["type"] == "DisruptionTarget")
        assert (target["reason"], target["message"]) == (
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
        )

    async def test_stay_if_the_node_comes_back_in_time(self, sim):
        await sim.create("replicasets", workload("web", 3))
        before = {pod["metadata"]["uid"] for pod in await sim.until_ready(3)}
        for _ in range(2):  # a second time begins to count from zero
            await say(sim, "n1", Ready="Unknown")
            await asyncio.sleep(200)
            await say(sim, "n1", Ready="True")
            await asyncio.sleep(600)
        assert {pod["metadata"]["uid"] for pod in await sim.pods()} == before

    @pytest.mark.parametrize(
        ("tolerations", "leaves"),
        [
            pytest.param([], True, id="without toleration at once"),
            pytest.param([{"key": "k", "operator": "Exists"}], False, id="with toleration never"),
            pytest.param(
                [{"key": "k", **NO_EXECUTE, "tolerationSeconds": 0}], True, id="after no time at all"
            ),
            pytest.param([{"key": "k", **NO_EXECUTE, "tolerationSeconds": 3600}], False, id="later"),
        ],
    )
    async def test_by_toleration(self, sim, tolerations, leaves):
        spec = {**template()["spec"], "nodeName": "n1", "tolerations": tolerations}
        await sim.create("pods", {"metadata": {"name": "p"}, "spec": spec})
        await sim.until_ready(1)
        await sim.patch("nodes", "n1", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})
        await asyncio.sleep(1)
        assert (not await sim.pods()) == leaves

    async def test_are_removed_when_the_node_is_gone_for_good(self, sim):
        await sim.create("replicasets", workload("web", 3))
        await sim.until_ready(3)
        await sim.delete("nodes", "n1")
        await asyncio.sleep(60)
        assert {pod["spec"]["nodeName"] for pod in await sim.all("pods")} == {"n2", "n3"}
