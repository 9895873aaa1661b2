"""Names, selectors and options follow kubectl's conventions."""

import json
import re
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.cli import main
from rescheduler.cli.migrations_view import migration_list_lines
from rescheduler.cli.terminal import Terminal
from tests.unit.cli.live_cluster import living_objects, scenario
from tests.unit.cli.simulated_server import served


@pytest.mark.parametrize(
    ("typed", "meant"), [("drian", "drain"), ("statsu", "status"), ("migration", "migrations")]
)
def test_a_mistyped_command_is_answered_with_a_suggestion(run, typed, meant):
    result = run(typed)
    assert result.exit_code == 2
    assert f'unknown command "{typed}". Did you mean {meant}' in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(run, shell):
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_RESCHEDULER_COMPLETE" in result.stdout


def test_the_beginning_of_a_command_is_completed():
    """As the script does it that `completion bash` prints."""
    asked = {"_RESCHEDULER_COMPLETE": "bash_complete", "COMP_WORDS": "rescheduler dr", "COMP_CWORD": "1"}
    result = CliRunner().invoke(main, prog_name="rescheduler", env=asked)
    assert result.stdout.splitlines() == ["plain,drain"]


def test_versions_of_client_daemon_and_server(run, kubeconfig):
    assert run("version", "--client").stdout.startswith("Client Version: ")
    result = json.loads(run("version", "-o", "json", "--kubeconfig", kubeconfig).stdout)
    assert set(result) == {"clientVersion", "daemonVersion", "serverVersion"}
    assert result["serverVersion"].startswith("v1.")


def test_the_version_of_the_client_is_known_without_a_cluster(run, tmp_path):
    result = run("version", "--kubeconfig", str(tmp_path / "none"))
    assert result.exit_code != 0
    assert result.stdout.startswith("Client Version: ")
    assert "No such file" in result.stderr


@pytest.mark.parametrize(
    "named",
    [
        ("pod/young", "-n", "shop"),
        ("pod", "young", "-n", "shop"),
        ("po/shop/young",),
        pytest.param(("pod/youn", "-n", "shop"), id="the start of a name"),
    ],
)
def test_a_pod_is_named_as_for_kubectl(run, shop, named):
    result = run("explain", *named, "--from", shop)
    assert result.exit_code == 0, result.output
    assert "shop/young" in result.stdout


def test_a_name_that_several_share_is_answered_with_them(run, shop):
    result = run("explain", "pod/web", "-n", "shop", "--from", shop)
    assert result.exit_code == 1
    assert "pod shop/web not found; did you mean shop/web-" in result.stderr
    assert "5 more?" in result.stderr


@pytest.mark.parametrize(
    "named",
    [
        pytest.param(["shop/yuong"], id="mistyped"),
        pytest.param(["shop/wbe-"], id="the mistyped start of a name"),
        pytest.param(["-n", "default", "youn"], id="the start of a name in another namespace"),
    ],
)
def test_a_name_that_is_not_known_is_answered_with_the_nearest(run, shop, named):
    """Names of pods are long, and few type them to the end."""
    result = run("explain", "pod", *named, "--from", shop)
    assert result.exit_code == 1
    assert re.search(r"not found; did you mean shop/(young|web-1-\w+)", result.stderr), result.stderr


def test_another_kind_and_another_namespace_are_refused(run, shop):
    result = run("explain", "pod", "sts/db", "-n", "shop", "--from", shop)
    assert result.exit_code == 2
    assert '"sts" in sts/db is neither the namespace shop nor a kind' in result.stderr


def test_an_option_before_the_command_is_answered_with_its_place(run):
    result = run("--context", "prod", "plan")
    assert result.exit_code == 2
    assert "no such option --context. Options of a command follow its name." in result.stderr


@pytest.fixture
def rescheduler(run, tmp_path):
    objects = [*living_objects(scenario()), podmigration_crd()]
    with served(objects, tmp_path / "kubeconfig") as kubeconfig:
        yield lambda *arguments, **more: run(*arguments, "--kubeconfig", kubeconfig, **more)


def cordoned(rescheduler):
    items = json.loads(rescheduler("snapshot", "-").stdout)["items"]
    nodes = [item for item in items if item["kind"] == "Node"]
    return [node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")]


def test_a_dry_run_of_a_drain_shows_the_moves_and_changes_nothing(rescheduler):
    result = rescheduler("drain", "-l", "kubernetes.io/hostname=node-1", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "4 moves of 4 pods" in result.stdout
    assert "Dry run: nothing was changed." in result.stdout
    assert cordoned(rescheduler) == []


def test_a_selector_without_nodes_and_an_invalid_one_are_refused(rescheduler):
    none = rescheduler("drain", "-l", "pool=none", "--dry-run")
    assert (none.exit_code, "no node has the labels pool=none" in none.stderr) == (1, True)
    assert rescheduler("drain", "-l", "pool in (", "--dry-run").exit_code == 2
    assert "either the names of nodes or a label selector" in rescheduler("drain").stderr


def test_a_dry_run_of_a_move_says_whether_it_could_be_made(rescheduler):
    items = json.loads(rescheduler("snapshot", "-").stdout)["items"]
    pod = next(item["metadata"]["name"] for item in items if item["kind"] == "Pod")
    result = rescheduler("move", f"pod/{pod}", "-n", "shop", "--dry-run")
    assert result.exit_code == 0, result.output
    assert f"shop/{pod} can be moved from node-1 to node-2 (Adopt)" in result.stderr
    assert result.stderr.endswith("Dry run: nothing was changed.\n")
    refused = rescheduler("move", f"pod/{pod}", "-n", "shop", "--to", "nowhere", "--dry-run")
    assert refused.exit_code == 1
    assert "node nowhere not found" in refused.stderr


def test_before_all_pods_of_a_deployment_are_moved_you_are_asked(rescheduler):
    result = rescheduler("move", "deploy/web", "-n", "shop", stdin="n\n")
    assert result.exit_code == 1
    assert "Move all 4 pods of Deployment shop/web?" in result.output
    assert result.stderr.count("can be moved from node-1") == 4
    assert "nothing was moved" in result.stderr
    assert "not found" in rescheduler("move", "deploy/nothing", "-n", "shop").stderr


@pytest.mark.parametrize("output", ["table", "wide", "name"])
def test_that_there_are_none_is_no_output_but_a_message_as_of_kubectl(rescheduler, output):
    """A script that reads the list gets nothing; a person is not left with an empty answer."""
    none = rescheduler("migrations", "-o", output)
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", "No migrations found.\n")


def test_none_are_an_empty_list_for_programs(rescheduler):
    none = rescheduler("migrations", "-o", "json")
    assert (json.loads(none.stdout)["items"], none.stderr) == ([], "")


def test_all_namespaces_is_said_as_for_kubectl(rescheduler):
    assert rescheduler("migrations", "-A").exit_code == 0
    assert rescheduler("migrations", "-A", "-n", "shop").exit_code == 2


LONG = "checkout-7f9c4d5b6d-x2kqp-20261117"


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_narrow_terminal_keeps_the_name_and_shows_the_rest_below_it(width):
    item = {
        "metadata": {
            "namespace": "shop",
            "name": LONG,
            "uid": "u",
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-17T00:00:00Z",
        },
        "spec": {
            "pod": {"name": "checkout-7f9c4d5b6d-x2kqp", "uid": "p"},
            "sourceNode": "ip-10-0-1-23.eu-west-1.compute.internal",
            "targetNode": "ip-10-0-1-24.eu-west-1.compute.internal",
            "strategy": "LoadBalancing",
            "reason": "",
            "handover": "Auto",
        },
        "status": {
            "phase": "InProgress",
            "step": "Starting",
            "handover": "Adopt",
            "message": "waiting for the copy " * 5,
        },
    }
    lines = list(migration_list_lines([item], Terminal(width), datetime(2026, 11, 17, tzinfo=UTC)))
    assert max(map(len, lines)) <= width
    assert f"shop/{LONG}" in lines[1]
    assert "InProgress" in lines[1]
    text = " ".join(" ".join(lines).split())
    assert "ip-10-0-1-23.eu-west-1.compute.internal" in text
    assert "ip-10-0-1-24.eu-west-1.compute.internal" in text
    assert text.count("waiting for the copy") == 5 or width > 80
