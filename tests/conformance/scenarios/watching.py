"""Lists and watches: which events are sent from which version on, also if it is gone."""

import asyncio
from typing import Any

import msgspec

from rescheduler.kube.api_resources import CONFIG_MAPS, merge_patch
from rescheduler.kube.errors import BadRequest
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.notes import at
from tests.conformance.objects import config_map
from tests.conformance.scenario import scenario


async def _change(cluster: ClusterUnderTest, name: str, **labels: str | None) -> None:
    await cluster.client.patch(CONFIG_MAPS, cluster.key(name), merge_patch({"metadata": {"labels": labels}}))


@scenario("a watch sends every change after its version, in order")
async def every_change(cluster: ClusterUnderTest) -> None:
    start = (await cluster.client.list(CONFIG_MAPS, namespace=cluster.namespace)).resource_version
    for name in ("one", "two"):
        await cluster.create(CONFIG_MAPS, config_map(name))
    await _change(cluster, "one", a="b")
    await cluster.client.delete(CONFIG_MAPS, cluster.key("two"))
    cluster.saw(
        "events",
        await cluster.events(CONFIG_MAPS, 4, version=start, fields="metadata.name!=kube-root-ca.crt"),
    )


@scenario("a watch with a label selector reports objects that start and stop matching")
async def in_and_out_of_view(cluster: ClusterUnderTest) -> None:
    start = (await cluster.client.list(CONFIG_MAPS, namespace=cluster.namespace)).resource_version
    await cluster.create(CONFIG_MAPS, config_map("one"))
    await _change(cluster, "one", colour="red")
    await _change(cluster, "one", colour="red", size="large")
    await _change(cluster, "one", colour="blue")
    await _change(cluster, "one", colour="red")
    await cluster.client.delete(CONFIG_MAPS, cluster.key("one"))
    cluster.saw("events", await cluster.events(CONFIG_MAPS, 5, version=start, labels="colour=red"))


@scenario("a watch of one object by its name reports no other")
async def one_by_name(cluster: ClusterUnderTest) -> None:
    start = (await cluster.client.list(CONFIG_MAPS, namespace=cluster.namespace)).resource_version
    for name in ("one", "two", "three"):
        await cluster.create(CONFIG_MAPS, config_map(name))
    await _change(cluster, "two", a="b")
    cluster.saw("events", await cluster.events(CONFIG_MAPS, 2, version=start, fields="metadata.name=two"))


@scenario("a watch without a version begins with all objects")
async def from_nothing(cluster: ClusterUnderTest) -> None:
    for name in ("one", "two"):
        await cluster.create(CONFIG_MAPS, config_map(name, labels={"mine": "yes"}))
    cluster.saw("events", sorted(await cluster.events(CONFIG_MAPS, 2, version="", labels="mine=yes")))


@scenario("a deletion is reported with the version at which it happened")
async def version_of_a_deletion(cluster: ClusterUnderTest) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("one"))
    version = made["metadata"]["resourceVersion"]
    await cluster.client.delete(CONFIG_MAPS, cluster.key("one"))
    watch = cluster.client.watch(CONFIG_MAPS, namespace=cluster.namespace, version=version, timeout_s=20)
    async with watch as events:
        async for event in events:
            if event.object is not None and event.type == "DELETED":
                cluster.saw("the event's version is later", int(event.resource_version) > int(version))
                cluster.saw("the object in it", event.object.get("data"))
                break


@scenario("a watch from a version that was compacted away is refused as gone", alone=True)
async def compacted(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("one"))
    await cluster.forget_history()
    await cluster.tried("a watch from version 1", cluster.events(CONFIG_MAPS, 1, version="1"))


@scenario("a version from the future is not known yet")
async def from_the_future(cluster: ClusterUnderTest) -> None:
    future = str(10**12)
    await cluster.tried(
        "a list", cluster.client.list(CONFIG_MAPS, namespace=cluster.namespace, version=future)
    )


@scenario("pages together are the list at one version")
async def pages(cluster: ClusterUnderTest) -> None:
    for number in range(7):
        await cluster.create(CONFIG_MAPS, config_map(f"number-{number}", labels={"mine": "yes"}))
    selected = {"namespace": cluster.namespace, "labels": "mine=yes"}
    page = await cluster.client.list(CONFIG_MAPS, page_size=3, **selected)
    cluster.saw("all of them", [item["metadata"]["name"] for item in page.items])


@scenario("selectors choose by labels and fields; one that is not supported is refused")
async def selectors(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("one", labels={"tier": "front", "n": "1"}))
    await cluster.create(CONFIG_MAPS, config_map("two", labels={"tier": "back"}))
    await cluster.create(CONFIG_MAPS, config_map("three", labels={"other": "x"}))
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
        page = await cluster.client.list(CONFIG_MAPS, namespace=cluster.namespace, labels=labels)
        names = sorted(item["metadata"]["name"] for item in page.items)
        cluster.saw(labels, [name for name in names if name != "kube-root-ca.crt"])
    for labels in ("tier in", "tier=a b", "=x"):
        try:
            await cluster.client.list(CONFIG_MAPS, namespace=cluster.namespace, labels=labels)
        except BadRequest as refused:
            cluster.saw(labels, [refused.code, refused.status.reason])  # the words are the parser's own
    await cluster.tried(
        "a field", cluster.client.list(CONFIG_MAPS, namespace=cluster.namespace, fields="data.a=1")
    )


async def _lines(cluster: ClusterUnderTest, path: str, **query: str) -> list[Any]:
    """A watch read to its end."""
    answer = await cluster.asked("", "GET", path, query={"watch": "1", **query})
    return [msgspec.json.decode(line) for line in answer.body.splitlines()]


@scenario("before a watch ends, a bookmark has the version up to which it was complete")
async def bookmarks(cluster: ClusterUnderTest) -> None:
    page = await cluster.client.list(CONFIG_MAPS, namespace=cluster.namespace)
    query = {
        "allowWatchBookmarks": "true", "timeoutSeconds": "4", "labelSelector": "nobody=x",
        "resourceVersion": page.resource_version,
    }  # fmt: skip
    lines = await _lines(cluster, CONFIG_MAPS.collection_path(cluster.namespace), **query)
    cluster.saw("types", sorted({line["type"] for line in lines}))
    cluster.saw("the last", lines[-1]["object"])
    cluster.saw(
        "its version is not older",
        int(at(lines[-1], "object.metadata.resourceVersion")) >= int(page.resource_version),
    )


@scenario("a watch ends after its time, and not before")
async def time_out(cluster: ClusterUnderTest) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    page = await cluster.client.list(CONFIG_MAPS, namespace=cluster.namespace)
    path = CONFIG_MAPS.collection_path(cluster.namespace)
    query = {"timeoutSeconds": "1", "resourceVersion": page.resource_version, "labelSelector": "nobody=x"}
    lines = await _lines(cluster, path, **query)
    cluster.saw("events", lines)
    cluster.saw("took a second", 0.9 <= loop.time() - began < 5)


@scenario("invalid watch options are refused")
async def nonsense(cluster: ClusterUnderTest) -> None:
    path = CONFIG_MAPS.collection_path(cluster.namespace)
    for what, query in {
        "no number": {"resourceVersion": "x"},
        "a match without initial events": {"resourceVersionMatch": "NotOlderThan"},
        "a bad selector": {"fieldSelector": "data.a=1"},
        "a time-out": {"timeoutSeconds": "soon"},
    }.items():
        await cluster.asked(what, "GET", path, query={"watch": "1", "timeoutSeconds": "1", **query})


@scenario("the path of one object can't be watched: it is read")
async def single_object(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("one"))
    lines = await _lines(cluster, CONFIG_MAPS.object_path(cluster.namespace, "one"), timeoutSeconds="1")
    cluster.saw("answer", [line["kind"] for line in lines])


@scenario("a watch shows the object as it was at each change")
async def states(cluster: ClusterUnderTest) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("one"))
    for value in ("2", "3"):
        await cluster.client.patch(CONFIG_MAPS, cluster.key("one"), merge_patch({"data": {"a": value}}))
    await cluster.client.delete(CONFIG_MAPS, cluster.key("one"))
    version = made["metadata"]["resourceVersion"]
    query = {"resourceVersion": version, "timeoutSeconds": "1", "fieldSelector": "metadata.name=one"}
    lines = await _lines(cluster, CONFIG_MAPS.collection_path(cluster.namespace), **query)
    cluster.saw("states", [[line["type"], at(line, "object.data.a")] for line in lines])
