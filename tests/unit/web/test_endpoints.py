"""Every endpoint, with the data of a saved cluster, over real HTTP."""

import json
import re
from pathlib import Path

import pytest

from rescheduler.config.config_validation import BUILT_IN_STRATEGIES
from rescheduler.planner.plan_json import plan_from_json
from rescheduler.web.web_authorization import LinkAuthorizer
from rescheduler.web.web_openapi import ENDPOINTS, openapi_document
from tests.building import cluster
from tests.unit.cli.conftest import lopsided
from tests.unit.web.conftest import browsing, saved_page


async def test_the_cluster_is_columns_of_equal_length(shop):
    """A page of 5,000 nodes can't afford an object per node."""
    found = await shop.get("cluster")
    nodes = found["nodes"]
    assert nodes["names"] == [f"worker-{number}" for number in range(4)]
    assert [each["name"] for each in nodes["resources"]][:2] == ["cpu", "memory"]
    for each in nodes["resources"]:
        assert {len(each[name]) for name in ("allocatable", "requests", "usage")} == {4}
    assert nodes["zone"] == {
        "key": "topology.kubernetes.io/zone",
        "values": ["a", "b"],
        "index": [0, 1, 0, 1],
    }
    assert len(nodes["flags"]) == len(nodes["pods"]) == 4
    assert not any(key["key"] == "kubernetes.io/hostname" for key in found["labelKeys"])


async def test_nodes_can_be_grouped_by_any_label(shop):
    found = await shop.get("cluster/label?key=topology.kubernetes.io/zone")
    assert found["values"] == ["a", "b"]
    status, body, _ = await shop.call("cluster/label?key=none")
    assert (status, body["reason"]) == (404, "NotFound")


async def test_a_node_says_what_keeps_it_from_being_emptied(shop):
    """Pods of DaemonSets don't: a drain leaves them where they are."""
    found = await shop.get("nodes/worker-0")
    assert found["stays"] == []
    agent = next(pod for pod in found["pods"] if pod["pod"].startswith("kube-system/"))
    assert not agent["mayMove"]
    assert found["conditions"]


async def test_a_node_says_why_a_pod_keeps_it_from_being_emptied():
    made = lopsided().pod("shop/import", on="worker-0", cpu="100m", owner="Job/import")
    page = saved_page(made.objects)
    authorizer = LinkAuthorizer(page, read_only=True, user="me")
    async with browsing(page, authorizer) as browser:
        await browser.login(authorizer.secret)
        found = await browser.get("nodes/worker-0")
    assert [(group["reason"], group["count"]) for group in found["stays"]] == [("JobPod", 1)]
    assert found["stays"][0]["remedy"]


async def test_pods_are_found_by_a_part_of_their_name(shop):
    found = await shop.get("pods?q=shop/web&limit=3")
    assert len(found["pods"]) == 3
    assert found["total"] >= 8
    assert (await shop.get("pods?node=worker-1&namespace=shop"))["total"] == 2


async def test_why_is_a_matrix_of_rules_over_all_nodes(shop):
    pod = (await shop.get("pods?q=shop/web&limit=1"))["pods"][0]["pod"]
    found = await shop.get(f"pods/{pod}/explain")
    assert sum(len(row["nodes"]) for row in found["rows"]) == found["nodeCount"] == 4
    here = next(row for row in found["rows"] if found["node"] in row["nodes"])
    assert [found["columns"][number]["rule"] for number in here["forbiddenBy"]] == ["AlreadyHere"]
    assert not found["columns"][here["forbiddenBy"][0]]["isSchedulers"]


async def test_the_plan_shows_the_load_after_each_wave(shop):
    found = await shop.get("plan")
    assert found["moves"]
    last = {}
    for wave in found["waves"]:
        last |= dict(zip(wave["nodes"], wave["loads"]["cpu"], strict=True))
    document = await shop.get("plan/document")
    after = {node["name"]: node["cpu"]["after"] for node in document["nodes"]}
    assert last == pytest.approx({name: after[name] for name in last}, abs=0.01)
    cpu = next(each for each in found["histograms"] if each["resource"] == "cpu")
    assert sum(cpu["before"]) == sum(cpu["after"]) == 4
    assert cpu["deviationAfter"] < cpu["deviationBefore"]


async def test_waves_have_the_same_numbers_as_in_the_document(shop):
    """The table, the JSON of a plan and the page all start at 1."""
    found, document = await shop.get("plan"), await shop.get("plan/document")
    assert [wave["wave"] for wave in found["waves"]] == list(range(1, len(found["waves"]) + 1))
    planned = {move["pod"]: move["wave"] for move in document["moves"]}
    assert {move["pod"]: move["wave"] for move in found["moves"]} == planned
    assert min(planned.values()) == 1


async def test_the_plan_can_be_applied_by_the_command(shop):
    document = await shop.get("plan/document")
    assert plan_from_json(json.dumps(document).encode(), source="page").moves


async def test_what_if_plans_again_and_can_be_shared(shop):
    """The link has the whole request: every user who opens it gets the same plan."""
    calm = await shop.post("what-if", {"imbalanceThreshold": 100})
    assert calm["plan"]["moves"] == []
    found = await shop.post("what-if", {"drain": ["worker-1"], "maxMoves": 50})
    assert {move["from"] for move in found["plan"]["moves"]} >= {"worker-1"}
    assert all(move["to"] != "worker-1" for move in found["plan"]["moves"])
    shared = await shop.get(f"what-if/{found['code']}")
    assert shared["plan"]["moves"] == found["plan"]["moves"]
    assert (await shop.get(f"what-if/{found['code']}/document"))["moves"]
    assert (await shop.get("cluster"))["nodes"]["flags"][1] & 4 == 0


async def test_what_if_with_more_nodes_can_not_be_applied(shop):
    """Two nodes like worker-3 take pods, and no command could move pods to them."""
    found = await shop.post("what-if", {"addNodes": [{"like": "worker-3", "count": 2}], "maxMoves": 50})
    assert found["addedNodes"] == ["worker-3-new-1", "worker-3-new-2"]
    assert {move["to"] for move in found["plan"]["moves"]} & set(found["addedNodes"])
    assert not found["canApply"]
    status, body, _ = await shop.call(f"what-if/{found['code']}/document")
    assert (status, body["reason"]) == (409, "NotApplicable")


async def test_what_if_pins_a_pod_where_the_rules_allow_it(shop):
    pod = (await shop.get("pods?q=shop/web&limit=1"))["pods"][0]["pod"]
    found = await shop.post("what-if", {"pin": [{"pod": pod, "node": "worker-3"}]})
    assert (found["plan"]["moves"][0]["pod"], found["plan"]["moves"][0]["to"]) == (pod, "worker-3")
    refused = await shop.post("what-if", {"pin": [{"pod": pod, "node": "worker-0"}]})
    assert [each["reason"] for each in refused["refusedPins"]] == ["TargetUnfit"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param({"drain": ["worker-9"]}, "worker-9 not found", id="an unknown node"),
        pytest.param({"strategies": ["Balance"]}, "unknown strategy", id="an unknown strategy"),
        pytest.param({"cpuThreshold": 200}, "cpuThreshold", id="a threshold above 100"),
        pytest.param({"unknown": 1}, "unknown", id="an unknown field"),
        pytest.param({"addNodes": [{"like": "worker-0", "count": 1000}]}, "count", id="too many nodes"),
    ],
)
async def test_an_invalid_what_if_says_what_is_wrong(shop, body, words):
    status, found, _ = await shop.call("what-if", body)
    assert status == 422
    assert words in found["message"]


@pytest.mark.parametrize("code", ["x", "%20", "eJw", "A" * 5000])
async def test_a_broken_link_is_refused(shop, code):
    status, found, _ = await shop.call(f"what-if/{code}")
    assert (status, found["reason"]) == (400, "InvalidRequest")


async def test_a_saved_cluster_has_no_migrations_and_no_actions(shop):
    assert (await shop.get("migrations"))["total"] == 0
    assert (await shop.get("session"))["readOnly"]
    status, body, _ = await shop.call("actions/preview", {"kind": "pause"})
    assert (status, body["message"]) == (403, "this page is read-only")


async def test_hostile_names_are_plain_text():
    """No API server would accept these names; a file may have them."""
    made = cluster().node("worker-1").node("worker-2", labels={"pool": "<img src=x onerror=alert(1)>"})
    made.pod("shop/<script>alert(1)", on="worker-1")
    page = saved_page(made.objects)
    authorizer = LinkAuthorizer(page, read_only=True)
    async with browsing(page, authorizer) as browser:
        await browser.login(authorizer.secret)
        found = await browser.get("pods?q=script")
        assert [pod["pod"] for pod in found["pods"]] == ["shop/<script>alert(1)"]
        _, _, headers = await browser.call("pods")
        assert headers["Content-Type"].startswith("application/json")
        assert headers["X-Content-Type-Options"] == "nosniff"


async def test_the_server_serves_its_own_description(shop):
    assert await shop.get("openapi.json") == json.loads(json.dumps(openapi_document()))
    described = {
        (method.upper(), path)
        for path, operations in openapi_document()["paths"].items()
        for method in operations
    }
    assert described == {(each.method, f"/api/v1{each.path}") for each in ENDPOINTS}


def test_a_what_if_offers_every_strategy():
    """FailedPods is not among them: it is always on."""
    listed = re.search(r"STRATEGIES = \[(.*)\]", Path("web/src/views/what-if.tsx").read_text())
    assert set(re.findall(r"\w+", listed[1])) == BUILT_IN_STRATEGIES - {"FailedPods"}
