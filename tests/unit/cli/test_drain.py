"""`rescheduler drain` and `undrain`, over HTTP on a running simulated cluster."""

import copy
import json
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from kubesim.scenario import parse_scenario
from rescheduler.api.daemon_status import DaemonStatus, NodeInMaintenance, encode_state
from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.api.well_known_names import EMPTY_CONDITION
from rescheduler.cli import main
from rescheduler.cli.execution import current_user
from tests.unit.cli.command_process import spawned
from tests.unit.cli.live_cluster import living_objects, scenario, write_config
from tests.unit.cli.simulated_server import answering_who, forbidding, served

DAEMONS = {"kind": "DaemonSet", "namespace": "kube-system", "name": "agent", "cpu": "50m"}
SINGLE = {
    "namespace": "shop",
    "name": "single",
    "cpu": "100m",
    "on": {"node-1": 1},
    "budget": {"minAvailable": 1},
}
STRICT = {
    "namespace": "shop",
    "name": "strict",
    "cpu": "100m",
    "on": {"node-1": 1, "node-2": 1},
    "budget": {"minAvailable": 3},
}
SYSTEM = {"namespace": "kube-system", "name": "dns", "cpu": "100m", "on": {"node-1": 1}}


@pytest.fixture
def run(tmp_path):
    def invoke(*arguments, **args):
        config = write_config(tmp_path / "config.yaml", **args)
        where = ["--kubeconfig", str(tmp_path / "kubeconfig"), "--config", str(config)]
        return CliRunner().invoke(main, [*arguments, *where])

    return invoke


def cluster(tmp_path, *workloads):
    return served(
        [*living_objects(scenario(*workloads)), podmigration_crd()], tmp_path / "kubeconfig", alive=True
    )


def node(tmp_path, name):
    saved = tmp_path / "saved.json"
    result = CliRunner().invoke(main, ["snapshot", str(saved), "--kubeconfig", str(tmp_path / "kubeconfig")])
    assert result.exit_code == 0, result.output
    items = json.loads(saved.read_text())["items"]
    (found,) = [item for item in items if item["kind"] == "Node" and item["metadata"]["name"] == name]
    pods = [
        item
        for item in items
        if item["kind"] == "Pod"
        and item["spec"].get("nodeName") == name
        and item["metadata"]["namespace"] == "shop"
    ]
    return found, pods


def test_while_no_daemon_runs_the_node_says_that_it_is_being_emptied(tmp_path, run):
    """The docs say to wait for its condition with `kubectl wait`, and `status` shows it."""
    written = []

    def recording(handle):
        async def answer(method, target, headers, body):
            if method == "PATCH" and target.partition("?")[0].endswith("/nodes/node-1/status"):
                written.extend(
                    (each["status"], each["reason"])
                    for each in json.loads(body)["status"]["conditions"]
                    if each.get("type") == EMPTY_CONDITION
                )
            return await handle(method, target, headers, body)

        return answer

    objects = [*living_objects(scenario(SINGLE)), podmigration_crd()]
    with served(objects, tmp_path / "kubeconfig", recording, alive=True):
        assert run("drain", "node-1").exit_code == 0
    assert written[0] == ("False", "Emptying")
    assert written[-1] == ("True", "Empty")


def test_drain_moves_single_replicas_under_zero_budgets(tmp_path, run):
    """The budgets allow no disruption."""
    with cluster(tmp_path, SINGLE, DAEMONS):
        result = run("drain", "node-1")
        found, pods = node(tmp_path, "node-1")
    assert result.exit_code == 0, result.output
    assert result.output.count("node-1: empty") == 1, "nothing is said twice"
    assert pods == []
    assert found["spec"]["unschedulable"] is True
    assert found["metadata"]["labels"]["scheduler.alpha.kubernetes.io/maintenance"] == "true"
    assert found["metadata"]["annotations"]["rescheduler.dev/cordoned-by"] == "NodeMaintenance"
    (empty,) = [each for each in found["status"]["conditions"] if each["type"] == "rescheduler.dev/Empty"]
    assert (empty["status"], empty["reason"]) == ("True", "Empty"), "`kubectl wait` needs no daemon"


def test_what_cannot_be_moved_is_named_with_the_reason_and_the_remedy(tmp_path, run):
    with cluster(tmp_path, SYSTEM):
        result = run("drain", "node-1")
    assert result.exit_code == 1
    assert "1 pod is still there, of which 1 can't be moved" in result.output
    assert "ExcludedNamespace" in result.output
    assert "maintenanceIncludesSystem" in result.output


def test_a_budget_that_no_copy_can_meet_is_named_by_every_command(tmp_path, run):
    with cluster(tmp_path, STRICT):
        drained = run("drain", "node-1")
        _, (pod,) = node(tmp_path, "node-1")
        name = pod["metadata"]["name"]
        explained = run("explain", "pod", f"shop/{name}")
        planned = run("plan", enabledStrategies=["NodeMaintenance"])
        moved = run("move", f"shop/{name}", "--to", "node-3")
    saved = str(tmp_path / "saved.json")
    simulated = CliRunner().invoke(main, ["simulate", "--from", saved, "--strategy", "NodeMaintenance"])
    for each in (drained, explained, planned, moved, simulated):
        assert "BudgetUnsatisfiable" in each.output, each.output
    assert drained.exit_code == 1
    assert "Lower `minAvailable` of the budget, or run more replicas" in " ".join(drained.output.split())


def test_pods_of_the_system_go_too_if_that_is_asked_for(tmp_path, run):
    with cluster(tmp_path, SYSTEM):
        result = run("drain", "node-1", "--include-system")
    assert result.exit_code == 0, result.output


def test_pods_that_came_from_the_node_drained_before_leave_the_next_one_too(tmp_path, run):
    """A rolling drain: minPodAge keeps pods from moving often, not from leaving a node that must be empty."""
    small = {**scenario(), "workloads": [SINGLE]}
    with served([*living_objects(small), podmigration_crd()], tmp_path / "kubeconfig", alive=True):
        assert run("drain", "node-1", minPodAge="5m").exit_code == 0
        rest = run("drain", "node-2", minPodAge="5m")
    assert rest.exit_code == 0, rest.output
    assert "TooYoung" not in rest.output


def test_a_pod_that_was_terminating_before_the_drain_is_not_counted_by_its_bar(tmp_path):
    """The drain has four pods to move, and waits for the fifth, which takes five minutes to end."""
    slow = {"pods": [{"match": {"labels": {"app": "going"}}, "termination": "5m"}]}
    content = {**scenario(), "behaviour": slow}
    objects = living_objects(content)
    going = copy.deepcopy(next(each for each in objects if each["kind"] == "Pod"))
    going["metadata"] = {
        "name": "going",
        "labels": {"app": "going"},
        "namespace": "shop",
        "deletionTimestamp": (datetime.now(UTC) + timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "deletionGracePeriodSeconds": 600,
    }
    going["spec"]["terminationGracePeriodSeconds"] = 600
    where = ["--kubeconfig", tmp_path / "kubeconfig", "--config", write_config(tmp_path / "config.json")]
    with (
        served(
            [*objects, going, podmigration_crd()],
            where[1],
            alive=True,
            scenario=parse_scenario(json.dumps(content).encode(), source="test"),
        ),
        spawned("drain", "node-1", *where, terminal=True) as drain,
    ):
        assert "0 of 4 pods moved" in drain.until("pods moved")


def test_undrain_takes_back_what_drain_did(tmp_path, run):
    with cluster(tmp_path):
        assert run("drain", "node-1").exit_code == 0
        result = run("undrain", "node-1")
        found, _ = node(tmp_path, "node-1")
    assert (result.exit_code, result.output) == (0, "node-1: in service again\n")
    assert not found["spec"].get("unschedulable")
    assert "scheduler.alpha.kubernetes.io/maintenance" not in found["metadata"]["labels"]
    assert "rescheduler.dev/Empty" not in [each["type"] for each in found["status"]["conditions"]]


@pytest.mark.parametrize("has_label", [True, False], ids=["labelled", "the label was removed meanwhile"])
def test_a_node_whose_daemon_is_gone_is_restored_by_the_command_that_status_names(tmp_path, run, has_label):
    """The daemon would have uncordoned it: without one, nothing does, and `apply` does not either."""
    objects = living_objects(scenario())
    old = next(each for each in objects if each["metadata"]["name"] == "node-1")
    old["spec"]["unschedulable"] = True
    old["metadata"]["annotations"] = {"rescheduler.dev/cordoned-by": "NodeMaintenance"}
    old["metadata"]["labels"] |= {"scheduler.alpha.kubernetes.io/maintenance": "true"} if has_label else {}
    condition = {"type": "rescheduler.dev/Empty", "status": "False", "reason": "Emptying"}
    old["status"]["conditions"].append({**condition, "message": "4 pods are still there"})
    old["status"]["conditions"].append({"type": "DrainInProgress", "status": "True", "reason": "Rescheduler"})
    state = DaemonStatus(maintenance=(NodeInMaintenance("node-1", 4, (), "4 pods are still there"),))
    written = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "kube-system", "name": "rescheduler-state"},
        "data": {"status": encode_state(state)} if has_label else {},
    }
    with served([*objects, written, podmigration_crd()], tmp_path / "kubeconfig", alive=True):
        shown = run("status").stdout
        assert "to return it to service, run `rescheduler undrain node-1`" in shown, shown
        assert run("undrain", "node-1").stdout == "node-1: in service again\n"
        found, _ = node(tmp_path, "node-1")
        after = run("status").stdout
    assert not found["spec"].get("unschedulable")
    left = {each["type"] for each in found["status"]["conditions"]}
    assert not left & {"rescheduler.dev/Empty", "DrainInProgress"}
    assert "node-1" not in after


def test_undrain_needs_nothing_but_the_nodes(tmp_path, run):
    others = ("pods", "statefulsets", "replicasets", "deployments", "podmigrations", "leases", "nodes")
    objects = living_objects(scenario())
    with served(objects, tmp_path / "kubeconfig", forbidding(*others)):
        result = run("undrain", "node-1")
        unknown = run("undrain", "node-1", "nowhere")
    assert (result.exit_code, result.output) == (0, "node-1: in service\n")
    assert unknown.exit_code == 1
    assert "node nowhere not found: nothing was changed" in unknown.output


@pytest.mark.parametrize("how", [pytest.param((), id="drain"), pytest.param(("--dry-run",), id="dry run")])
def test_a_mistyped_node_gives_a_suggestion(tmp_path, run, how):
    with cluster(tmp_path):
        result = run("drain", "node-11", *how)
    assert result.exit_code == 1
    assert "node node-11 not found: nothing was changed; did you mean node-1?" in result.output


def test_a_drain_chooses_nodes_by_the_load_that_its_dry_run_shows(tmp_path, run):
    """By what pods use, where that is measured: by requests the nodes would be nearly full."""
    with cluster(tmp_path):
        measured = {"usageSource": "metrics"}
        planned = json.loads(run("drain", "node-1", "--dry-run", "-o", "json", **measured).stdout)
        assert run("drain", "node-1", **measured).exit_code == 0
        moves = json.loads(run("history", "-o", "json").stdout)["moves"]
        now = json.loads(run("plan", "-o", "json", **measured).stdout)
        back = json.loads(run("undo", "--since", "1h", "--dry-run", "-o", "json", **measured).stdout)
    loads = {move["reason"].rpartition("target ")[2] for move in moves}
    assert loads == {move["reason"].rpartition("target ")[2] for move in planned["moves"]}
    before = [plan["summary"]["load"]["cpu"]["before"] for plan in (now, back)]
    assert before[0] == before[1], "undo counts what `plan` counts"


def test_a_node_that_another_client_cordoned_stays_cordoned(tmp_path, run):
    objects = living_objects(scenario())
    (first,) = [each for each in objects if each["kind"] == "Node" and each["metadata"]["name"] == "node-1"]
    first["spec"]["unschedulable"] = True
    with served([*objects, podmigration_crd()], tmp_path / "kubeconfig", alive=True):
        assert run("drain", "node-1").exit_code == 0
        result = run("undrain", "node-1")
        found, _ = node(tmp_path, "node-1")
    assert "another client cordoned it" in result.output
    assert found["spec"]["unschedulable"] is True


def test_if_one_of_the_nodes_is_not_there_nothing_is_done_to_the_others(tmp_path, run):
    with cluster(tmp_path):
        result = run("drain", "node-1", "nowhere")
        found, _ = node(tmp_path, "node-1")
    assert result.exit_code == 1
    assert "node nowhere not found: nothing was changed" in result.output
    assert not found["spec"].get("unschedulable")


def test_several_nodes_at_once_don_t_send_pods_to_each_other(tmp_path, run):
    with cluster(tmp_path):
        result = run("drain", "node-1", "node-2", "-o", "json")
        states = json.loads(result.stdout)["nodes"]
    assert result.exit_code == 0, result.output
    assert [(state["node"], state["left"]) for state in states] == [("node-1", 0), ("node-2", 0)]


def test_the_history_and_the_node_say_who_drains_it(tmp_path, run):
    """Until `undrain`: the next maintenance may be somebody else's."""
    objects = [*living_objects(scenario()), podmigration_crd()]
    user = f"ann@example.com ({current_user()})"
    with served(objects, tmp_path / "kubeconfig", answering_who("ann@example.com"), alive=True):
        assert run("drain", "node-1").exit_code == 0
        drained, _ = node(tmp_path, "node-1")
        moves = json.loads(run("history", "-o", "json").stdout)["moves"]
        shown = run("history").stdout
        assert run("undrain", "node-1").exit_code == 0
        returned, _ = node(tmp_path, "node-1")
    assert drained["metadata"]["annotations"]["rescheduler.dev/requested-by"] == user
    assert {move["requestedBy"] for move in moves} == {user}
    assert all(f"node-1 in maintenance, requested by {user}" in move["reason"] for move in moves)
    assert f", requested by {user}" in shown.splitlines()[0]
    assert "rescheduler.dev/requested-by" not in (returned["metadata"].get("annotations") or {})


@pytest.mark.parametrize(
    ("wrap", "user"),
    [
        pytest.param(answering_who("ann@example.com"), f"ann@example.com ({current_user()})", id="known"),
        pytest.param(forbidding("selfsubjectreviews"), current_user(), id="the API server does not say"),
    ],
)
def test_a_move_says_who_requested_it(tmp_path, run, wrap, user):
    with served([*living_objects(scenario()), podmigration_crd()], tmp_path / "kubeconfig", wrap, alive=True):
        _, pods = node(tmp_path, "node-1")
        assert run("move", f"shop/{pods[0]['metadata']['name']}").exit_code == 0
        (move,) = json.loads(run("history", "-o", "json").stdout)["moves"]
    assert (move["strategy"], move["reason"], move["requestedBy"]) == ("Manual", f"requested by {user}", user)
