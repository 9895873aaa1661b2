"""The same seed gives the same history, byte for byte, and an hour takes seconds."""

import subprocess
import sys
import time

import pytest

from kubesim.scenario import load_scenario
from kubesim.scenario.scenario_file import read_scenario
from tests.unit.kubesim.scenario.conftest import EXAMPLE_SCENARIOS

BUSY = {
    "pools": [{"name": "w", "count": 6, "zones": ["a", "b", "c"]}],
    "workloads": [
        {"kind": "DaemonSet", "name": "logs"},
        {"name": "web", "replicas": 12, "service": 80, "budget": {"maxUnavailable": 2}},
        {"name": "crashing", "replicas": 3},
        {"kind": "StatefulSet", "name": "db", "replicas": 3, "claims": [{"name": "data"}]},
        {"kind": "CronJob", "name": "cron", "schedule": "*/5 * * * *"},
    ],
    "behaviour": {
        "pods": [
            {"match": {"labels": {"app": "crashing"}}, "run": {"lasts": "90s", "exitCode": 1}},
            {"match": {"labels": {"app": "cron"}}, "run": {"lasts": "30s"}},
        ],
        "nodes": [{"match": {"name": "w-2"}, "dead": {"after": "10m", "until": "30m"}}],
    },
    "faults": [{"at": "5m", "lasts": "10m", "kind": "unavailable", "probability": 0.5}],
    "events": [
        {"every": "1m", "delete": {"what": "Pod/default/web-*", "count": 2}},
        {"every": "3m", "evict": {"what": "Pod/default/*", "count": 3}},
        {"at": "20m", "rollOut": {"what": "Deployment/default/web", "image": "web:2"}},
        {"at": "40m", "kill": "w-5"},
    ],
}  # fmt: skip


@pytest.mark.size
def test_an_hour_of_a_busy_cluster_is_the_same_every_time(run_scenario):
    first, second = (run_scenario(load_scenario(BUSY | {"seed": 4}), 3600) for _ in range(2))
    assert sum(first.written.values()) > 3000, "something must have happened"
    assert first.events == second.events
    assert first.history == second.history


def test_another_seed_is_another_history(run_scenario):
    one, other = (run_scenario(load_scenario(BUSY | {"seed": seed}), 300) for seed in (4, 5))
    assert one.history != other.history


def test_the_history_does_not_depend_on_how_python_orders_sets():
    """Every process hashes texts differently; none of that may show."""
    code = (
        "from tests.unit.kubesim.scenario.test_determinism import BUSY\n"
        "from tests.unit.kubesim.scenario.conftest import _run_scenario\n"
        "from kubesim.scenario import load_scenario\n"
        "print(_run_scenario(load_scenario(BUSY | {'seed': 4}), 720).history)"
    )
    reported = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(reported) == 1


@pytest.mark.size
def test_an_hour_of_a_hundred_nodes_and_two_thousand_pods_takes_seconds(run_scenario):
    scenario = read_scenario(EXAMPLE_SCENARIOS / "big.yaml")
    assert len(scenario.machines()) == 100
    began = time.process_time()
    run = run_scenario(scenario, 3600)
    spent_s = time.process_time() - began
    assert len(run.objects("v1", "Pod")) >= 1900
    assert spent_s < 90, "about 15 s of an idle core, and far from that on a slow one"
