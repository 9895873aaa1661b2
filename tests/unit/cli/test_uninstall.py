"""`rescheduler uninstall` removes everything that rescheduler left in a cluster, and nothing else."""

import asyncio
import json
import re

import pytest
from click.testing import CliRunner

from kubesim.apiserver.api_messages import object_response
from kubesim.apiserver.kind_registry import BUILT_IN
from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.api.well_known_names import (
    CORDONED_BY_ANNOTATION,
    EMPTY_CONDITION,
    FAILED_ATTEMPTS_ANNOTATION,
    FINALIZER,
    INSTALL_ID,
    MAINTENANCE_LABEL,
)
from rescheduler.cli import main
from rescheduler.cli.commands import uninstall_command
from rescheduler.install.manifests import install_manifests
from rescheduler.kube.access import cluster_config
from rescheduler.kube.api_resources import CONFIG_MAPS, POD_DISRUPTION_BUDGETS, key_of, resource_of_object
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.migrations.labels_and_names import MIGRATION_ID_LABEL, STATUS_LABEL
from tests.unit.cli.live_cluster import living_objects, scenario, write_config
from tests.unit.cli.other_executor import executing_elsewhere
from tests.unit.cli.simulated_server import forbidding, served

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rescheduler"}}


def cluster(tmp_path, *more):
    objects = [*living_objects(scenario()), podmigration_crd(), *more]
    return served(objects, tmp_path / "kubeconfig", alive=True)


def one(objects, kind):
    return next(item for item in objects if item["kind"] == kind)


def run(tmp_path, *arguments):
    config = write_config(tmp_path / "config.yaml")
    return CliRunner().invoke(
        main, [*arguments, "--kubeconfig", str(tmp_path / "kubeconfig"), "--config", str(config)]
    )


def migration(pod, node, **status):
    return {
        "apiVersion": "rescheduler.dev/v1alpha1",
        "kind": "PodMigration",
        "metadata": {
            "namespace": "shop",
            "name": f"move-{pod['metadata']['name']}",
            "uid": "m-1",
            "creationTimestamp": "2026-03-02T12:00:00Z",
            "finalizers": [] if status else [FINALIZER],
        },
        "spec": {
            "pod": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
            "sourceNode": "node-1",
            "targetNode": node,
            "strategy": "LoadBalancing",
            "reason": "",
            "handover": "Auto",
        },
        **({"status": status} if status else {}),
    }


def test_of_a_cluster_that_never_had_it_nothing_is_removed(tmp_path):
    with served(living_objects(scenario()), tmp_path / "kubeconfig", alive=True):
        result = run(tmp_path, "uninstall", "--yes")
    assert result.exit_code == 0, result.output
    assert result.output == "rescheduler is not in the cluster.\n", "it has left no history either"


def test_every_mark_that_we_left_on_objects_of_others_goes_and_theirs_stay(tmp_path):
    objects = living_objects(scenario())
    node, pod, workload = one(objects, "Node"), one(objects, "Pod"), one(objects, "Deployment")
    node["metadata"].setdefault("annotations", {}).update({CORDONED_BY_ANNOTATION: "NodeMaintenance"})
    node["metadata"]["labels"]["theirs"] = "stays"
    node["spec"]["unschedulable"] = True
    node["status"]["conditions"].append({"type": EMPTY_CONDITION, "status": "True", "reason": "Empty"})
    pod["metadata"]["labels"] |= {MIGRATION_ID_LABEL: "gone", STATUS_LABEL: "in-progress", "theirs": "stays"}
    workload["metadata"].setdefault("annotations", {}).update(
        {FAILED_ATTEMPTS_ANNOTATION: "{}", "theirs": "stays"}
    )
    with served([*objects, podmigration_crd()], tmp_path / "kubeconfig", alive=True):
        before = run(tmp_path, "uninstall", "--check")
        result = run(tmp_path, "uninstall", "--yes")
        after = run(tmp_path, "uninstall", "--check")
        where = ["--kubeconfig", str(tmp_path / "kubeconfig")]
        saved = CliRunner().invoke(main, ["snapshot", str(tmp_path / "saved.json"), *where])
    assert before.exit_code == 3
    assert "cordoned by rescheduler; annotations rescheduler.dev/cordoned-by" in before.output
    assert result.exit_code == 0, result.output
    assert after.exit_code == 0, after.output
    assert saved.exit_code == 0, saved.output
    items = json.loads((tmp_path / "saved.json").read_text())["items"]
    left = next(item for item in items if item["metadata"].get("uid") == node["metadata"]["uid"])
    assert left["metadata"]["labels"]["theirs"] == "stays"
    assert CORDONED_BY_ANNOTATION not in left["metadata"].get("annotations", {})
    assert not left["spec"].get("unschedulable")
    assert EMPTY_CONDITION not in [each["type"] for each in left["status"]["conditions"]]
    left = next(item for item in items if item["metadata"].get("uid") == pod["metadata"]["uid"])
    assert left["metadata"]["labels"]["theirs"] == "stays"
    assert MIGRATION_ID_LABEL not in left["metadata"]["labels"]


def test_the_label_that_drain_set_goes_and_one_that_others_set_stays(tmp_path):
    """After a reinstallation, a label that is left would take effect again."""
    objects = living_objects({**scenario(), "workloads": []})
    theirs = [each for each in objects if each["kind"] == "Node"][-1]
    theirs["metadata"]["labels"][MAINTENANCE_LABEL] = "true"
    with served([*objects, podmigration_crd()], tmp_path / "kubeconfig", alive=True):
        assert run(tmp_path, "drain", "node-1").exit_code == 0
        before = run(tmp_path, "uninstall", "--check")
        assert run(tmp_path, "uninstall", "--yes").exit_code == 0
        where = ["--kubeconfig", str(tmp_path / "kubeconfig")]
        saved = json.loads(CliRunner().invoke(main, ["snapshot", "-", *where]).stdout)["items"]
    assert f"labels {MAINTENANCE_LABEL}" in before.output
    nodes = [item for item in saved if item["kind"] == "Node"]
    labelled = [each for each in nodes if MAINTENANCE_LABEL in each["metadata"]["labels"]]
    assert [each["metadata"]["name"] for each in labelled] == [theirs["metadata"]["name"]]


def test_labels_that_a_workload_gives_its_pods_and_budgets_of_others_stay(tmp_path):
    """A ReplicaSet would let a pod go whose label is removed, and create another."""
    objects = living_objects(scenario())
    pods = [each for each in objects if each["kind"] == "Pod" and each["metadata"].get("ownerReferences")]
    owner = pods[0]["metadata"]["ownerReferences"][0]
    theirs = [each for each in pods if each["metadata"]["ownerReferences"][0]["uid"] == owner["uid"]]
    workload = next(each for each in objects if each["metadata"].get("uid") == owner["uid"])
    workload["spec"]["template"]["metadata"]["labels"] |= {MIGRATION_ID_LABEL: "theirs"}
    workload["spec"]["selector"]["matchLabels"] |= {MIGRATION_ID_LABEL: "theirs"}
    for each in theirs:
        each["metadata"]["labels"] |= {MIGRATION_ID_LABEL: "theirs", STATUS_LABEL: "in-progress"}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": "theirs",
            "namespace": pods[0]["metadata"]["namespace"],
            "labels": {MIGRATION_ID_LABEL: "x"},
        },
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "nobody"}}},
    }
    with served([*objects, budget, podmigration_crd()], tmp_path / "kubeconfig"):
        result = run(tmp_path, "uninstall", "--yes")
        where = ["--kubeconfig", str(tmp_path / "kubeconfig")]
        saved = CliRunner().invoke(main, ["snapshot", str(tmp_path / "saved.json"), *where])
    assert result.exit_code == 0, result.output
    assert saved.exit_code == 0, saved.output
    items = json.loads((tmp_path / "saved.json").read_text())["items"]
    left = {each["metadata"]["uid"]: each for each in items}
    assert all(
        left[each["metadata"]["uid"]]["metadata"]["labels"][MIGRATION_ID_LABEL] == "theirs" for each in theirs
    )
    assert "theirs" in [each["metadata"]["name"] for each in items if each["kind"] == "PodDisruptionBudget"]


def test_a_migration_that_is_under_way_is_brought_to_its_end_first(tmp_path):
    objects = living_objects(scenario())
    pod = next(item for item in objects if item["kind"] == "Pod")
    with cluster(tmp_path, migration(pod, "node-2")):
        result = run(tmp_path, "uninstall", "--yes")
        after = run(tmp_path, "uninstall", "--check", "--history")
    assert result.exit_code == 0, result.output
    assert "will be cancelled or finished" in result.output
    assert "PodMigration" not in after.output


def test_history_stays_unless_it_is_asked_to_go(tmp_path):
    objects = living_objects(scenario())
    pod = next(item for item in objects if item["kind"] == "Pod")
    done = migration(pod, "node-2", phase="Completed", step="Completed", finishedAt="2026-03-02T12:01:00Z")
    with cluster(tmp_path, done):
        kept = run(tmp_path, "uninstall", "--yes")
        listed = run(tmp_path, "migrations")
        gone = run(tmp_path, "uninstall", "--yes", "--history")
        after = run(tmp_path, "uninstall", "--check", "--history")
    assert kept.exit_code == 0, kept.output
    assert "move-" in listed.output
    assert gone.exit_code == 0, gone.output
    assert after.exit_code == 0, after.output


def test_what_was_installed_is_removed(tmp_path):
    with served(
        [*living_objects(scenario()), NAMESPACE, *install_manifests()], tmp_path / "kubeconfig", alive=True
    ):
        result = run(tmp_path, "uninstall", "--yes", "--history")
        after = run(tmp_path, "uninstall", "--check", "--history", "-n", "rescheduler")
    assert result.exit_code == 0, result.output
    assert "Deployment rescheduler/rescheduler, rescheduler/rescheduler-webhook: installed" in result.output
    assert re.search(r"ClusterRoleBinding .*rescheduler\.rescheduler: installed", result.output)
    assert after.exit_code == 0, after.output


def terminating(reads):
    """The API server's answers; after its deletion, the namespace is terminating for so many reads."""
    left = iter(range(reads))
    deleted = []

    def wrap(handle):
        async def answer(method, target, headers, body):
            is_namespace = target.partition("?")[0].endswith("/namespaces/rescheduler")
            if is_namespace and deleted and next(left, None) is not None:
                metadata = {"name": "rescheduler", "deletionTimestamp": "2026-03-02T12:00:00Z"}
                return object_response(
                    200, {**NAMESPACE, "metadata": {**metadata, "resourceVersion": "1"}}, {}
                )
            if is_namespace and method == "DELETE":
                deleted.append(True)
            return await handle(method, target, headers, body)

        return answer

    return wrap, left


def test_it_waits_until_the_namespace_is_deleted(tmp_path, monkeypatch):
    """Until then, a new installation fails, although nothing of this one is left."""
    wrap, left = terminating(4)
    created = "2026-03-02T12:00:00Z"
    label = {"f:metadata": {"f:labels": {f"f:{INSTALL_ID}": {}}}}
    about = {"name": "rescheduler", "labels": {INSTALL_ID: "rescheduler"}, "creationTimestamp": created}
    about["managedFields"] = [
        {"manager": "kubectl", "operation": "Apply", "time": created, "fieldsV1": label}
    ]
    objects = [*living_objects(scenario()), {**NAMESPACE, "metadata": about}, *install_manifests()]
    with served(objects, tmp_path / "kubeconfig", wrap, alive=True):
        result = run(tmp_path, "uninstall", "--yes", "--history")
    assert result.exit_code == 0, result.output
    assert next(left, None) is None, "it reads the namespace until it is gone"
    assert "still being deleted" not in result.output
    monkeypatch.setattr(uninstall_command, "_DELETE_TIMEOUT_S", 0.1)
    with served(objects, tmp_path / "kubeconfig", terminating(1000)[0], alive=True):
        result = run(tmp_path, "uninstall", "--yes", "--history")
    assert result.exit_code == 0, result.output
    assert "note: Namespace rescheduler is still being deleted after 0.1 s. Install" in result.output


def test_a_check_says_what_is_there_what_happens_to_it_and_what_to_do_next(tmp_path):
    """By what happens to it, in order, with counts; the history that stays is counted, too."""
    objects = [*living_objects(scenario()), NAMESPACE, *install_manifests()]
    node, pod = one(objects, "Node"), one(objects, "Pod")
    node["metadata"].setdefault("annotations", {}).update({CORDONED_BY_ANNOTATION: "NodeMaintenance"})
    for each in [each for each in objects if each["kind"] == "Pod"][:2]:
        each["metadata"]["labels"][MIGRATION_ID_LABEL] = "gone"
    moved = migration(pod, "node-2", phase="Completed")
    with served([*objects, moved], tmp_path / "kubeconfig"):
        found = run(tmp_path, "uninstall", "--check")
        whole = run(tmp_path, "uninstall", "--check", "--history", "-n", "rescheduler")
    assert (found.exit_code, whole.exit_code) == (3, 3)
    lines = found.stdout.splitlines()
    assert lines[0] == "rescheduler is installed in namespace rescheduler."
    assert "Changes in other objects, which are reverted (1):" in lines
    installed = sum(len(line.split(", ")) for line in lines if line.endswith(": installed"))
    assert f"Installed objects, which are deleted ({installed}):" in lines
    kept = "1 CustomResourceDefinition, 1 PodMigration, labels of 2 Pods"
    assert lines[-2:] == [
        "Nothing was changed. To remove this, run: rescheduler uninstall",
        f"The history is kept ({kept}); with --history, it is removed, too.",
    ]
    assert "History, which is removed (4):" in whole.stdout
    assert whole.stdout.splitlines()[-1].endswith("run: rescheduler uninstall -n rescheduler --history")


def test_the_lease_of_a_command_is_no_installation(tmp_path):
    """`status` says that nothing is installed, too."""
    with cluster(tmp_path):
        assert run(tmp_path, "drain", "node-1").exit_code == 0
        lines = run(tmp_path, "uninstall", "--check").stdout.splitlines()
    assert lines[0] == "rescheduler is not installed."
    assert "  Lease kube-system/rescheduler: written" in lines


def test_the_lease_of_a_command_from_before_the_installation_is_removed(tmp_path):
    """Else `uninstall --check` would find it after `uninstall` has said that nothing is left."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "namespace": "kube-system",
            "name": "rescheduler",
            "labels": {INSTALL_ID: "kube-system"},
        },
    }
    objects = [*living_objects(scenario()), NAMESPACE, *install_manifests(), lease]
    with served(objects, tmp_path / "kubeconfig", alive=True):
        result = run(tmp_path, "uninstall", "--yes", "--history")
        after = run(tmp_path, "uninstall", "--check", "--history")
    assert result.exit_code == 0, result.output
    assert "  Lease kube-system/rescheduler: written" in result.output
    assert after.output == "rescheduler is not in the cluster.\n"


def test_the_question_also_reads_well_for_a_single_mark(tmp_path):
    objects = living_objects(scenario())
    one(objects, "Node")["metadata"]["annotations"] = {CORDONED_BY_ANNOTATION: "NodeMaintenance"}
    with served(objects, tmp_path / "kubeconfig"):
        result = run(tmp_path, "uninstall")
    assert result.exit_code == 1
    assert "Changes in other objects, which are reverted (1):" in result.stdout
    assert "Remove all of this? [y/N]:" in result.stdout


def test_a_check_with_too_few_permissions_lists_what_it_found(tmp_path):
    objects = [*living_objects(scenario()), NAMESPACE, *install_manifests()]
    with served(objects, tmp_path / "kubeconfig", forbidding("nodes")):
        found = run(tmp_path, "uninstall", "--check")
    assert found.exit_code == 1
    assert "Deployment rescheduler/rescheduler, rescheduler/rescheduler-webhook: installed" in found.output
    assert found.output.count("can't list nodes") == 1, "once, although two things are looked for"
    assert "Can't find out what else is left of rescheduler" in found.output


def labelled(kind, name, labels, **more):
    return {
        "apiVersion": "v1" if kind in {"Secret", "ConfigMap"} else "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels, **more},
        **({"rules": []} if kind.endswith("Role") else {}),
    }


GENERIC = {"app.kubernetes.io/name": "rescheduler"}
OURS = {**GENERIC, INSTALL_ID: "rescheduler"}


FOREIGN = {
    "a ClusterRole with the generic label": labelled("ClusterRole", "auditor", GENERIC),
    "a Secret elsewhere with that label": labelled("Secret", "password", GENERIC, namespace="shop"),
    "a Secret in our namespace with our install id and a name of its own": labelled(
        "Secret", "password", OURS, namespace="rescheduler"
    ),
    "a ClusterRole with a name of another installation": labelled("ClusterRole", "rescheduler.shop", GENERIC),
    "a ConfigMap with our name and install id in another namespace": labelled(
        "ConfigMap", "rescheduler", OURS, namespace="shop"
    ),
}


def test_what_others_have_made_stays_whatever_its_labels_say(tmp_path):
    objects = [*living_objects(scenario()), NAMESPACE, *install_manifests(), *FOREIGN.values()]
    with served(objects, tmp_path / "kubeconfig", alive=True):
        result = run(tmp_path, "uninstall", "--yes", "--history")
        keys = {
            about: key_of(item["metadata"].get("namespace", ""), item["metadata"]["name"])
            for about, item in FOREIGN.items()
        }
        for about, item in FOREIGN.items():
            read(tmp_path, resource_of_object(item), keys[about])
    assert result.exit_code == 0, result.output
    assert [
        about for about, item in FOREIGN.items() if f"{item['kind']} {keys[about]}:" in result.output
    ] == []


def test_an_object_with_our_name_and_without_our_install_id_stays_and_is_named(tmp_path):
    ours = install_manifests()
    (config,) = (item for item in ours if item["kind"] == "ConfigMap" and "data" in item)
    del config["metadata"]["labels"][INSTALL_ID]
    with served([*living_objects(scenario()), NAMESPACE, *ours], tmp_path / "kubeconfig", alive=True):
        result = run(tmp_path, "uninstall", "--yes")
        read(tmp_path, CONFIG_MAPS, "rescheduler/rescheduler")
    assert result.exit_code == 0, result.output
    assert "ConfigMap rescheduler/rescheduler stays: it has a name that rescheduler uses" in result.output
    assert "rescheduler.dev/install-id=rescheduler" in result.output


def test_of_two_installations_the_other_keeps_all_that_it_has(tmp_path):
    home = {**NAMESPACE, "metadata": {"name": "platform"}}
    objects = living_objects(scenario())
    node = one(objects, "Node")
    node["metadata"].setdefault("annotations", {}).update({CORDONED_BY_ANNOTATION: "NodeMaintenance"})
    both = [*objects, NAMESPACE, home, *install_manifests(), *install_manifests(namespace="platform")[1:]]
    with served(both, tmp_path / "kubeconfig", alive=True):
        unclear = run(tmp_path, "uninstall", "--yes")
        result = run(tmp_path, "uninstall", "--yes", "--history", "-n", "platform")
        left = run(tmp_path, "uninstall", "--check", "-n", "rescheduler")
        gone = run(tmp_path, "uninstall", "--check", "-n", "platform")
    assert unclear.exit_code == 1
    assert "installed in several namespaces: platform, rescheduler. Specify the namespace" in unclear.output
    assert result.exit_code == 0, result.output
    assert "rescheduler is also installed in namespace rescheduler and uses them" in result.output
    assert gone.exit_code == 0, gone.output
    assert "cordoned-by" in left.output, "marks are of the installation that is left"
    served_here = {kind.name for kind in BUILT_IN} - {"CustomResourceDefinition"}
    kept = sum(item["kind"] in served_here for item in install_manifests())
    assert f"Installed objects, which are deleted ({kept}):" in left.output


def test_what_a_user_may_not_read_or_delete_is_named_and_the_rest_is_removed(tmp_path):
    objects = [*living_objects(scenario()), NAMESPACE, *install_manifests()]
    wrap = forbidding("secrets/rescheduler-webhook-cert", "services/rescheduler-webhook")
    with served(objects, tmp_path / "kubeconfig", wrap, alive=True):
        result = run(tmp_path, "uninstall", "--yes")
        left = run(tmp_path, "uninstall", "--check", "-n", "rescheduler")
    assert result.exit_code == 1
    assert "can't read Service rescheduler/rescheduler-webhook" in result.output
    assert ": installed" not in left.output
    assert left.exit_code == 1
    assert "Can't find out what is left" in left.output


def test_a_budget_of_others_stays_although_it_is_labelled_like_a_temporary_one(tmp_path):
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "namespace": "shop",
            "name": "web-rescheduler-pdb",
            "labels": {MIGRATION_ID_LABEL: "web-1"},
        },
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    with cluster(tmp_path, budget):
        result = run(tmp_path, "uninstall", "--yes")
        read(tmp_path, POD_DISRUPTION_BUDGETS, "shop/web-rescheduler-pdb")
    assert result.exit_code == 0, result.output


def read(tmp_path, resource, key):
    """Raises `NotFound` if it is not there."""

    async def get():
        async with HttpTransport(cluster_config.load_cluster_access(str(tmp_path / "kubeconfig"))) as network:
            return await Client(network).get(resource, key)

    return asyncio.run(get())


def test_while_a_daemon_runs_outside_the_cluster_nothing_is_removed_unless_by_force(tmp_path):
    objects = living_objects(scenario())
    one(objects, "Node")["metadata"].setdefault("annotations", {}).update(
        {CORDONED_BY_ANNOTATION: "NodeMaintenance"}
    )
    config = write_config(tmp_path / "daemon.json")
    often = {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "100ms"}
    config.write_text(json.dumps({**json.loads(config.read_text()), "leaderElection": often}))
    with served([*objects, podmigration_crd()], tmp_path / "kubeconfig", alive=True):
        with executing_elsewhere(
            tmp_path / "kubeconfig", config, me="laptop-1", lease_at="kube-system/rescheduler"
        ):
            refused = run(tmp_path, "uninstall", "--yes")
            kept = run(tmp_path, "uninstall", "--check")
            forced = run(tmp_path, "uninstall", "--yes", "--force")
        after = run(tmp_path, "uninstall", "--yes")
    assert refused.exit_code == 1
    assert "laptop-1 still renews the Lease kube-system/rescheduler" in refused.output
    assert "cordoned-by" in kept.output
    assert "still renews" not in forced.output
    assert after.exit_code == 0, "when it has ended, nothing stands in the way"


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_nothing_changes_without_confirmation(tmp_path, answer):
    with served([*living_objects(scenario()), NAMESPACE, *install_manifests()], tmp_path / "kubeconfig"):
        refused = CliRunner().invoke(
            main, ["uninstall", "--kubeconfig", str(tmp_path / "kubeconfig")], input=answer
        )
        after = run(tmp_path, "uninstall", "--check")
    assert refused.exit_code == 1
    assert after.exit_code == 3
