"""Rollouts that are overtaken, scaled or taken back while they are stuck."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, Object, merge_patch
from tests.conformance.living import LivingWorld, condition, conditions, is_ready, numbers
from tests.conformance.scenario import living

BROKEN = {"match": {"image": "example.com/app:2"}, "readiness": "never"}


def _image(world: LivingWorld, number: int) -> Object:
    return {
        "template": {"spec": {"containers": world.pod_spec(image=f"example.com/app:{number}")["containers"]}}
    }


async def _change(world: LivingWorld, **spec: object) -> None:
    await world.client.patch(DEPLOYMENTS, world.key("web"), merge_patch({"spec": spec}))


async def _rolled_out(world: LivingWorld, replicas: int) -> Object:
    def so(found: Object) -> bool:
        status = found.get("status") or {}
        counts = {status.get(field) for field in ("replicas", "updatedReplicas", "availableReplicas")}
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        done = condition(found, "Progressing").get("reason") == "NewReplicaSetAvailable"
        return seen and counts == {replicas} and done and not status.get("terminatingReplicas")

    return await world.until_one(DEPLOYMENTS, "web", so)


async def _until_sizes(world: LivingWorld, **sizes: int) -> None:
    """Of the ReplicaSets, by the last figure of their image: v1=3, v2=2."""

    def so(found: dict[str, Object]) -> bool:
        have = {
            f"v{each['spec']['template']['spec']['containers'][0]['image'][-1]}": (
                each["spec"]["replicas"],
                each["status"].get("replicas", 0),
            )
            for each in found.values()
        }
        return have == {name: (size, size) for name, size in sizes.items()}

    await world.until(REPLICA_SETS, so)


@living("a rollout that is overtaken by the next one gives up its unready pods first")
async def overtaken(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 4))
    await _rolled_out(world, 4)
    world.behave(BROKEN, {"match": {"image": "example.com/app:3"}, "readiness": "never"})
    await _change(world, **_image(world, 2))
    await _until_sizes(world, v1=3, v2=2)
    await _change(world, **_image(world, 3))
    await _until_sizes(world, v1=3, v2=0, v3=2)
    stuck = await world.settled(DEPLOYMENTS, "web", replicas=5, updatedReplicas=2, terminatingReplicas=0)
    world.saw("stuck again", [numbers(stuck), conditions(stuck)])
    world.behave(BROKEN)
    world.saw("in the end", numbers(await _rolled_out(world, 4)))


@living("a stuck rollout that is taken back is as if it had not been")
async def taken_back(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 3))
    await _rolled_out(world, 3)
    before = {pod["metadata"]["uid"] for pod in await world.until_pods(3)}
    world.behave(BROKEN)
    await _change(world, **_image(world, 2))
    await _until_sizes(world, v1=3, v2=1)
    await _change(world, **_image(world, 1))
    after = await _rolled_out(world, 3)
    world.saw("the same pods", {pod["metadata"]["uid"] for pod in await world.until_pods(3)} == before)
    world.saw("revision", after["metadata"]["annotations"]["deployment.kubernetes.io/revision"])
    world.saw("status", [numbers(after), conditions(after)])


@living("a stuck rollout that is scaled down gives up old pods, and makes as many new ones as surge allows")
async def scaled_down(world: LivingWorld) -> None:
    strategy = {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    await world.create(DEPLOYMENTS, world.workload("web", 10, strategy=strategy))
    await _rolled_out(world, 10)
    world.behave(BROKEN)
    await _change(world, **_image(world, 2))
    await _until_sizes(world, v1=8, v2=5)
    await _change(world, replicas=5)
    await _until_sizes(world, v1=3, v2=5)
    after = await world.settled(
        DEPLOYMENTS, "web", replicas=8, updatedReplicas=5, availableReplicas=3, terminatingReplicas=0
    )
    world.saw("status", [numbers(after), conditions(after)])


@living("scaled to nothing and back, a stuck rollout goes on where it was")
async def to_nothing_and_back(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 4))
    await _rolled_out(world, 4)
    world.behave(BROKEN)
    await _change(world, **_image(world, 2))
    await _until_sizes(world, v1=3, v2=2)
    await _change(world, replicas=0)
    await _until_sizes(world, v1=0, v2=0)
    nothing = await world.settled(DEPLOYMENTS, "web", replicas=0, terminatingReplicas=0)
    world.saw("nothing", [numbers(nothing), conditions(nothing)])
    await _change(world, replicas=2)
    again = await world.settled(DEPLOYMENTS, "web", replicas=2, updatedReplicas=2)
    world.saw("and back", numbers(again))


@living("pods must be ready for minReadySeconds before the next ones go")
async def min_ready_seconds(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 4))
    await _rolled_out(world, 4)
    await _change(world, minReadySeconds=3600, progressDeadlineSeconds=7200, **_image(world, 2))
    slow = await world.settled(DEPLOYMENTS, "web", replicas=5, updatedReplicas=2, terminatingReplicas=0)
    await world.until_pods(5)
    slow = await world.settled(DEPLOYMENTS, "web", replicas=5, readyReplicas=5, terminatingReplicas=0)
    world.saw("status", [numbers(slow), conditions(slow)])


@living(
    "a StatefulSet whose new revision is broken does not go back by itself, until the broken pod is deleted"
)
async def broken_stateful_set(world: LivingWorld) -> None:
    await world.create(STATEFUL_SETS, world.workload("db", 2, serviceName="db"))
    await world.until_pods(2)
    world.behave(BROKEN)
    change = merge_patch({"spec": _image(world, 2)})
    await world.client.patch(STATEFUL_SETS, world.key("db"), change)
    await world.settled(STATEFUL_SETS, "db", updatedReplicas=1, readyReplicas=1)
    broken = await world.read(PODS, "db-1")
    assert broken is not None
    back = merge_patch({"spec": _image(world, 1)})
    await world.client.patch(STATEFUL_SETS, world.key("db"), back)
    seen = await world.settled(STATEFUL_SETS, "db", replicas=2)
    world.saw("taken back", numbers(seen))
    await world.client.delete(PODS, world.key("db-1"))
    await world.until_one(
        PODS, "db-1", lambda pod: pod["metadata"]["uid"] != broken["metadata"]["uid"] and is_ready(pod)
    )
    world.saw(
        "deleted by hand",
        numbers(await world.settled(STATEFUL_SETS, "db", readyReplicas=2, updatedReplicas=2)),
    )


@living("a StatefulSet counts from where it is told to")
async def ordinals(world: LivingWorld) -> None:
    await world.create(STATEFUL_SETS, world.workload("db", 2, serviceName="db", ordinals={"start": 3}))
    world.saw("pods", [pod["metadata"]["name"] for pod in await world.until_pods(2)])
    world.saw("status", numbers(await world.settled(STATEFUL_SETS, "db", readyReplicas=2)))
