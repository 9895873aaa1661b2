"""Commands work as the installed daemon does: with its configuration, and in its namespace."""

import json

import pytest

from rescheduler.install.manifests import install_manifests
from tests.unit.cli.conftest import lopsided
from tests.unit.cli.live_cluster import write_config
from tests.unit.cli.simulated_server import forbidding, served
from tests.unit.cluster.sources.rich_cluster import complete

BALANCED_ENOUGH = {"imbalanceThreshold": 99.0, "cpuThreshold": 99.0, "usageSource": "requests"}
USED = "Using the configuration of the installed daemon (ConfigMap ops/rescheduler).\n"


def installed(tmp_path, **args):
    """The shop, in which rescheduler is installed, but has not led yet."""
    text = write_config(tmp_path / "installed.json", **args).read_text()
    items = install_manifests(namespace="ops", configuration=text)
    ours = [each for each in items if each["kind"] in {"ClusterRoleBinding", "ConfigMap", "Deployment"}]
    return complete([*lopsided().objects, *ours])


@pytest.fixture
def rescheduler(tmp_path, run):
    with served(installed(tmp_path, **BALANCED_ENOUGH), tmp_path / "kubeconfig") as kubeconfig:
        yield lambda *arguments: run(*arguments, "--kubeconfig", kubeconfig)


def test_a_plan_is_the_one_that_the_daemon_would_make(rescheduler):
    result = rescheduler("plan")
    assert (result.exit_code, result.stderr) == (0, USED), result.output
    assert "Nothing to move" in result.stdout


def test_defaults_and_a_file_take_precedence(rescheduler, tmp_path):
    own = write_config(tmp_path / "own.json", imbalanceThreshold=5.0)
    by_defaults, by_file = rescheduler("plan", "--defaults"), rescheduler("plan", "--config", own)
    assert (by_defaults.exit_code, by_file.exit_code) == (3, 3)
    assert f"Using the configuration in {own}." in by_file.stderr
    assert "installed daemon" not in by_defaults.stderr
    both = rescheduler("plan", "--defaults", "--config", own)
    assert "--defaults can't be combined with --config" in both.stderr


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["explain", "node", "worker-0"], id="explain"),
        pytest.param(["apply", "--yes"], id="apply"),
        pytest.param(["drain", "worker-0", "--dry-run"], id="drain"),
        pytest.param(["move", "shop/db-0", "--dry-run"], id="move"),
        pytest.param(["undo", "--since", "1h", "--dry-run"], id="undo"),
    ],
)
def test_other_commands_use_it_too_and_say_so(rescheduler, command):
    result = rescheduler(*command)
    assert result.stderr.startswith(USED), result.output
    by_defaults = rescheduler(*command, "--defaults")
    assert "installed daemon" not in by_defaults.stderr
    assert by_defaults.exit_code in {0, 1}, by_defaults.output


def test_a_pause_before_the_daemon_leads_reaches_it(rescheduler):
    assert "ConfigMap ops/rescheduler-state" in rescheduler("pause").stdout
    assert json.loads(rescheduler("status", "-o", "json").stdout)["pause"]["paused"] is True


def test_an_invalid_one_is_refused_with_a_remedy(tmp_path, run):
    with served(installed(tmp_path, unknownSetting=1), tmp_path / "kubeconfig") as kubeconfig:
        result = run("plan", "--kubeconfig", kubeconfig)
    assert result.exit_code == 2
    assert "ConfigMap ops/rescheduler" in result.stderr
    assert "specify --config or --defaults" in result.stderr


def test_without_permission_the_defaults_are_used_and_the_reason_is_printed(tmp_path, run):
    refused = forbidding("clusterrolebindings")
    with served(installed(tmp_path, **BALANCED_ENOUGH), tmp_path / "kubeconfig", refused) as kubeconfig:
        result = run("plan", "--kubeconfig", kubeconfig)
    assert result.exit_code == 3
    assert "Using the default configuration: can't find out where rescheduler is installed" in result.stderr


def test_a_plan_requests_pods_before_it_looks_for_the_configuration(tmp_path, run):
    """The server needs longest for the pods of a large cluster, so it answers while the rest is found."""
    asked = []

    def recording(handle):
        async def record(method, target, headers, body):
            asked.append(target.partition("?")[0])
            return await handle(method, target, headers, body)

        return record

    with served(installed(tmp_path, **BALANCED_ENOUGH), tmp_path / "kubeconfig", recording) as kubeconfig:
        result = run("plan", "--kubeconfig", kubeconfig)
    assert (result.exit_code, result.stderr) == (0, USED), result.output
    assert asked[0] == "/api/v1/pods"
    assert asked.count("/api/v1/pods") == 1
