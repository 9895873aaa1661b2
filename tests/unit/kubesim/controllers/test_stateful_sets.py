"""StatefulSets: numbered pods, in order, with claims that outlive them."""

import asyncio

import pytest

from tests.unit.kubesim.controllers.conftest import is_ready, names, template, workload

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


async def make(sim, replicas=3, **spec):
    await sim.create("statefulsets", workload("db", replicas, serviceName="db", **spec))
    await sim.until_ready(replicas)


async def until_updated(sim, name="db"):
    async def is_updated():
        found = await sim.get("statefulsets", name)
        status, wanted = found["status"], found["spec"]["replicas"]
        done = status.get("updatedReplicas", 0) == status.get("readyReplicas", 0) == wanted
        return found if done and status["observedGeneration"] == found["metadata"]["generation"] else None

    return await sim.until(is_updated, 120)


def history(sim):
    """What happens to pods from now on, in order: `+name` and `-name`."""
    seen = []

    def note(kind, change):
        if kind.name == "Pod" and change.before is None:
            seen.append(f"+{change.after.name}")
        if kind.name == "Pod" and change.after and change.after.deleting and not change.before.deleting:
            seen.append(f"-{change.after.name}")

    sim.server.store.observers.append(note)
    return seen


class TestIdentity:
    async def test_pods_are_numbered_and_know_their_name(self, sim):
        await make(sim)
        pods = await sim.pods()
        assert names(pods) == ["db-0", "db-1", "db-2"]
        revision = (await sim.get("statefulsets", "db"))["status"]["updateRevision"]
        for number, pod in enumerate(pods):
            labels, spec = pod["metadata"]["labels"], pod["spec"]
            assert labels["statefulset.kubernetes.io/pod-name"] == spec["hostname"] == f"db-{number}"
            assert labels["apps.kubernetes.io/pod-index"] == str(number)
            assert labels["controller-revision-hash"] == revision
            assert spec["subdomain"] == "db"

    async def test_numbers_may_start_elsewhere(self, sim):
        await make(sim, 2, ordinals={"start": 5})
        assert names(await sim.pods()) == ["db-5", "db-6"]

    async def test_a_deleted_pod_comes_back_under_its_name_but_only_when_it_is_gone(self, sim):
        await make(sim, 2)
        old = await sim.get("pods", "db-1")
        sim.kubelets.kill(old["spec"]["nodeName"])
        await sim.delete("pods", "db-1")
        await asyncio.sleep(10)
        assert names(await sim.pods()) == ["db-0"]
        sim.kubelets.revive(old["spec"]["nodeName"])
        await sim.until_ready(2)
        assert (await sim.get("pods", "db-1"))["metadata"]["uid"] != old["metadata"]["uid"]

    async def test_the_status_counts_and_names_the_revision(self, sim):
        await make(sim)
        await asyncio.sleep(0.1)
        status = (await sim.get("statefulsets", "db"))["status"]
        (revision,) = names(await sim.all("controllerrevisions"))
        assert status == {
            "observedGeneration": 1,
            "replicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            "currentReplicas": 3,
            "updatedReplicas": 3,
            "currentRevision": revision,
            "updateRevision": revision,
            "collisionCount": 0,
        }


class TestOrder:
    async def test_each_pod_waits_until_the_one_before_is_ready(self, sim):
        created = {}

        def note(kind, change):
            if kind.name == "Pod" and change.before is None:
                pods = sim.server.store.collection(kind).ordered("default")
                created[change.after.name] = [is_ready(pod.object) for pod in pods if pod is not change.after]

        sim.server.store.observers.append(note)
        await make(sim)
        assert created == {"db-0": [], "db-1": [True], "db-2": [True, True]}

    async def test_scaling_down_takes_the_highest_number_first_one_at_a_time(self, sim):
        await make(sim)
        seen = history(sim)
        await sim.patch("statefulsets", "db/scale", {"spec": {"replicas": 1}})
        await sim.until_ready(1)
        assert seen == ["-db-2", "-db-1"]

    async def test_in_parallel_no_pod_waits(self, sim):
        sim.scheduler.stopped = True
        await sim.create("statefulsets", workload("db", 3, serviceName="db", podManagementPolicy="Parallel"))
        await asyncio.sleep(1)
        assert names(await sim.pods()) == ["db-0", "db-1", "db-2"]


class TestUpdates:
    async def roll(self, sim, **spec):
        change = {"spec": {"template": template("db", image="i:2"), **spec}}
        await sim.patch("statefulsets", "db", change)

    def images(self, pods):
        return [pod["spec"]["containers"][0]["image"] for pod in pods]

    async def test_go_from_the_highest_number_down_one_at_a_time(self, sim):
        await make(sim)
        seen = history(sim)
        await self.roll(sim)
        done = await until_updated(sim)
        assert seen == ["-db-2", "+db-2", "-db-1", "+db-1", "-db-0", "+db-0"]
        assert done["status"]["currentRevision"] == done["status"]["updateRevision"]

    async def test_stop_at_the_partition(self, sim):
        await make(sim)
        await self.roll(sim, updateStrategy={"rollingUpdate": {"partition": 2}})
        await asyncio.sleep(20)
        assert self.images(await sim.pods()) == ["i:1", "i:1", "i:2"]
        await sim.delete("pods", "db-0")
        await sim.until_ready(3)
        assert self.images(await sim.pods()) == ["i:1", "i:1", "i:2"], (
            "below it the old template is used again"
        )
        status = (await sim.get("statefulsets", "db"))["status"]
        assert (status["currentReplicas"], status["updatedReplicas"]) == (2, 1)

    async def test_on_delete_wait_for_someone_to_delete_the_pod(self, sim):
        await make(sim, updateStrategy={"type": "OnDelete"})
        await self.roll(sim)
        await asyncio.sleep(10)
        assert self.images(await sim.pods()) == ["i:1", "i:1", "i:1"]
        await sim.delete("pods", "db-1")
        await sim.until_ready(3)
        assert self.images(await sim.pods()) == ["i:1", "i:2", "i:1"]

    async def test_back_and_forth_use_the_same_two_revisions(self, sim):
        await make(sim, 1)
        await self.roll(sim)
        await until_updated(sim)
        await sim.patch("statefulsets", "db", {"spec": {"template": template("db", image="i:1")}})
        await until_updated(sim)
        revisions = sorted(each["revision"] for each in await sim.all("controllerrevisions"))
        assert revisions == [2, 3]


class TestClaims:
    @pytest.fixture(params=["Immediate", "WaitForFirstConsumer"])
    async def storage_class(self, sim, request):
        await sim.create(
            "storageclasses",
            {"metadata": {"name": "fast"}, "provisioner": "csi.example", "volumeBindingMode": request.param},
        )

    async def test_are_made_bound_and_used_again(self, sim, storage_class):
        claim = {**CLAIM, "spec": {**CLAIM["spec"], "storageClassName": "fast"}}
        await make(sim, 2, volumeClaimTemplates=[claim])
        await asyncio.sleep(1)
        before = await sim.all("persistentvolumeclaims")
        assert names(before) == ["data-db-0", "data-db-1"]
        assert [each["status"]["phase"] for each in before] == ["Bound", "Bound"]
        await sim.patch("statefulsets", "db/scale", {"spec": {"replicas": 0}})
        await sim.until_ready(0)
        await sim.patch("statefulsets", "db/scale", {"spec": {"replicas": 2}})
        pods = await sim.until_ready(2)
        after = await sim.all("persistentvolumeclaims")
        assert [each["metadata"]["uid"] for each in after] == [each["metadata"]["uid"] for each in before]
        volumes = [volume for volume in pods[1]["spec"]["volumes"] if volume["name"] == "data"]
        assert volumes[0]["persistentVolumeClaim"]["claimName"] == "data-db-1"


async def test_looking_again_writes_nothing(sim):
    await make(sim)
    await asyncio.sleep(1)
    version = sim.server.store.version
    sim.controllers.resync()
    await asyncio.sleep(1)
    assert sim.server.store.version == version
