"""EndpointSlices: which pods serve a Service, and in what state they are."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import SERVICES, Object, api_resource, merge_patch
from tests.conformance.living import LivingWorld, is_ready
from tests.conformance.scenario import living

ENDPOINT_SLICES = api_resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")


def _service(**spec: object) -> Object:
    return {
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec},
    }


def _endpoints(slices: dict[str, Object]) -> dict[str, Object]:
    """By the name of the pod."""
    return {
        each["targetRef"]["name"]: each for found in slices.values() for each in found.get("endpoints") or ()
    }


async def _states(world: LivingWorld, **ready: bool) -> dict[str, Object]:
    """The conditions of each, once so many are told of and these are ready or not."""

    def so(slices: dict[str, Object]) -> bool:
        found = {name: each["conditions"]["ready"] for name, each in _endpoints(slices).items()}
        return found == ready

    slices = await world.until(ENDPOINT_SLICES, so)
    return {name: each["conditions"] for name, each in sorted(_endpoints(slices).items())}


@living("a Service's slice has the address, node and zone of each pod that it selects")
async def addresses(world: LivingWorld) -> None:
    await world.create(PODS, world.pod("one", app="web", nodeName=world.nodes[0]))
    await world.create(PODS, world.pod("other", nodeName=world.nodes[0]))
    (one, _) = await world.until_pods(2)
    await world.create(SERVICES, _service(ports=[{"name": "http", "port": 80, "targetPort": 8080}]))
    await _states(world, one=True)
    ((name, found),) = (await world.until(ENDPOINT_SLICES, lambda slices: len(slices) == 1)).items()
    world.saw("name", name)
    world.saw("labels", found["metadata"]["labels"])
    world.saw("type and ports", [found["addressType"], found["ports"]])
    (endpoint,) = found["endpoints"]
    world.saw("address is the pod's", endpoint["addresses"] == [one["status"]["podIP"]])
    world.saw("where", [endpoint["nodeName"], endpoint.get("zone")])
    world.saw("target", endpoint["targetRef"])
    (owner,) = found["metadata"]["ownerReferences"]
    world.saw(
        "owner", [owner["kind"], owner["name"], owner.get("controller"), owner.get("blockOwnerDeletion")]
    )


@living("a pod that is not ready is told of but does not serve, one on its way out serves while it is ready")
async def states(world: LivingWorld) -> None:
    unready = {"match": {"labels": {"role": "unready"}}, "readiness": "never"}
    lingers = {"match": {"labels": {"role": "leaving"}}, "termination": "ignored"}
    world.behave(unready, lingers)
    for name in ("ready", "unready", "leaving"):
        metadata = {"labels": {"app": "web", "role": name}}
        await world.create(PODS, world.pod(name, metadata=metadata, terminationGracePeriodSeconds=600))
    await world.until(PODS, lambda found: sum(map(is_ready, found.values())) == 2)
    await world.create(SERVICES, _service())
    world.saw("before", await _states(world, ready=True, unready=False, leaving=True))
    await world.client.delete(PODS, world.key("leaving"))
    world.saw("after", await _states(world, ready=True, unready=False, leaving=False))


@living("if the Service says so, pods that are not ready serve as well")
async def publish_not_ready(world: LivingWorld) -> None:
    world.behave({"readiness": "never"})
    await world.create(PODS, world.pod("web"))
    await world.create(SERVICES, _service(publishNotReadyAddresses=True, clusterIP="None"))
    world.saw("conditions", await _states(world, web=True))
    ((_, found),) = (await world.until(ENDPOINT_SLICES, lambda slices: len(slices) == 1)).items()
    world.saw("labels", found["metadata"]["labels"])


@living("a slice follows the Service's selector, and goes with the Service")
async def follows(world: LivingWorld) -> None:
    for name in ("web", "new"):
        await world.create(PODS, world.pod(name))
    await world.until_pods(2)
    await world.create(SERVICES, _service(selector={"app": "nobody"}))
    empty = await world.until(ENDPOINT_SLICES, lambda slices: len(slices) == 1)
    world.saw("at first", [[found["endpoints"], found["ports"]] for found in empty.values()])
    change = merge_patch({"spec": {"selector": {"app": "web"}}})
    await world.client.patch(SERVICES, world.key("web"), change)
    await _states(world, web=True)
    change = merge_patch({"spec": {"selector": {"app": "new"}}})
    await world.client.patch(SERVICES, world.key("web"), change)
    await _states(world, new=True)
    await world.client.patch(PODS, world.key("new"), merge_patch({"metadata": {"labels": {"app": "x"}}}))
    emptied = await world.until(ENDPOINT_SLICES, lambda slices: slices and not _endpoints(slices))
    world.saw("without pods", [[found["endpoints"], found["ports"]] for found in emptied.values()])
    await world.client.delete(SERVICES, world.key("web"))
    await world.until(ENDPOINT_SLICES, lambda slices: not slices)
    world.saw("slices left", 0)
