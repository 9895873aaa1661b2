"""What only a real kube-scheduler shows: profiles, both extender verbs, and its reaction to a refusal."""

from collections.abc import Mapping

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.install.manifests import EXTENDER_PROFILE
from rescheduler.kube.api_resources import Object
from tests.stories.sandbox import node_of
from tests.stories.steering.extender_on_control_plane import Address
from tests.stories.steering.steered import MakeSteered, Steered
from tests.stories.waiting import until
from tests.testbed import ControlPlane, Part

pytestmark = pytest.mark.control_plane(reason="what only a real kube-scheduler shows")


@pytest.fixture
def steering() -> str:
    return "extender"


async def replaced_away_from_its_source(steered: Steered, **pod: str) -> bool:
    """Use two nodes of which the scheduler prefers the source: the other one is busier."""
    sandbox = steered.sandbox
    await sandbox.deployment(1, pod=dict(pod))
    (source,) = await sandbox.pods()
    other = next(node for node in sandbox.nodes if node != node_of(source))
    await sandbox.pod("busy", metadata={"labels": {"app": "busy"}}, nodeName=other, cpu="2")
    await sandbox.until_ready(1, app="busy")
    async with steered.serving(), steered.moving(source):
        replacement = await steered.evict(source, 1)
    return node_of(replacement) == other


async def test_pods_of_every_profile_are_asked_about_and_ours_is_one(make_steered: MakeSteered) -> None:
    steered = await make_steered(nodes=2)
    assert await replaced_away_from_its_source(steered, schedulerName=EXTENDER_PROFILE)


@pytest.fixture
def sending_whole_nodes(control_plane: ControlPlane, address: Address):
    control_plane.restart(Part.SCHEDULER, address.options(nodeCacheCapable=False))
    yield
    control_plane.restart(Part.SCHEDULER, address.options())


@pytest.mark.full
async def test_a_scheduler_that_sends_whole_nodes_is_answered_likewise(
    sending_whole_nodes: None, make_steered: MakeSteered
) -> None:
    steered = await make_steered(nodes=2)
    assert await replaced_away_from_its_source(steered)


@pytest.fixture
def showing_no_certificate(control_plane: ControlPlane, address: Address):
    tls = address.options().scheduler_settings["extenders"][0]["tlsConfig"]
    known = {key: tls[key] for key in ("serverName", "caFile")}
    control_plane.restart(Part.SCHEDULER, address.options(tlsConfig=known))
    yield
    control_plane.restart(Part.SCHEDULER, address.options())


@pytest.mark.full
async def test_scheduler_without_a_certificate(
    showing_no_certificate: None, make_steered: MakeSteered
) -> None:
    """It gets no answer, and places pods as usual."""
    steered = await make_steered(nodes=2)
    assert not await replaced_away_from_its_source(steered)


async def test_where_only_its_source_is_left_a_pod_says_why_it_waits(make_steered: MakeSteered) -> None:
    """As with the webhook: until the migration withdraws its intent, and has the pod created again."""
    steered = await make_steered(nodes=1)
    sandbox = steered.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()

    def waiting(pods: Mapping[str, Object]) -> Object | None:
        found = (pod for pod in pods.values() if pod["metadata"]["uid"] != source["metadata"]["uid"])
        return next((pod for pod in found if "moving pods of this workload away" in _refusal(pod)), None)

    async with steered.serving():
        async with steered.moving(source):
            await steered.client.evict(sandbox.key(source["metadata"]["name"]))
            waits = await until(steered.client, PODS.as_json, sandbox.namespace, waiting, labels="app=web")
        await steered.client.delete(PODS, sandbox.key(waits["metadata"]["name"]))
        (placed,) = await sandbox.until_ready(1)
    assert node_of(placed) == node_of(source)


def _refusal(pod: Object) -> str:
    conditions = pod.get("status", {}).get("conditions", ())
    return next((str(each.get("message", "")) for each in conditions if each["type"] == "PodScheduled"), "")
