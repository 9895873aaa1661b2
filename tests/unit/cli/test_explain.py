"""`rescheduler explain` as a person uses it."""

import json

import pytest
import yaml

DATA_ERROR, USAGE_ERROR = 1, 2


def test_a_pod_that_may_move_says_how_and_where_and_what_forbids_the_rest(run, shop):
    result = run("explain", "pod", "shop/web-1-0", "--from", shop)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(
        "shop/web-1-0 on worker-0\n\nMay it move?  yes\n\nHow  Adopt\n"
        "  its workload tolerates one more pod for a while\n\n"
        "Where could it go?  3 of 4 nodes\n  worker-1, worker-2, worker-3\n\n"
        "What forbids the others\n  1 node: AlreadyHere, node(s) it is on already\n      worker-0\n"
    ), result.stdout


def test_a_pod_that_stays_says_why_and_what_to_do(run, shop):
    result = run("explain", "pod", "kube-system/agent-worker-0", "--from", shop)
    assert "May it move?  no\n" in result.stdout
    assert "  - DaemonSetPod: its DaemonSet wants it there" in result.stdout
    assert "    Nothing to do: it goes with its node." in result.stdout


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(("pod", "shop/db-0"), id="with its namespace before it"),
        pytest.param(("pod", "db-0", "-n", "shop"), id="with -n"),
        pytest.param(("po", "shop/db-0", "-n", "shop"), id="with both"),
        pytest.param(("pods", "db-0", "--namespace", "shop"), id="in the plural"),
    ],
)
def test_a_pod_is_named_as_for_kubectl(run, shop, given):
    result = run("explain", *given, "--from", shop)
    assert result.stdout.startswith("shop/db-0 on worker-1\n"), result.output


def test_without_a_namespace_it_is_the_default_one(run, shop):
    result = run("explain", "pod", "db-0", "--from", shop)
    assert result.exit_code == DATA_ERROR
    assert result.stderr == "there is no pod default/db-0; there is shop/db-0\n"


def test_a_name_that_is_nearly_right_is_corrected(run, shop):
    result = run("explain", "node", "worker-9", "--from", shop)
    assert result.exit_code == DATA_ERROR
    assert result.stderr.startswith("there is no node worker-9; did you mean worker-")


def test_a_node_says_what_could_leave_stay_and_come(run, shop):
    result = run("explain", "node", "worker-0", "--from", shop)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("worker-0 is Ready\n  cpu ")
    assert "What could leave?  8 of 10 pods\n" in result.stdout
    assert "  shop/web-1-0  Adopt  3 nodes could take it\n" in result.stdout
    assert "  1 pod: TooYoung\n" in result.stdout
    assert (
        "What could come?  2 pods of other nodes may move and would fit\n  shop/db-0, shop/db-1\n"
        in result.stdout
    )


def test_a_running_cluster_is_explained_alike(run, shop, kubeconfig):
    live = run("explain", "node", "worker-0", "--kubeconfig", kubeconfig, "--now", "2026-03-02T12:00:00Z")
    file = run("explain", "node", "worker-0", "--from", shop)
    head = "Taken for granted"
    assert live.stdout.partition(head)[0] == file.stdout.partition(head)[0]


def test_json_and_yaml_are_complete_and_say_the_same(run, shop):
    told = json.loads(run("explain", "pod", "shop/web-1-0", "--from", shop, "-o", "json").stdout)
    assert told["mayMove"] is True
    assert told["places"]["available"] == ["worker-1", "worker-2", "worker-3"]
    assert told["places"]["forbidden"] == [
        {
            "rule": "AlreadyHere",
            "reason": "node(s) it is on already",
            "nodes": [{"node": "worker-0", "detail": ""}],
        }
    ]
    assert yaml.safe_load(run("explain", "pod", "shop/web-1-0", "--from", shop, "-o", "yaml").stdout) == told
    node = json.loads(run("explain", "node", "worker-0", "--from", shop, "-o", "json").stdout)
    assert len(node["pods"]) == 10
    kept = next(each["keptBy"] for each in node["pods"] if each["pod"] == "shop/young")
    assert [each["reason"] for each in kept] == ["TooYoung"]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(("service", "web"), id="neither pod nor node"),
        pytest.param(("pod", "shop/web", "-n", "other"), id="two namespaces"),
        pytest.param(("pod",), id="no name"),
    ],
)
def test_wrong_usage_is_exit_code_2(run, shop, given):
    assert run("explain", *given, "--from", shop).exit_code == USAGE_ERROR
