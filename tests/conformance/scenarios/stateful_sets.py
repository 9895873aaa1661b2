"""StatefulSets: one after the other, in order, and back."""

from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS, Object, merge_patch
from tests.conformance.living import LivingWorld, is_ready, numbers
from tests.conformance.scenario import living

NEW = "example.com/app:2"
INDEX = "apps.kubernetes.io/pod-index"


def _set(world: LivingWorld, replicas: int, **spec: Any) -> Object:
    return world.workload("db", replicas, serviceName="db", **spec)


async def _change(world: LivingWorld, **spec: object) -> None:
    await world.client.patch(STATEFUL_SETS, world.key("db"), merge_patch({"spec": spec}))


async def _new_image(world: LivingWorld) -> None:
    await _change(world, template={"spec": {"containers": world.pod_spec(image=NEW)["containers"]}})


def _images(pods: list[Object]) -> list[list[str]]:
    return [[pod["metadata"]["name"], pod["spec"]["containers"][0]["image"]] for pod in pods]


@living("pods start one after the other, and none while one before it is not ready")
async def ordered_start(world: LivingWorld) -> None:
    world.behave({"match": {"labels": {INDEX: "1"}}, "readiness": "never"})
    await world.create(STATEFUL_SETS, _set(world, 3))
    stuck = await world.settled(STATEFUL_SETS, "db", replicas=2, readyReplicas=1)
    world.saw("stuck", numbers(stuck))
    world.saw("pods", [pod["metadata"]["name"] for pod in await world.until_pods(2, ready=False)])
    world.behave()
    await world.until_pods(3)
    healed = await world.settled(STATEFUL_SETS, "db", readyReplicas=3, updatedReplicas=3)
    world.saw("healed", numbers(healed))
    world.saw("one revision", healed["status"]["currentRevision"] == healed["status"]["updateRevision"])
    (first, *_) = await world.until_pods(3)
    labels = first["metadata"]["labels"]
    world.saw("labels", {key: value for key, value in labels.items() if "topology" not in key})
    world.saw("host", [first["spec"].get("hostname"), first["spec"].get("subdomain")])


@living("it is scaled down from the end, one at a time")
async def reverse_scale_down(world: LivingWorld) -> None:
    await world.create(STATEFUL_SETS, _set(world, 3))
    await world.until_pods(3)
    version = (await world.client.list(PODS.as_json, namespace=world.namespace)).resource_version
    await _change(world, replicas=0)
    await world.until_pods(0)
    watch = world.client.watch(PODS.as_json, namespace=world.namespace, version=version, timeout_s=20)
    order: list[str] = []
    async with watch as events:
        async for event in events:
            if event.type == "DELETED":
                assert event.object is not None
                order.append(event.object["metadata"]["name"])
                if len(order) == 3:
                    break
    world.saw("order", order)
    world.saw("status", numbers(await world.settled(STATEFUL_SETS, "db", replicas=0)))


@living("a new revision goes to the pods from the end, down to the partition")
async def partition(world: LivingWorld) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    await world.create(STATEFUL_SETS, _set(world, 3, updateStrategy=strategy))
    await world.until_pods(3)
    await _new_image(world)
    halfway = await world.settled(STATEFUL_SETS, "db", updatedReplicas=1, readyReplicas=3, currentReplicas=2)
    world.saw("status", numbers(halfway))
    world.saw("pods", _images(await world.until_pods(3)))
    world.saw("two revisions", halfway["status"]["currentRevision"] != halfway["status"]["updateRevision"])
    await _change(world, updateStrategy={"rollingUpdate": {"partition": 0}})
    done = await world.until_one(
        STATEFUL_SETS,
        "db",
        lambda found: found["status"]["currentRevision"] == found["status"]["updateRevision"],
    )
    world.saw("done", numbers(done))
    world.saw("pods after it", _images(await world.until_pods(3)))


@living("a revision whose first pod does not become ready stops there")
async def stuck_update(world: LivingWorld) -> None:
    await world.create(STATEFUL_SETS, _set(world, 3))
    await world.until_pods(3)
    world.behave({"match": {"image": NEW}, "readiness": "never"})
    await _new_image(world)
    stuck = await world.settled(STATEFUL_SETS, "db", updatedReplicas=1, readyReplicas=2)
    world.saw("status", numbers(stuck))
    world.saw("pods", _images(await world.until_pods(3, ready=False)))


@living("with Parallel nobody waits for anybody")
async def parallel(world: LivingWorld) -> None:
    world.behave({"match": {"labels": {INDEX: "0"}}, "readiness": "never"})
    await world.create(STATEFUL_SETS, _set(world, 3, podManagementPolicy="Parallel"))
    started = await world.settled(STATEFUL_SETS, "db", replicas=3, readyReplicas=2)
    world.saw("status", numbers(started))
    await _change(world, replicas=1)
    world.saw("left", [pod["metadata"]["name"] for pod in await world.until_pods(1, ready=False)])


@living("with OnDelete a new revision waits until somebody deletes the pod")
async def on_delete(world: LivingWorld) -> None:
    await world.create(STATEFUL_SETS, _set(world, 2, updateStrategy={"type": "OnDelete"}))
    await world.until_pods(2)
    await _new_image(world)
    world.saw("status", numbers(await world.settled(STATEFUL_SETS, "db", readyReplicas=2, updatedReplicas=0)))
    gone = await world.read(PODS, "db-0")
    assert gone is not None
    await world.client.delete(PODS, world.key("db-0"))
    await world.until_one(
        PODS, "db-0", lambda pod: pod["metadata"]["uid"] != gone["metadata"]["uid"] and is_ready(pod)
    )
    world.saw("pods", _images(await world.until_pods(2)))
    world.saw(
        "status after it",
        numbers(await world.settled(STATEFUL_SETS, "db", readyReplicas=2, updatedReplicas=1)),
    )


@living("each pod has claims of its own, which stay when it goes")
async def claims(world: LivingWorld) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    wanted = _set(world, 2, volumeClaimTemplates=[claim], podManagementPolicy="Parallel")
    await world.create(STATEFUL_SETS, wanted)
    pods = await world.until_pods(2, ready=False)
    world.saw("volumes", [pod["spec"]["volumes"] for pod in pods])
    made = await world.until(PERSISTENT_VOLUME_CLAIMS, lambda found: len(found) == 2)
    world.saw("claims", {name: found["metadata"].get("labels") for name, found in sorted(made.items())})
    await _change(world, replicas=0)
    await world.until_pods(0, ready=False)
    kept = await world.until(PERSISTENT_VOLUME_CLAIMS, lambda found: len(found) == 2)
    world.saw("claims after it", sorted(kept))
