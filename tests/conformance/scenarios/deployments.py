"""Deployments: rollouts as far as they get, pauses, rollbacks, and what they say about themselves."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, Object, merge_patch
from tests.conformance.living import LivingWorld, condition, conditions, numbers, staying
from tests.conformance.scenario import living

NEW = "example.com/app:2"
BROKEN = {"match": {"image": "example.com/app:2"}, "readiness": "never"}
REVISION = "deployment.kubernetes.io/revision"


async def _rolled_out(world: LivingWorld, name: str, replicas: int) -> Object:
    """All pods are of the latest revision, and it says so."""

    def so(found: Object) -> bool:
        status = found.get("status", {})
        said = {status.get(field) for field in ("replicas", "updatedReplicas", "availableReplicas")}
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return seen and said == {replicas} and not status.get("terminatingReplicas") and _finished(found)

    return await world.until_one(DEPLOYMENTS, name, so)


def _finished(deployment: Object) -> bool:
    return condition(deployment, "Progressing").get("reason") == "NewReplicaSetAvailable"


async def _change(world: LivingWorld, name: str, **spec: object) -> None:
    await world.client.patch(DEPLOYMENTS, world.key(name), merge_patch({"spec": spec}))


def _with_image(world: LivingWorld, image: str) -> Object:
    return {"spec": {"containers": world.pod_spec(image=image)["containers"]}}


async def _replica_sets(world: LivingWorld) -> list[list[object]]:
    """Image, revision, wanted and counted replicas of each."""
    found = (await world.client.list(REPLICA_SETS, namespace=world.namespace)).items
    return sorted(
        [
            each["spec"]["template"]["spec"]["containers"][0]["image"],
            each["metadata"]["annotations"].get(REVISION),
            each["spec"]["replicas"],
            each["status"].get("replicas"),
        ]
        for each in found
    )


async def _until_sizes(world: LivingWorld, *sizes: int) -> None:
    """The ReplicaSets, oldest image first, have so many pods each."""

    def so(found: dict[str, Object]) -> bool:
        def image(each: Object) -> str:
            return str(each["spec"]["template"]["spec"]["containers"][0]["image"])

        ordered = sorted(found.values(), key=image)
        return [each["spec"]["replicas"] for each in ordered] == list(sizes) and all(
            each["status"].get("replicas") == each["spec"]["replicas"] for each in ordered
        )

    await world.until(REPLICA_SETS, so)


@living("a Deployment makes a ReplicaSet of its template's hash, and tells of both")
async def first_rollout(world: LivingWorld) -> None:
    annotated = world.workload("web", 3)
    annotated["metadata"]["annotations"] = {"example.com/note": "copied"}
    await world.create(DEPLOYMENTS, annotated)
    made = await _rolled_out(world, "web", 3)
    world.saw("status", numbers(made))
    world.saw("conditions", conditions(made))
    world.saw("annotations", made["metadata"]["annotations"])
    (owned,) = (await world.client.list(REPLICA_SETS, namespace=world.namespace)).items
    world.saw("ReplicaSet", owned["metadata"]["name"])
    world.saw("its annotations", owned["metadata"]["annotations"])
    hashed = owned["metadata"]["labels"]["pod-template-hash"]
    world.saw("named after its hash", owned["metadata"]["name"] == f"web-{hashed}")
    pods = await world.until_pods(3)
    world.saw("pods with the hash", sum(p["metadata"]["labels"]["pod-template-hash"] == hashed for p in pods))
    world.saw("a pod's name", pods[0]["metadata"]["name"])


@living("a rollout replaces a quarter at a time, and stops where new pods do not become ready")
async def stuck(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 4))
    await _rolled_out(world, "web", 4)
    world.behave(BROKEN)
    await _change(world, "web", template=_with_image(world, NEW))
    await _until_sizes(world, 3, 2)
    after = await world.settled(
        DEPLOYMENTS, "web", replicas=5, updatedReplicas=2, unavailableReplicas=2, terminatingReplicas=0
    )
    world.saw("status", numbers(after))
    world.saw("conditions", conditions(after))
    world.saw("ReplicaSets", await _replica_sets(world))
    world.behave()
    world.saw("healed", numbers(await _rolled_out(world, "web", 4)))
    world.saw("ReplicaSets after it", await _replica_sets(world))


@living("without surge a rollout takes away first, without unavailability it adds first")
async def surge_and_unavailable(world: LivingWorld) -> None:
    world.behave(BROKEN)
    for name, surge, unavailable in (("takes", 0, "50%"), ("adds", "50%", 0)):
        strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
        await world.create(DEPLOYMENTS, world.workload(name, 4, strategy=strategy))
        await _rolled_out(world, name, 4)
        await _change(world, name, template=_with_image(world, NEW))
    takes = await world.settled(
        DEPLOYMENTS, "takes", replicas=4, updatedReplicas=2, availableReplicas=2, terminatingReplicas=0
    )
    adds = await world.settled(DEPLOYMENTS, "adds", replicas=6, updatedReplicas=2, availableReplicas=4)
    world.saw("takes", [numbers(takes), conditions(takes)])
    world.saw("adds", [numbers(adds), conditions(adds)])


@living("a rollout that makes no progress in time says so, and goes on all the same")
async def deadline(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 1, progressDeadlineSeconds=1))
    await _rolled_out(world, "web", 1)
    world.behave(BROKEN)
    await _change(world, "web", template=_with_image(world, NEW))
    late = await world.until_one(
        DEPLOYMENTS, "web", lambda found: condition(found, "Progressing")["status"] == "False"
    )
    world.saw("conditions", conditions(late))
    world.behave()
    world.saw("healed", conditions(await _rolled_out(world, "web", 1)))


@living("with Recreate no pod of the old revision is left when the first of the new one is made")
async def recreate(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 3, strategy={"type": "Recreate"}))
    await _rolled_out(world, "web", 3)
    together: set[tuple[str, ...]] = set()

    def only_new(found: dict[str, Object]) -> bool:
        running = [pod for pod in found.values() if pod["status"]["phase"] not in ("Succeeded", "Failed")]
        images = tuple(sorted({pod["spec"]["containers"][0]["image"] for pod in running}))
        together.add(images)
        return images == (NEW,) and len(staying(found.values())) == 3

    await _change(world, "web", template=_with_image(world, NEW))
    await world.until(PODS, only_new)
    world.saw("images at the same time", sorted(together - {()}))
    after = await _rolled_out(world, "web", 3)
    world.saw("status", [numbers(after), conditions(after)])


@living("a paused Deployment rolls nothing out, but is scaled")
async def paused(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 2))
    await _rolled_out(world, "web", 2)
    await _change(world, "web", paused=True, template=_with_image(world, NEW))
    said = await world.until_one(
        DEPLOYMENTS, "web", lambda found: condition(found, "Progressing")["reason"] == "DeploymentPaused"
    )
    world.saw("conditions", conditions(said))
    await _change(world, "web", replicas=3)
    scaled = await world.settled(DEPLOYMENTS, "web", replicas=3, availableReplicas=3)
    world.saw("scaled", numbers(scaled))
    world.saw("ReplicaSets", await _replica_sets(world))
    await _change(world, "web", paused=None)
    resumed = await _rolled_out(world, "web", 3)
    world.saw("resumed", [numbers(resumed), conditions(resumed)])
    world.saw("ReplicaSets after it", await _replica_sets(world))


@living("going back to an earlier template brings its ReplicaSet back, as a new revision")
async def rollback(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 1))
    await _rolled_out(world, "web", 1)
    for image in (NEW, "example.com/app:1"):
        await _change(world, "web", template=_with_image(world, image))
        await _rolled_out(world, "web", 1)
    after = await _rolled_out(world, "web", 1)
    world.saw("annotations", after["metadata"]["annotations"])
    world.saw("ReplicaSets", await _replica_sets(world))
    found = (await world.client.list(REPLICA_SETS, namespace=world.namespace)).items
    history = {
        each["metadata"]["annotations"].get("deployment.kubernetes.io/revision-history") for each in found
    }
    world.saw("earlier revisions", sorted(map(str, history)))
    world.saw("conditions", conditions(after))


@living("scaling in the middle of a rollout enlarges old and new in proportion")
async def proportional(world: LivingWorld) -> None:
    strategy = {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 2}}
    await world.create(DEPLOYMENTS, world.workload("web", 6, strategy=strategy))
    await _rolled_out(world, "web", 6)
    world.behave(BROKEN)
    await _change(world, "web", template=_with_image(world, NEW))
    await _until_sizes(world, 4, 4)
    await _change(world, "web", replicas=12)
    after = await world.settled(DEPLOYMENTS, "web", replicas=14, availableReplicas=7)
    world.saw("status", numbers(after))
    world.saw("ReplicaSets", await _replica_sets(world))


@living("only so many old ReplicaSets are kept as the Deployment says")
async def history_limit(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 1, revisionHistoryLimit=1))
    await _rolled_out(world, "web", 1)
    for number in (2, 3):
        await _change(world, "web", template=_with_image(world, f"example.com/app:{number}"))
        await _rolled_out(world, "web", 1)
    await world.until(REPLICA_SETS, lambda found: len(found) == 2)
    world.saw("ReplicaSets", await _replica_sets(world))


@living("a Deployment adopts a ReplicaSet that has its template, and goes on with its pods")
async def adopts(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 2))
    await _rolled_out(world, "web", 2)
    before = {pod["metadata"]["uid"] for pod in await world.until_pods(2)}
    await world.client.delete(DEPLOYMENTS, world.key("web"), propagation="Orphan")
    await world.gone(DEPLOYMENTS, "web")
    await world.until(REPLICA_SETS, lambda found: not _owned(found))
    await world.create(DEPLOYMENTS, world.workload("web", 2))
    await _rolled_out(world, "web", 2)
    world.saw("the same pods", {pod["metadata"]["uid"] for pod in await world.until_pods(2)} == before)
    world.saw("ReplicaSets", await _replica_sets(world))


def _owned(found: dict[str, Object]) -> list[Object]:
    return [each for each in found.values() if each["metadata"].get("ownerReferences")]
