"""Informers on the simulated API server: after any faults, the cache equals a list."""

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


async def change_something(client: Client, server: ApiServer, rng: random.Random) -> None:
    """Make one random change: mostly a write, sometimes a fault."""
    name = f"thing-{rng.randrange(12)}"
    kind_of_change = rng.choices(["put", "delete", "drop", "compact", "fail", "pause"], [10, 4, 1, 1, 1, 4])[
        0
    ]
    try:
        if kind_of_change == "put":
            change = {"data": {"n": str(rng.random())}}
            try:
                await client.patch(CONFIG_MAPS, f"default/{name}", merge_patch(change))
            except KubeError:
                await client.create(
                    CONFIG_MAPS, {"metadata": {"namespace": "default", "name": name}, **change}
                )
        elif kind_of_change == "delete":
            await client.delete(CONFIG_MAPS, f"default/{name}")
    except KubeError:
        pass  # not there, or refused by an injected fault: both are fine here
    if kind_of_change == "drop":
        server.watches.drop()
    elif kind_of_change == "compact":
        server.store.compact()
    elif kind_of_change == "fail":
        kind = rng.choice(["internal-error", "unavailable", "too-many-requests"])
        server.faults.add(InjectedFault(kind, verbs=("list", "watch"), times=rng.randint(1, 3)))
    elif kind_of_change == "pause":
        await asyncio.sleep(rng.choice([0.0, 0.1, 2.0, 70.0]))


def content(items) -> dict:
    """Drop `kind` and `apiVersion`, which lists leave out and events have."""
    return {item["metadata"]["name"]: (item["metadata"], item.get("data")) for item in items}


@pytest.mark.parametrize("seed", range(8))
async def test_after_any_mishaps_the_cache_and_what_was_reported_equal_a_list(seed, client, server, until):
    rng = random.Random(seed)
    informer = Informer(client, CONFIG_MAPS, rng=rng)
    reported = {}

    def follow(old, new):
        item = new or old
        key = item["metadata"]["name"]
        assert reported.get(key) == old, "the old object is the new one of the event before"
        reported[key] = new

    informer.subscribe(follow)
    async with informer.running():
        for _ in range(150):
            await change_something(client, server, rng)
        server.faults.clear()
        page = await client.list(CONFIG_MAPS)
        await until(lambda: content(informer) == content(page.items), within_s=120)
    assert content(item for item in reported.values() if item is not None) == content(page.items)
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
