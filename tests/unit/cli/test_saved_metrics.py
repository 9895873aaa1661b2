"""What Prometheus measures is saved with a cluster, planned offline as live, and played by `simulate`."""

import contextlib
import json
import threading
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

import pytest

from kubesim.scenario import initial_objects, parse_scenario
from tests.unit.cli.conftest import SAVED_AT
from tests.unit.cli.live_cluster import write_config
from tests.unit.cli.simulated_server import served

NOON = datetime.fromisoformat(SAVED_AT)
AT_S = NOON.timestamp()
PRESSURES = {"worker-1": 0.42, "worker-2": 0.06, "worker-3": 0.04, "gone": 0.9}


def shop() -> list[dict]:
    app = {"namespace": "shop", "cpu": "500m", "memory": "1Gi"}
    content = {
        "seed": 5,
        "pools": [{"name": "worker", "count": 3, "cpu": 8, "memory": "32Gi"}],
        "workloads": [{**app, "name": f"app{number}", "on": {f"worker-{number}": 3}} for number in (1, 2, 3)],
    }
    return initial_objects(parse_scenario(json.dumps(content).encode(), source="test"), NOON)


POD_NAMES = sorted(each["metadata"]["name"] for each in shop() if each["kind"] == "Pod")


def of_pods(value) -> list[dict]:
    """Return one series per pod, and one of a pod that is gone."""
    return [
        {"metric": {"namespace": "shop", "pod": name}, "value": [AT_S, str(value(place))]}
        for place, name in enumerate([*POD_NAMES, "gone"])
    ]


def of_nodes(values: dict[str, float]) -> list[dict]:
    return [{"metric": {"node": name}, "value": [AT_S, str(value)]} for name, value in values.items()]


ANSWERS = {
    "cpu": of_pods(lambda place: 0.9 + place / 100),
    "memory": of_pods(lambda place: 2**30 + place),
    "pressure": of_nodes(PRESSURES),
    "pod-pressure": of_pods(lambda place: 0.1 * (1 + place % 3)),
    "network": of_pods(lambda place: 1e6 * (1 + place)),
    "speed": of_nodes(dict.fromkeys(PRESSURES, 1.25e9)),
}


@contextlib.contextmanager
def prometheus() -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            (query,) = parse_qs(urlparse(self.path).query)["query"]
            result = {"resultType": "vector", "result": ANSWERS[query]}
            body = json.dumps({"status": "success", "data": result}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


METRICS = [
    {"name": "cpu-pressure", "query": "pressure", "podQuery": "pod-pressure", "capacity": 1},
    {"name": "network", "per": "pod", "query": "network", "capacityQuery": "speed"},
]


def config(folder, url: str, **settings):
    return write_config(
        folder / "config.json",
        enabledStrategies=["LoadBalancing"],
        prometheus={"url": url, "cpuQuery": "cpu", "memoryQuery": "memory"},
        customMetrics=METRICS,
        balanceResources=["cpu", "memory", "cpu-pressure", "network"],
        **{"usageSource": "auto", **settings},
    )


@pytest.fixture(params=["auto", "requests"])
def source(request) -> str:
    """Return where usage comes from: Prometheus, or nowhere."""
    return request.param


@pytest.fixture
def saved(run, tmp_path, source):
    """Return the saved cluster, its configuration and the plan of the live one."""
    file = tmp_path / "saved.json"
    with prometheus() as url, served(shop(), tmp_path / "kubeconfig") as kubeconfig:
        settings = config(tmp_path, url, usageSource=source)
        live = ("--kubeconfig", kubeconfig, "--config", settings)
        saving = run("snapshot", file, *live)
        assert saving.exit_code == 0, saving.output
        plan = json.loads(run("plan", *live, "--now", SAVED_AT, "-o", "json").stdout)
    return file, settings, plan


def planned(run, file, settings) -> dict:
    done = run("plan", "--from", file, "--config", settings, "--now", SAVED_AT, "-o", "json")
    return json.loads(done.stdout)


def test_the_saved_cluster_gives_the_plan_of_the_live_one_word_for_word(run, saved):
    file, settings, live = saved
    assert "cpu-pressure" in live["moves"][0]["reason"]
    assert planned(run, file, settings) == live
    assert "gone" not in file.read_text(), "series of pods and nodes that don't exist are not saved"


def test_a_saved_cluster_is_saved_again_as_it_was(run, saved, tmp_path):
    file, *_ = saved
    assert run("snapshot", tmp_path / "again.json", "--from", file).exit_code == 0
    assert (tmp_path / "again.json").read_text() == file.read_text()


def test_without_names_the_plan_is_the_same_if_the_names_of_the_metrics_are_kept(run, saved, tmp_path):
    file, settings, live = saved
    hidden = tmp_path / "hidden.json"
    assert run("snapshot", hidden, "--from", file, "--anonymize").exit_code == 0
    assert "cpu-pressure" not in hidden.read_text()
    keep = ("--keep", "cpu-pressure", "--keep", "network")
    assert run("snapshot", hidden, "--from", file, "--anonymize", *keep).exit_code == 0
    plan = planned(run, hidden, settings)
    assert [move["reason"] for move in plan["moves"]] == [move["reason"] for move in live["moves"]]
    assert plan["summary"]["load"] == live["summary"]["load"]


def test_a_simulation_moves_shares_of_the_value_with_their_pods(run, saved):
    file, settings, _ = saved
    done = run(
        "simulate", "--from", file, "--config", settings, "--now", SAVED_AT, "-o", "json", "--checks", 3
    )
    assert done.exit_code == 0, done.output
    checks = json.loads(done.stdout)["checks"]
    moves = [move for check in checks for move in check["moves"]]
    assert {move["result"] for move in moves} == {"Completed"}
    first, last = checks[0]["load"]["cpu-pressure"]["before"], checks[-1]["load"]["cpu-pressure"]["after"]
    assert (first["highest"], first["lowest"]) == (42.0, 4.0)
    assert last["highest"] < 25.0
    before, after = (
        sum(node[when]["cpu-pressure"] for node in check["nodes"])
        for check, when in ((checks[0], "before"), (checks[-1], "after"))
    )
    assert after == pytest.approx(before, rel=0.25), "a copy has the average of its siblings"
    shown = run("simulate", "--from", file, "--config", settings, "--now", SAVED_AT).stdout
    assert "cpu-pressure 4% to 42%" in shown
    assert "CPU-PRESSURE" in shown


def test_values_of_a_metric_are_saved_although_usage_is_not_measured(run, saved, source):
    file, *_ = saved
    annotations = json.loads(file.read_text())["metadata"]["annotations"]
    assert annotations.get("rescheduler.dev/usage-source", "") == (
        "" if source == "requests" else "prometheus"
    )


def test_a_prometheus_that_does_not_answer_is_reported_and_the_rest_is_saved(run, tmp_path):
    settings = config(tmp_path, "http://127.0.0.1:1")
    with served(shop(), tmp_path / "kubeconfig") as kubeconfig:
        saving = run("snapshot", tmp_path / "c.json", "--kubeconfig", kubeconfig, "--config", settings)
    assert saving.exit_code == 0, saving.output
    assert "usage is not saved: Prometheus does not answer" in saving.stderr
    assert "cpu-pressure is not balanced: Prometheus does not answer" in saving.stderr
    assert "9 Pod" in saving.stderr
