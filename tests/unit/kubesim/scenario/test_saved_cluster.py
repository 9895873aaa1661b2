"""A cluster of which only nodes and pods were saved continues as it was."""

from kubesim.running_cluster import EPOCH
from kubesim.scenario import initial_objects, load_scenario

EVERYTHING = {
    "pools": [{"name": "w", "count": 3}],
    "workloads": [
        {"name": "web", "replicas": 3},
        {"kind": "ReplicaSet", "name": "bare", "replicas": 2},
        {"kind": "StatefulSet", "name": "db", "replicas": 2},
        {"kind": "DaemonSet", "name": "logs"},
        {"kind": "Job", "name": "job", "replicas": 2},
        {"kind": "Pod", "name": "lonely"},
    ],
}


def saved():
    return [
        item for item in initial_objects(load_scenario(EVERYTHING), EPOCH) if item["kind"] in {"Node", "Pod"}
    ]


def test_no_pod_is_collected_replaced_or_restarted_for_want_of_its_owner(run_scenario):
    before = {item["metadata"]["uid"]: item["metadata"]["name"] for item in saved() if item["kind"] == "Pod"}
    run = run_scenario(load_scenario({}), 1800, objects=saved())
    pods = run.objects("v1", "Pod")
    assert {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in pods} == before
    assert [pod for pod in pods if "deletionTimestamp" in pod["metadata"]] == []
    assert [pod["metadata"]["name"] for pod in pods if not pod["metadata"].get("ownerReferences")] == [
        "lonely"
    ]
    assert {pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods} == {0}


def test_nodes_that_were_lost_stay_lost(run_scenario):
    objects = saved()
    for item in objects:
        if item["metadata"]["name"] == "w-1":
            for condition in item["status"]["conditions"]:
                condition["status"] = "Unknown"
    run = run_scenario(load_scenario({}), 600, objects=objects)
    (ready,) = [each for each in run.node("w-1")["status"]["conditions"] if each["type"] == "Ready"]
    assert ready["status"] == "Unknown"
