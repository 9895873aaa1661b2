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
