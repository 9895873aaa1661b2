"""Disruption budgets: how many of their pods may be evicted now."""

import asyncio

import pytest

from tests.unit.kubesim.controllers.conftest import STRATEGIC, names, template, workload


async def guard(sim, name="guard", app="web", **spec):
    selector = {"matchLabels": {"app": app}}
    await sim.create(
        "poddisruptionbudgets", {"metadata": {"name": name}, "spec": {"selector": selector, **spec}}
    )
    await asyncio.sleep(0.05)
    return await status_of(sim, name)


async def status_of(sim, name="guard"):
    return (await sim.get("poddisruptionbudgets", name))["status"]


def counts(status):
    names_ = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    return tuple(status[name] for name in names_)


class TestCounts:
    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            pytest.param({"minAvailable": 3}, (5, 3, 5, 2), id="at least a number"),
            pytest.param({"minAvailable": "50%"}, (5, 3, 5, 2), id="at least a share, rounded up"),
            pytest.param({"minAvailable": "100%"}, (5, 5, 5, 0), id="at least all"),
            pytest.param({"maxUnavailable": 1}, (5, 4, 5, 1), id="at most a number missing"),
            pytest.param({"maxUnavailable": "30%"}, (5, 3, 5, 2), id="at most a share missing, rounded up"),
            pytest.param({"maxUnavailable": 0}, (5, 5, 5, 0), id="none missing"),
            pytest.param({"maxUnavailable": 9}, (5, 0, 5, 5), id="more may be missing than there are"),
        ],
    )
    async def test_of_a_deployment(self, sim, spec, expected):
        await sim.create("deployments", workload("web", 5))
        await sim.until_ready(5)
        status = await guard(sim, **spec)
        assert counts(status) == expected
        assert status["observedGeneration"] == 1
        (reported,) = status["conditions"]
        reason = "SufficientPods" if expected[3] else "InsufficientPods"
        assert (reported["type"], reported["reason"], reported["message"]) == (
            "DisruptionAllowed",
            reason,
            "",
        )

    @pytest.mark.parametrize("plural", ["replicasets", "statefulsets"])
    async def test_of_other_owners_with_a_scale(self, sim, plural):
        await sim.create(plural, workload("web", 2))
        await sim.until_ready(2)
        assert counts(await guard(sim, maxUnavailable=1)) == (2, 1, 2, 1)

    async def test_pods_that_are_not_ready_or_end_are_not_healthy(self, sim):
        await sim.create("replicasets", workload("web", 3))
        pods = await sim.until_ready(3)
        await guard(sim, minAvailable=1)
        sim.kubelets.kill(pods[0]["spec"]["nodeName"])
        await sim.delete("pods", pods[0]["metadata"]["name"])
        sim.scheduler.stopped = True
        await asyncio.sleep(0.1)
        assert counts(await status_of(sim)) == (4, 1, 2, 1)

    async def test_without_pods_nothing_is_allowed(self, sim):
        assert counts(await guard(sim, minAvailable=0)) == (0, 0, 0, 0)

    async def test_a_changed_budget_is_computed_again(self, sim):
        await sim.create("replicasets", workload("web", 3))
        await sim.until_ready(3)
        await guard(sim, minAvailable=3)
        await sim.patch("poddisruptionbudgets", "guard", {"spec": {"minAvailable": 1}})
        await asyncio.sleep(0.05)
        status = await status_of(sim)
        assert (status["disruptionsAllowed"], status["observedGeneration"]) == (2, 2)


class TestUnknownScale:
    async def test_a_kind_without_scale_makes_a_share_uncomputable(self, sim):
        await sim.create("daemonsets", workload("web", None))
        await sim.until_ready(3)
        status = await guard(sim, maxUnavailable=1)
        assert status["disruptionsAllowed"] == 0
        (reported,) = status["conditions"]
        assert (reported["reason"], reported["message"]) == (
            "SyncFailed",
            "daemonsets.apps does not implement the scale subresource",
        )

    async def test_pods_without_controller_do_not_count_as_expected(self, sim):
        await sim.create(
            "pods", {"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": template()["spec"]}
        )
        await sim.until_ready(1)
        assert counts(await guard(sim, maxUnavailable=0)) == (0, 0, 1, 0)


class TestEvictions:
    async def test_a_granted_one_counts_until_the_pod_is_going(self, sim):
        await sim.create("replicasets", workload("web", 3))
        pods = await sim.until_ready(3)
        await guard(sim, minAvailable=2)
        await sim.evict(pods[0]["metadata"]["name"])
        refused = await sim.refusal(sim.evict(pods[1]["metadata"]["name"]))
        assert refused.status == 429
        await sim.until_ready(3)
        await asyncio.sleep(0.1)
        status = await status_of(sim)
        assert status["disruptionsAllowed"] == 1
        assert "disruptedPods" not in status

    async def test_one_that_never_happened_is_forgotten_after_two_minutes(self, sim):
        await sim.create("replicasets", workload("web", 2))
        pods = await sim.until_ready(2)
        status = await guard(sim, minAvailable=1)
        disrupted = {pods[0]["metadata"]["name"]: pods[0]["metadata"]["creationTimestamp"]}
        await sim.status("poddisruptionbudgets", "guard", {**status, "disruptedPods": disrupted})
        await asyncio.sleep(1)
        assert counts(await status_of(sim)) == (2, 1, 1, 0)
        await asyncio.sleep(125)
        status = await status_of(sim)
        assert counts(status) == (2, 1, 2, 1)
        assert "disruptedPods" not in status

    async def test_a_fresh_budget_refuses_until_it_is_computed(self, sim):
        await sim.create("replicasets", workload("web", 2))
        pods = await sim.until_ready(2)
        spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
        await sim.create("poddisruptionbudgets", {"metadata": {"name": "guard"}, "spec": spec})
        refused = await sim.refusal(sim.evict(pods[0]["metadata"]["name"]))
        assert refused.body["details"]["retryAfterSeconds"] == 10
        await asyncio.sleep(0.05)
        await sim.evict(pods[0]["metadata"]["name"])


async def test_endpoint_slices_say_who_takes_traffic(sim):
    await sim.create("replicasets", workload("web", 3))
    pods = await sim.until_ready(3)
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    await sim.create(
        "services", {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}}
    )
    await asyncio.sleep(0.1)
    (found,) = await sim.all("endpointslices")
    assert found["metadata"]["generateName"] == "web-"
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Service"
    assert (found["addressType"], found["ports"]) == (
        "IPv4",
        [{"name": "http", "port": 8080, "protocol": "TCP"}],
    )
    assert [each["targetRef"]["name"] for each in found["endpoints"]] == names(pods)
    everything = {"ready": True, "serving": True, "terminating": False}
    assert [each["conditions"] for each in found["endpoints"]] == [everything] * 3
    assert found["endpoints"][0]["nodeName"] == pods[0]["spec"]["nodeName"]

    sim.kubelets.kill(pods[0]["spec"]["nodeName"])
    sim.scheduler.stopped = True
    await sim.delete("pods", pods[0]["metadata"]["name"])
    not_ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    sim.kubelets.kill(pods[1]["spec"]["nodeName"])
    await sim.patch("pods", f"{pods[1]['metadata']['name']}/status", not_ready, STRATEGIC)
    await asyncio.sleep(0.1)
    (found,) = await sim.all("endpointslices")
    assert [tuple(each["conditions"].values()) for each in found["endpoints"]] == [
        (False, True, True),
        (False, False, False),
        (True, True, False),
    ]
    await sim.delete("services", "web")
    await asyncio.sleep(1)
    assert not await sim.all("endpointslices")
