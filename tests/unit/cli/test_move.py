"""`rescheduler move`, over HTTP, on a running simulated cluster."""

import json

import pytest
import yaml

from tests.unit.cli.live_cluster import living_objects, scenario, write_config
from tests.unit.cli.simulated_server import served


@pytest.fixture
def cluster(tmp_path):
    single = {
        "namespace": "shop", "name": "single", "cpu": "100m", "on": ["node-1"], "budget": {"minAvailable": 1}
    }  # fmt: skip
    agent = {"kind": "DaemonSet", "namespace": "shop", "name": "agent", "cpu": "50m"}
    with served(
        living_objects(scenario(single, agent)), tmp_path / "kubeconfig", alive=True
    ) as kubeconfig:  # fmt: skip
        yield kubeconfig


@pytest.fixture
def rescheduler(run, cluster, tmp_path):
    config = write_config(tmp_path / "config.json")

    def invoke(command, *arguments):
        return run(command, *arguments, "--kubeconfig", cluster, "--config", config)

    return invoke


def pods_of(run, kubeconfig, app):
    """Return the nodes of the pods that are not terminating, by name."""
    raw = run("snapshot", "-", "--kubeconfig", kubeconfig).stdout
    items = [item for item in json.loads(raw)["items"] if item["kind"] == "Pod"]
    return {
        item["metadata"]["name"]: item["spec"]["nodeName"]
        for item in items
        if item["metadata"]["labels"].get("app") == app and "deletionTimestamp" not in item["metadata"]
    }


def test_a_single_replica_under_a_budget_that_allows_nothing_is_moved(rescheduler, run, cluster):
    ((before, _),) = pods_of(run, cluster, "single").items()
    done = rescheduler("move", before, "-n", "shop", "--to", "node-3", "--install")
    assert done.exit_code == 0, done.output
    assert f"shop/{before}  node-1 → node-3  Completed" in done.stdout
    ((after, node),) = pods_of(run, cluster, "single").items()
    assert (after != before, node) == (True, "node-3")


def test_move_without_a_target(rescheduler, run, cluster):
    """The least loaded node that fits is chosen, and `-o json` prints a document."""
    before = min(pods_of(run, cluster, "web"))
    done = rescheduler("move", f"shop/{before}", "--install", "-o", "json")
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert (reported["result"], reported["from"], reported["handover"]) == ("Completed", "node-1", "Adopt")
    assert reported["to"] in {"node-2", "node-3"}
    after = pods_of(run, cluster, "web")
    assert after[reported["successor"].removeprefix("shop/")] == reported["to"]
    assert before not in after
    assert len(after) == 4


def test_what_can_not_be_moved_is_refused_with_its_reason_and_a_remedy(rescheduler, run, cluster):
    agent = min(pods_of(run, cluster, "agent"))
    done = rescheduler("move", agent, "-n", "shop", "--install")
    assert done.exit_code == 1
    assert "DaemonSetPod: its DaemonSet runs it on this node" in done.stderr
    assert "Nothing to do: a drain ignores it." in done.stderr


@pytest.mark.parametrize(
    ("target", "why"),
    [
        pytest.param("node-1", "the pod is already on node-1", id="where it is"),
        pytest.param("nod-3", 'node nod-3 not found, did you mean "node-3"', id="a node that is not there"),
    ],
)
def test_a_target_that_can_not_be_is_refused(rescheduler, run, cluster, target, why):
    pod = min(pods_of(run, cluster, "web"))
    done = rescheduler("move", pod, "-n", "shop", "--to", target, "--install")
    assert done.exit_code == 1
    assert why.split(",")[0] in done.stderr
    assert "Choose another node with --to, or omit --to" in done.stderr


def test_a_pod_that_is_not_there_is_named_with_the_one_that_is(rescheduler):
    """Also if several pods start like it."""
    for named in ("web-none", "web"):
        done = rescheduler("move", named, "-n", "shop", "--install")
        assert done.exit_code == 1
        assert f"pod shop/{named} not found" in done.stderr
    assert "did you mean shop/web-" in done.stderr


def test_without_the_definition_the_error_says_how_to_install_it(rescheduler):
    done = rescheduler("move", "web-none", "-n", "shop")
    assert done.exit_code == 1
    assert "rescheduler manifests --crd | kubectl apply -f -" in done.stderr
    assert "`move`, `apply` and `drain` do it themselves with --install" in done.stderr


def test_the_definition_can_be_printed(run):
    printed = yaml.safe_load(run("manifests", "--crd").stdout)
    assert printed["metadata"]["name"] == "podmigrations.rescheduler.dev"
