"""A small shop with an uneven load: saved in a file, or served by a simulated API server."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from rescheduler.cli import main
from tests.building import ClusterBuilder, cluster
from tests.unit.cli.live_cluster import living_objects, scenario, write_config
from tests.unit.cli.simulated_server import served
from tests.unit.cluster.sources.rich_cluster import complete, saved

SAVED_AT = "2026-03-02T12:00:00Z"


def lopsided() -> ClusterBuilder:
    made = cluster()
    for number in range(4):
        made.node(f"worker-{number}", labels={"topology.kubernetes.io/zone": "ab"[number % 2]})
    made.deployment("shop/web", replicas=8, on=["worker-0"], cpu="700m", memory="1Gi")
    made.stateful_set("shop/db", replicas=2, on=["worker-1"], cpu="1")
    made.daemon_set("kube-system/agent", on=["worker-0", "worker-1"], cpu="100m")
    made.pod(
        "shop/young", on="worker-0", created="2026-03-02T11:59:00Z", cpu="900m", owner="ReplicaSet/web-1"
    )
    return made


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Saved at noon."""
    file = tmp_path / "shop.json"
    file.write_text(json.dumps(saved(complete(lopsided().objects), saved_at=SAVED_AT)))
    return file


@pytest.fixture
def kubeconfig(tmp_path: Path):
    """The kubeconfig of a server that has the same objects."""
    with served(complete(lopsided().objects), tmp_path / "kubeconfig") as file:
        yield file


@pytest.fixture(name="cluster")
def living_cluster(tmp_path: Path):
    """The kubeconfig of a small cluster that keeps running: its pods are all on the first node."""
    with served(living_objects(scenario()), tmp_path / "kubeconfig", alive=True) as file:
        yield file


@pytest.fixture
def rescheduler(run, cluster: Path, tmp_path: Path):
    """Run a command on that cluster, with settings that make no test wait."""
    config = write_config(tmp_path / "config.json")

    def invoke(command, *arguments, **more):
        return run(command, *arguments, "--kubeconfig", cluster, "--config", config, **more)

    return invoke


@pytest.fixture
def run():
    def invoke(*arguments, stdin=None, **more):
        return CliRunner().invoke(main, [*map(str, arguments)], input=stdin, **more)

    return invoke
