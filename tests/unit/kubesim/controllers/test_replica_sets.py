"""ReplicaSets: the number of pods, which pods they own, and which they delete first."""

import asyncio
import base64
import json

import pytest

from tests.unit.kubesim.controllers.conftest import STRATEGIC, is_ready, names, template, workload


def controller_of(pod):
    return next((ref for ref in pod["metadata"].get("ownerReferences", ()) if ref.get("controller")), None)


async def make(sim, replicas=3, **spec):
    created = await sim.create("replicasets", workload("web", replicas, **spec))
    await sim.until_ready(replicas)
    return created


class TestNumbers:
    async def test_there_are_as_many_pods_as_asked_for_and_they_say_whose_they_are(self, sim):
        replica_set = await make(sim)
        for pod in await sim.pods():
            assert pod["metadata"]["name"].startswith("web-")
            assert pod["metadata"]["generateName"] == "web-"
            assert pod["metadata"]["ownerReferences"] == [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web",
                    "uid": replica_set["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ]

    async def test_the_status_counts_them(self, sim):
        await make(sim)
        await asyncio.sleep(0.1)
        status = (await sim.get("replicasets", "web"))["status"]
        assert status == {
            "replicas": 3,
            "fullyLabeledReplicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            "terminatingReplicas": 0,
            "observedGeneration": 1,
        }

    async def test_a_pod_is_available_once_it_has_been_ready_for_long_enough(self, sim):
        await sim.create("replicasets", workload("web", 1, minReadySeconds=30))
        await sim.until_ready(1)
        await asyncio.sleep(20)
        status = (await sim.get("replicasets", "web"))["status"]
        assert (status["readyReplicas"], status.get("availableReplicas", 0)) == (1, 0)
        await asyncio.sleep(12)
        assert (await sim.get("replicasets", "web"))["status"]["availableReplicas"] == 1

    async def test_a_deleted_pod_is_replaced_before_it_is_gone(self, sim):
        await make(sim, 1)
        (pod,) = await sim.pods()
        sim.kubelets.kill(pod["spec"]["nodeName"])  # no kubelet ends it
        await sim.delete("pods", pod["metadata"]["name"])
        await asyncio.sleep(0.1)
        (successor,) = await sim.pods()
        assert successor["metadata"]["uid"] != pod["metadata"]["uid"]
        status = (await sim.get("replicasets", "web"))["status"]
        assert (status["replicas"], status["terminatingReplicas"]) == (1, 1)

    async def test_finished_pods_do_not_count(self, sim):
        await make(sim, 1)
        (pod,) = await sim.pods()
        sim.kubelets.kill(pod["spec"]["nodeName"])
        await sim.status("pods", pod["metadata"]["name"], {"phase": "Failed"})
        await asyncio.sleep(0.1)
        assert len(await sim.pods()) == 2

    async def test_scaling_down_to_nothing_and_up_again(self, sim):
        await make(sim)
        await sim.patch("replicasets", "web/scale", {"spec": {"replicas": 0}})
        await sim.until_ready(0)
        await sim.patch("replicasets", "web/scale", {"spec": {"replicas": 2}})
        await sim.until_ready(2)

    async def test_deleting_it_deletes_its_pods(self, sim):
        await make(sim)
        await sim.delete("replicasets", "web")
        await sim.until_ready(0)

    async def test_deleting_it_alone_leaves_its_pods_ownerless(self, sim):
        await make(sim)
        await sim.delete("replicasets", "web", propagationPolicy="Orphan")
        await asyncio.sleep(5)
        assert [controller_of(pod) for pod in await sim.pods()] == [None] * 3

    async def test_a_namespace_that_ends_gets_no_new_pods(self, sim):
        await make(sim, 1)
        await sim.delete("namespaces", "default")
        await asyncio.sleep(10)
        assert not await sim.pods()


class TestWhosePodsTheyAre:
    async def test_a_pod_without_a_controller_is_adopted_and_counted(self, sim):
        await make(sim, 2)
        await sim.create(
            "pods", {"metadata": {"name": "a-stray", "labels": {"app": "web"}}, "spec": template()["spec"]}
        )
        await asyncio.sleep(5)
        pods = await sim.pods()
        assert len(pods) == 2
        assert all(controller_of(pod)["name"] == "web" for pod in pods)

    async def test_the_pods_of_another_controller_are_left_alone_whatever_their_labels(self, sim):
        await make(sim, 1)
        config = await sim.send(
            "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "other"}}
        )
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "other",
            "uid": config["metadata"]["uid"],
            "controller": True,
        }
        await sim.create(
            "pods",
            {
                "metadata": {"name": "theirs", "labels": {"app": "web"}, "ownerReferences": [reference]},
                "spec": template()["spec"],
            },
        )
        await asyncio.sleep(5)
        assert len(await sim.pods()) == 2
        assert (await sim.get("replicasets", "web"))["status"]["replicas"] == 1

    async def test_a_pod_whose_labels_change_is_released_and_replaced(self, sim):
        await make(sim, 2)
        (pod, _) = await sim.pods()
        await sim.patch("pods", pod["metadata"]["name"], {"metadata": {"labels": {"app": "debug"}}})
        await sim.until_ready(2, "web")
        assert "ownerReferences" not in (await sim.get("pods", pod["metadata"]["name"]))["metadata"]

    async def test_a_pod_that_ends_is_not_adopted(self, sim):
        pod = await sim.create(
            "pods",
            {
                "metadata": {"name": "stray", "labels": {"app": "web"}},
                "spec": {**template()["spec"], "nodeName": "n1"},
            },
        )
        await asyncio.sleep(2)
        sim.kubelets.kill("n1")
        await sim.patch("nodes", "n1", {"spec": {"unschedulable": True}})
        await sim.delete("pods", pod["metadata"]["name"])
        await sim.create("replicasets", workload("web", 1))
        await sim.until_ready(1)
        assert controller_of(await sim.get("pods", "stray")) is None

    async def test_giving_up_control_makes_a_pod_adoptable_and_keeps_the_other_reference(self, sim):
        await make(sim, 1)
        config = await sim.send(
            "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "other"}}
        )
        uid = config["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": uid, "controller": True}
        metadata = {"name": "copy", "labels": {"app": "web"}, "ownerReferences": [reference]}
        await sim.create("pods", {"metadata": metadata, "spec": template()["spec"]})
        await asyncio.sleep(3)
        (old,) = [name for name in names(await sim.pods()) if name != "copy"]
        await sim.delete("pods", old)
        change = {"metadata": {"ownerReferences": [{"uid": uid, "controller": False}]}}
        await sim.patch("pods", "copy", change, STRATEGIC)
        await asyncio.sleep(0.1)
        (copy,) = await sim.pods()
        assert [(ref["kind"], ref["controller"]) for ref in copy["metadata"]["ownerReferences"]] == [
            ("ConfigMap", False),
            ("ReplicaSet", True),
        ]


class TestWhoGoesFirst:
    async def scale_down(self, sim, replicas):
        before = set(names(await sim.pods()))
        await sim.patch("replicasets", "web/scale", {"spec": {"replicas": replicas}})
        await asyncio.sleep(0.1)
        return before - set(names(await sim.pods()))

    async def test_a_pod_without_a_node_before_one_that_runs(self, sim):
        await make(sim, 2)
        sim.scheduler.stopped = True
        await sim.patch("replicasets", "web/scale", {"spec": {"replicas": 3}})
        await asyncio.sleep(1)
        (unassigned,) = [pod for pod in await sim.pods() if not pod["spec"].get("nodeName")]
        assert await self.scale_down(sim, 2) == {unassigned["metadata"]["name"]}

    async def test_a_pod_that_is_not_ready_before_one_that_is_whatever_it_costs(self, sim):
        await make(sim, 3)
        pods = await sim.pods()
        sim.kubelets.kill(pods[1]["spec"]["nodeName"])
        unready = pods[1]["metadata"]["name"]
        await sim.patch(
            "pods",
            unready,
            {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "9"}}},
        )
        conditions = [{"type": "Ready", "status": "False"}]
        await sim.patch("pods", f"{unready}/status", {"status": {"conditions": conditions}}, STRATEGIC)
        assert not is_ready(await sim.get("pods", unready))
        assert await self.scale_down(sim, 2) == {unready}

    @pytest.mark.parametrize("position", [0, 1, 2])
    async def test_the_lowest_deletion_cost_among_the_ready(self, sim, position):
        await make(sim, 3)
        cheap = names(await sim.pods())[position]
        cost = {"controller.kubernetes.io/pod-deletion-cost": "-1"}
        await sim.patch("pods", cheap, {"metadata": {"annotations": cost}})
        assert await self.scale_down(sim, 2) == {cheap}

    async def crowded(self, sim, plural):
        """Names of two old pods on one node; a young one is alone on another."""
        for node in ("n2", "n3"):
            await sim.patch("nodes", node, {"spec": {"unschedulable": True}})
        await asyncio.sleep(0.1)
        await sim.create(plural, workload("web", 2))
        old = set(names(await sim.until_ready(2)))
        await asyncio.sleep(3600)
        for node, closed in (("n1", True), ("n2", None)):
            await sim.patch("nodes", node, {"spec": {"unschedulable": closed}})
        await asyncio.sleep(0.1)
        await sim.patch(plural, "web/scale", {"spec": {"replicas": 3}})
        await sim.until_ready(3)
        return old

    async def test_a_deployments_pod_that_shares_its_node_with_another_although_it_is_older(self, sim):
        crowded = await self.crowded(sim, "deployments")
        await sim.patch("deployments", "web/scale", {"spec": {"replicas": 2}})
        left = set(names(await sim.until_ready(2)))
        assert len(left & crowded) == 1

    async def test_a_replica_set_without_owner_ignores_nodes(self, sim):
        crowded = await self.crowded(sim, "replicasets")
        assert not await self.scale_down(sim, 2) & crowded

    async def test_the_one_that_was_made_much_later(self, sim):
        await make(sim, 2)
        old = set(names(await sim.pods()))
        await asyncio.sleep(3600)
        await sim.patch("replicasets", "web/scale", {"spec": {"replicas": 3}})
        pods = await sim.until_ready(3)
        (young,) = {*names(pods)} - old
        assert await self.scale_down(sim, 2) == {young}


async def register_webhook(sim, configurations, operation, answer):
    """Call `answer` with the admission request of each such operation on pods; it returns the response."""

    class Caller:
        async def call(self, endpoint, body, timeout_s):
            request = json.loads(body)["request"]
            response = {"uid": request["uid"], **await answer(request)}
            review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
            return json.dumps(review).encode()

    sim.server.cluster.admission.webhooks.caller = Caller()
    webhook = {
        "name": "pods.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/pods"},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": [operation]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    await sim.create(configurations, {"metadata": {"name": "pods"}, "webhooks": [webhook]})


class TestWebhooks:
    @pytest.fixture
    async def reviews(self, sim):
        """What the webhook was asked; it takes its time and labels every pod."""
        asked = []

        async def add_label(request):
            asked.append(request)
            await asyncio.sleep(0.5)
            patch = [{"op": "add", "path": "/metadata/labels/seen", "value": "yes"}]
            encoded = base64.b64encode(json.dumps(patch).encode()).decode()
            return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}

        await register_webhook(sim, "mutatingwebhookconfigurations", "CREATE", add_label)
        return asked

    async def test_see_its_pods_and_who_makes_them(self, sim, reviews):
        await make(sim, 3)
        assert {pod["metadata"]["labels"]["seen"] for pod in await sim.pods()} == {"yes"}
        assert {request["userInfo"]["username"] for request in reviews} == {
            "system:serviceaccount:kube-system:replicaset-controller"
        }

    async def test_that_are_slow_make_it_no_pods_too_many(self, sim, reviews):
        await sim.create("replicasets", workload("web", 5))
        for number in range(20):
            await asyncio.sleep(0.1)
            await sim.patch("replicasets", "web", {"metadata": {"labels": {"touched": str(number)}}})
        await sim.until_ready(5)
        assert len(reviews) == 5

    async def test_can_keep_it_from_deleting_pods_and_it_says_so(self, sim):
        await make(sim, 2)

        async def refuse(request):
            return {"allowed": False}

        await register_webhook(sim, "validatingwebhookconfigurations", "DELETE", refuse)
        await sim.patch("replicasets", "web/scale", {"spec": {"replicas": 1}})
        await asyncio.sleep(1)
        assert len(await sim.pods()) == 2
        (failure,) = (await sim.get("replicasets", "web"))["status"]["conditions"]
        assert failure["reason"] == "FailedDelete"
        assert "pods.example.com" in failure["message"]


class TestWhenPodsAreRefused:
    async def test_it_says_so_and_tries_again_until_it_works(self, sim):
        quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
        await sim.create("resourcequotas", quota)
        await sim.create("replicasets", workload("web", 3))
        await sim.until_ready(1)
        await asyncio.sleep(1)
        (failure,) = (await sim.get("replicasets", "web"))["status"]["conditions"]
        assert (failure["type"], failure["status"], failure["reason"]) == (
            "ReplicaFailure",
            "True",
            "FailedCreate",
        )
        assert "exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1" in failure["message"]
        await sim.delete("resourcequotas", "small")
        await sim.until_ready(3)
        await asyncio.sleep(1)
        assert "conditions" not in (await sim.get("replicasets", "web"))["status"]


@pytest.mark.parametrize("count", [0, 1, 5])
async def test_looking_again_at_a_satisfied_replica_set_writes_nothing(sim, count):
    await make(sim, count)
    await asyncio.sleep(1)
    version = sim.server.store.version
    for _ in range(10):
        sim.controllers.resync()
        await asyncio.sleep(0.1)
    assert sim.server.store.version == version
