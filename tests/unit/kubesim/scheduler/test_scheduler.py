"""The scheduler: order of pods, choice of nodes, messages about unschedulable pods, and retries."""

from typing import Any

from tests.unit.kubesim.scheduler.conftest import Stage, node, pod, required

Object = dict[str, Any]

TAINT = {"key": "a", "effect": "NoSchedule"}


def test_a_pod_gets_a_node_and_is_reported_so(stage: Stage) -> None:
    stage.begin(node("n1", zone="east"), pod("web"))
    bound = stage.get("web")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["labels"] == {"topology.kubernetes.io/zone": "east"}
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert stage.events() == [("Scheduled", "Successfully assigned default/web to n1")]


def test_the_most_important_pod_comes_first_then_the_oldest(stage: Stage) -> None:
    young, old, important = pod("young", cpu="4"), pod("old", cpu="4"), pod("important", cpu="4", priority=5)
    old["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z"
    stage.begin(node("n1"), node("n2"), young, old, important)
    assert stage.node_of("important")
    assert stage.node_of("old")
    assert not stage.node_of("young")


def test_a_gated_pod_waits_for_its_gate(stage: Stage) -> None:
    stage.begin(node(), pod("web", schedulingGates=[{"name": "example.com/wait"}]))
    assert not stage.node_of("web")
    stage.patch("web", {"spec": {"schedulingGates": []}})
    assert stage.node_of("web") == "n1"


def test_pods_of_another_scheduler_are_not_touched(stage: Stage) -> None:
    stage.begin(node(), pod("theirs", schedulerName="other"), pod("ours", schedulerName="default-scheduler"))
    assert (stage.node_of("theirs"), stage.node_of("ours")) == ("", "n1")
    assert not stage.says("theirs")


def test_a_scheduler_of_another_name_takes_only_pods_that_ask_for_it(stage: Stage) -> None:
    stage.begin(node(), pod("theirs"), pod("ours", schedulerName="mine"), name="mine")
    assert (stage.node_of("theirs"), stage.node_of("ours")) == ("", "n1")


def test_the_nominated_node_is_tried_first(stage: Stage) -> None:
    promised = pod("web", cpu="1")
    promised["status"]["nominatedNodeName"] = "n2"
    stage.begin(node("n1"), node("n2"), pod("other", on="n2", cpu="2"), promised)
    assert stage.node_of("web") == "n2", "although the other node is emptier"
    assert "nominatedNodeName" not in stage.get("web")["status"]


def test_a_nominated_node_that_does_not_fit_is_no_obstacle(stage: Stage) -> None:
    promised = pod("web", cpu="3")
    promised["status"]["nominatedNodeName"] = "n2"
    stage.begin(node("n1"), node("n2"), pod("other", on="n2", cpu="2"), promised)
    assert stage.node_of("web") == "n1"


def test_a_steered_copy_goes_to_its_target(stage: Stage) -> None:
    """As Adopt does it: created gated, nominated, then let go."""
    stage.begin(node("n1"), node("n2"), pod("other", on="n2", cpu="2"))
    stage.add(pod("copy", cpu="1", schedulingGates=[{"name": "rescheduler.dev/placing"}]))
    stage.patch("copy", {"status": {"nominatedNodeName": "n2"}}, "/status")
    stage.patch("copy", {"spec": {"schedulingGates": []}})
    assert stage.node_of("copy") == "n2"


class TestWhereAPodGoes:
    def test_to_the_node_with_most_left(self, stage: Stage) -> None:
        stage.begin(node("n1"), node("n2"), pod("other", on="n1", cpu="1"), pod("web", cpu="1"))
        assert stage.node_of("web") == "n2"

    def test_away_from_its_siblings(self, stage: Stage) -> None:
        owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
        pods = [pod(f"web-{number}", cpu="1") for number in range(3)]
        for each in pods:
            each["metadata"]["ownerReferences"] = owner
        stage.begin(node("n1", cpu="64"), node("n2", cpu="8"), node("n3", cpu="8"), *pods)
        assert sorted(stage.node_of(f"web-{number}") for number in range(3)) == ["n1", "n2", "n3"]

    def test_where_it_prefers_to_be(self, stage: Stage) -> None:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
        preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
        stage.begin(
            node("n1"),
            node("n2"),
            pod("other", on="n1", cpu="1"),
            pod("web", affinity={"nodeAffinity": preferred}),
        )
        assert stage.node_of("web") == "n1"

    def test_among_equals_by_name(self, stage: Stage) -> None:
        stage.begin(node("n2"), node("n1"), node("n3"), pod("web"))
        assert stage.node_of("web") == "n1"


class TestMessages:
    """The messages are those of a real kube-scheduler."""

    def test_without_nodes(self, stage: Stage) -> None:
        stage.begin(pod("web"))
        assert stage.says("web") == "no nodes available to schedule pods"

    def test_reasons_are_counted(self, stage: Stage) -> None:
        full = [pod(f"full-{name}", on=name, cpu="4") for name in ("n1", "n2")]
        stage.begin(node("n1"), node("n2"), node("n3", taints=[TAINT]), *full, pod("web", cpu="1"))
        assert stage.says("web") == (
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
            "preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, "
            "2 No preemption victims found for incoming pod."
        )
        condition = stage.get("web")["status"]["conditions"][0]
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")

    def test_what_is_too_big_for_the_whole_node_is_beyond_preemption(self, stage: Stage) -> None:
        stage.begin(node(), pod("other", on="n1"), pod("web", cpu="16", priority=9))
        assert stage.says("web") == (
            "0/1 nodes are available: 1 Insufficient cpu. "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )

    def test_what_keeps_a_pod_from_every_node_is_said_once(self, stage: Stage) -> None:
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "nope"}}]
        stage.begin(node("n1"), node("n2"), pod("web", volumes=volumes))
        assert stage.says("web") == (
            '0/2 nodes are available: persistentvolumeclaim "nope" not found. not found'
        )

    def test_a_pod_that_may_not_preempt(self, stage: Stage) -> None:
        low_priority = pod("web", cpu="1", priority=9, preemptionPolicy="Never")
        stage.begin(node(), pod("full", on="n1", cpu="4"), low_priority)
        assert stage.says("web").endswith("preemption: not eligible due to preemptionPolicy=Never.")
        assert "deletionTimestamp" not in stage.get("full")["metadata"]

    def test_the_same_thing_is_said_only_once(self, stage: Stage) -> None:
        stage.begin(node(taints=[TAINT]), pod("web"))
        version = stage.get("web")["metadata"]["resourceVersion"]
        stage.add(node("n1", taints=[TAINT, {"key": "b", "effect": "NoSchedule"}]), wait_s=60)
        assert stage.get("web")["metadata"]["resourceVersion"] == version
        assert [reason for reason, _ in stage.events()] == ["FailedScheduling"]


class TestWhenAPodIsTriedAgain:
    def test_when_room_is_made(self, stage: Stage) -> None:
        stage.begin(node(), pod("full", on="n1", cpu="4"), pod("web", cpu="1"))
        assert not stage.node_of("web")
        stage.gone("full")
        assert stage.node_of("web") == "n1"

    def test_when_a_node_comes(self, stage: Stage) -> None:
        stage.begin(pod("web"))
        stage.add(node())
        assert stage.node_of("web") == "n1"

    def test_when_a_taint_goes(self, stage: Stage) -> None:
        stage.begin(node(taints=[TAINT]), pod("web"))
        stage.add(node())
        assert stage.node_of("web") == "n1"

    def test_when_a_friend_arrives(self, stage: Stage) -> None:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
        stage.begin(node(), pod("web", affinity=required("podAffinity", term)))
        assert not stage.node_of("web")
        stage.add(pod("db", on="n1", labels={"app": "db"}))
        assert stage.node_of("web") == "n1"

    def test_when_its_claim_comes(self, stage: Stage) -> None:
        stage.begin(
            node(), pod("web", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
        )
        stage.add(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": "v"},
                "spec": {"capacity": {"storage": "1Gi"}},
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": "data",
                    "namespace": "default",
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                },
                "spec": {"volumeName": "v", "accessModes": ["ReadWriteOnce"]},
            },
        )
        assert stage.node_of("web") == "n1"

    def test_not_at_once_but_after_a_pause_that_grows(self, stage: Stage) -> None:
        stage.begin(node(), pod("full", on="n1", cpu="4"), pod("web", cpu="1"))
        stage.clock.advance(60)
        stage.gone("full", wait_s=0.9)
        assert not stage.node_of("web")
        stage.clock.advance(0.2)
        assert stage.node_of("web") == "n1"

    def test_what_cannot_help_wakes_no_pod(self, stage: Stage) -> None:
        stage.begin(node(), node("n2", taints=[TAINT]), pod("full", on="n1", cpu="4"), pod("web", cpu="1"))
        attempts = dict(stage.scheduler._seen.waiting.attempts)
        changed = pod("full", on="n1", cpu="4")
        changed["status"]["podIP"] = "10.0.0.1"
        stage.add(changed, node("n1"), wait_s=60)
        assert stage.scheduler._seen.waiting.attempts == attempts


def waiting_claim() -> list[Object]:
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": "csi.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default", "uid": "c1"},
            "spec": {
                "storageClassName": "fast",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    ]


def test_a_claim_that_waited_for_its_pod_gets_a_volume_in_the_chosen_zone(stage: Stage) -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    stage.begin(node("n1", zone="east"), node("n2", zone="west"), *waiting_claim())
    stage.add(pod("web", volumes=volumes, nodeSelector={"kubernetes.io/hostname": "n2"}))
    assert stage.node_of("web") == "n2"
    stage.gone("web")
    stage.add(pod("again", volumes=volumes, nodeSelector={"kubernetes.io/hostname": "n1"}))
    assert not stage.node_of("again")
    assert "1 node(s) didn't match PersistentVolume's node affinity" in stage.says("again")


def test_many_pods_spread_evenly(stage: Stage) -> None:
    nodes = [node(f"n{number:03}", cpu="16", pods="110", zone=f"z{number % 3}") for number in range(30)]
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
    pods = [pod(f"web-{number:04}", cpu="500m", labels={"app": "web"}) for number in range(300)]
    for each in pods:
        each["metadata"]["ownerReferences"] = owners
    stage.begin(*nodes, *pods)
    placed = [stage.node_of(each["metadata"]["name"]) for each in pods]
    assert {placed.count(each["metadata"]["name"]) for each in nodes} == {10}
