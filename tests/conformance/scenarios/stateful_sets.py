"""StatefulSets create and delete their pods in order."""

from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS, Object, merge_patch
from tests.conformance.running_cluster import RunningCluster, is_ready, numbers
from tests.conformance.scenario import running_cluster_scenario

NEW = "example.com/app:2"
INDEX = "apps.kubernetes.io/pod-index"


def _set(cluster: RunningCluster, replicas: int, **spec: Any) -> Object:
    return cluster.workload("db", replicas, serviceName="db", **spec)


async def _change(cluster: RunningCluster, **spec: object) -> None:
    await cluster.client.patch(STATEFUL_SETS, cluster.key("db"), merge_patch({"spec": spec}))


async def _new_image(cluster: RunningCluster) -> None:
    await _change(cluster, template={"spec": {"containers": cluster.pod_spec(image=NEW)["containers"]}})


def _images(pods: list[Object]) -> list[list[str]]:
    return [[pod["metadata"]["name"], pod["spec"]["containers"][0]["image"]] for pod in pods]


@running_cluster_scenario("pods start one after the other, and none while one before it is not ready")
async def ordered_start(cluster: RunningCluster) -> None:
    cluster.behave({"match": {"labels": {INDEX: "1"}}, "readiness": "never"})
    await cluster.create(STATEFUL_SETS, _set(cluster, 3))
    stuck = await cluster.settled(STATEFUL_SETS, "db", replicas=2, readyReplicas=1)
    cluster.saw("stuck", numbers(stuck))
    cluster.saw("pods", [pod["metadata"]["name"] for pod in await cluster.until_pods(2, ready=False)])
    cluster.behave()
    await cluster.until_pods(3)
    healed = await cluster.settled(STATEFUL_SETS, "db", readyReplicas=3, updatedReplicas=3)
    cluster.saw("healed", numbers(healed))
    cluster.saw("one revision", healed["status"]["currentRevision"] == healed["status"]["updateRevision"])
    (first, *_) = await cluster.until_pods(3)
    labels = first["metadata"]["labels"]
    cluster.saw("labels", {key: value for key, value in labels.items() if "topology" not in key})
    cluster.saw("host", [first["spec"].get("hostname"), first["spec"].get("subdomain")])


@running_cluster_scenario("it is scaled down from the end, one at a time")
async def reverse_scale_down(cluster: RunningCluster) -> None:
    await cluster.create(STATEFUL_SETS, _set(cluster, 3))
    await cluster.until_pods(3)
    version = (await cluster.client.list(PODS.as_json, namespace=cluster.namespace)).resource_version
    await _change(cluster, replicas=0)
    await cluster.until_pods(0)
    watch = cluster.client.watch(PODS.as_json, namespace=cluster.namespace, version=version, timeout_s=20)
    order: list[str] = []
    async with watch as events:
        async for event in events:
            if event.type == "DELETED":
                assert event.object is not None
                order.append(event.object["metadata"]["name"])
                if len(order) == 3:
                    break
    cluster.saw("order", order)
    cluster.saw("status", numbers(await cluster.settled(STATEFUL_SETS, "db", replicas=0)))


@running_cluster_scenario("a new revision goes to the pods from the end, down to the partition")
async def partition(cluster: RunningCluster) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    await cluster.create(STATEFUL_SETS, _set(cluster, 3, updateStrategy=strategy))
    await cluster.until_pods(3)
    await _new_image(cluster)
    halfway = await cluster.settled(
        STATEFUL_SETS, "db", updatedReplicas=1, readyReplicas=3, currentReplicas=2
    )
    cluster.saw("status", numbers(halfway))
    cluster.saw("pods", _images(await cluster.until_pods(3)))
    cluster.saw("two revisions", halfway["status"]["currentRevision"] != halfway["status"]["updateRevision"])
    await _change(cluster, updateStrategy={"rollingUpdate": {"partition": 0}})
    done = await cluster.until_one(
        STATEFUL_SETS,
        "db",
        lambda found: found["status"]["currentRevision"] == found["status"]["updateRevision"],
    )
    cluster.saw("done", numbers(done))
    cluster.saw("pods after it", _images(await cluster.until_pods(3)))


@running_cluster_scenario("a revision whose first pod does not become ready stops there")
async def stuck_update(cluster: RunningCluster) -> None:
    await cluster.create(STATEFUL_SETS, _set(cluster, 3))
    await cluster.until_pods(3)
    cluster.behave({"match": {"image": NEW}, "readiness": "never"})
    await _new_image(cluster)
    stuck = await cluster.settled(STATEFUL_SETS, "db", updatedReplicas=1, readyReplicas=2)
    cluster.saw("status", numbers(stuck))
    cluster.saw("pods", _images(await cluster.until_pods(3, ready=False)))


@running_cluster_scenario("with Parallel no pod waits for another")
async def parallel(cluster: RunningCluster) -> None:
    cluster.behave({"match": {"labels": {INDEX: "0"}}, "readiness": "never"})
    await cluster.create(STATEFUL_SETS, _set(cluster, 3, podManagementPolicy="Parallel"))
    started = await cluster.settled(STATEFUL_SETS, "db", replicas=3, readyReplicas=2)
    cluster.saw("status", numbers(started))
    await _change(cluster, replicas=1)
    cluster.saw("left", [pod["metadata"]["name"] for pod in await cluster.until_pods(1, ready=False)])


@running_cluster_scenario("with OnDelete a new revision waits until the pod is deleted")
async def on_delete(cluster: RunningCluster) -> None:
    await cluster.create(STATEFUL_SETS, _set(cluster, 2, updateStrategy={"type": "OnDelete"}))
    await cluster.until_pods(2)
    await _new_image(cluster)
    cluster.saw(
        "status", numbers(await cluster.settled(STATEFUL_SETS, "db", readyReplicas=2, updatedReplicas=0))
    )
    gone = await cluster.read(PODS, "db-0")
    assert gone is not None
    await cluster.client.delete(PODS, cluster.key("db-0"))
    await cluster.until_one(
        PODS, "db-0", lambda pod: pod["metadata"]["uid"] != gone["metadata"]["uid"] and is_ready(pod)
    )
    cluster.saw("pods", _images(await cluster.until_pods(2)))
    cluster.saw(
        "status after it",
        numbers(await cluster.settled(STATEFUL_SETS, "db", readyReplicas=2, updatedReplicas=1)),
    )


@running_cluster_scenario("each pod has claims of its own, which stay when it is deleted")
async def claims(cluster: RunningCluster) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    wanted = _set(cluster, 2, volumeClaimTemplates=[claim], podManagementPolicy="Parallel")
    await cluster.create(STATEFUL_SETS, wanted)
    pods = await cluster.until_pods(2, ready=False)
    cluster.saw("volumes", [pod["spec"]["volumes"] for pod in pods])
    made = await cluster.until(PERSISTENT_VOLUME_CLAIMS, lambda found: len(found) == 2)
    cluster.saw("claims", {name: found["metadata"].get("labels") for name, found in sorted(made.items())})
    await _change(cluster, replicas=0)
    await cluster.until_pods(0, ready=False)
    kept = await cluster.until(PERSISTENT_VOLUME_CLAIMS, lambda found: len(found) == 2)
    cluster.saw("claims after it", sorted(kept))
