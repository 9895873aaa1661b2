"""Ctrl-C while pods are being moved, what is left then, and how it is undone."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rescheduler.api.podmigration_crd import podmigration_crd
from tests.unit.cli.command_process import spawned
from tests.unit.cli.conftest import lopsided
from tests.unit.cli.live_cluster import living_objects, scenario, write_config
from tests.unit.cli.simulated_server import forbidding, served
from tests.unit.cluster.sources.rich_cluster import complete

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


def test_the_command_that_continues_is_named_whatever_is_printed(cluster, tmp_path):
    """It goes to standard error: a pipe or a document would lose it."""
    config = write_config(tmp_path / "config.json", settleTime="10m")
    options = ("--kubeconfig", cluster, "--config", config)
    with spawned("apply", "--yes", "--install", "-o", "json", *options) as apply:
        apply.until("moving, handover Adopt")
        apply.interrupt()
        apply.until("Ctrl-C again to exit immediately")
        apply.interrupt_again()
        assert apply.until_end() == 130
    assert "If no daemon runs, run: rescheduler migrations --resume" in apply.text


def test_who_cancels_one_migration_is_told_that_others_continue(run, tmp_path):
    """No daemon runs, so the command executes all that are left while it waits."""
    other = {"namespace": "shop", "name": "api", "cpu": "100m", "memory": "64Mi", "on": {"node-1": 1}}
    config = write_config(tmp_path / "config.json", settleTime="10m")
    with served(living_objects(scenario(other)), tmp_path / "kubeconfig", alive=True) as kubeconfig:
        options = ("--kubeconfig", kubeconfig, "--config", config)
        with spawned("drain", "node-1", "--install", *options) as drain:
            drain.until("copy ready, settling")
            drain.interrupt()
            drain.until("Ctrl-C again to exit immediately")
            drain.interrupt_again()
            assert drain.until_end() == 130
        listed = json.loads(run("migrations", "-o", "json", *options).stdout)["items"]
        running = [each["metadata"]["name"] for each in listed if each["status"]["phase"] == "InProgress"]
        assert len(running) == 2
        done = run("migrations", running[0], "-n", "shop", "--cancel", *options)
        assert done.exit_code == 0, done.output
    assert "note: this command also continues 1 other migration\n" in done.stderr


def test_ctrl_c_at_a_question_means_no(cluster):
    with spawned("move", "deploy/web", "-n", "shop", "--kubeconfig", cluster, terminal=True) as move:
        move.until("[y/N]")
        move.interrupt_again()  # not before it reads the answer
        assert move.until_end() == 1
    assert move.text.endswith("\nnothing was moved\n")


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


def test_ctrl_c_also_ends_the_reader_of_a_pipe_and_the_running_move_still_finishes(
    rescheduler, cluster, tmp_path
):
    """As in `rescheduler apply | tee log`: both get the signal."""
    config = write_config(tmp_path / "config.json", settleTime="1s")
    command = [Path(sys.executable).with_name("rescheduler"), "apply", "--yes", "--install"]
    options = ["--kubeconfig", cluster, "--config", config]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as apply:
        assert apply.stdout is not None
        assert apply.stderr is not None
        next(line for line in apply.stdout if b"moving, handover Adopt" in line)
        apply.stdout.close()
        apply.send_signal(signal.SIGINT)
        errors = apply.stderr.read().decode()
        assert apply.wait(60) == 130, errors
    assert "Broken pipe" not in errors
    assert [each["status"]["phase"] for each in migrations(rescheduler)] == ["Completed"]


def test_the_moves_of_a_deployment_that_ctrl_c_cancels_are_counted(cluster, tmp_path):
    """Not explained one by one: a Deployment may have a hundred pods."""
    config = write_config(tmp_path / "config.json", settleTime="1s")
    arguments = (
        "deploy/web",
        "-n",
        "shop",
        "--yes",
        "--install",
        "--kubeconfig",
        cluster,
        "--config",
        config,
    )
    with spawned("move", *arguments) as move:
        move.until("copy ready, settling")
        move.interrupt()
        assert move.until_end() == 130
    assert move.text.rstrip().endswith("1 of 4 moves made, 3 not made.")
    assert "was not moved" not in move.text


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


def test_a_drain_that_is_left_at_once_counts_what_is_left_at_that_moment(cluster, tmp_path):
    """The last plan was made when all four pods were there, and a pod has moved since."""
    config = write_config(tmp_path / "config.json", settleTime="5s")
    with spawned("drain", "node-1", "--install", "--kubeconfig", cluster, "--config", config) as drain:
        drain.until("Completed: web-")
        drain.until("node-1 → node-3  InProgress: copy ready, settling")
        drain.interrupt()
        drain.until("Ctrl-C again to exit immediately")
        drain.interrupt_again()
        assert drain.until_end() == 130
    end = drain.text.partition("Press Ctrl-C again")[2]
    assert "node-1: " in end, drain.text
    assert "node-1: 4 pods are still there\n" not in end, drain.text


def test_on_a_terminal_what_is_under_way_is_shown_live_and_what_is_over_stays(cluster, tmp_path):
    config = write_config(tmp_path / "config.json", settleTime="1s")
    arguments = ("--yes", "--install", "--kubeconfig", cluster, "--config", config)
    with spawned("apply", *arguments, terminal=True) as apply:
        apply.until("of 2 moves made, 1 in progress, 1 waiting")
        assert "waiting for copy web-" in apply.until("Starting")
        assert apply.until_end() == 0
    assert apply.text.count("✓ shop/web-") == 2
    assert apply.text.rstrip().endswith("2 of 2 moves made.")


def test_watching_a_namespace_reads_nothing_else(tmp_path):
    """Users who may only view a namespace watch its migrations, as with kubectl."""
    objects = [*complete(lopsided().objects), podmigration_crd()]
    refused = forbidding("v1/pods", "v1/nodes", "v1alpha1/podmigrations")
    with (
        served(objects, tmp_path / "kubeconfig", refused) as kubeconfig,
        spawned("migrations", "--watch", "-n", "shop", "--kubeconfig", kubeconfig) as watch,
    ):
        watch.until("Watching")
        watch.interrupt_again()
        assert watch.until_end() == 0, watch.text
    assert "forbidden" not in watch.text


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
