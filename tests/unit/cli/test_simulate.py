"""`rescheduler simulate`: a saved cluster in virtual time."""

import json

import pytest

from tests.unit.cli.live_cluster import living_objects, scenario, write_config


@pytest.fixture(scope="module")
def saved_shop(tmp_path_factory):
    file = tmp_path_factory.mktemp("saved") / "shop.json"
    db = {"kind": "StatefulSet", "namespace": "shop", "name": "db", "cpu": "500m", "on": {"node-1": 1}}
    items = living_objects(scenario({**db, "replicas": 1}))
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return file


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path / "config.json", settleTime="10s")


def test_checks_move_pods_until_the_nodes_are_even(run, saved_shop, config):
    done = run("simulate", "--from", saved_shop, "--config", config, "--checks", 3, "-o", "json")
    assert done.exit_code == 0, done.output
    first, second, last = json.loads(done.stdout)["checks"]
    assert first["moves"]
    assert {move["result"] for move in first["moves"]} == {"Completed"}
    assert first["load"]["cpu"]["after"]["deviation"] < first["load"]["cpu"]["before"]["deviation"] / 2
    assert last["moves"] == []
    assert second["nodes"][0]["before"] == first["nodes"][0]["after"]


def test_the_same_file_gives_the_same_course(run, saved_shop, config):
    reported = [
        run("simulate", "--from", saved_shop, "--config", config, "--checks", 1, "--now", "2026-11-20T12:00Z")
        for _ in range(2)
    ]
    assert reported[0].stdout == reported[1].stdout
    assert "Check 1 at 12:00:00" in reported[0].stdout
    assert "What stays" in reported[0].stdout or "moves made" in reported[0].stdout


def test_pods_that_have_just_started_are_as_ready_as_the_file_says(run, saved_shop, tmp_path):
    config = write_config(tmp_path / "config.json", settleTime="10s", minPodAge="0s")
    content = json.loads(saved_shop.read_text())
    for item in content["items"]:
        if item["kind"] == "Pod":
            item["metadata"]["creationTimestamp"] = item["status"]["startTime"] = "2026-11-20T12:00:00Z"
            for container in item["status"]["containerStatuses"]:
                container["state"] = {"running": {"startedAt": "2026-11-20T12:00:00Z"}}
    selector = {
        "matchLabels": next(
            item["spec"]["selector"]["matchLabels"]
            for item in content["items"]
            if item["kind"] == "Deployment"
        )
    }
    spec = {"maxUnavailable": 1, "selector": selector}
    metadata = {"namespace": "shop", "name": "web"}
    content["items"].append(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    )
    file = tmp_path / "young.json"
    file.write_text(json.dumps(content))
    done = run(
        "simulate",
        "--from",
        file,
        "--config",
        config,
        "--checks",
        1,
        "--now",
        "2026-11-20T12:00Z",
        "-o",
        "json",
    )
    (check,) = json.loads(done.stdout)["checks"]
    assert {move["result"] for move in check["moves"]} == {"Completed"}, check["refused"]


def test_workloads_that_can_not_make_pods_are_refused(run, saved_shop, tmp_path):
    content = json.loads(saved_shop.read_text())
    for item in content["items"]:
        if item["kind"] == "Deployment":
            del item["spec"]["template"]
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(content))
    done = run("simulate", "--from", file)
    assert done.exit_code == 1
    assert "Deployment shop/web: spec.template" in done.stderr


STARTED = "2026-11-20T11:00:00Z"
CONDITIONS = [
    {"type": each, "status": "True", "lastTransitionTime": STARTED}
    for each in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
]
MAINTENANCE = {"scheduler.alpha.kubernetes.io/maintenance": "true"}


def made(api_version, kind, name, *, labels=None, owner=None, **more):
    metadata = {"namespace": "shop", "name": name, "uid": name, "creationTimestamp": STARTED}
    metadata |= {"labels": labels or {}, "ownerReferences": [owner] if owner else []}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def node_of(name, labels):
    status = {
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": status,
    }


def spec_of(cpu, **more):
    container = {"name": "main", "image": "shop/web:1", "resources": {"requests": {"cpu": cpu}}}
    return {"containers": [container], **more}


def running(name, node, spec, **metadata):
    container = {"name": "main", "image": "shop/web:1", "imageID": "", "restartCount": 0, "ready": True}
    container |= {"started": True, "state": {"running": {"startedAt": STARTED}}}
    status = {"phase": "Running", "startTime": STARTED, "conditions": CONDITIONS}
    status["containerStatuses"] = [container]
    return made("v1", "Pod", name, spec={**spec, "nodeName": node}, status=status, **metadata)


def crowded(*, guarded):
    """Node-1 has a pod of high priority, node-2 is empty, node-3 is full of pods whose budget allows
    nothing.
    """
    web = spec_of("6", priorityClassName="high", terminationGracePeriodSeconds=20)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": web}
    selector = {"matchLabels": {"app": "web"}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "web-1"}
    others = {"minAvailable": "100%", "selector": {"matchLabels": {"app": "other"}}}
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
    items = [
        node_of("node-1", MAINTENANCE),
        node_of("node-2", {}),
        node_of("node-3", {}),
        {**high, "value": 1000},
        made(
            "apps/v1",
            "ReplicaSet",
            "web-1",
            spec={"replicas": 1, "selector": selector, "template": template},
            status={"replicas": 1, "readyReplicas": 1, "availableReplicas": 1},
        ),
        running(
            "web",
            "node-1",
            {**web, "priority": 1000, "preemptionPolicy": "PreemptLowerPriority"},
            labels={"app": "web"},
            owner={**owner, "controller": True},
        ),
        *(running(f"other-{n}", "node-3", spec_of("3"), labels={"app": "other"}) for n in (1, 2)),
        made("policy/v1", "PodDisruptionBudget", "others", spec=others),
    ]
    reported = {"rescheduler.dev/guarded": "true"} if guarded else {}
    head = {"annotations": {"rescheduler.dev/saved-at": "2026-11-20T12:00:00Z", **reported}}
    return {"apiVersion": "v1", "kind": "List", "metadata": head, "items": items}


@pytest.mark.parametrize("guarded", [True, False], ids=["with the guard it is moved", "without, it stays"])
def test_a_pod_whose_replica_set_would_preempt_others(guarded, run, tmp_path):
    file = tmp_path / "crowded.json"
    file.write_text(json.dumps(crowded(guarded=guarded)))
    done = run("simulate", "--from", file, "--strategy", "NodeMaintenance", "--checks", 1, "-o", "json")
    assert done.exit_code == 0, done.output
    (check,) = json.loads(done.stdout)["checks"]
    if guarded:
        assert [move["result"] for move in check["moves"]] == ["Completed"]
    else:
        assert check["moves"] == []
        assert "SurplusWouldPreempt" in done.stdout
