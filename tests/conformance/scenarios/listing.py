"""Lists: pages, versions, and looking at one moment."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import CONFIG_MAPS, NAMESPACES
from tests.conformance.notes import at
from tests.conformance.objects import config_map, pod
from tests.conformance.scenario import scenario
from tests.conformance.world import Seen, World


async def _listed(world: World, what: str = "", **query: str) -> Seen:
    path = CONFIG_MAPS.collection_path(world.namespace)
    return await world.asked(what, "GET", path, query={"labelSelector": "mine=yes", **query})


def _names(answer: Seen) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json["items"]]


async def _make(world: World, *names: str) -> None:
    for name in names:
        await world.create(CONFIG_MAPS, config_map(name, labels={"mine": "yes"}))


@scenario("a page tells where it goes on, and how much is left if that is easily known")
async def pages(world: World) -> None:
    await _make(world, *(f"number-{number}" for number in range(5)))
    unselected = await world.asked(
        "", "GET", CONFIG_MAPS.collection_path(world.namespace),
        query={"limit": "2", "fieldSelector": "metadata.name!=kube-root-ca.crt"},
    )  # fmt: skip
    world.saw(
        "with a field selector", [_names(unselected), at(unselected.json, "metadata.remainingItemCount")]
    )
    first = await _listed(world, limit="2")
    world.saw("first", [_names(first), at(first.json, "metadata.remainingItemCount")])
    await _make(world, "number-00-late")
    second = await _listed(world, limit="2", **{"continue": at(first.json, "metadata.continue")})
    world.saw(
        "second",
        [
            _names(second),
            second.json["metadata"]["resourceVersion"] == first.json["metadata"]["resourceVersion"],
        ],
    )
    third = await _listed(world, limit="2", **{"continue": at(second.json, "metadata.continue")})
    world.saw("third", [_names(third), at(third.json, "metadata.continue")])
    answer = await _listed(world, limit="2", **{"continue": "nonsense"})
    world.saw("a token that is none", [answer.code, answer.json["reason"]])
    token = at(first.json, "metadata.continue")
    await _listed(world, "a token and a version", resourceVersion="1", **{"continue": token})


@scenario("without a selector a page tells how many are left")
async def remaining(world: World) -> None:
    for number in range(4):
        await world.create(PODS, pod(f"number-{number}"))
    answer = await world.asked("", "GET", PODS.collection_path(world.namespace), query={"limit": "3"})
    world.saw("left", at(answer.json, "metadata.remainingItemCount"))
    rest = await world.asked(
        "",
        "GET",
        PODS.collection_path(world.namespace),
        query={"limit": "3", "continue": at(answer.json, "metadata.continue")},
    )
    world.saw("rest", [len(rest.json["items"]), at(rest.json, "metadata.remainingItemCount")])
    none = await world.asked("", "GET", PODS.collection_path(world.namespace), query={"limit": "0"})
    world.saw("no limit", len(none.json["items"]))
    await world.asked(
        "a limit that is no number", "GET", PODS.collection_path(world.namespace), query={"limit": "x"}
    )


@scenario("a list of an exact version is the list of that moment")
async def exact(world: World) -> None:
    await _make(world, "one")
    version = (await _listed(world)).json["metadata"]["resourceVersion"]
    await _make(world, "two")
    then = await _listed(world, resourceVersion=version, resourceVersionMatch="Exact", limit="10")
    world.saw("then", [_names(then), at(then.json, "metadata.resourceVersion") == version])
    now = await _listed(world, resourceVersion=version, resourceVersionMatch="NotOlderThan")
    # Perhaps from the server's cache, which may lag behind: not older, but not always the newest.
    told = now.json["metadata"]["resourceVersion"]
    world.saw("not older", [_names(now)[0], int(told) >= int(version)])
    world.saw("newest", _names(await _listed(world)))


@scenario("nonsense about versions is refused")
async def nonsense(world: World) -> None:
    for what, query in {
        "Exact without version": {"resourceVersionMatch": "Exact"},
        "Exact of 0": {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
        "an unknown match": {"resourceVersion": "1", "resourceVersionMatch": "Perhaps"},
        "no number": {"resourceVersion": "x"},
        "initial events of a list": {"sendInitialEvents": "true"},
    }.items():
        await _listed(world, what, **query)


@scenario(
    "built-in items don't say their kind, the list does; every object can be asked for its metadata alone"
)
async def shapes(world: World) -> None:
    await _make(world, "one")
    answer = await _listed(world)
    world.saw("a list", {**answer.json, "items": [sorted(item) for item in answer.json["items"]]})
    bare = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    path = CONFIG_MAPS.collection_path(world.namespace)
    answer = await world.asked("", "GET", path, query={"labelSelector": "mine=yes"}, accept=bare)
    world.saw("metadata alone", answer.json)
    one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    answer = await world.asked("", "GET", CONFIG_MAPS.object_path(world.namespace, "one"), accept=one)
    world.saw("of one", answer.json)


@scenario("pods can be chosen by node, phase and more; namespaces by phase")
async def fields(world: World) -> None:
    await world.create(PODS, pod("placed", node="worker"))
    await world.create(PODS, pod("free", spec={"restartPolicy": "Never", "schedulerName": "mine"}))
    for selector in (
        "spec.nodeName=worker",
        "spec.nodeName=",
        "spec.nodeName!=worker",
        "status.phase=Pending",
        "status.phase=Running",
        "spec.restartPolicy=Never,spec.schedulerName=mine",
        "metadata.name=free",
        f"metadata.namespace={world.namespace}",
        "spec.hostNetwork=false",
        "spec.serviceAccountName=",
    ):
        page = await world.client.list(PODS.as_json, namespace=world.namespace, fields=selector)
        world.saw(selector, sorted(item["metadata"]["name"] for item in page.items))
    listed = world.client.list(PODS.as_json, namespace=world.namespace, fields="spec.color=red")
    await world.tried("an unknown one", listed)
    page = await world.client.list(NAMESPACES, fields=f"status.phase=Active,metadata.name={world.namespace}")
    world.saw("namespaces", [item["metadata"]["name"] for item in page.items])


@scenario("a collection is deleted by selector, and answered with what was there")
async def delete_collection(world: World) -> None:
    await _make(world, "one", "two")
    await world.create(CONFIG_MAPS, config_map("three"))
    path = CONFIG_MAPS.collection_path(world.namespace)
    answer = await world.asked("", "DELETE", path, query={"labelSelector": "mine=yes"})
    world.saw("answer", [answer.code, answer.json["kind"]])
    page = await world.client.list(CONFIG_MAPS, namespace=world.namespace)
    names = sorted(item["metadata"]["name"] for item in page.items)
    world.saw("left", [name for name in names if name != "kube-root-ca.crt"])
    await world.asked("of all namespaces", "DELETE", CONFIG_MAPS.collection_path())
    empty = await world.asked("", "DELETE", path, query={"labelSelector": "nobody=x"})
    world.saw("of nothing", [empty.code, empty.json["kind"]])
