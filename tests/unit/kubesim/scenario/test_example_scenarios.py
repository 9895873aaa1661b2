"""Every example scenario loads and does what its description says."""

import pytest

from kubesim.running_cluster import EPOCH
from kubesim.scenario import initial_objects, read_scenario
from kubesim.scenario.scenario_file import lopsided_shop
from tests.unit.kubesim.scenario.conftest import EXAMPLE_SCENARIOS

NAMES = sorted(path.stem for path in EXAMPLE_SCENARIOS.glob("*.yaml"))


def test_all_are_there():
    assert {
        "bad-node", "big", "hot-spot", "lopsided-shop", "maintenance", "spread-drift", "zone-outage",
    } <= set(NAMES)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_each_loads_and_introduces_itself(name):
    scenario = read_scenario(EXAMPLE_SCENARIOS / f"{name}.yaml")
    assert scenario.name == name
    assert scenario.description.endswith(".")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "big"])
def test_each_runs_through_all_its_events(run_scenario, name):
    scenario = read_scenario(EXAMPLE_SCENARIOS / f"{name}.yaml")
    run = run_scenario(scenario, 3600)
    assert len(run.events) >= len(scenario.events) + len(scenario.faults)
    unknown = [text for each in run.events for text in each.refusals if "not found" in text]
    assert unknown == []


def test_the_demo_starts_from_the_one_that_comes_with_the_program():
    assert lopsided_shop() == read_scenario(EXAMPLE_SCENARIOS / "lopsided-shop.yaml")


def test_the_hot_spot_is_hot_by_usage_and_not_by_requests(run_scenario):
    used = {}

    async def look(run):
        for node in run.objects("v1", "Node"):
            metrics = run.server.usage.node_metrics(node)
            used[node["metadata"]["name"]] = int(metrics["usage"]["cpu"].removesuffix("n")) / 4e9

    run_scenario(read_scenario(EXAMPLE_SCENARIOS / "hot-spot.yaml"), 60, look=look)
    assert used["worker-1"] > 0.9
    assert max(used[f"worker-{number}"] for number in (2, 3, 4)) < 0.3


def test_pods_are_broken_on_the_bad_node_only():
    pods = [
        item
        for item in initial_objects(read_scenario(EXAMPLE_SCENARIOS / "bad-node.yaml"), EPOCH)
        if item["kind"] == "Pod" and item["metadata"]["labels"]["app"] != "import"
    ]
    failing = {pod["spec"]["nodeName"] for pod in pods if not _well(pod)}
    assert failing == {"worker-3"}


def _well(pod):
    status = pod["status"]["containerStatuses"][0]
    return status["ready"] and not status["restartCount"]


def test_in_the_outage_the_zones_nodes_are_lost_and_come_back(run_scenario):
    scenario = read_scenario(EXAMPLE_SCENARIOS / "zone-outage.yaml")

    def lost(minutes):
        return {
            node["metadata"]["labels"]["topology.kubernetes.io/zone"]
            for node in run_scenario(scenario, minutes * 60).objects("v1", "Node")
            if any(
                each["type"] == "Ready" and each["status"] != "True" for each in node["status"]["conditions"]
            )
        }

    assert [lost(minutes) for minutes in (4, 10, 40)] == [set(), {"zone-b"}, set()]
