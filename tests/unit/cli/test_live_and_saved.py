"""A saved cluster gives the same plan as the live one, word for word."""

import json

import pytest

from rescheduler.api.podmigration_crd import podmigration_crd
from tests.battery.scenarios import random_cluster
from tests.building import ClusterBuilder
from tests.unit.cli.conftest import SAVED_AT
from tests.unit.cli.simulated_server import served
from tests.unit.cluster.sources.rich_cluster import complete, rich_objects
from tests.unit.rules.random_clusters import random_cluster as random_traits

STRATEGIES = ("NodeMaintenance", "TopologySpread", "ResourceOptimization", "LoadBalancing")
USED = [argument for name in STRATEGIES for argument in ("--strategy", name)]


def with_history(seed: int) -> ClusterBuilder:
    """Add what only some clusters have: claims, a moved pod, usage."""
    made = random_cluster(seed)
    made.storage_class("fast", waits=True)
    made.claim("shop/data", volume="disk", storage_class="fast").volume("disk", claim="shop/data")
    made.pod("shop/store", on="n0", claims=["data"])
    made.stateful_set("shop/db", replicas=3, on=["n0", "n1"], spec={"ordinals": {"start": 2}})
    moved = next(each for each in made.objects if each["kind"] == "Pod")
    made.apply(
        {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "PodMigration",
            "metadata": {
                "name": "m1",
                "namespace": "shop",
                "uid": "uid-of-m1",
                "creationTimestamp": "2026-03-02T11:40:00Z",
            },
            "spec": {
                "pod": {"name": moved["metadata"]["name"], "uid": moved["metadata"]["uid"]},
                "sourceNode": "n0",
                "strategy": "LoadBalancing",
            },
            "status": {"phase": "Completed", "finishedAt": "2026-03-02T11:50:00Z"},
        }
    )
    return made


CLUSTERS = {
    "one of everything": rich_objects,
    **{f"random cluster {seed}": lambda seed=seed: with_history(seed).objects for seed in range(3)},
    **{f"random traits {seed}": lambda seed=seed: random_traits(seed).objects for seed in range(2)},
}


def decided(output: str) -> dict:
    """Drop the assumptions: they differ between a server and a file without metrics."""
    found = json.loads(output)
    found["summary"].pop("assumptions")
    return found


@pytest.mark.parametrize("objects", CLUSTERS.values(), ids=CLUSTERS)
def test_a_running_cluster_and_its_snapshot_give_the_same_plan(run, tmp_path, objects):
    file = tmp_path / "saved.json"
    with served([podmigration_crd(), *complete(objects())], tmp_path / "kubeconfig") as kubeconfig:
        saving = run("snapshot", file, "--kubeconfig", kubeconfig)
        assert saving.exit_code == 0, saving.output
        live = run("plan", *USED, "--now", SAVED_AT, "-o", "json", "--kubeconfig", kubeconfig)
    offline = run("plan", *USED, "--now", SAVED_AT, "-o", "json", "--from", file)
    assert live.exit_code in {0, 3}, live.output
    assert decided(offline.stdout) == decided(live.stdout)
    there = {each["kind"] for each in objects()} - {"PodMetrics"}  # a server makes those itself
    assert there <= {each["kind"] for each in json.loads(file.read_text())["items"]}
    again = run("snapshot", tmp_path / "again.json", "--from", file)
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again.json").read_text() == file.read_text()
