"""Binding, scale, finalize and the other subresources."""

import pytest

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def pod(name="p", **spec):
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def binding(name, node, **metadata):
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}


class TestBinding:
    async def test_assigns_a_pod_and_shows_it_where_it_runs(self, api):
        labels = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "o"}
        await api.post("/api/v1/nodes", {"metadata": {"name": "n", "labels": labels}})
        await api.post(PODS, pod())
        await api.patch(PODS + "/p/status", {"status": {"nominatedNodeName": "n"}})
        assert (await api.post(PODS + "/p/binding", binding("p", "n"))).status == 201
        bound = (await api.get(PODS + "/p")).body
        assert bound["spec"]["nodeName"] == "n"
        assert bound["metadata"]["labels"] == {k: v for k, v in labels.items() if k != "other"}
        assert "nominatedNodeName" not in bound["status"]
        scheduled = [c["status"] for c in bound["status"]["conditions"] if c["type"] == "PodScheduled"]
        assert scheduled == ["True"]

    @pytest.mark.parametrize(
        ("spec", "why"),
        [
            ({"nodeName": "m"}, 'pod p is already assigned to node "m"'),
            ({"schedulingGates": [{"name": "x.io/y"}]}, "pod p has non-empty .spec.schedulingGates"),
        ],
    )
    async def test_is_refused(self, api, spec, why):
        await api.post(PODS, pod(**spec))
        reply = await api.post(PODS + "/p/binding", binding("p", "n"))
        assert (reply.status, reply.message) == (
            409, f'Operation cannot be fulfilled on pods/binding "p": {why}'
        )  # fmt: skip

    async def test_of_another_pod_is_a_conflict(self, api):
        await api.post(PODS, pod())
        assert (await api.post(PODS + "/p/binding", binding("p", "n", uid="other"))).status == 409


class TestScale:
    @pytest.fixture(autouse=True)
    async def deployed(self, api):
        template = {"metadata": {"labels": {"app": "x"}}, "spec": pod()["spec"]}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template}
        await api.post(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})

    async def test_shows_replicas_and_selector(self, api):
        scale = (await api.get(DEPLOYMENTS + "/d/scale")).body
        assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
        assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 0, "selector": "app=x"})

    async def test_is_written_and_patched(self, api):
        scale = (await api.get(DEPLOYMENTS + "/d/scale")).body
        scale["spec"]["replicas"] = 5
        assert (await api.put(DEPLOYMENTS + "/d/scale", scale)).body["spec"]["replicas"] == 5
        assert (await api.put(DEPLOYMENTS + "/d/scale", scale)).status == 409
        await api.patch(DEPLOYMENTS + "/d/scale", {"spec": {"replicas": 0}})
        assert (await api.get(DEPLOYMENTS + "/d")).body["spec"]["replicas"] == 0

    async def test_is_never_negative(self, api):
        reply = await api.patch(DEPLOYMENTS + "/d/scale", {"spec": {"replicas": -1}})
        assert reply.status == 422
        assert "spec.replicas: Invalid value: -1: must be greater than or equal to 0" in reply.message


async def test_custom_resources_have_the_subresources_their_definition_gives_them(api, clock):
    version = {
        "name": "v1", "served": True, "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
    }  # fmt: skip
    definition = {
        "metadata": {"name": "teams.x.io"},
        "spec": {
            "group": "x.io", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "teams", "kind": "Team", "listKind": "TeamList", "singular": "team"},
        },
    }  # fmt: skip
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    created = await api.post(crds, definition)
    assert created.status == 201, created.body
    teams = "/apis/x.io/v1/namespaces/default/teams"
    team = {"apiVersion": "x.io/v1", "kind": "Team", "metadata": {"name": "t"}, "spec": {"size": 3}}
    assert (await api.post(teams, team)).status == 201
    assert (await api.get(teams + "/t/scale")).body["spec"]["replicas"] == 3
    await api.patch(teams + "/t/scale", {"spec": {"replicas": 4}})
    await api.patch(teams + "/t/status", {"status": {"size": 2}, "spec": {"size": 99}})
    content = (await api.get(teams + "/t")).body
    assert (content["spec"], content["status"], content["metadata"]["generation"]) == (
        {"size": 4},
        {"size": 2},
        2,
    )
    assert (await api.get(teams)).body["items"][0]["kind"] == "Team"
    await api.delete(f"{crds}/teams.x.io")
    clock.advance(1)
    assert (await api.get(teams)).status == 404


async def test_a_pods_log_is_a_line_that_says_what_it_is(api):
    await api.post(PODS, pod(nodeName="n"))
    reply = await api.get(PODS + "/p/log")
    assert b"c of default/p is simulated" in reply.body


async def test_a_pod_is_resized_in_place_only_through_its_subresource(api):
    await api.post(PODS, pod(nodeName="n"))
    wanted = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    strategic = "application/strategic-merge-patch+json"
    assert (await api.patch(PODS + "/p", wanted, strategic)).status == 422
    resized = await api.patch(PODS + "/p/resize", wanted, strategic)
    assert resized.status == 200, resized.body
    assert resized.body["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
