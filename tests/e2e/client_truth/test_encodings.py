"""Protobuf and JSON give the same records, from what a real API server sends."""

import asyncio
from datetime import datetime
from typing import Any, NamedTuple

import pytest

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiResource, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.codecs.codec import WatchEvent
from rescheduler.kube.watch_cache import Watch
from tests.e2e.client_truth import rich
from tests.e2e.client_truth.encodings import JSON, PROTOBUF, RecordedRequests, only
from tests.e2e.client_truth.fields import all_fields, differences, filled
from tests.e2e.client_truth.filled_server import FilledServer, stock
from tests.testbed import ControlPlane, Part

WATCH_S = 5.0
"""A watch that ends soon: shortly before, the server sends a bookmark, else only once a minute."""
KINDS = [pytest.param(PODS, id="pods"), pytest.param(NODES, id="nodes")]


class Twice(NamedTuple):
    """The same asked for in both encodings."""

    protobuf: Any
    json: Any


@pytest.fixture(scope="module")
def filled_server(bare: ControlPlane) -> FilledServer:
    return asyncio.run(stock(bare))


@pytest.fixture
def twice(truth: Client, recorded_requests: RecordedRequests, filled_server: FilledServer) -> Any:
    async def ask(question: Any, resource: ApiResource[Any]) -> Twice:
        with recorded_requests.expecting(PROTOBUF):
            protobuf = await question(only(PROTOBUF, resource))
        with recorded_requests.expecting(JSON):
            json = await question(only(JSON, resource))
        return Twice(protobuf, json)

    return ask


@pytest.mark.parametrize("name", [pod["metadata"]["name"] for pod in rich.PODS])
async def test_a_pod_is_the_same_in_both_encodings(truth: Client, twice: Any, name: str) -> None:
    found = await twice(lambda pods: truth.get(pods, f"default/{name}"), PODS)
    assert isinstance(found.protobuf, PodRecord)
    assert list(differences(found.protobuf, found.json)) == []


@pytest.mark.parametrize("name", [node["metadata"]["name"] for node in rich.NODES])
async def test_a_node_is_the_same_in_both_encodings(truth: Client, twice: Any, name: str) -> None:
    found = await twice(lambda nodes: truth.get(nodes, name), NODES)
    assert isinstance(found.protobuf, NodeRecord)
    assert list(differences(found.protobuf, found.json)) == []


@pytest.mark.parametrize("page_size", [pytest.param(0, id="at once"), pytest.param(3, id="in pages")])
@pytest.mark.parametrize("resource", KINDS)
async def test_a_list_is_the_same_in_both_encodings(
    truth: Client, twice: Any, resource: ApiResource[Any], page_size: int
) -> None:
    found = await twice(lambda kind: truth.list(kind, page_size=page_size), resource)
    assert len(found.protobuf.items) == len(rich.PODS if resource is PODS else rich.NODES)
    assert list(differences(tuple(found.protobuf.items), tuple(found.json.items))) == []
    assert found.protobuf.resource_version == found.json.resource_version


async def test_together_they_fill_every_field_of_our_records(
    truth: Client, filled_server: FilledServer
) -> None:
    records = [*(await truth.list(PODS)).items, *(await truth.list(NODES)).items]
    said = {field for record in records for field in filled(record)}
    never = {f"{kind.__name__}.{field}" for kind, field in all_fields(PodRecord, NodeRecord) - said}
    assert never == set()


async def test_records_say_what_the_object_says(truth: Client, filled_server: FilledServer) -> None:
    """What both encodings could get wrong alike."""
    whole = await truth.get(PODS.as_json, "default/marked")
    pod = await truth.get(PODS, "default/marked")
    metadata = whole["metadata"]
    assert (pod.uid, pod.resource_version) == (metadata["uid"], metadata["resourceVersion"])
    assert (pod.created_s, pod.deleted_s) == tuple(
        int(datetime.fromisoformat(metadata[field]).timestamp())
        for field in ("creationTimestamp", "deletionTimestamp")
    )
    assert pod.deletion_grace_s == 3600
    assert pod.owner is not None
    assert (pod.owner.kind, pod.owner.uid) == ("ReplicaSet", "u-1")
    assert set(pod.annotations) == {"scheduler.alpha.kubernetes.io/original-pod", "scheduling-retries"}
    sidecars = await truth.get(PODS, "default/sidecars")
    # One and a half, 100m of the other container, 100m of the sidecar, 250m of overhead: 1950m.
    # The init container's 2, the overhead: 2250m, which is more.
    assert sidecars.requests.cpu_millis == 2250
    assert sidecars.requests.extended == (("example.com/gpu", 2), ("hugepages-2Mi", 4 << 20))
    assert sidecars.priority == 100_000
    resized = await truth.get(PODS, "default/resized")
    assert (resized.shape.requests.cpu_millis, resized.requests.cpu_millis) == (2000, 4000)
    node = await truth.get(NODES, "loaded")
    assert (node.allocatable.cpu_millis, node.allocatable.ephemeral_bytes) == (15_890, 95 * 10**9)


# -- watches


@pytest.mark.parametrize(
    ("resource", "key"),
    [pytest.param(PODS, "default/plain", id="pods"), pytest.param(NODES, "bare", id="nodes")],
)
async def test_a_watch_shows_the_same_in_both_encodings(
    truth: Client,
    recorded_requests: RecordedRequests,
    filled_server: FilledServer,
    resource: ApiResource[Any],
    key: str,
) -> None:
    version = filled_server.pods_before if resource is PODS else filled_server.nodes_before
    async with (
        truth.watch(only(PROTOBUF, resource), version=version, timeout_s=WATCH_S) as protobuf,
        truth.watch(only(JSON, resource), version=version, timeout_s=WATCH_S) as json,
    ):
        assert set(recorded_requests.content_types) == {PROTOBUF, JSON}
        # The server sends a bookmark only if there is something newer than what the watch began with.
        await truth.patch(resource, key, merge_patch({"metadata": {"labels": {"touched": "now"}}}))
        left, right = await asyncio.gather(_reported(protobuf), _reported(json))
    assert {event.type for event in left} == {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}
    assert list(differences(tuple(left), tuple(right))) == []


async def _reported(watch: Watch[Any]) -> list[WatchEvent[Any]]:
    """How many bookmarks come depends on the time; what they say does not."""
    seen = [event async for event in watch]
    bookmarks = {event.resource_version: event for event in seen if event.type == "BOOKMARK"}
    return [*(event for event in seen if event.type != "BOOKMARK"), *bookmarks.values()]


# -- refusals

STALE = rich.PODS[0] | {"metadata": {"name": "plain", "namespace": "default", "resourceVersion": "1"}}
FAULTY = rich.pod("faulty", {"containers": [{"name": "Not A Name"}], "restartPolicy": "Sometimes"})


@pytest.mark.parametrize(
    ("kind", "question"),
    [
        pytest.param(errors.NotFound, lambda c, pods: c.get(pods, "default/nobody"), id="not found"),
        pytest.param(errors.AlreadyExists, lambda c, pods: c.create(pods, rich.PODS[0]), id="already exists"),
        pytest.param(errors.Conflict, lambda c, pods: c.replace(pods, STALE), id="conflict"),
        pytest.param(errors.Invalid, lambda c, pods: c.create(pods, FAULTY), id="invalid, with causes"),
        pytest.param(errors.BadRequest, lambda c, pods: c.list(pods, fields="no.such=1"), id="bad request"),
    ],
)
async def test_a_refusal_means_the_same_in_both_encodings(
    truth: Client, twice: Any, kind: type[errors.KubeError], question: Any
) -> None:
    async def refused(pods: ApiResource[Any]) -> errors.KubeError:
        with pytest.raises(kind) as raised:
            await question(truth, pods)
        return raised.value

    found = await twice(refused, PODS)
    assert found.protobuf.status.code >= 400
    assert list(differences(found.protobuf.status, found.json.status)) == []
    assert str(found.protobuf) == str(found.json)


async def test_an_expired_version_is_reported_alike_within_a_watch(
    truth: Client, bare: ControlPlane, twice: Any, filled_server: FilledServer
) -> None:
    await asyncio.to_thread(bare.compact_etcd)
    await asyncio.to_thread(bare.restart, Part.API_SERVER)

    async def expired(pods: ApiResource[Any]) -> errors.KubeError:
        with pytest.raises(errors.Gone) as raised:
            async with truth.watch(pods, version=filled_server.pods_before, timeout_s=WATCH_S) as watch:
                await _reported(watch)
        return raised.value

    found = await twice(expired, PODS)
    assert list(differences(found.protobuf.status, found.json.status)) == []
