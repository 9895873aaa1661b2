"""`rescheduler explain`, run as a user runs it."""

import json
import re

import pytest
import yaml

from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION
from rescheduler.recovery.attempt_ledger import AttemptLedger, FailedAttempt, ReplicaLineage
from rescheduler.steering.intents import IntentIndex
from rescheduler.steering.webhook.pod_mutation import answer_review
from rescheduler.steering.webhook.webhook_configurations import UrlAddress, webhook_configurations
from tests.building import NOW, cluster
from tests.failing_pods import crashing
from tests.unit.cli.conftest import SAVED_AT, lopsided
from tests.unit.cli.simulated_server import forbidding, served
from tests.unit.cluster.sources.rich_cluster import complete, saved

DATA_ERROR, USAGE_ERROR = 1, 2


def test_a_pod_that_may_move_says_how_and_where_and_what_forbids_the_rest(run, shop):
    result = run("explain", "pod", "shop/web-1-0", "--from", shop)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(
        "shop/web-1-0 on worker-0\n\nCan it move?  yes\n\nHandover  Adopt\n"
        "  its workload tolerates an extra pod temporarily\n\n"
        "Where can it go?  3 of 4 nodes\n  worker-1, worker-2, worker-3\n\n"
        "Why not the other nodes\n"
        "  1 node: AlreadyHere, node(s) were already running the pod\n      worker-0\n"
    ), result.stdout


def test_a_pod_that_stays_says_why_and_what_to_do(run, shop):
    result = run("explain", "pod", "kube-system/agent-worker-0", "--from", shop)
    assert "Can it move?  no\n" in result.stdout
    assert "  - DaemonSetPod: its DaemonSet runs it on this node" in result.stdout
    assert "    Nothing to do: a drain ignores it." in result.stdout


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


ASSUMED = "the webhook is installed and steers replacements of evicted pods to their targets"


def test_that_the_webhook_steers_successors_is_said_where_it_is_only_assumed(run, shop):
    evicted, adopted, node = (
        json.loads(run("explain", *what, "-o", "json", "--from", shop).stdout)
        for what in (("pod", "shop/db-0"), ("pod", "shop/web-1-0"), ("node", "worker-1"))
    )
    assert evicted["mayMove"]
    assert ASSUMED in evicted["assumptions"]
    assert ASSUMED in node["assumptions"]
    assert ASSUMED not in adopted["assumptions"]
    assert ASSUMED in run("explain", "pod", "shop/db-0", "--from", shop).stdout


@pytest.mark.parametrize("steered", ["true", "false"])
def test_a_file_that_says_whether_it_is_installed_is_believed(run, shop, steered):
    content = json.loads(shop.read_text())
    content["metadata"]["annotations"]["rescheduler.dev/steered"] = steered
    shop.write_text(json.dumps(content))
    found = json.loads(run("explain", "pod", "shop/db-0", "-o", "json", "--from", shop).stdout)
    assert [each["reason"] for each in found["keptBy"]] == ([] if steered == "true" else ["Unsteered"])
    assert ASSUMED not in found["assumptions"]
    maintained = [each["reason"] for each in found["keptInMaintenanceBy"]]
    assert maintained == ([] if steered == "true" else ["Unsteered"])


class Answering:
    """The webhook, without a network in between."""

    async def call(self, _endpoint, body, _timeout_s):
        return answer_review(body, IntentIndex()).body


@pytest.mark.parametrize(
    ("is_registered", "answers", "steers"),
    [
        pytest.param(True, Answering(), True, id="one that answers counts"),
        pytest.param(True, None, False, id="one that is registered and dead does not"),
        pytest.param(False, None, False, id="nor does one that is not there"),
    ],
)
def test_in_a_cluster_it_is_probed(run, tmp_path, is_registered, answers, steers):
    steering, _ = webhook_configurations(UrlAddress("https://webhook.invalid"))
    objects = [*complete(lopsided().objects), *([steering] if is_registered else [])]
    with served(objects, tmp_path / "kubeconfig", webhooks=answers) as kubeconfig:
        live = run("explain", "pod", "shop/db-0", "-o", "json", "--kubeconfig", kubeconfig)
        planned = run("plan", "-o", "json", "--kubeconfig", kubeconfig)
    found = json.loads(live.stdout)
    assert found["mayMove"] is steers, live.output
    assert ASSUMED not in (*found["assumptions"], *json.loads(planned.stdout)["summary"]["assumptions"])


def test_without_the_permission_steering_is_assumed_and_that_is_reported(run, tmp_path):
    wrap = forbidding("mutatingwebhookconfigurations")
    with served(complete(lopsided().objects), tmp_path / "kubeconfig", wrap) as kubeconfig:
        live = run("explain", "pod", "shop/db-0", "-o", "json", "--kubeconfig", kubeconfig)
    assert ASSUMED in json.loads(live.stdout)["assumptions"], live.output


def test_without_a_namespace_it_is_the_default_one(run, shop):
    result = run("explain", "pod", "db-0", "--from", shop)
    assert result.exit_code == DATA_ERROR
    assert result.stderr == "pod default/db-0 not found; did you mean shop/db-0?\n"


def test_a_name_that_is_nearly_right_is_corrected(run, shop):
    result = run("explain", "node", "worker-9", "--from", shop)
    assert result.exit_code == DATA_ERROR
    assert result.stderr.startswith("node worker-9 not found; did you mean worker-")


def test_a_node_says_what_could_leave_stay_and_come(run, shop):
    result = run("explain", "node", "worker-0", "--from", shop)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("worker-0 is Ready\n  cpu ")
    assert "What can leave?  8 of 10 pods\n" in result.stdout
    assert "  shop/web-1-0  Adopt  3 nodes can take it\n" in result.stdout
    assert "  1 pod: TooYoung\n" in result.stdout
    assert (
        "What can enter?  2 pods from other nodes can move and fit\n  shop/db-0, shop/db-1\n" in result.stdout
    )


def test_a_running_cluster_is_explained_alike(run, shop, kubeconfig):
    live = run("explain", "node", "worker-0", "--kubeconfig", kubeconfig, "--now", "2026-03-02T12:00:00Z")
    saved = shop.with_name("saved.json")
    run("snapshot", saved, "--kubeconfig", kubeconfig)
    file = run("explain", "node", "worker-0", "--from", saved, "--now", "2026-03-02T12:00:00Z")
    head = "Assumptions"
    assert live.stdout.partition(head)[0] == file.stdout.partition(head)[0]


def test_json_and_yaml_are_complete_and_say_the_same(run, shop):
    reported = json.loads(run("explain", "pod", "shop/web-1-0", "--from", shop, "-o", "json").stdout)
    assert reported["mayMove"] is True
    assert reported["places"]["available"] == ["worker-1", "worker-2", "worker-3"]
    assert reported["places"]["forbidden"] == [
        {
            "rule": "AlreadyHere",
            "reason": "node(s) were already running the pod",
            "nodes": [{"node": "worker-0", "detail": ""}],
        }
    ]
    assert (
        yaml.safe_load(run("explain", "pod", "shop/web-1-0", "--from", shop, "-o", "yaml").stdout) == reported
    )
    node = json.loads(run("explain", "node", "worker-0", "--from", shop, "-o", "json").stdout)
    assert len(node["pods"]) == 10
    kept = next(each["keptBy"] for each in node["pods"] if each["pod"] == "shop/young")
    assert [each["reason"] for each in kept] == ["TooYoung"]


def test_all_pods_of_a_deployment_are_explained(rescheduler):
    """As `move deploy/web` moves all of them."""
    result = rescheduler("explain", "deploy/web", "-n", "shop")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Deployment shop/web: 4 of 4 pods can move\n\nshop/web-")
    assert result.stdout.count(" on node-1\n") == 4
    assert result.stdout.count("Can it move?  yes") == 1, "they have the same answer"
    document = json.loads(rescheduler("explain", "deployment", "web", "-n", "shop", "-o", "json").stdout)
    assert [pod["pod"].startswith("shop/web-") for pod in document["pods"]] == [True] * 4


@pytest.mark.parametrize(("typed", "hint"), [("nothing", ""), ("wbe", "; did you mean shop/web?")])
def test_a_deployment_that_is_not_there_is_said_with_the_nearest_name(rescheduler, typed, hint):
    for command in ("explain", "move"):
        result = rescheduler(command, f"deploy/{typed}", "-n", "shop")
        assert result.stderr.endswith(f"Deployment shop/{typed} not found, or it has no pods{hint}\n")


def test_pods_of_a_deployment_with_the_same_answer_are_one_block(run, tmp_path):
    """Whichever nodes they are on; a pod with another answer has a block of its own."""
    made = cluster()
    for number in range(4):
        made.node(f"worker-{number}")
    made.deployment("shop/web", replicas=4, on=["worker-0", "worker-1"])
    kept = next(each for each in made.objects if each["metadata"]["name"] == "web-1-3")
    kept["metadata"].setdefault("annotations", {})["karpenter.sh/do-not-disrupt"] = "true"
    file = tmp_path / "shop.json"
    file.write_text(json.dumps(saved(complete(made.objects), saved_at=SAVED_AT)))
    shown = run("explain", "deploy/web", "-n", "shop", "--from", file).stdout
    heading, first, second = re.split(r"\n\n(?=shop/)", shown)
    assert heading == "Deployment shop/web: 3 of 4 pods can move"
    assert first.startswith(
        "shop/web-1-0 on worker-0\nshop/web-1-1 on worker-1\nshop/web-1-2 on worker-0\n\n"
    )
    assert "Can it move?  yes" in first
    assert "Where can it go?  4 of 4 nodes\n  worker-0, worker-1, worker-2, worker-3\n" in first
    assert "each pod's own node" in first
    assert second.startswith("shop/web-1-3 on worker-1\n\nCan it move?  no\n")
    assert "AlreadyHere, node(s) were already running the pod\n      worker-1\n" in second


def test_a_pod_can_be_named_by_its_namespace_alone(run, shop):
    result = run("explain", "shop/web-1-0", "--from", shop)
    assert result.stdout == run("explain", "pod", "shop/web-1-0", "--from", shop).stdout


def test_a_node_says_how_many_pods_a_drain_can_move(run, shop):
    """Young pods stay in balancing, and leave in a drain."""
    shown = run("explain", "node", "worker-0", "--from", shop).stdout
    assert "What can leave?  8 of 10 pods" in shown
    assert shown.splitlines()[-1] == "`rescheduler drain worker-0` can move 9 of its pods."
    assert "rescheduler drain" not in run("explain", "node", "worker-2", "--from", shop).stdout


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


def failing(tmp_path, **deployment):
    made = cluster().nodes("worker-0", "worker-1", "worker-2")
    made.deployment("shop/web", on=["worker-1"], **crashing(restarts=5), **deployment)
    path = tmp_path / "failing.json"
    path.write_text(json.dumps({"kind": "List", "items": made.objects}))
    return str(path), "--now", "2026-03-02T12:00:00Z"


TRIED = AttemptLedger({"web-1-0": ReplicaLineage((FailedAttempt(int(NOW) - 600, "worker-0", "before"),))})
TWO = {"scheduling-retries": "2", FAILED_ATTEMPTS_ANNOTATION: TRIED.written("uid-of-deployment-shop-web")}


def test_a_failing_pod_says_what_was_tried_and_what_comes_next(run, tmp_path):
    result = run("explain", "pod", "shop/web-1-0", "--from", *failing(tmp_path, annotations=TWO))
    assert (
        "Is it failing?  yes\n"
        "  app: CrashLoopBackOff, 5 restarts, exit code 1, since 2026-03-02 11:45 UTC\n"
        "  2 reschedulings allowed by Deployment/web, 1 used\n"
        "    2026-03-02 11:50 UTC on worker-0\n"
        "  next: attempt 2 of 2, on a node other than worker-0, worker-1\n"
    ) in result.stdout, result.stdout
    reported = json.loads(
        run(
            "explain", "pod", "shop/web-1-0", "-o", "json", "--from", *failing(tmp_path, annotations=TWO)
        ).stdout
    )["recovery"]
    assert (reported["failing"], reported["retries"], reported["used"], reported["keptBy"]) == (
        True,
        2,
        1,
        [],
    )
    assert reported["tries"] == [{"time": "2026-03-02T11:50:00Z", "node": "worker-0", "podUid": "before"}]


def test_a_pod_without_the_annotation_says_how_to_add_it(run, tmp_path):
    result = run("explain", "pod", "shop/web-1-0", "--from", *failing(tmp_path))
    assert "next: nothing, because its workload has no annotation scheduling-retries" in result.stdout, (
        result.stdout
    )


def test_what_keeps_a_failing_pod_is_said_with_a_remedy(run, tmp_path):
    disabled = {"scheduler.alpha.kubernetes.io/rescheduling": "disabled"}
    result = run(
        "explain", "pod", "shop/web-1-0", "--from", *failing(tmp_path, annotations=TWO, labels=disabled)
    )
    label = 'the label scheduler.alpha.kubernetes.io/rescheduling: "disabled"'
    assert f"than worker-0, worker-1\n  - OptedOut: it has {label}\n" in result.stdout, result.stdout


def test_a_pod_that_does_not_fail_says_nothing_of_it(run, shop):
    assert "Is it failing?" not in run("explain", "pod", "shop/web-1-0", "--from", shop).stdout


def test_one_whose_owner_allows_nothing_says_so(run, tmp_path):
    given = failing(tmp_path, annotations={"scheduling-retries": "0"})
    assert (
        "  0 reschedulings allowed by Deployment/web, 0 used\n"
        "  next: nothing, because Deployment/web allows no reschedulings\n"
    ) in run("explain", "pod", "shop/web-1-0", "--from", *given).stdout


def test_a_node_on_which_several_workloads_fail_says_that_it_is_suspect_and_why(run, tmp_path):
    made = cluster().nodes("worker-0", "worker-1")
    for key in ("shop/web", "shop/api", "bank/db"):
        annotations = {"scheduling-retries": "3"}
        made.deployment(key, on=["worker-1"], annotations=annotations, **crashing())
    path = tmp_path / "suspect.json"
    path.write_text(json.dumps({"kind": "List", "items": made.objects}))
    given = ("--from", str(path), "--now", "2026-03-02T12:00:00Z")
    workloads = ["Deployment/bank/db", "Deployment/shop/api", "Deployment/shop/web"]
    assert (
        "Suspect?  yes\n"
        f"  3 workloads failed here within 30m: {', '.join(workloads)}\n"
        "  Pods are sent here only as a last resort until the workloads recover. Check why they fail.\n"
    ) in run("explain", "node", "worker-1", *given).stdout
    reported, other = (
        json.loads(run("explain", "node", node, "-o", "json", *given).stdout)["suspect"]
        for node in ("worker-1", "worker-0")
    )
    assert reported == {"workloads": workloads, "within": "30m"}
    assert other is None
    assert "Suspect?" not in run("explain", "node", "worker-0", *given).stdout


def serving_shop(lifecycle=None):
    """The shop, whose web pods declare a port, with or without lifecycle hooks."""
    objects = complete(lopsided().objects)
    for item in objects:
        if item["kind"] == "Pod" and item["metadata"]["name"].startswith("web-"):
            (container,) = item["spec"]["containers"]
            container["ports"] = [{"containerPort": 8080}]
            if lifecycle is not None:
                container["lifecycle"] = lifecycle
    return objects


ENDS_ABRUPTLY = "exits at once may lose a few requests whenever its pod ends"


@pytest.mark.parametrize(
    ("lifecycle", "warned"),
    [
        pytest.param(None, True, id="no hooks"),
        pytest.param({"postStart": {"exec": {"command": ["x"]}}}, True, id="another hook"),
        pytest.param({"preStop": {"sleep": {"seconds": 5}}}, False, id="a delay"),
        pytest.param({"preStop": {"exec": {"command": ["drain"]}}}, False, id="a hook of its own"),
    ],
)
def test_a_pod_that_ends_while_it_is_called(run, tmp_path, lifecycle, warned):
    """Read from an API server, by protobuf, and from a file: explain and plan warn about it."""
    objects = serving_shop(lifecycle)
    file = tmp_path / "serving.json"
    file.write_text(json.dumps(saved(objects, saved_at=SAVED_AT)))
    with served(objects, tmp_path / "kubeconfig") as kubeconfig:
        for source in (("--from", file), ("--kubeconfig", kubeconfig)):
            found = json.loads(run("explain", "pod", "shop/web-1-0", "-o", "json", *source).stdout)
            assert any(ENDS_ABRUPTLY in each for each in found["assumptions"]) is warned
            plan = json.loads(run("plan", "-o", "json", *source).stdout)
            assert any(ENDS_ABRUPTLY in each for each in plan["summary"]["assumptions"]) is warned
