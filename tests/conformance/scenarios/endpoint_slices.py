"""EndpointSlices: which pods serve a Service, and in what state they are."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import Object, api_resource, merge_patch
from tests.conformance.running_cluster import RunningCluster, is_ready
from tests.conformance.scenario import running_cluster_scenario
from tests.stories.objects import SERVICES

ENDPOINT_SLICES = api_resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")


def _service(**spec: object) -> Object:
    return {
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec},
    }


def _endpoints(slices: dict[str, Object]) -> dict[str, Object]:
    """Return the endpoints by the name of their pod."""
    return {
        each["targetRef"]["name"]: each for found in slices.values() for each in found.get("endpoints") or ()
    }


async def _states(cluster: RunningCluster, **ready: bool) -> dict[str, Object]:
    """The conditions of each, once so many are told of and these are ready or not."""

    def so(slices: dict[str, Object]) -> bool:
        found = {name: each["conditions"]["ready"] for name, each in _endpoints(slices).items()}
        return found == ready

    slices = await cluster.until(ENDPOINT_SLICES, so)
    return {name: each["conditions"] for name, each in sorted(_endpoints(slices).items())}


@running_cluster_scenario("a Service's slice has the address, node and zone of each pod that it selects")
async def addresses(cluster: RunningCluster) -> None:
    await cluster.create(PODS, cluster.pod("one", app="web", nodeName=cluster.nodes[0]))
    await cluster.create(PODS, cluster.pod("other", nodeName=cluster.nodes[0]))
    (one, _) = await cluster.until_pods(2)
    await cluster.create(SERVICES, _service(ports=[{"name": "http", "port": 80, "targetPort": 8080}]))
    await _states(cluster, one=True)
    ((name, found),) = (await cluster.until(ENDPOINT_SLICES, lambda slices: len(slices) == 1)).items()
    cluster.saw("name", name)
    cluster.saw("labels", found["metadata"]["labels"])
    cluster.saw("type and ports", [found["addressType"], found["ports"]])
    (endpoint,) = found["endpoints"]
    cluster.saw("address is the pod's", endpoint["addresses"] == [one["status"]["podIP"]])
    cluster.saw("where", [endpoint["nodeName"], endpoint.get("zone")])
    cluster.saw("target", endpoint["targetRef"])
    (owner,) = found["metadata"]["ownerReferences"]
    cluster.saw(
        "owner", [owner["kind"], owner["name"], owner.get("controller"), owner.get("blockOwnerDeletion")]
    )


@running_cluster_scenario(
    "a pod that is not ready is listed but does not serve; a terminating one serves while it is ready"
)
async def states(cluster: RunningCluster) -> None:
    unready = {"match": {"labels": {"role": "unready"}}, "readiness": "never"}
    lingers = {"match": {"labels": {"role": "leaving"}}, "termination": "ignored"}
    cluster.behave(unready, lingers)
    for name in ("ready", "unready", "leaving"):
        metadata = {"labels": {"app": "web", "role": name}}
        await cluster.create(PODS, cluster.pod(name, metadata=metadata, terminationGracePeriodSeconds=600))
    await cluster.until(PODS, lambda found: sum(map(is_ready, found.values())) == 2)
    await cluster.create(SERVICES, _service())
    cluster.saw("before", await _states(cluster, ready=True, unready=False, leaving=True))
    await cluster.client.delete(PODS, cluster.key("leaving"))
    cluster.saw("after", await _states(cluster, ready=True, unready=False, leaving=False))


@running_cluster_scenario("if the Service says so, pods that are not ready serve as well")
async def publish_not_ready(cluster: RunningCluster) -> None:
    cluster.behave({"readiness": "never"})
    await cluster.create(PODS, cluster.pod("web"))
    await cluster.create(SERVICES, _service(publishNotReadyAddresses=True, clusterIP="None"))
    cluster.saw("conditions", await _states(cluster, web=True))
    ((_, found),) = (await cluster.until(ENDPOINT_SLICES, lambda slices: len(slices) == 1)).items()
    cluster.saw("labels", found["metadata"]["labels"])


@running_cluster_scenario("a slice follows the Service's selector, and is deleted with the Service")
async def follows(cluster: RunningCluster) -> None:
    for name in ("web", "new"):
        await cluster.create(PODS, cluster.pod(name))
    await cluster.until_pods(2)
    await cluster.create(SERVICES, _service(selector={"app": "nobody"}))
    empty = await cluster.until(ENDPOINT_SLICES, lambda slices: len(slices) == 1)
    cluster.saw("at first", [[found["endpoints"], found["ports"]] for found in empty.values()])
    change = merge_patch({"spec": {"selector": {"app": "web"}}})
    await cluster.client.patch(SERVICES, cluster.key("web"), change)
    await _states(cluster, web=True)
    change = merge_patch({"spec": {"selector": {"app": "new"}}})
    await cluster.client.patch(SERVICES, cluster.key("web"), change)
    await _states(cluster, new=True)
    await cluster.client.patch(PODS, cluster.key("new"), merge_patch({"metadata": {"labels": {"app": "x"}}}))
    emptied = await cluster.until(ENDPOINT_SLICES, lambda slices: slices and not _endpoints(slices))
    cluster.saw("without pods", [[found["endpoints"], found["ports"]] for found in emptied.values()])
    await cluster.client.delete(SERVICES, cluster.key("web"))
    await cluster.until(ENDPOINT_SLICES, lambda slices: not slices)
    cluster.saw("slices left", 0)
