"""`rescheduler plan`, run as a user or a program runs it."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rescheduler.planner.plan_json import plan_from_json
from tests.building import cluster
from tests.unit.cli.conftest import SAVED_AT, lopsided
from tests.unit.cli.simulated_server import forbidding, served
from tests.unit.cluster.sources.rich_cluster import complete, saved

NOTHING, PROPOSES_MOVES, DATA_ERROR, USAGE_ERROR = 0, 3, 1, 2


def moves_of(result) -> list[dict]:
    return json.loads(result.stdout)["moves"]


# --- what it prints


def test_a_table_says_what_goes_where_why_and_what_it_comes_to(run, shop):
    result = run("plan", "--from", shop)
    assert result.exit_code == PROPOSES_MOVES
    lines = result.stdout.splitlines()
    assert lines[0] == "6 moves of 6 pods, in 6 waves.  As of 2026-03-02 12:00:00 UTC."
    head = next(place for place, line in enumerate(lines) if line.startswith("WAVE"))
    assert lines[head].split() == ["WAVE", "POD", "FROM", "→", "TO", "STRATEGY", "HANDOVER", "REASON"]
    assert lines[head + 1].split()[:7] == [
        "1", "shop/web-1-0", "worker-0", "→", "worker-2", "LoadBalancing", "Adopt"
    ]  # fmt: skip
    assert any(line.startswith("worker-0 ") and "█" in line and "→" in line for line in lines)
    assert "  - no PodDisruptionBudget protects any pod: the file has no poddisruptionbudgets" in lines


def test_what_is_refused_is_summed_up_with_a_remedy(run, shop):
    result = run("plan", "--from", shop)
    assert "     1  TooYoung\n" in result.stdout
    assert "shop/young" in result.stdout
    assert "Wait, or lower `minPodAge`." in result.stdout


def test_json_has_the_documented_form(run, shop):
    content = json.loads(run("plan", "--from", shop, "-o", "json").stdout)
    assert set(content) >= {"moves", "nodes", "refused", "summary"}
    assert set(content["moves"][0]) >= {
        "pod", "uid", "from", "to", "strategy", "handover", "reason", "gain"
    }  # fmt: skip
    before = {node["name"]: node["cpu"]["before"] for node in content["nodes"]}
    assert before == {"worker-0": 82.5, "worker-1": 26.25, "worker-2": 0.0, "worker-3": 0.0}


def test_yaml_says_the_same_as_json(run, shop):
    as_yaml, as_json = (run("plan", "--from", shop, "-o", form).stdout for form in ("yaml", "json"))
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_a_saved_plan_is_the_printed_one_and_can_be_read_again(run, shop, tmp_path):
    file = tmp_path / "plan.json"
    printed = run("plan", "--from", shop, "--save", file, "-o", "json").stdout
    assert file.read_text() == printed
    assert len(plan_from_json(file.read_bytes(), source="plan.json").moves) == len(
        json.loads(printed)["moves"]
    )


def test_nothing_to_do_is_said_and_is_exit_code_0(run, tmp_path):
    made = cluster().nodes("a", "b").deployment("shop/web", replicas=2, on=["a", "b"])
    file = tmp_path / "calm.json"
    file.write_text(json.dumps(saved(complete(made.objects), saved_at=SAVED_AT)))
    result = run("plan", "--from", file)
    assert (result.exit_code, result.stdout.splitlines()[0].partition(".")[0]) == (
        NOTHING,
        "Nothing to move",
    )


def test_the_same_input_gives_the_same_plan(run, shop):
    assert (
        run("plan", "--from", shop, "-o", "json").stdout == run("plan", "--from", shop, "-o", "json").stdout
    )


# --- which cluster


@pytest.mark.parametrize("form", ["json", "yaml", "json.gz", "stdin"])
def test_a_saved_cluster_may_be(run, shop, tmp_path, form):
    content = json.loads(shop.read_text())
    raw = yaml.safe_dump(content).encode() if form == "yaml" else json.dumps(content).encode()
    raw = gzip.compress(raw) if form.endswith("gz") else raw
    file = tmp_path / f"copy.{form}"
    file.write_bytes(raw)
    given = ("--from", "-") if form == "stdin" else ("--from", file)
    result = run("plan", *given, "-o", "json", stdin=raw if form == "stdin" else None)
    assert moves_of(result) == moves_of(run("plan", "--from", shop, "-o", "json"))


def test_a_running_cluster_is_planned_like_the_saved_one(run, shop, kubeconfig):
    live = run("plan", "--kubeconfig", kubeconfig, "--now", SAVED_AT, "-o", "json")
    assert live.exit_code == PROPOSES_MOVES, live.output
    assert moves_of(live) == moves_of(run("plan", "--from", shop, "-o", "json"))


def test_the_kubeconfig_is_found_as_kubectl_finds_it(run, kubeconfig):
    result = run("plan", "--now", SAVED_AT, env={"KUBECONFIG": str(kubeconfig)})
    assert result.exit_code == PROPOSES_MOVES, result.output


def test_a_context_that_is_not_there_is_a_clear_error(run, kubeconfig):
    result = run("plan", "--kubeconfig", kubeconfig, "--context", "prod")
    assert result.exit_code == DATA_ERROR
    assert 'context "prod" does not exist. Known contexts: simulator.' in result.stderr


def test_what_may_not_be_read_is_assumed_and_said(run, tmp_path):
    objects, refuse = complete(lopsided().objects), forbidding("poddisruptionbudgets", "replicasets")
    with served(objects, tmp_path / "kubeconfig", refuse) as kubeconfig:
        result = run("plan", "--kubeconfig", kubeconfig, "--now", SAVED_AT)
    assert result.exit_code == PROPOSES_MOVES, result.output
    assert (
        "- no PodDisruptionBudget protects any pod: can't list poddisruptionbudgets.policy" in result.stdout
    )
    assert "- the handover of pods of a ReplicaSet depends only on the kind: can't list" in result.stdout
    assert 'Grant the verb "list" on "poddisruptionbudgets" in API group "policy"' in result.stdout


def test_pods_that_may_not_be_read_are_an_error(run, tmp_path):
    with served(complete(lopsided().objects), tmp_path / "kubeconfig", forbidding("pods")) as kubeconfig:
        result = run("plan", "--kubeconfig", kubeconfig)
    assert result.exit_code == DATA_ERROR
    assert "can't list pods: pods is forbidden" in result.stderr


def test_a_cluster_without_nodes_is_an_error(run, tmp_path):
    with served([], tmp_path / "kubeconfig") as kubeconfig:
        result = run("plan", "--defaults", "--kubeconfig", kubeconfig)
    assert (result.exit_code, result.stderr) == (
        DATA_ERROR, "the cluster has no nodes, so there is nothing to plan\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        "plan", "status", "explain node n1", "drain n1", "move web --to n1", "apply", "migrations", "history",
        "undo web", "pause", "resume", "uninstall --yes", "snapshot -",
    ],
)  # fmt: skip
def test_a_server_that_is_not_there_is_an_error_in_a_sentence(run, tmp_path, command):
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    result = run(*command.split(), "--kubeconfig", tmp_path / "kubeconfig")
    assert result.exit_code == DATA_ERROR
    assert result.stderr.startswith("can't reach the API server http://127.0.0.1:9: Connection refused. ")
    assert f"The address is from context c of {tmp_path / 'kubeconfig'}" in result.stderr


# --- options


def test_only_the_strategies_that_are_named_are_asked(run, shop):
    result = run("plan", "--from", shop, "--strategy", "NodeMaintenance", "--strategy", "TopologySpread")
    assert result.exit_code == NOTHING


def test_there_are_at_most_so_many_moves(run, shop):
    assert len(moves_of(run("plan", "--from", shop, "--max-moves", 2, "-o", "json"))) == 2


def test_ages_count_from_the_given_time(run, shop):
    later = run("plan", "--from", shop, "--now", "2026-03-02T13:00:00Z")
    assert "TooYoung" not in later.stdout


def test_the_configuration_decides(run, shop, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{pluginConfig: [{name: Rescheduler, args: {excludedNamespaces: [shop]}}]}]\n"
    )
    assert run("plan", "--from", shop, "--config", file).exit_code == NOTHING


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            ["--strategy", "LoadBalancin"], "did you mean LoadBalancing?", id="a strategy that is none"
        ),
        pytest.param(
            ["--strategy", "LoadBalancing", "--strategy", "CostOptimization"],
            "strategyNodeSelectors",
            id="strategies that undo each other",
        ),
        pytest.param(["--max-moves", "0"], "--max-moves", id="no moves at all"),
        pytest.param(["--now", "noon"], "not a time such as", id="a time that is none"),
        pytest.param(["--context", "c"], "--from can't be combined", id="a file and a context"),
        pytest.param(["--config", "nowhere.yaml"], "nowhere.yaml", id="a configuration that is not there"),
        pytest.param(["-o", "xml"], "-o", id="a form that is none"),
    ],
)
def test_wrong_options_are_exit_code_2(run, shop, options, message):
    result = run("plan", "--from", shop, *options)
    assert result.exit_code == USAGE_ERROR
    assert message in result.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b'{"items": [', "invalid JSON", id="a truncated file"),
        pytest.param(b"hello", "not a list of objects", id="a foreign file"),
        pytest.param(b'{"kind": "List", "items": []}', "the file contains no nodes", id="an empty cluster"),
    ],
)
def test_a_file_that_is_no_cluster_is_exit_code_1(run, tmp_path, content, message):
    file = tmp_path / "c.json"
    file.write_bytes(content)
    result = run("plan", "--from", file)
    assert result.exit_code == DATA_ERROR
    assert result.stderr.startswith(f"{file}: {message}")


@pytest.mark.parametrize("file", ["/nonexistent/c.json", "."])
def test_a_file_that_can_t_be_read_is_exit_code_1(run, file):
    result = run("plan", "--from", file)
    assert result.exit_code == DATA_ERROR
    assert result.stderr.startswith(f"{file}: ")


def test_a_plan_that_can_t_be_saved_is_exit_code_1(run, shop):
    assert run("plan", "--from", shop, "--save", "/nonexistent/plan.json").exit_code == DATA_ERROR


def test_what_only_others_need_is_not_imported():
    """Process start is part of what a user waits for."""
    large = ("aiohttp", "numpy", "pydantic", "rich", "yaml")
    code = (
        "import sys, rescheduler.cli.commands.plan_commands; "
        f"print(*[name for name in {large} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


KUBECONFIG = """
clusters: [{name: one, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: one, context: {cluster: one}}]
current-context: one
"""


def test_a_request_is_sent_before_planning_is_imported(tmp_path):
    """The server answers meanwhile."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    code = (
        "import sys\n"
        "from rescheduler.cli.cluster_source import ClusterSource\n"
        "async def use(client):\n"
        "    import rescheduler.cluster.codecs.record_resources\n"
        "    print('aiohttp' in sys.modules, 'numpy' in sys.modules)\n"
        f"ClusterSource(None, {str(kubeconfig)!r}, None, None, None).with_client(None, use)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "False"]


def test_a_plan_imports_no_controller():
    code = (
        "import sys, importlib, rescheduler.cli.commands.plan_commands as command\n"
        "for name in command.PRELOADED_MODULES: importlib.import_module(name)\n"
        "print(*[name for name in sys.modules if name.startswith('rescheduler.migrations')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_it_runs_as_a_program(shop):
    command = [Path(sys.executable).with_name("rescheduler"), "plan", "--from", shop]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == PROPOSES_MOVES
    assert "\x1b" not in done.stdout, "no colours in a pipe"
