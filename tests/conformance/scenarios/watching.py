"""Lists and watches: what is told, from which version on, and what is told when that is gone."""

import asyncio
from typing import Any

import msgspec

from rescheduler.kube.api_resources import CONFIG_MAPS, merge_patch
from rescheduler.kube.errors import BadRequest
from tests.conformance.notes import at
from tests.conformance.objects import config_map
from tests.conformance.scenario import scenario
from tests.conformance.world import World


async def _change(world: World, name: str, **labels: str | None) -> None:
    await world.client.patch(CONFIG_MAPS, world.key(name), merge_patch({"metadata": {"labels": labels}}))


@scenario("a watch tells every change after its version, in order")
async def every_change(world: World) -> None:
    start = (await world.client.list(CONFIG_MAPS, namespace=world.namespace)).resource_version
    for name in ("one", "two"):
        await world.create(CONFIG_MAPS, config_map(name))
    await _change(world, "one", a="b")
    await world.client.delete(CONFIG_MAPS, world.key("two"))
    world.saw(
        "events", await world.events(CONFIG_MAPS, 4, version=start, fields="metadata.name!=kube-root-ca.crt")
    )


@scenario("a watch with a label selector tells of objects that come into view and leave it")
async def in_and_out_of_view(world: World) -> None:
    start = (await world.client.list(CONFIG_MAPS, namespace=world.namespace)).resource_version
    await world.create(CONFIG_MAPS, config_map("one"))
    await _change(world, "one", colour="red")
    await _change(world, "one", colour="red", size="large")
    await _change(world, "one", colour="blue")
    await _change(world, "one", colour="red")
    await world.client.delete(CONFIG_MAPS, world.key("one"))
    world.saw("events", await world.events(CONFIG_MAPS, 5, version=start, labels="colour=red"))


@scenario("a watch of one object by its name tells of no other")
async def one_by_name(world: World) -> None:
    start = (await world.client.list(CONFIG_MAPS, namespace=world.namespace)).resource_version
    for name in ("one", "two", "three"):
        await world.create(CONFIG_MAPS, config_map(name))
    await _change(world, "two", a="b")
    world.saw("events", await world.events(CONFIG_MAPS, 2, version=start, fields="metadata.name=two"))


@scenario("a watch without a version begins with all there is")
async def from_nothing(world: World) -> None:
    for name in ("one", "two"):
        await world.create(CONFIG_MAPS, config_map(name, labels={"mine": "yes"}))
    world.saw("events", sorted(await world.events(CONFIG_MAPS, 2, version="", labels="mine=yes")))


@scenario("a deletion is told with the version at which it happened")
async def version_of_a_deletion(world: World) -> None:
    made = await world.create(CONFIG_MAPS, config_map("one"))
    version = made["metadata"]["resourceVersion"]
    await world.client.delete(CONFIG_MAPS, world.key("one"))
    watch = world.client.watch(CONFIG_MAPS, namespace=world.namespace, version=version, timeout_s=20)
    async with watch as events:
        async for event in events:
            if event.object is not None and event.type == "DELETED":
                world.saw("the event's version is later", int(event.resource_version) > int(version))
                world.saw("the object in it", event.object.get("data"))
                break


@scenario("a watch from a version that was compacted away is refused as gone", alone=True)
async def compacted(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("one"))
    await world.forget_history()
    await world.tried("a watch from version 1", world.events(CONFIG_MAPS, 1, version="1"))


@scenario("a version from the future is not known yet")
async def from_the_future(world: World) -> None:
    future = str(10**12)
    await world.tried("a list", world.client.list(CONFIG_MAPS, namespace=world.namespace, version=future))


@scenario("pages together are the list at one version")
async def pages(world: World) -> None:
    for number in range(7):
        await world.create(CONFIG_MAPS, config_map(f"number-{number}", labels={"mine": "yes"}))
    selected = {"namespace": world.namespace, "labels": "mine=yes"}
    page = await world.client.list(CONFIG_MAPS, page_size=3, **selected)
    world.saw("all of them", [item["metadata"]["name"] for item in page.items])


@scenario("selectors choose by labels and fields; one that is not supported is refused")
async def selectors(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("one", labels={"tier": "front", "n": "1"}))
    await world.create(CONFIG_MAPS, config_map("two", labels={"tier": "back"}))
    await world.create(CONFIG_MAPS, config_map("three", labels={"other": "x"}))
    wanted = (
        "tier=front",
        "tier!=front",
        "tier in (front,back)",
        "tier notin (front)",
        "tier",
        "!tier",
        "n>0",
        "n<1",
    )
    for labels in wanted:
        page = await world.client.list(CONFIG_MAPS, namespace=world.namespace, labels=labels)
        names = sorted(item["metadata"]["name"] for item in page.items)
        world.saw(labels, [name for name in names if name != "kube-root-ca.crt"])
    for labels in ("tier in", "tier=a b", "=x"):
        try:
            await world.client.list(CONFIG_MAPS, namespace=world.namespace, labels=labels)
        except BadRequest as refused:
            world.saw(labels, [refused.code, refused.status.reason])  # the words are the parser's own
    await world.tried("a field", world.client.list(CONFIG_MAPS, namespace=world.namespace, fields="data.a=1"))


async def _lines(world: World, path: str, **query: str) -> list[Any]:
    """A watch read to its end."""
    answer = await world.asked("", "GET", path, query={"watch": "1", **query})
    return [msgspec.json.decode(line) for line in answer.body.splitlines()]


@scenario("before a watch ends, a bookmark tells up to where it was complete")
async def bookmarks(world: World) -> None:
    page = await world.client.list(CONFIG_MAPS, namespace=world.namespace)
    query = {
        "allowWatchBookmarks": "true", "timeoutSeconds": "4", "labelSelector": "nobody=x",
        "resourceVersion": page.resource_version,
    }  # fmt: skip
    lines = await _lines(world, CONFIG_MAPS.collection_path(world.namespace), **query)
    world.saw("types", sorted({line["type"] for line in lines}))
    world.saw("the last", lines[-1]["object"])
    world.saw(
        "its version is not older",
        int(at(lines[-1], "object.metadata.resourceVersion")) >= int(page.resource_version),
    )


@scenario("a watch ends after its time, and not before")
async def time_out(world: World) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    page = await world.client.list(CONFIG_MAPS, namespace=world.namespace)
    path = CONFIG_MAPS.collection_path(world.namespace)
    query = {"timeoutSeconds": "1", "resourceVersion": page.resource_version, "labelSelector": "nobody=x"}
    lines = await _lines(world, path, **query)
    world.saw("events", lines)
    world.saw("took a second", 0.9 <= loop.time() - began < 5)


@scenario("nonsense about watches is refused")
async def nonsense(world: World) -> None:
    path = CONFIG_MAPS.collection_path(world.namespace)
    for what, query in {
        "no number": {"resourceVersion": "x"},
        "a match without initial events": {"resourceVersionMatch": "NotOlderThan"},
        "a bad selector": {"fieldSelector": "data.a=1"},
        "a time-out": {"timeoutSeconds": "soon"},
    }.items():
        await world.asked(what, "GET", path, query={"watch": "1", "timeoutSeconds": "1", **query})


@scenario("the path of one object can't be watched: it is read")
async def single_object(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("one"))
    lines = await _lines(world, CONFIG_MAPS.object_path(world.namespace, "one"), timeoutSeconds="1")
    world.saw("answer", [line["kind"] for line in lines])


@scenario("a watch shows the object as it was at each change")
async def states(world: World) -> None:
    made = await world.create(CONFIG_MAPS, config_map("one"))
    for value in ("2", "3"):
        await world.client.patch(CONFIG_MAPS, world.key("one"), merge_patch({"data": {"a": value}}))
    await world.client.delete(CONFIG_MAPS, world.key("one"))
    version = made["metadata"]["resourceVersion"]
    query = {"resourceVersion": version, "timeoutSeconds": "1", "fieldSelector": "metadata.name=one"}
    lines = await _lines(world, CONFIG_MAPS.collection_path(world.namespace), **query)
    world.saw("states", [[line["type"], at(line, "object.data.a")] for line in lines])
