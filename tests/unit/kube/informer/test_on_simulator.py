"""Informers against the simulated API server: whatever befalls it, the cache ends up equal to a list."""

import asyncio
import random

import pytest

from kubesim.apiserver.api_server import ApiServer
from kubesim.apiserver.fault_injection import InjectedFault
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, api_resource, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.errors import KubeError
from rescheduler.kube.informer import Informer
from rescheduler.kube.transport import InProcessTransport


@pytest.fixture
def server() -> ApiServer:
    return ApiServer(seed=1, history_limit=100)


@pytest.fixture
def transport(server) -> InProcessTransport:
    return InProcessTransport(server.handle)


async def shake(client: Client, server: ApiServer, dice: random.Random) -> None:
    """One random thing happens: mostly a write, now and then a mishap."""
    name = f"thing-{dice.randrange(12)}"
    happening = dice.choices(["put", "delete", "drop", "compact", "fail", "pause"], [10, 4, 1, 1, 1, 4])[0]
    try:
        if happening == "put":
            change = {"data": {"n": str(dice.random())}}
            try:
                await client.patch(CONFIG_MAPS, f"default/{name}", merge_patch(change))
            except KubeError:
                await client.create(
                    CONFIG_MAPS, {"metadata": {"namespace": "default", "name": name}, **change}
                )
        elif happening == "delete":
            await client.delete(CONFIG_MAPS, f"default/{name}")
    except KubeError:
        pass  # not there, or struck by a fault: both are fine here
    if happening == "drop":
        server.watches.drop()
    elif happening == "compact":
        server.store.compact()
    elif happening == "fail":
        kind = dice.choice(["internal-error", "unavailable", "too-many-requests"])
        server.faults.add(InjectedFault(kind, verbs=("list", "watch"), times=dice.randint(1, 3)))
    elif happening == "pause":
        await asyncio.sleep(dice.choice([0.0, 0.1, 2.0, 70.0]))


def content(items) -> dict:
    """Without `kind` and `apiVersion`, which lists leave out and events have."""
    return {item["metadata"]["name"]: (item["metadata"], item.get("data")) for item in items}


@pytest.mark.parametrize("seed", range(8))
async def test_after_any_mishaps_the_cache_and_what_was_told_equal_a_list(seed, client, server, until):
    dice = random.Random(seed)
    informer = Informer(client, CONFIG_MAPS, rng=dice)
    told = {}

    def follow(old, new):
        item = new or old
        key = item["metadata"]["name"]
        assert told.get(key) == old, "what is told as old is what was told as new before"
        told[key] = new

    informer.subscribe(follow)
    async with informer.running():
        for _ in range(150):
            await shake(client, server, dice)
        server.faults.clear()
        page = await client.list(CONFIG_MAPS)
        await until(lambda: content(informer) == content(page.items), within_s=120)
    assert content(item for item in told.values() if item is not None) == content(page.items)
    assert informer.counts.handler_failures == 0
    assert len(server.watches) == 0


async def test_a_quiet_hour_of_bookmarks_costs_no_list(client, server):
    informer = Informer(client, NODES)
    async with informer.running():
        for _ in range(60):
            await asyncio.sleep(60)
            assert informer.is_fresh
    assert informer.counts.bookmarks >= 59
    assert informer.counts.relists == 0
    assert informer.counts.failures == 0


async def test_pods_arrive_as_records_and_are_found_by_node(client, server, until):
    informer = Informer(client, PODS, indices={"node": lambda pod: [pod.node]})
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]},
    }
    async with informer.running():
        await client.create(PODS, pod)
        await until(lambda: "default/web" in informer)
        assert [pod.name for pod in informer.find("node", "node-1")] == ["web"]
        await client.delete(PODS, "default/web", grace_s=0)
        await until(lambda: "default/web" not in informer)
        assert informer.find("node", "node-1") == []


WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.test.dev"},
    "spec": {
        "group": "test.dev",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


async def test_a_custom_resource_is_followed_as_soon_as_it_is_defined(client, server, until):
    widgets = api_resource("test.dev", "v1", "widgets", "Widget")
    informer = Informer(client, widgets)
    async with informer.running():
        await until(lambda: informer.failure)
        assert "widgets.test.dev" in str(informer.failure)
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGETS)
        await until(lambda: informer.is_synced)
        widget = {
            "apiVersion": "test.dev/v1",
            "kind": "Widget",
            "metadata": {"namespace": "default", "name": "w"},
        }
        await client.create(widgets, widget)
        await until(lambda: "default/w" in informer)
        assert informer.failure is None
