"""Deployments: rollouts as far as they get, pauses, rollbacks, and what they say about themselves."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, Object, merge_patch
from tests.conformance.running_cluster import RunningCluster, condition, conditions, numbers, staying
from tests.conformance.scenario import running_cluster_scenario

NEW = "example.com/app:2"
BROKEN = {"match": {"image": "example.com/app:2"}, "readiness": "never"}
REVISION = "deployment.kubernetes.io/revision"


async def _rolled_out(cluster: RunningCluster, name: str, replicas: int) -> Object:
    """All pods are of the latest revision, and it says so."""

    def so(found: Object) -> bool:
        status = found.get("status", {})
        said = {status.get(field) for field in ("replicas", "updatedReplicas", "availableReplicas")}
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return seen and said == {replicas} and not status.get("terminatingReplicas") and _finished(found)

    return await cluster.until_one(DEPLOYMENTS, name, so)


def _finished(deployment: Object) -> bool:
    return condition(deployment, "Progressing").get("reason") == "NewReplicaSetAvailable"


async def _change(cluster: RunningCluster, name: str, **spec: object) -> None:
    await cluster.client.patch(DEPLOYMENTS, cluster.key(name), merge_patch({"spec": spec}))


def _with_image(cluster: RunningCluster, image: str) -> Object:
    return {"spec": {"containers": cluster.pod_spec(image=image)["containers"]}}


async def _replica_sets(cluster: RunningCluster) -> list[list[object]]:
    """Image, revision, wanted and counted replicas of each."""
    found = (await cluster.client.list(REPLICA_SETS, namespace=cluster.namespace)).items
    return sorted(
        [
            each["spec"]["template"]["spec"]["containers"][0]["image"],
            each["metadata"]["annotations"].get(REVISION),
            each["spec"]["replicas"],
            each["status"].get("replicas"),
        ]
        for each in found
    )


async def _until_sizes(cluster: RunningCluster, *sizes: int) -> None:
    """The ReplicaSets, oldest image first, have so many pods each."""

    def so(found: dict[str, Object]) -> bool:
        def image(each: Object) -> str:
            return str(each["spec"]["template"]["spec"]["containers"][0]["image"])

        ordered = sorted(found.values(), key=image)
        return [each["spec"]["replicas"] for each in ordered] == list(sizes) and all(
            each["status"].get("replicas") == each["spec"]["replicas"] for each in ordered
        )

    await cluster.until(REPLICA_SETS, so)


@running_cluster_scenario(
    "a Deployment creates a ReplicaSet with its template's hash, and reports both in its status"
)
async def first_rollout(cluster: RunningCluster) -> None:
    annotated = cluster.workload("web", 3)
    annotated["metadata"]["annotations"] = {"example.com/note": "copied"}
    await cluster.create(DEPLOYMENTS, annotated)
    made = await _rolled_out(cluster, "web", 3)
    cluster.saw("status", numbers(made))
    cluster.saw("conditions", conditions(made))
    cluster.saw("annotations", made["metadata"]["annotations"])
    (owned,) = (await cluster.client.list(REPLICA_SETS, namespace=cluster.namespace)).items
    cluster.saw("ReplicaSet", owned["metadata"]["name"])
    cluster.saw("its annotations", owned["metadata"]["annotations"])
    hashed = owned["metadata"]["labels"]["pod-template-hash"]
    cluster.saw("named after its hash", owned["metadata"]["name"] == f"web-{hashed}")
    pods = await cluster.until_pods(3)
    cluster.saw(
        "pods with the hash", sum(p["metadata"]["labels"]["pod-template-hash"] == hashed for p in pods)
    )
    cluster.saw("a pod's name", pods[0]["metadata"]["name"])


@running_cluster_scenario(
    "a rollout replaces a quarter at a time, and stops where new pods do not become ready"
)
async def stuck(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 4))
    await _rolled_out(cluster, "web", 4)
    cluster.behave(BROKEN)
    await _change(cluster, "web", template=_with_image(cluster, NEW))
    await _until_sizes(cluster, 3, 2)
    after = await cluster.settled(
        DEPLOYMENTS, "web", replicas=5, updatedReplicas=2, unavailableReplicas=2, terminatingReplicas=0
    )
    cluster.saw("status", numbers(after))
    cluster.saw("conditions", conditions(after))
    cluster.saw("ReplicaSets", await _replica_sets(cluster))
    cluster.behave()
    cluster.saw("healed", numbers(await _rolled_out(cluster, "web", 4)))
    cluster.saw("ReplicaSets after it", await _replica_sets(cluster))


@running_cluster_scenario(
    "without surge a rollout removes pods first, without unavailability it adds pods first"
)
async def surge_and_unavailable(cluster: RunningCluster) -> None:
    cluster.behave(BROKEN)
    for name, surge, unavailable in (("takes", 0, "50%"), ("adds", "50%", 0)):
        strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
        await cluster.create(DEPLOYMENTS, cluster.workload(name, 4, strategy=strategy))
        await _rolled_out(cluster, name, 4)
        await _change(cluster, name, template=_with_image(cluster, NEW))
    takes = await cluster.settled(
        DEPLOYMENTS, "takes", replicas=4, updatedReplicas=2, availableReplicas=2, terminatingReplicas=0
    )
    adds = await cluster.settled(DEPLOYMENTS, "adds", replicas=6, updatedReplicas=2, availableReplicas=4)
    cluster.saw("takes", [numbers(takes), conditions(takes)])
    cluster.saw("adds", [numbers(adds), conditions(adds)])


@running_cluster_scenario(
    "a rollout that exceeds its progress deadline reports it, and continues all the same"
)
async def deadline(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 1, progressDeadlineSeconds=1))
    await _rolled_out(cluster, "web", 1)
    cluster.behave(BROKEN)
    await _change(cluster, "web", template=_with_image(cluster, NEW))
    late = await cluster.until_one(
        DEPLOYMENTS, "web", lambda found: condition(found, "Progressing")["status"] == "False"
    )
    cluster.saw("conditions", conditions(late))
    cluster.behave()
    cluster.saw("healed", conditions(await _rolled_out(cluster, "web", 1)))


@running_cluster_scenario(
    "with Recreate all pods of the old revision are gone before the first new one is created"
)
async def recreate(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 3, strategy={"type": "Recreate"}))
    await _rolled_out(cluster, "web", 3)
    together: set[tuple[str, ...]] = set()

    def only_new(found: dict[str, Object]) -> bool:
        running = [pod for pod in found.values() if pod["status"]["phase"] not in ("Succeeded", "Failed")]
        images = tuple(sorted({pod["spec"]["containers"][0]["image"] for pod in running}))
        together.add(images)
        return images == (NEW,) and len(staying(found.values())) == 3

    await _change(cluster, "web", template=_with_image(cluster, NEW))
    await cluster.until(PODS, only_new)
    cluster.saw("images at the same time", sorted(together - {()}))
    after = await _rolled_out(cluster, "web", 3)
    cluster.saw("status", [numbers(after), conditions(after)])


@running_cluster_scenario("a paused Deployment rolls nothing out, but is scaled")
async def paused(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 2))
    await _rolled_out(cluster, "web", 2)
    await _change(cluster, "web", paused=True, template=_with_image(cluster, NEW))
    said = await cluster.until_one(
        DEPLOYMENTS, "web", lambda found: condition(found, "Progressing")["reason"] == "DeploymentPaused"
    )
    cluster.saw("conditions", conditions(said))
    await _change(cluster, "web", replicas=3)
    scaled = await cluster.settled(DEPLOYMENTS, "web", replicas=3, availableReplicas=3)
    cluster.saw("scaled", numbers(scaled))
    cluster.saw("ReplicaSets", await _replica_sets(cluster))
    await _change(cluster, "web", paused=None)
    resumed = await _rolled_out(cluster, "web", 3)
    cluster.saw("resumed", [numbers(resumed), conditions(resumed)])
    cluster.saw("ReplicaSets after it", await _replica_sets(cluster))


@running_cluster_scenario("going back to an earlier template brings its ReplicaSet back, as a new revision")
async def rollback(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 1))
    await _rolled_out(cluster, "web", 1)
    for image in (NEW, "example.com/app:1"):
        await _change(cluster, "web", template=_with_image(cluster, image))
        await _rolled_out(cluster, "web", 1)
    after = await _rolled_out(cluster, "web", 1)
    cluster.saw("annotations", after["metadata"]["annotations"])
    cluster.saw("ReplicaSets", await _replica_sets(cluster))
    found = (await cluster.client.list(REPLICA_SETS, namespace=cluster.namespace)).items
    history = {
        each["metadata"]["annotations"].get("deployment.kubernetes.io/revision-history") for each in found
    }
    cluster.saw("earlier revisions", sorted(map(str, history)))
    cluster.saw("conditions", conditions(after))


@running_cluster_scenario("scaling in the middle of a rollout enlarges old and new in proportion")
async def proportional(cluster: RunningCluster) -> None:
    strategy = {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 2}}
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 6, strategy=strategy))
    await _rolled_out(cluster, "web", 6)
    cluster.behave(BROKEN)
    await _change(cluster, "web", template=_with_image(cluster, NEW))
    await _until_sizes(cluster, 4, 4)
    await _change(cluster, "web", replicas=12)
    after = await cluster.settled(DEPLOYMENTS, "web", replicas=14, availableReplicas=7)
    cluster.saw("status", numbers(after))
    cluster.saw("ReplicaSets", await _replica_sets(cluster))


@running_cluster_scenario("only so many old ReplicaSets are kept as the Deployment says")
async def history_limit(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 1, revisionHistoryLimit=1))
    await _rolled_out(cluster, "web", 1)
    for number in (2, 3):
        await _change(cluster, "web", template=_with_image(cluster, f"example.com/app:{number}"))
        await _rolled_out(cluster, "web", 1)
    await cluster.until(REPLICA_SETS, lambda found: len(found) == 2)
    cluster.saw("ReplicaSets", await _replica_sets(cluster))


@running_cluster_scenario(
    "a Deployment adopts a ReplicaSet that has its template, and continues with its pods"
)
async def adopts(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 2))
    await _rolled_out(cluster, "web", 2)
    before = {pod["metadata"]["uid"] for pod in await cluster.until_pods(2)}
    await cluster.client.delete(DEPLOYMENTS, cluster.key("web"), propagation="Orphan")
    await cluster.gone(DEPLOYMENTS, "web")
    await cluster.until(REPLICA_SETS, lambda found: not _owned(found))
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 2))
    await _rolled_out(cluster, "web", 2)
    cluster.saw("the same pods", {pod["metadata"]["uid"] for pod in await cluster.until_pods(2)} == before)
    cluster.saw("ReplicaSets", await _replica_sets(cluster))


def _owned(found: dict[str, Object]) -> list[Object]:
    return [each for each in found.values() if each["metadata"].get("ownerReferences")]
