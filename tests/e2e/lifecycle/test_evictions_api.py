"""EvictionRequests (lifecycle.k8s.io/v1alpha1, gate EvictionRequestAPI): rescheduler is a responder.

Kubernetes 1.37 serves the API, but its controller manager has no controller yet that makes Evictions of
EvictionRequests. The test plays that controller, and the API server validates what it and rescheduler write.
"""

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rescheduler.api.well_known_names import EVICTION_RESPONDER
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.daemon.eviction_responder import EVICTIONS
from rescheduler.kube import errors
from rescheduler.kube.access.cluster_access import ClusterAccess, StoredCredentials
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import Object, api_resource, merge_patch
from rescheduler.kube.client import FIELD_MANAGER, Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.lifecycle.conftest import Daemon, MakeShop
from tests.e2e.permissions import DAEMON, kubeconfig_as
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.testbed import ControlPlane

REQUESTS = api_resource("lifecycle.k8s.io", "v1alpha1", "evictionrequests", "EvictionRequest")
LAST_RESORT = "imperative-eviction.k8s.io/evictor"


class EvictionRequestController:
    """What a later Kubernetes does: one Eviction per pod, and one active responder at a time."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def request(self, pod: Object) -> str:
        """A client asks for the eviction; return the key of the Eviction."""
        meta, target = pod["metadata"], {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        spec = {"target": {"pod": target}, "requester": "example.com/upgrade", "intent": "Eviction"}
        await self._client.create(REQUESTS, self._object(REQUESTS, meta["name"], spec))
        await self._client.create(
            EVICTIONS, self._object(EVICTIONS, meta["name"], {"target": {"pod": target}})
        )
        return f"{self._namespace}/{meta['name']}"

    def _object(self, resource: Any, name: str, spec: Object) -> Object:
        meta = {"namespace": self._namespace, "name": name}
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec}

    async def activate(self, key: str, pod: Object) -> None:
        """Take the responders from the pod, and activate the one with the highest priority."""
        named = [*pod["spec"]["evictionResponders"], {"name": LAST_RESORT, "priority": 100}]
        responders = [{**each, "state": "Inactive"} for each in named]
        statuses: list[Object] = [{"name": each["name"]} for each in named]
        responders[0]["state"] = "Active"
        statuses[0]["startTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        requesters = [{"name": "example.com/upgrade", "intent": "Eviction"}]
        await self._set(key, targetResponders=responders, responders=statuses, requesters=requesters)

    async def _set(self, key: str, **status: Any) -> None:
        await self._client.patch(EVICTIONS.status, key, merge_patch({"status": status}))

    async def report(self, key: str) -> Object:
        found = (await self._client.get(EVICTIONS, key))["status"]["responders"]
        report: Object = next(each for each in found if each["name"] == EVICTION_RESPONDER)
        return report


def opted_in() -> Object:
    return {"evictionResponders": [{"name": EVICTION_RESPONDER, "priority": 10000}]}


async def test_a_pod_that_opted_in_is_moved_before_it_goes(
    client: Client, namespace: str, make_shop: MakeShop, daemon: Daemon, eventually: Any
) -> None:
    """One replica under a budget that allows nothing: no responder but ours could let it go."""
    moves = await make_shop(2)
    await moves.sandbox.deployment(1, pod=opted_in())
    await moves.sandbox.budget(minAvailable=1)
    (pod,) = await moves.sandbox.pods()
    replica = await daemon(enabledStrategies=[])
    await replica.until_said("EvictionResponderStarted")
    controller = EvictionRequestController(client, namespace)
    async with observing(client, namespace) as seen:
        key = await controller.request(pod)
        await controller.activate(key, pod)

        async def completed() -> Object | None:
            report = await controller.report(key)
            return report if "completionTime" in report else None

        report = await eventually(completed)
        (successor,) = await moves.sandbox.until_ready(1)
        await seen.caught_up()
    assert report["heartbeatTime"] <= report["completionTime"]
    assert node_of(successor) != node_of(pod)
    (migration,) = (await client.list(POD_MIGRATIONS, namespace=namespace)).items
    assert migration["spec"]["reason"] == "eviction requested by example.com/upgrade"
    assert min(seen.ready) >= 1, "the workload was never without a ready pod"


async def test_a_withdrawn_request_cancels_the_move(
    client: Client, namespace: str, make_shop: MakeShop, daemon: Daemon, eventually: Any
) -> None:
    moves = await make_shop(2)
    await moves.sandbox.deployment(1, pod=opted_in())
    (pod,) = await moves.sandbox.pods()
    moves.sandbox.start_slowly()
    await daemon(enabledStrategies=[])
    controller = EvictionRequestController(client, namespace)
    key = await controller.request(pod)
    await controller.activate(key, pod)

    async def reported() -> bool:
        return "heartbeatTime" in await controller.report(key)

    await eventually(reported)
    eviction = await client.get(EVICTIONS, key)
    responders = eviction["status"]["targetResponders"]
    responders[0]["state"] = "Canceled"
    failed = {
        "type": "Failed", "status": "True", "reason": "CanceledDueToNoRequesters", "message": "withdrawn",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }  # fmt: skip
    status = {"targetResponders": responders, "conditions": [failed]}
    await client.patch(EVICTIONS.status, key, merge_patch({"status": status}))
    await moves.until_nothing_left()
    (still,) = await moves.sandbox.pods()
    assert still["metadata"]["uid"] == pod["metadata"]["uid"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            {"status": {"responders": [{"name": LAST_RESORT, "message": "x"}]}}, id="another responder"
        ),
        pytest.param({"status": {"requesters": []}}, id="who asked for it"),
        pytest.param({"metadata": {"labels": {"example.com/x": "y"}}}, id="labels"),
        pytest.param({"metadata": {"finalizers": ["example.com/forever"]}}, id="finalizers"),
    ],
)
async def test_the_daemons_account_changes_nothing_of_an_eviction_but_its_own_report(
    client: Client,
    namespace: str,
    make_shop: MakeShop,
    control_plane: ControlPlane,
    tmp_path: Path,
    change: Object,
    eventually: Any,
) -> None:
    moves = await make_shop(2)
    await moves.sandbox.deployment(1, pod=opted_in())
    (pod,) = await moves.sandbox.pods()
    controller = EvictionRequestController(client, namespace)
    key = await controller.request(pod)
    await controller.activate(key, pod)
    before = await client.get(EVICTIONS, key)
    access = await asyncio.to_thread(access_with_token, control_plane, namespace, tmp_path)
    await eventually(lambda: is_restricted(access, key))
    stolen = Client(HttpTransport(access), field_manager=FIELD_MANAGER)
    try:
        with contextlib.suppress(errors.Forbidden, errors.Invalid):
            await stolen.patch(EVICTIONS.status, key, merge_patch(change))
    finally:
        await stolen.close()
    after = await client.get(EVICTIONS, key)
    assert without_managers(after) == without_managers(before)


def access_with_token(control_plane: ControlPlane, namespace: str, folder: Path) -> ClusterAccess:
    """Return what a thief of the daemon's token has.

    A request with a token is no impersonation: the audit of what our programs request does not count it.
    """
    access = load_cluster_access(kubeconfig_as(control_plane, DAEMON, namespace, folder))
    token = control_plane.kubectl("create", "token", DAEMON, "-n", namespace).strip()
    return replace(access, credentials=StoredCredentials(authorization=f"Bearer {token}"), headers={})


async def is_restricted(access: ClusterAccess, key: str) -> bool:
    """Return whether the API server has read the admission policy: until then it refuses nothing."""
    client = Client(HttpTransport(access), field_manager=FIELD_MANAGER)
    emptied = merge_patch({"status": {"requesters": []}})
    try:
        await client.patch(EVICTIONS.status, key, emptied, dry_run=True)
    except errors.Forbidden:
        return True
    finally:
        await client.close()
    return False


def without_managers(item: Object) -> Object:
    server_fields = ("managedFields", "resourceVersion")
    metadata = {name: value for name, value in item["metadata"].items() if name not in server_fields}
    return {**item, "metadata": metadata}
