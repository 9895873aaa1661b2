"""The kubelets of the simulated cluster do what the behaviour says, on the nodes that are alive."""

import pytest

from kubesim.behaviour import load_behaviour
from kubesim.kubelets import Kubelets

PODS = "/api/v1/namespaces/default/pods"
SLACK_S = 1.5
"""The API tells times in whole seconds, and kubelets take a moment to react."""


@pytest.fixture
def behaviour():
    return {"pods": [{"startup": "5s", "termination": "8s"}]}


@pytest.fixture(autouse=True)
async def kubelets(api, behaviour):
    await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    return Kubelets(api.server.cluster, load_behaviour(behaviour))


async def create(api, **spec):
    await api.post(
        PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    )


async def phase(api):
    return (await api.get(PODS + "/p")).body["status"]["phase"]


async def test_a_bound_pod_becomes_ready_after_its_start_up_time(api, clock):
    await create(api)
    await api.post(PODS + "/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}})
    clock.advance(5 - SLACK_S)
    assert await phase(api) == "Pending"
    clock.advance(2 * SLACK_S)
    status = (await api.get(PODS + "/p")).body["status"]
    assert status["phase"] == "Running"
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
    assert status["podIP"]


async def test_a_pod_on_no_node_and_one_on_an_unknown_node_wait(api, clock):
    await create(api)
    clock.advance(60)
    assert await phase(api) == "Pending"
    await api.post(PODS + "/p/binding", {"metadata": {"name": "p"}, "target": {"name": "nowhere"}})
    clock.advance(60)
    assert await phase(api) == "Pending"
    await api.post("/api/v1/nodes", {"metadata": {"name": "nowhere"}})
    clock.advance(60)
    assert await phase(api) == "Running", "its node has come"


@pytest.mark.parametrize(
    ("grace_s", "gone_after_s"),
    [
        pytest.param(30, 8, id="it stops sooner than it has to"),
        pytest.param(4, 4, id="never later than its grace period"),
    ],
)
async def test_a_terminating_pod_ends(api, clock, grace_s, gone_after_s):
    await create(api, nodeName="n", terminationGracePeriodSeconds=grace_s)
    clock.advance(10)
    await api.delete(PODS + "/p")
    clock.advance(gone_after_s - SLACK_S)
    assert (await api.get(PODS + "/p")).status == 200
    clock.advance(2 * SLACK_S)
    assert (await api.get(PODS + "/p")).status == 404


async def test_another_pod_of_the_same_name_is_left_alone(api, clock):
    await create(api, nodeName="n")
    await api.delete(PODS + "/p")
    await api.delete(PODS + "/p?gracePeriodSeconds=0")
    await create(api, nodeName="n")
    clock.advance(30)
    assert await phase(api) == "Running"


async def test_on_a_killed_node_pods_neither_start_nor_end_until_it_is_back(api, clock, kubelets):
    kubelets.kill("n")
    await create(api, nodeName="n")
    clock.advance(60)
    assert await phase(api) == "Pending"
    kubelets.revive("n")
    clock.advance(60)
    assert await phase(api) == "Running"
    kubelets.kill("n")
    await api.delete(PODS + "/p")
    clock.advance(600)
    assert (await api.get(PODS + "/p")).status == 200
    kubelets.revive("n")
    clock.advance(60)
    assert (await api.get(PODS + "/p")).status == 404


@pytest.mark.parametrize(
    "behaviour", [{"nodes": [{"match": {"name": "n"}, "dead": {"after": "10s", "until": "5m"}}]}]
)
async def test_an_outage_of_the_scenario_begins_and_ends_by_itself(api, clock):
    clock.advance(20)
    await create(api, nodeName="n")
    clock.advance(200)
    assert await phase(api) == "Pending"
    clock.advance(100)
    assert await phase(api) == "Running"


async def test_from_now_on_they_behave_otherwise_also_towards_pods_that_run(api, clock, kubelets):
    await create(api, nodeName="n")
    clock.advance(10)
    kubelets.behave(load_behaviour({"pods": [{"readiness": "never"}]}))
    clock.advance(1)
    status = (await api.get(PODS + "/p")).body["status"]
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "False"


async def test_pods_that_were_there_before_are_cared_for(api, clock):
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "old", "namespace": "default"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    }  # fmt: skip
    api.server.load([pod])
    Kubelets(api.server.cluster)
    clock.advance(10)
    assert (await api.get(PODS + "/old")).body["status"]["phase"] == "Running"
