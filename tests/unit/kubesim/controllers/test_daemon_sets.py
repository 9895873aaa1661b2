"""DaemonSets run one pod on every eligible node."""

import asyncio

from tests.unit.kubesim.controllers.conftest import template, workload


async def make(sim, count=3, **spec):
    await sim.create("daemonsets", workload("agent", None, **spec))
    return await sim.until_ready(count)


def nodes(pods):
    return sorted(pod["spec"]["nodeName"] for pod in pods)


class TestPlaces:
    async def test_every_node_gets_one_pod_by_its_name(self, sim):
        pods = await make(sim)
        assert nodes(pods) == ["n1", "n2", "n3"]
        for pod in pods:
            required = pod["spec"]["affinity"]["nodeAffinity"][
                "requiredDuringSchedulingIgnoredDuringExecution"
            ]
            by_name = {"key": "metadata.name", "operator": "In", "values": [pod["spec"]["nodeName"]]}
            assert required == {"nodeSelectorTerms": [{"matchFields": [by_name]}]}

    async def test_its_pods_tolerate_what_their_node_goes_through(self, sim):
        (pod, *_) = await make(sim)
        tolerated = {(each["key"], each["effect"]) for each in pod["spec"]["tolerations"]}
        assert tolerated == {
            ("node.kubernetes.io/not-ready", "NoExecute"),
            ("node.kubernetes.io/unreachable", "NoExecute"),
            ("node.kubernetes.io/disk-pressure", "NoSchedule"),
            ("node.kubernetes.io/memory-pressure", "NoSchedule"),
            ("node.kubernetes.io/pid-pressure", "NoSchedule"),
            ("node.kubernetes.io/unschedulable", "NoSchedule"),
        }
        assert all("tolerationSeconds" not in each for each in pod["spec"]["tolerations"])

    async def test_a_new_node_gets_one_and_a_removed_node_loses_it(self, sim):
        await make(sim)
        await sim.add_node("n4")
        await sim.until_ready(4)
        await sim.delete("nodes", "n4")
        await sim.until_ready(3)

    async def test_only_nodes_that_the_template_selects(self, sim):
        await sim.patch("nodes", "n2", {"metadata": {"labels": {"disk": "ssd"}}})
        pods = await make(sim, 1, template=template("agent", nodeSelector={"disk": "ssd"}))
        assert nodes(pods) == ["n2"]
        await sim.patch("nodes", "n2", {"metadata": {"labels": {"disk": None}}})
        await sim.until_ready(0)

    async def test_taints_that_are_not_tolerated_keep_new_pods_away_and_some_drive_pods_out(self, sim):
        await make(sim)
        dedicated = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
        await sim.patch("nodes", "n1", {"spec": {"taints": [dedicated]}})
        await asyncio.sleep(5)
        assert len(await sim.pods()) == 3, "what is there stays"
        status = (await sim.get("daemonsets", "agent"))["status"]
        assert (status["desiredNumberScheduled"], status["numberMisscheduled"]) == (2, 1)
        await sim.patch("nodes", "n1", {"spec": {"taints": [{**dedicated, "effect": "NoExecute"}]}})
        await sim.until_ready(2)

    async def test_cordoned_nodes_have_one_too(self, sim):
        await sim.patch("nodes", "n1", {"spec": {"unschedulable": True}})
        assert nodes(await make(sim)) == ["n1", "n2", "n3"]


class TestUpdates:
    async def test_replace_one_pod_at_a_time(self, sim):
        await make(sim)
        least = []

        def count(kind, change):
            if kind.name == "Pod":
                pods = sim.server.store.collection(kind).ordered("default")
                ready = [pod for pod in pods if not pod.deleting and pod.fields["status.phase"] == "Running"]
                least.append(len(ready))

        sim.server.store.observers.append(count)
        await sim.patch("daemonsets", "agent", {"spec": {"template": template("agent", image="i:2")}})

        async def is_updated():
            found = (await sim.get("daemonsets", "agent"))["status"]
            counts = [found.get(name, 0) for name in ("updatedNumberScheduled", "numberAvailable")]
            return found if found["observedGeneration"] == 2 and counts == [3, 3] else None

        status = await sim.until(is_updated)
        assert min(least) == 2
        assert "numberUnavailable" not in status

    async def test_on_delete_wait_for_someone_to_delete_the_pod(self, sim):
        await make(sim, updateStrategy={"type": "OnDelete"})
        await sim.patch("daemonsets", "agent", {"spec": {"template": template("agent", image="i:2")}})
        await asyncio.sleep(20)
        assert {pod["spec"]["containers"][0]["image"] for pod in await sim.pods()} == {"i:1"}


async def test_a_pod_that_failed_is_replaced_later_each_time(sim):
    await make(sim)
    for pause_s in (0, 2):
        pod = next(pod for pod in await sim.pods() if pod["spec"]["nodeName"] == "n1")
        await sim.status("pods", pod["metadata"]["name"], {"phase": "Failed"})
        await asyncio.sleep(pause_s + 0.5)
        (successor,) = [pod for pod in await sim.pods() if pod["spec"].get("nodeName") == "n1"]
        assert successor["metadata"]["uid"] != pod["metadata"]["uid"]
        await sim.until_ready(3)


async def test_the_status_counts(sim):
    await make(sim)
    await asyncio.sleep(0.1)
    assert (await sim.get("daemonsets", "agent"))["status"] == {
        "currentNumberScheduled": 3,
        "desiredNumberScheduled": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "numberAvailable": 3,
        "updatedNumberScheduled": 3,
        "observedGeneration": 1,
    }
