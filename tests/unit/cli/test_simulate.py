"""`rescheduler simulate`: the course of a saved cluster, in virtual time."""

import json

import pytest

from tests.unit.cli.living import living_objects, scenario, write_config


@pytest.fixture(scope="module")
def saved_shop(tmp_path_factory):
    file = tmp_path_factory.mktemp("saved") / "shop.json"
    db = {"kind": "StatefulSet", "namespace": "shop", "name": "db", "cpu": "500m", "on": {"node-1": 1}}
    items = living_objects(scenario({**db, "replicas": 1}))
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return file


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path / "config.json", settleTime="10s")


def test_checks_move_pods_until_the_nodes_are_even(run, saved_shop, config):
    done = run("simulate", "--from", saved_shop, "--config", config, "--checks", 3, "-o", "json")
    assert done.exit_code == 0, done.output
    first, second, last = json.loads(done.stdout)["checks"]
    assert first["moves"]
    assert {move["result"] for move in first["moves"]} == {"Completed"}
    assert first["load"]["cpu"]["after"]["deviation"] < first["load"]["cpu"]["before"]["deviation"] / 2
    assert last["moves"] == []
    assert second["nodes"][0]["before"] == first["nodes"][0]["after"]


def test_the_same_file_gives_the_same_course(run, saved_shop, config):
    told = [
        run("simulate", "--from", saved_shop, "--config", config, "--checks", 1, "--now", "2026-11-20T12:00Z")
        for _ in range(2)
    ]
    assert told[0].stdout == told[1].stdout
    assert "Check 1 at 12:00:00" in told[0].stdout
    assert "What stays" in told[0].stdout or "moves made" in told[0].stdout


def test_pods_that_have_just_started_are_as_ready_as_the_file_says(run, saved_shop, tmp_path):
    config = write_config(tmp_path / "config.json", settleTime="10s", minPodAge="0s")
    content = json.loads(saved_shop.read_text())
    for item in content["items"]:
        if item["kind"] == "Pod":
            item["metadata"]["creationTimestamp"] = item["status"]["startTime"] = "2026-11-20T12:00:00Z"
            for container in item["status"]["containerStatuses"]:
                container["state"] = {"running": {"startedAt": "2026-11-20T12:00:00Z"}}
    selector = {
        "matchLabels": next(
            item["spec"]["selector"]["matchLabels"]
            for item in content["items"]
            if item["kind"] == "Deployment"
        )
    }
    spec = {"maxUnavailable": 1, "selector": selector}
    metadata = {"namespace": "shop", "name": "web"}
    content["items"].append(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    )
    file = tmp_path / "young.json"
    file.write_text(json.dumps(content))
    done = run(
        "simulate",
        "--from",
        file,
        "--config",
        config,
        "--checks",
        1,
        "--now",
        "2026-11-20T12:00Z",
        "-o",
        "json",
    )
    (check,) = json.loads(done.stdout)["checks"]
    assert {move["result"] for move in check["moves"]} == {"Completed"}, check["refused"]


def test_workloads_that_can_not_make_pods_are_refused(run, saved_shop, tmp_path):
    content = json.loads(saved_shop.read_text())
    for item in content["items"]:
        if item["kind"] == "Deployment":
            del item["spec"]["template"]
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(content))
    done = run("simulate", "--from", file)
    assert done.exit_code == 1
    assert "Deployment shop/web: spec.template" in done.stderr
