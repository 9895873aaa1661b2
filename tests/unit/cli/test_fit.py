"""`rescheduler fit` and `plan --for`: would it fit, and what would have to move?"""

import json

import pytest
import yaml

from tests.building import cluster
from tests.unit.cli.conftest import SAVED_AT
from tests.unit.cli.simulated_server import served
from tests.unit.cluster.sources.rich_cluster import complete, saved
from tests.unit.strategies.make_room.test_make_room import fragmented, waiting

FITS, AFTER_MOVES, ERROR, USAGE_ERROR = 0, 3, 1, 2
GPU = "nvidia.com/gpu"
TEMPLATE = "template: {spec: {containers: [{name: x}]}}}"
EXAMPLE = f"--from examples/fragmented-gpus.yaml --now {SAVED_AT}"


@pytest.fixture
def gpus(tmp_path):
    """Three nodes with 2 of 8 GPUs free each, and a pod that waits for 4."""
    made = waiting(fragmented(), "ml/train", more={GPU: "4"})
    file = tmp_path / "gpus.json"
    file.write_text(json.dumps(saved(complete(made.objects), saved_at=SAVED_AT)))
    return file


@pytest.fixture
def pod(tmp_path):
    """A manifest; its GPUs are limits, which are requests, too."""

    def write(count, kind="Pod", **spec):
        container = {"name": "main", "image": "ml:1", "resources": {"limits": {GPU: count}}}
        template = {"metadata": {"labels": {"app": "new"}}, "spec": {"containers": [container], **spec}}
        content = {"kind": kind, "metadata": {"name": "new", "namespace": "ml"}}
        if kind == "Pod":
            content["spec"] = template["spec"]
        else:
            content["spec"] = {"replicas": 2, "template": template}
        file = tmp_path / "pod.yaml"
        file.write_text(yaml.safe_dump(content))
        return file

    return write


def test_a_pod_that_fits_now(run, gpus, pod):
    result = run("fit", "-f", pod(2), "--from", gpus)
    assert result.exit_code == FITS
    assert result.stdout.splitlines() == [
        "POD     FITS  NODE",
        "ml/new  now   a",
        "",
        "1 of 1 pod fit: 1 now.",
    ]


def test_what_would_have_to_move(run, gpus, pod):
    result = run("fit", "-f", pod(4), "--from", gpus)
    assert result.exit_code == AFTER_MOVES
    assert "ml/new  after moves  a" in result.stdout
    assert "1 of 1 pod fit: 0 now, 1 after 1 move." in result.stdout
    assert "makes room for ml/new on a" in " ".join(result.stdout.split())


def test_a_pod_that_no_move_helps(run, gpus, pod):
    result = run("fit", "-f", pod(9), "--from", gpus)
    assert result.exit_code == ERROR
    assert "no node gets room for it with at most 5 moves" in " ".join(result.stdout.split())
    assert result.stdout.endswith("\n0 of 1 pod fit.\n")


def test_several_replicas_share_the_room(run, gpus, pod):
    result = run("fit", "-f", pod(2), "--replicas", "4", "--from", gpus, "-o", "json")
    content = json.loads(result.stdout)
    assert result.exit_code == ERROR
    assert [each["fits"] for each in content["pods"]] == ["Now", "Now", "Now", "No"]
    assert sorted(each["node"] for each in content["pods"][:3]) == ["a", "b", "c"]
    assert content["plan"]["moves"] == []


def test_a_workload_has_as_many_pods_as_it_says(run, gpus, pod):
    content = json.loads(run("fit", "-f", pod(2, "Deployment"), "--from", gpus, "-o", "json").stdout)
    assert [each["pod"] for each in content["pods"]] == ["ml/new-0", "ml/new-1"]


def test_json_names_the_moves_and_the_room(run, gpus, pod):
    content = json.loads(run("fit", "-f", pod(4), "--from", gpus, "-o", "json").stdout)
    assert content["pods"] == [{"pod": "ml/new", "fits": "AfterMoves", "node": "a", "reason": ""}]
    (move,) = content["plan"]["moves"]
    assert [(room["pod"], room["node"]) for room in move["rooms"]] == [("ml/new", "a")]


def test_priority_decides_who_may_move(run, tmp_path, pod):
    made = cluster().nodes("a", "b", more={GPU: "4"})
    made.deployment("ml/high", replicas=2, on=["a", "b"], more={GPU: "2"}, priority=100)
    file = tmp_path / "high.json"
    file.write_text(json.dumps(saved(complete(made.objects), saved_at=SAVED_AT)))
    assert run("fit", "-f", pod(4), "--from", file).exit_code == ERROR
    assert run("fit", "-f", pod(4), "--from", file, "--priority", "100").exit_code == AFTER_MOVES


def test_nothing_is_created(run, tmp_path, pod):
    with served(complete(fragmented().objects), tmp_path / "kubeconfig") as kubeconfig:
        result = run("fit", "-f", pod(4), "--kubeconfig", kubeconfig)
        again = run("fit", "-f", pod(4), "--kubeconfig", kubeconfig)
    assert (result.exit_code, again.exit_code) == (AFTER_MOVES, AFTER_MOVES), result.stderr
    assert result.stdout.splitlines()[1] == again.stdout.splitlines()[1] == "ml/new  after moves  a"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("- 1", "expected one object"),
        ("kind: Service", "expected a Pod or a workload with a pod template, not kind 'Service'"),
        ("kind: Pod", "the pod has no containers"),
        ("kind: Pod\nspec: 3", "spec must be an object"),
        ("kind: Pod\nspec: {nodeName: a, containers: [{name: x}]}", "names its node"),
        ("kind: Pod\nspec: {containers: [{name: x, resources: {requests: {cpu: [1]}}}]}", "not a valid pod"),
        ("kind: Pod\nspec: {containers: [x]}", "spec.containers[0] must be an object"),
        ("kind: Pod\nspec: {containers: {name: x}}", "spec.containers must be a list"),
        (
            "kind: Deployment\nspec: {replicas: two, " + TEMPLATE,
            "spec.replicas must be a number of pods, not 'two'",
        ),
        (
            "kind: Deployment\nspec: {replicas: -1, " + TEMPLATE,
            "spec.replicas must be a number of pods, not -1",
        ),
        ("a: [", "not a manifest"),
    ],
)
def test_a_manifest_that_is_none_is_refused(run, gpus, tmp_path, content, why):
    file = tmp_path / "bad.yaml"
    file.write_text(content)
    result = run("fit", "-f", file, "--from", gpus)
    assert result.exit_code == ERROR
    assert why in result.stderr
    assert "Traceback" not in result.stderr


def test_a_name_that_is_null_is_no_name(run, gpus, tmp_path):
    file = tmp_path / "pod.yaml"
    file.write_text("kind: Pod\nmetadata: {generateName: null}\nspec: {containers: [{name: x}]}")
    assert "pod  now" in run("fit", "-f", file, "--from", gpus).stdout


# -- plan --for


def test_a_plan_for_one_pod_makes_room_for_it_and_does_nothing_else(run, gpus):
    result = run("plan", "--for", "train", "-n", "ml", "--from", gpus, "-o", "json")
    assert result.exit_code == AFTER_MOVES
    moves = json.loads(result.stdout)["moves"]
    assert [(move["strategy"], move["pod"], move["from"]) for move in moves] == [
        ("MakeRoom", "ml/two-1-0", "a")
    ]


def test_a_pod_that_runs_needs_no_room(run, gpus):
    result = run("plan", "--for", "ml/two-1-0", "--from", gpus)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        ERROR,
        "pod ml/two-1-0 needs no room: it is on a",
    )


@pytest.mark.parametrize("more", [["--strategy", "MakeRoom"], ["--html", "x.html"]])
def test_for_excludes_other_strategies(run, gpus, more):
    assert run("plan", "--for", "ml/train", "--from", gpus, *more).exit_code == USAGE_ERROR


def test_in_the_simulated_cluster_the_pod_is_scheduled(run):
    """With the real planner and controller: the pod gets the node, and the next check has nothing to do."""
    result = run("simulate", *EXAMPLE.split(), "--strategy", "MakeRoom", "--checks", "2", "-v")
    assert result.exit_code == 0
    assert "1 of 1 move made." in result.stdout
    assert "RoomUsed: the pod for which room was made is scheduled on gpu-1" in result.stderr
