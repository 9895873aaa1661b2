"""Quotas for pods are counted, and refuse pods with the messages of the real server."""

import asyncio

import pytest

from tests.unit.kubesim.controllers.conftest import template


def pod(name, **resources):
    return {"metadata": {"name": name}, "spec": template(resources=resources)["spec"]}


async def limit(sim, name="q", **hard):
    hard = {key.replace("_", ".").replace("count.", "count/"): value for key, value in hard.items()}
    await sim.create("resourcequotas", {"metadata": {"name": name}, "spec": {"hard": hard}})
    await asyncio.sleep(0.05)


async def used(sim, name="q"):
    return (await sim.get("resourcequotas", name))["status"]["used"]


async def test_too_many_pods_are_refused(sim):
    await limit(sim, pods="2")
    for name in ("a", "b"):
        await sim.create("pods", pod(name))
    refused = await sim.refusal(sim.create("pods", pod("c")))
    assert refused.status == 403
    assert refused.body["message"] == (
        'pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    )
    assert refused.body["details"] == {"name": "c", "kind": "pods"}


async def test_requests_add_up(sim):
    await limit(sim, requests_cpu="1", requests_memory="1Gi")
    await sim.create("pods", pod("a", requests={"cpu": "600m", "memory": "256Mi"}))
    assert await used(sim) == {"requests.cpu": "600m", "requests.memory": "256Mi"}
    refused = await sim.refusal(sim.create("pods", pod("b", requests={"cpu": "500m", "memory": "1Gi"})))
    assert refused.body["message"] == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=500m,requests.memory=1Gi, '
        "used: requests.cpu=600m,requests.memory=256Mi, limited: requests.cpu=1,requests.memory=1Gi"
    )


async def test_what_is_limited_must_be_said(sim):
    await limit(sim, requests_cpu="1", limits_memory="1Gi")
    refused = await sim.refusal(sim.create("pods", pod("a")))
    assert refused.body["message"] == (
        'pods "a" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c'
    )


async def test_what_goes_makes_room_again(sim):
    await limit(sim, pods="1", count_pods="2")
    await sim.create("pods", pod("a"))
    await sim.until_ready(1)
    await sim.status("pods", "a", {"phase": "Succeeded"})
    await asyncio.sleep(0.05)
    assert await used(sim) == {"pods": "0", "count/pods": "1"}
    await sim.create("pods", pod("b"))
    assert await used(sim) == {"pods": "1", "count/pods": "2"}
    await sim.delete("pods", "a")
    await asyncio.sleep(0.05)
    assert await used(sim) == {"pods": "1", "count/pods": "1"}


async def test_a_dry_run_uses_nothing_but_is_refused_too(sim):
    await limit(sim, pods="1")
    await sim.send("POST", sim.path("pods") + "?dryRun=All", pod("a"))
    assert await used(sim) == {"pods": "0"}
    await sim.create("pods", pod("a"))
    refused = await sim.refusal(sim.send("POST", sim.path("pods") + "?dryRun=All", pod("b")))
    assert refused.status == 403


async def test_every_quota_has_to_agree(sim):
    await limit(sim, "loose", pods="5")
    await limit(sim, "tight", pods="0")
    refused = await sim.refusal(sim.create("pods", pod("a")))
    assert "exceeded quota: tight" in refused.body["message"]
    assert await used(sim, "loose") == {"pods": "0"}


@pytest.mark.parametrize("count", [3])
async def test_other_namespaces_are_not_limited(sim, count):
    await limit(sim, pods="0")
    await sim.create("namespaces", {"metadata": {"name": "free"}})
    for number in range(count):
        await sim.send("POST", "/api/v1/namespaces/free/pods", pod(f"p{number}"))
