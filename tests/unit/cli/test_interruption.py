"""Ctrl-C while pods are being moved, what is left then, and how it is undone."""

import json

import pytest

from tests.unit.cli.command_process import spawned
from tests.unit.cli.live_cluster import write_config

MARKS = "scheduler.alpha.kubernetes.io/"


@pytest.fixture
def rescheduler(run, cluster):
    def invoke(command, *arguments):
        return run(command, *arguments, "--kubeconfig", cluster)

    return invoke


def pods(rescheduler):
    items = json.loads(rescheduler("snapshot", "-").stdout)["items"]
    return [item for item in items if item["kind"] == "Pod" and "deletionTimestamp" not in item["metadata"]]


def migrations(rescheduler):
    return json.loads(rescheduler("migrations", "-o", "json").stdout)["items"]


def test_ctrl_c_begins_nothing_more_and_what_is_under_way_comes_to_its_end(cluster, tmp_path):
    config = write_config(tmp_path / "config.json", settleTime="1s")
    with spawned("apply", "--yes", "--install", "--kubeconfig", cluster, "--config", config) as apply:
        apply.until("moving, handover Adopt")
        apply.interrupt()
        apply.until("No more moves are started")
        assert apply.until_end() == 130
    assert "Completed" in apply.text
    assert "cancelled before it started" in apply.text
    assert "1 of 2 moves made, 1 not made." in apply.text


def test_ctrl_c_once_more_leaves_at_once_and_a_cancelled_migration_leaves_nothing(
    rescheduler, cluster, tmp_path
):
    config = write_config(tmp_path / "config.json", settleTime="10m")
    before = {pod["metadata"]["uid"] for pod in pods(rescheduler)}
    with spawned("apply", "--yes", "--install", "--kubeconfig", cluster, "--config", config) as apply:
        apply.until("moving, handover Adopt")
        apply.interrupt()
        apply.until("Ctrl-C again to exit immediately")
        apply.interrupt_again()
        assert apply.until_end() == 130
    assert "0 of 2 moves made, 1 still running, 1 not made." in apply.text
    assert "If no daemon runs, run: rescheduler migrations --resume" in apply.text

    (left,) = migrations(rescheduler)
    assert left["status"]["phase"] == "InProgress"
    name = left["metadata"]["name"]
    undone = rescheduler("migrations", name, "-n", "shop", "--cancel")
    assert undone.exit_code == 0, undone.output
    assert f"shop/{name}: cancelled" in undone.stdout
    assert migrations(rescheduler) == []
    after = pods(rescheduler)
    assert {pod["metadata"]["uid"] for pod in after} == before, "no pod is gone, and no copy is left"
    assert not [key for pod in after for key in pod["metadata"].get("labels", {}) if key.startswith(MARKS)]
    assert rescheduler("migrations", name, "-n", "shop").exit_code == 1


def test_what_is_left_after_ctrl_c_is_finished_by_resuming_it(rescheduler, cluster, tmp_path):
    config = write_config(tmp_path / "config.json", settleTime="3s")
    with spawned("apply", "--yes", "--install", "--kubeconfig", cluster, "--config", config) as apply:
        apply.until("waiting for copy")
        apply.interrupt()
        apply.until("Ctrl-C again to exit immediately")
        apply.interrupt_again()
        assert apply.until_end() == 130
    assert [each["status"]["phase"] for each in migrations(rescheduler)] == ["InProgress"]
    resumed = rescheduler("migrations", "--resume", "--config", config)
    assert resumed.exit_code == 0, resumed.output
    assert "copy ready, settling" in resumed.stdout, "the step of the copy, not the last one on record"
    assert "1 of 1 move made." in resumed.stdout
    assert [each["status"]["phase"] for each in migrations(rescheduler)] == ["Completed"]
    assert "No migrations to resume." in rescheduler("migrations", "--resume", "--config", config).stdout


def test_a_drain_that_ctrl_c_ends_says_what_is_left_now_and_what_to_do(cluster, tmp_path):
    config = write_config(tmp_path / "config.json", settleTime="1s")
    arguments = ("node-1", "--install", "--kubeconfig", cluster, "--config", config)
    with spawned("drain", *arguments) as drain:
        drain.until("copy ready, settling")
        drain.interrupt()
        assert drain.until_end() == 130
    end = drain.text.partition("Press Ctrl-C again")[2]
    assert "Completed: web-" in end
    assert "node-1: 3 pods are still there" in end or "of which 1 is terminating" in end, drain.text
    assert "node-1 stays cordoned and labeled for maintenance." in end
    assert "To continue, run: rescheduler drain node-1" in end
    assert "To return to service, run: rescheduler undrain node-1" in drain.text


def test_on_a_terminal_what_is_under_way_is_shown_live_and_what_is_over_stays(cluster, tmp_path):
    config = write_config(tmp_path / "config.json", settleTime="1s")
    arguments = ("--yes", "--install", "--kubeconfig", cluster, "--config", config)
    with spawned("apply", *arguments, terminal=True) as apply:
        apply.until("of 2 moves made, 1 in progress, 1 waiting")
        assert "waiting for copy web-" in apply.until("Starting")
        assert apply.until_end() == 0
    assert apply.text.count("✓ shop/web-") == 2
    assert apply.text.rstrip().endswith("2 of 2 moves made.")


def test_watching_reports_every_change_until_ctrl_c(rescheduler, run, cluster, tmp_path):
    config = write_config(tmp_path / "config.json")
    assert rescheduler("apply", "--install", "--yes", "--max-moves", "1", "--config", config).exit_code == 0
    pod = min(each["metadata"]["name"] for each in pods(rescheduler) if each["spec"]["nodeName"] == "node-1")
    with spawned("migrations", "--watch", "-n", "shop", "--kubeconfig", cluster) as watch:
        listed = watch.until("Completed")
        assert "LoadBalancing" in listed, "first all that there are"
        watch.until("Watching")
        moved = rescheduler("move", f"shop/{pod}", "--config", config)
        assert moved.exit_code == 0, moved.output
        name = json.loads(rescheduler("migrations", "-o", "json").stdout)["items"][-1]["metadata"]["name"]
        seen = watch.until(f"shop/{name}  node-1 → ")
        watch.until("Completed Completed: moved")
        assert "InProgress" in seen + watch.text
        watch.interrupt()
        assert watch.until_end() == 0
