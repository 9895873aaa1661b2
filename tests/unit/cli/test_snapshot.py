"""`rescheduler snapshot`, run as a user runs it."""

import gzip
import json

import pytest
import yaml

from tests.building import cluster
from tests.unit.cli.conftest import SAVED_AT, lopsided
from tests.unit.cli.simulated_server import forbidding, served
from tests.unit.cluster.sources.rich_cluster import SECRETS, complete, rich_objects

DATA_ERROR, USAGE_ERROR = 1, 2


def test_a_saved_cluster_is_planned_like_the_running_one(run, kubeconfig, tmp_path):
    file = tmp_path / "c.json"
    result = run("snapshot", file, "--kubeconfig", kubeconfig)
    assert result.exit_code == 0, result.output
    assert "\nsaved 13 Pod, 4 Node, " in result.stderr
    live, offline = (
        json.loads(run("plan", *given, "--now", SAVED_AT, "-o", "json").stdout)
        for given in (("--kubeconfig", kubeconfig), ("--from", file))
    )
    assert live["moves"] == offline["moves"]
    assert live["nodes"] == offline["nodes"]
    assert live["refused"] == offline["refused"]


def test_it_says_when_it_was_saved_and_what_it_has_all_of(run, kubeconfig, tmp_path):
    run("snapshot", tmp_path / "c.json", "--kubeconfig", kubeconfig)
    reported = json.loads((tmp_path / "c.json").read_text())["metadata"]["annotations"]
    assert reported["rescheduler.dev/saved-at"].endswith("Z")
    assert {"Pod", "Node", "PodDisruptionBudget"} <= set(reported["rescheduler.dev/saved-kinds"].split(","))
    planned = run("plan", "--from", tmp_path / "c.json", "--now", SAVED_AT)
    assert "no PodDisruptionBudget protects any pod" not in planned.stdout


@pytest.mark.parametrize("name", ["c.json", "c.yaml", "c.json.gz", "c.yml.gz", "-"])
def test_the_name_says_the_form(run, shop, tmp_path, name):
    result = run("snapshot", tmp_path / name if name != "-" else "-", "--from", shop)
    assert result.exit_code == 0, result.output
    raw = result.stdout_bytes if name == "-" else (tmp_path / name).read_bytes()
    raw = gzip.decompress(raw) if name.endswith(".gz") else raw
    content = yaml.safe_load(raw) if "y" in name else json.loads(raw)
    assert len(content["items"]) == len(lopsided().objects)


def test_nothing_that_could_be_a_secret_is_saved(run, tmp_path):
    with served(complete(rich_objects()), tmp_path / "kubeconfig") as kubeconfig:
        result = run("snapshot", "-", "--kubeconfig", kubeconfig)
    assert "cart-0" in result.stdout
    for secret in SECRETS:
        assert secret not in result.stdout


def test_anonymous_means_without_any_name_and_with_the_same_plan(run, shop, tmp_path):
    file = tmp_path / "hidden.json"
    assert run("snapshot", file, "--from", shop, "--anonymize").exit_code == 0
    text = file.read_text()
    for word in ("shop", "web", "worker", "young", "agent"):
        assert word not in text
    open_plan, hidden_plan = (
        json.loads(run("plan", "--from", each, "-o", "json").stdout) for each in (shop, file)
    )
    assert [(each["gain"], each["wave"], each["reason"]) for each in open_plan["moves"]] == [
        (each["gain"], each["wave"], each["reason"]) for each in hidden_plan["moves"]
    ]
    assert open_plan["summary"]["load"] == hidden_plan["summary"]["load"]


def test_the_spelling_of_the_first_version_is_accepted_and_not_shown(run, shop):
    hidden = run("snapshot", "-", "--from", shop, "--anonymize")
    assert run("snapshot", "-", "--from", shop, "--anonymise").stdout == hidden.stdout
    assert "shop" not in hidden.stdout
    shown = run("snapshot", "--help").stdout
    assert "--anonymize" in shown
    assert "--anonymise" not in shown


def test_words_that_the_configuration_names_can_be_kept(run, shop):
    kept = run("snapshot", "-", "--from", shop, "--anonymize", "--keep", "shop").stdout
    assert '"namespace":"shop"' in kept


def test_what_may_not_be_read_is_left_out_and_said(run, tmp_path):
    objects = complete(lopsided().objects)
    with served(objects, tmp_path / "kubeconfig", forbidding("storageclasses")) as kubeconfig:
        result = run("snapshot", tmp_path / "c.json", "--kubeconfig", kubeconfig)
    assert result.exit_code == 0
    assert "note: storageclasses are not saved: can't list storageclasses.storage.k8s.io" in result.stderr


def test_pods_that_may_not_be_read_leave_nothing_to_save(run, tmp_path):
    with served(complete(lopsided().objects), tmp_path / "kubeconfig", forbidding("pods")) as kubeconfig:
        result = run("snapshot", tmp_path / "c.json", "--kubeconfig", kubeconfig)
    assert result.exit_code == DATA_ERROR
    assert not (tmp_path / "c.json").exists()


def test_a_file_that_is_invalid_is_refused_with_every_fault(run, tmp_path):
    objects = complete(cluster().node("n").pod("shop/web", on="n").objects)
    objects[1]["metadata"]["labels"] = {"app": 1}
    objects[1]["spec"]["nodeName"] = []
    (tmp_path / "c.json").write_text(json.dumps({"kind": "List", "items": objects}))
    result = run("snapshot", "-", "--from", tmp_path / "c.json", "--anonymize")
    assert result.exit_code == DATA_ERROR
    assert 'Pod shop/web: metadata.labels["app"]: expected a string, got 1' in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--keep", "shop"], id="a word to keep where all stay"),
        pytest.param(["--from", "c.json", "--context", "c"], id="a file and a context"),
    ],
)
def test_wrong_options_are_exit_code_2(run, options):
    assert run("snapshot", "-", *options).exit_code == USAGE_ERROR


def test_a_place_that_can_t_be_written_is_exit_code_1(run, shop):
    result = run("snapshot", "/nonexistent/c.json", "--from", shop)
    assert (result.exit_code, result.stderr) == (
        DATA_ERROR,
        "/nonexistent/c.json: No such file or directory\n",
    )
