"""Deployments roll out a new template, never with too many or too few pods."""

import asyncio

import pytest

from tests.unit.kubesim.controllers.conftest import is_ready, names, template, workload

REVISION = "deployment.kubernetes.io/revision"


def condition(deployment, type_):
    return next((item for item in deployment["status"].get("conditions", ()) if item["type"] == type_), None)


async def make(sim, replicas=3, **spec):
    await sim.create("deployments", workload("web", replicas, **spec))
    return await complete(sim)


async def complete(sim):
    """Wait until `kubectl rollout status` would say that it is done."""

    async def is_done():
        found = await sim.get("deployments", "web")
        status, wanted = found.get("status", {}), found["spec"]["replicas"]
        counts = [status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas")]
        done = condition(found, "Progressing") if status else None
        seen = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
        ended = seen and counts == [wanted] * 3 and done and done["reason"] == "NewReplicaSetAvailable"
        return found if ended else None

    return await sim.until(is_done, 120)


async def roll(sim, image="i:2", **spec):
    await sim.patch("deployments", "web", {"spec": {"template": template(image=image), **spec}})


async def sizes(sim):
    """Return the sizes of the ReplicaSets by revision."""
    found = {
        int(each["metadata"]["annotations"][REVISION]): each["spec"]["replicas"]
        for each in await sim.all("replicasets")
    }
    return dict(sorted(found.items()))


class TestTheFirstReplicaSet:
    async def test_is_named_and_labelled_by_the_hash_of_the_template(self, sim):
        deployment = await make(sim)
        (replica_set,) = await sim.all("replicasets")
        metadata, spec = replica_set["metadata"], replica_set["spec"]
        hash_ = metadata["labels"]["pod-template-hash"]
        assert metadata["name"] == f"web-{hash_}"
        assert spec["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": hash_}
        assert spec["template"]["metadata"]["labels"] == {"app": "web", "pod-template-hash": hash_}
        assert metadata["ownerReferences"][0]["uid"] == deployment["metadata"]["uid"]
        assert {key: metadata["annotations"][f"deployment.kubernetes.io/{key}"] for key in
                ("revision", "desired-replicas", "max-replicas")} == {
            "revision": "1", "desired-replicas": "3", "max-replicas": "4"}  # fmt: skip

    async def test_the_status_says_that_it_is_complete(self, sim):
        deployment = await make(sim)
        assert deployment["metadata"]["annotations"][REVISION] == "1"
        status = dict(deployment["status"])
        conditions = {item["type"]: item for item in status.pop("conditions")}
        assert status == {
            "observedGeneration": 1,
            "replicas": 3,
            "updatedReplicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            "terminatingReplicas": 0,
        }
        (name,) = names(await sim.all("replicasets"))
        assert conditions["Available"]["reason"] == "MinimumReplicasAvailable"
        assert conditions["Progressing"]["message"] == f'ReplicaSet "{name}" has successfully progressed.'

    async def test_annotations_of_the_deployment_are_copied_to_it(self, sim):
        await make(sim)
        await sim.patch("deployments", "web", {"metadata": {"annotations": {"note": "hello"}}})
        await asyncio.sleep(0.1)
        (replica_set,) = await sim.all("replicasets")
        assert replica_set["metadata"]["annotations"]["note"] == "hello"

    async def test_deleting_the_deployment_takes_everything_with_it(self, sim):
        await make(sim)
        await sim.delete("deployments", "web")
        await asyncio.sleep(10)
        assert not await sim.all("replicasets")
        assert not await sim.pods()

    async def test_one_without_an_owner_is_adopted_rather_than_made_again(self, sim):
        await make(sim)
        before = names(await sim.pods())
        await sim.delete("deployments", "web", propagationPolicy="Orphan")
        await asyncio.sleep(5)
        await make(sim)
        assert names(await sim.pods()) == before
        assert len(await sim.all("replicasets")) == 1


class TestARollout:
    @pytest.mark.parametrize(
        ("surge", "unavailable", "most", "least"),
        [
            pytest.param(1, 0, 4, 3, id="one more, none less"),
            pytest.param(0, 1, 3, 2, id="none more, one less"),
            pytest.param("100%", 0, 6, 3, id="all at once"),
            pytest.param("25%", "25%", 4, 3, id="by default"),
        ],
    )
    async def test_stays_within_surge_and_unavailability(self, sim, surge, unavailable, most, least):
        strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
        await make(sim, strategy=strategy)
        pods, ready = [], []

        def count(*_):
            found = [
                record.object
                for record in sim.server.store.collection(sim.server.cluster.kind("v1", "Pod")).ordered()
                if not record.deleting
            ]
            pods.append(len(found))
            ready.append(sum(map(is_ready, found)))

        sim.server.store.observers.append(count)
        await roll(sim)
        await complete(sim)
        assert (max(pods), min(ready)) == (most, least)
        assert await sizes(sim) == {1: 0, 2: 3}
        assert {pod["spec"]["containers"][0]["image"] for pod in await sim.pods()} == {"i:2"}

    async def test_that_only_scales_is_none(self, sim):
        await make(sim)
        before = set(names(await sim.pods()))
        await sim.patch("deployments", "web/scale", {"spec": {"replicas": 5}})
        await complete(sim)
        assert before < set(names(await sim.pods()))
        assert await sizes(sim) == {1: 5}
        (replica_set,) = await sim.all("replicasets")
        assert replica_set["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"] == "7"

    async def test_back_to_an_earlier_template_uses_its_replica_set_again(self, sim):
        await make(sim)
        (first,) = names(await sim.all("replicasets"))
        await roll(sim, "i:2")
        await complete(sim)
        await roll(sim, "i:1")
        deployment = await complete(sim)
        assert deployment["metadata"]["annotations"][REVISION] == "3"
        assert await sizes(sim) == {2: 0, 3: 3}
        annotations = (await sim.get("replicasets", first))["metadata"]["annotations"]
        assert annotations["deployment.kubernetes.io/revision-history"] == "1"

    async def test_keeps_only_so_many_earlier_replica_sets(self, sim):
        await make(sim, revisionHistoryLimit=1)
        for number in (2, 3, 4):
            await roll(sim, f"i:{number}")
            await complete(sim)
        await asyncio.sleep(1)
        assert await sizes(sim) == {3: 0, 4: 3}

    async def test_does_not_take_what_works_for_what_never_gets_ready(self, sim):
        await make(sim)
        sim.scheduler.stopped = True
        await roll(sim)
        await asyncio.sleep(30)
        assert await sizes(sim) == {1: 3, 2: 1}

    async def test_that_makes_no_progress_says_so_when_its_deadline_is_over(self, sim):
        await make(sim, progressDeadlineSeconds=100)
        sim.scheduler.stopped = True
        await roll(sim)
        await asyncio.sleep(90)
        assert condition(await sim.get("deployments", "web"), "Progressing")["status"] == "True"
        await asyncio.sleep(20)
        failed = condition(await sim.get("deployments", "web"), "Progressing")
        assert (failed["status"], failed["reason"]) == ("False", "ProgressDeadlineExceeded")
        assert failed["message"].endswith("has timed out progressing.")

    async def test_scaled_in_the_middle_keeps_its_proportions(self, sim):
        await make(sim, 10, strategy={"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}})
        sim.scheduler.stopped = True
        await roll(sim)
        await asyncio.sleep(10)
        assert await sizes(sim) == {1: 8, 2: 5}
        await sim.patch("deployments", "web/scale", {"spec": {"replicas": 20}})
        await asyncio.sleep(1)
        assert sum((await sizes(sim)).values()) == 23
        assert await sizes(sim) == {1: 14, 2: 9}


class TestRecreate:
    async def test_never_runs_old_and_new_pods_at_once(self, sim):
        await make(sim, strategy={"type": "Recreate"})
        images = []

        def look(*_):
            found = sim.server.store.collection(sim.server.cluster.kind("v1", "Pod")).ordered()
            running = [pod.object for pod in found if pod.fields["status.phase"] in {"Pending", "Running"}]
            images.append({pod["spec"]["containers"][0]["image"] for pod in running})

        sim.server.store.observers.append(look)
        await roll(sim)
        await complete(sim)
        assert {"i:1", "i:2"} not in images
        assert images[-1] == {"i:2"}


class TestAPause:
    async def test_starts_no_rollout_but_scales(self, sim):
        await make(sim)
        await roll(sim, paused=True)
        await sim.patch("deployments", "web/scale", {"spec": {"replicas": 4}})
        await asyncio.sleep(10)
        assert await sizes(sim) == {1: 4}
        deployment = await sim.get("deployments", "web")
        assert condition(deployment, "Progressing")["reason"] == "DeploymentPaused"
        await sim.patch("deployments", "web", {"spec": {"paused": None}})
        await complete(sim)
        assert await sizes(sim) == {1: 0, 2: 4}

    async def test_lets_the_replica_sets_template_steer_one_replacement(self, sim):
        """What the facts say of editing a ReplicaSet under a paused Deployment, and of restoring it."""
        await make(sim)
        (replica_set,) = await sim.all("replicasets")
        name, original = replica_set["metadata"]["name"], replica_set["spec"]["template"]
        before = names(await sim.pods())
        await sim.patch("deployments", "web", {"spec": {"paused": True}})
        await sim.patch(
            "replicasets", name, {"spec": {"template": {"metadata": {"annotations": {"to": "n2"}}}}}
        )
        await sim.delete("pods", before[0])
        await sim.until_ready(3)
        await sim.patch("replicasets", name, {"spec": {"template": {"metadata": {"annotations": None}}}})
        assert (await sim.get("replicasets", name))["spec"]["template"] == original
        await sim.patch("deployments", "web", {"spec": {"paused": None}})
        await asyncio.sleep(10)
        assert await sizes(sim) == {1: 3}
        steered = [
            pod for pod in await sim.pods() if pod["metadata"].get("annotations", {}).get("to") == "n2"
        ]
        assert len(steered) == 1
        assert {*before[1:]} < {*names(await sim.pods())}


async def test_what_its_replica_set_fails_at_is_reported_by_the_deployment(sim):
    await sim.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    await sim.create("deployments", workload("web", 2))
    await asyncio.sleep(10)
    deployment = await sim.get("deployments", "web")
    assert condition(deployment, "ReplicaFailure")["reason"] == "FailedCreate"
    assert condition(deployment, "Available")["status"] == "False"


async def test_looking_again_at_a_finished_rollout_writes_nothing(sim):
    await make(sim)
    await roll(sim)
    await complete(sim)
    await asyncio.sleep(1)
    version = sim.server.store.version
    for _ in range(10):
        sim.controllers.resync()
        await asyncio.sleep(0.1)
    assert sim.server.store.version == version
