"""Nodes send heartbeats while their kubelets run."""

from kubesim.kubelets import Kubelets
from kubesim.node_heartbeats import Heartbeats

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n"


def beating(api):
    kubelets = Kubelets(api.server.cluster)
    Heartbeats(api.server.cluster, kubelets.is_dead)
    return kubelets


async def renewed(api):
    return (await api.get(LEASE)).body["spec"]["renewTime"]


async def test_a_node_has_a_lease_of_its_own_that_is_renewed_every_ten_seconds(api, clock):
    node = (await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})).body
    beating(api)
    clock.advance(1)
    lease = (await api.get(LEASE)).body
    assert lease["spec"] == {
        "holderIdentity": "n", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z",
    }  # fmt: skip
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
    clock.advance(31)
    assert await renewed(api) == "2026-01-01T00:00:30.000000Z"


async def test_a_dead_node_is_silent(api, clock):
    await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    kubelets = beating(api)
    clock.advance(15)
    kubelets.kill("n")
    clock.advance(600)
    assert await renewed(api) == "2026-01-01T00:00:10.000000Z"
    kubelets.revive("n")
    clock.advance(10)
    assert await renewed(api) > "2026-01-01T00:10:00"


async def test_a_node_that_comes_later_beats_too_and_its_lease_goes_with_it(api, clock):
    beating(api)
    clock.advance(5)
    await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    clock.advance(10)
    assert (await api.get(LEASE)).status == 200
    await api.delete("/api/v1/nodes/n")
    clock.advance(20)
    assert (await api.get(LEASE)).status == 404


async def test_a_deleted_lease_is_created_again(api, clock):
    await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    beating(api)
    clock.advance(1)
    await api.delete(LEASE)
    clock.advance(10)
    assert (await api.get(LEASE)).status == 200


async def test_a_lost_node_is_reported_ready_again_by_its_kubelet(api, clock):
    unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
               "lastTransitionTime": "2025-12-31T00:00:00Z"}  # fmt: skip
    other = {"type": "Frozen", "status": "True", "lastTransitionTime": "2025-12-31T00:00:00Z"}
    await api.post("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"conditions": [other, unknown]}})
    beating(api)
    clock.advance(1)
    conditions = {c["type"]: c for c in (await api.get("/api/v1/nodes/n")).body["status"]["conditions"]}
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ("True", "KubeletReady")
    assert conditions["Ready"]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert conditions["Frozen"]["lastTransitionTime"] == other["lastTransitionTime"]
    assert conditions["DiskPressure"]["status"] == "False"


async def test_conditions_of_other_clients_are_left_alone(api, clock):
    broken = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
    await api.post("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"conditions": [broken]}})
    beating(api)
    clock.advance(60)
    assert (await api.get("/api/v1/nodes/n")).body["status"]["conditions"][0]["status"] == "False"
