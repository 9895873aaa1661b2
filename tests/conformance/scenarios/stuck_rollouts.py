"""Rollouts that are replaced, scaled or rolled back while they are stuck."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, Object, merge_patch
from tests.conformance.running_cluster import RunningCluster, condition, conditions, is_ready, numbers
from tests.conformance.scenario import running_cluster_scenario

BROKEN = {"match": {"image": "example.com/app:2"}, "readiness": "never"}


def _image(cluster: RunningCluster, number: int) -> Object:
    return {
        "template": {
            "spec": {"containers": cluster.pod_spec(image=f"example.com/app:{number}")["containers"]}
        }
    }


async def _change(cluster: RunningCluster, **spec: object) -> None:
    await cluster.client.patch(DEPLOYMENTS, cluster.key("web"), merge_patch({"spec": spec}))


async def _rolled_out(cluster: RunningCluster, replicas: int) -> Object:
    def so(found: Object) -> bool:
        status = found.get("status") or {}
        counts = {status.get(field) for field in ("replicas", "updatedReplicas", "availableReplicas")}
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        done = condition(found, "Progressing").get("reason") == "NewReplicaSetAvailable"
        return seen and counts == {replicas} and done and not status.get("terminatingReplicas")

    return await cluster.until_one(DEPLOYMENTS, "web", so)


async def _until_sizes(cluster: RunningCluster, **sizes: int) -> None:
    """Wait for these sizes of the ReplicaSets, by the last figure of their image: v1=3, v2=2."""

    def so(found: dict[str, Object]) -> bool:
        have = {
            f"v{each['spec']['template']['spec']['containers'][0]['image'][-1]}": (
                each["spec"]["replicas"],
                each["status"].get("replicas", 0),
            )
            for each in found.values()
        }
        return have == {name: (size, size) for name, size in sizes.items()}

    await cluster.until(REPLICA_SETS, so)


@running_cluster_scenario("a rollout that is replaced by the next one deletes its unready pods first")
async def overtaken(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 4))
    await _rolled_out(cluster, 4)
    cluster.behave(BROKEN, {"match": {"image": "example.com/app:3"}, "readiness": "never"})
    await _change(cluster, **_image(cluster, 2))
    await _until_sizes(cluster, v1=3, v2=2)
    await _change(cluster, **_image(cluster, 3))
    await _until_sizes(cluster, v1=3, v2=0, v3=2)
    stuck = await cluster.settled(DEPLOYMENTS, "web", replicas=5, updatedReplicas=2, terminatingReplicas=0)
    cluster.saw("stuck again", [numbers(stuck), conditions(stuck)])
    cluster.behave(BROKEN)
    cluster.saw("in the end", numbers(await _rolled_out(cluster, 4)))


@running_cluster_scenario("rolling back a stuck rollout restores the state before it")
async def taken_back(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 3))
    await _rolled_out(cluster, 3)
    before = {pod["metadata"]["uid"] for pod in await cluster.until_pods(3)}
    cluster.behave(BROKEN)
    await _change(cluster, **_image(cluster, 2))
    await _until_sizes(cluster, v1=3, v2=1)
    await _change(cluster, **_image(cluster, 1))
    after = await _rolled_out(cluster, 3)
    cluster.saw("the same pods", {pod["metadata"]["uid"] for pod in await cluster.until_pods(3)} == before)
    cluster.saw("revision", after["metadata"]["annotations"]["deployment.kubernetes.io/revision"])
    cluster.saw("status", [numbers(after), conditions(after)])


@running_cluster_scenario(
    "a stuck rollout that is scaled down deletes old pods, and creates as many new ones as surge allows"
)
async def scaled_down(cluster: RunningCluster) -> None:
    strategy = {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 10, strategy=strategy))
    await _rolled_out(cluster, 10)
    cluster.behave(BROKEN)
    await _change(cluster, **_image(cluster, 2))
    await _until_sizes(cluster, v1=8, v2=5)
    await _change(cluster, replicas=5)
    await _until_sizes(cluster, v1=3, v2=5)
    after = await cluster.settled(
        DEPLOYMENTS, "web", replicas=8, updatedReplicas=5, availableReplicas=3, terminatingReplicas=0
    )
    cluster.saw("status", [numbers(after), conditions(after)])


@running_cluster_scenario("scaled to zero and back, a stuck rollout continues where it was")
async def to_nothing_and_back(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 4))
    await _rolled_out(cluster, 4)
    cluster.behave(BROKEN)
    await _change(cluster, **_image(cluster, 2))
    await _until_sizes(cluster, v1=3, v2=2)
    await _change(cluster, replicas=0)
    await _until_sizes(cluster, v1=0, v2=0)
    nothing = await cluster.settled(DEPLOYMENTS, "web", replicas=0, terminatingReplicas=0)
    cluster.saw("nothing", [numbers(nothing), conditions(nothing)])
    await _change(cluster, replicas=2)
    again = await cluster.settled(DEPLOYMENTS, "web", replicas=2, updatedReplicas=2)
    cluster.saw("and back", numbers(again))


@running_cluster_scenario("pods must be ready for minReadySeconds before the next ones go")
async def min_ready_seconds(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 4))
    await _rolled_out(cluster, 4)
    await _change(cluster, minReadySeconds=3600, progressDeadlineSeconds=7200, **_image(cluster, 2))
    slow = await cluster.settled(DEPLOYMENTS, "web", replicas=5, updatedReplicas=2, terminatingReplicas=0)
    await cluster.until_pods(5)
    slow = await cluster.settled(DEPLOYMENTS, "web", replicas=5, readyReplicas=5, terminatingReplicas=0)
    cluster.saw("status", [numbers(slow), conditions(slow)])


@running_cluster_scenario(
    "a StatefulSet whose new revision is broken does not go back by itself, until the broken pod is deleted"
)
async def broken_stateful_set(cluster: RunningCluster) -> None:
    await cluster.create(STATEFUL_SETS, cluster.workload("db", 2, serviceName="db"))
    await cluster.until_pods(2)
    cluster.behave(BROKEN)
    change = merge_patch({"spec": _image(cluster, 2)})
    await cluster.client.patch(STATEFUL_SETS, cluster.key("db"), change)
    await cluster.settled(STATEFUL_SETS, "db", updatedReplicas=1, readyReplicas=1)
    broken = await cluster.read(PODS, "db-1")
    assert broken is not None
    back = merge_patch({"spec": _image(cluster, 1)})
    await cluster.client.patch(STATEFUL_SETS, cluster.key("db"), back)
    seen = await cluster.settled(STATEFUL_SETS, "db", replicas=2)
    cluster.saw("taken back", numbers(seen))
    await cluster.client.delete(PODS, cluster.key("db-1"))
    await cluster.until_one(
        PODS, "db-1", lambda pod: pod["metadata"]["uid"] != broken["metadata"]["uid"] and is_ready(pod)
    )
    cluster.saw(
        "deleted by hand",
        numbers(await cluster.settled(STATEFUL_SETS, "db", readyReplicas=2, updatedReplicas=2)),
    )


@running_cluster_scenario("a StatefulSet numbers its pods from spec.ordinals.start")
async def ordinals(cluster: RunningCluster) -> None:
    await cluster.create(STATEFUL_SETS, cluster.workload("db", 2, serviceName="db", ordinals={"start": 3}))
    cluster.saw("pods", [pod["metadata"]["name"] for pod in await cluster.until_pods(2)])
    cluster.saw("status", numbers(await cluster.settled(STATEFUL_SETS, "db", readyReplicas=2)))
