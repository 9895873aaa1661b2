"""A small shop, lopsided: saved in a file, or served by a simulated API server."""

import json
import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from rescheduler.cli import main
from tests.building import ClusterBuilder, cluster
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
    """Of a server that has the same objects."""
    with served(complete(lopsided().objects), tmp_path / "kubeconfig") as file:
        yield file


@pytest.fixture(autouse=True)
def _log_as_before():
    """Commands set up the log of the whole process: the tests after them expect it as it was."""
    root, ours = logging.getLogger(), logging.getLogger("rescheduler")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


@pytest.fixture
def run():
    def invoke(*arguments, stdin=None, **more):
        return CliRunner().invoke(main, [*map(str, arguments)], input=stdin, **more)

    return invoke
