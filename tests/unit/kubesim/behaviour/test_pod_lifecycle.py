"""The lifecycle of a pod on its node, as kubectl and controllers see it."""

from itertools import pairwise
from typing import Any

import pytest

from kubesim.behaviour import Behaviour, PodRemoval, PodStep, advance

INIT = [{"name": "migrate", "image": "shop/migrate:1"}]
SIDECAR = [{"name": "proxy", "image": "mesh/proxy:1", "restartPolicy": "Always"}]


def shown(life: Any) -> str:
    """What kubectl would put into the column STATUS for the main container."""
    state = life.main["state"]
    return next((details.get("reason", "Running") for details in state.values()), "")


class TestStartingUp:
    def test_a_pod_is_pending_until_its_container_runs(self, life: Any) -> None:
        pod = life({"startup": "5s"})
        assert (pod.after(4).status["phase"], shown(pod)) == ("Pending", "ContainerCreating")
        assert (pod.after(5).status["phase"], shown(pod)) == ("Running", "Running")

    def test_it_is_ready_so_long_after_it_started(self, life: Any) -> None:
        pod = life({"startup": "5s", "readiness": "20s"})
        assert not pod.after(24).ready
        assert pod.condition("Ready")["message"] == "containers with unready status: [main]"
        assert pod.after(25).ready
        assert pod.condition("Ready")["lastTransitionTime"] == "2026-03-01T12:00:25Z"

    def test_it_may_never_be_ready(self, life: Any) -> None:
        pod = life({"readiness": "never"}).after(86_400)
        assert (pod.ready, pod.status["phase"], pod.wake_at) == (False, "Running", None)

    def test_a_slow_node_stretches_start_up_and_readiness(self, life: Any) -> None:
        pod = life({"startup": "5s", "readiness": "5s"}, slow=3)
        assert pod.after(14).status["phase"] == "Pending"
        assert not pod.after(29).ready
        assert pod.after(30).ready

    def test_readiness_goes_on_and_off(self, life: Any) -> None:
        pod = life({"startup": "0s", "readiness": {"after": "10s", "ready": "30s", "unready": "5s"}})
        seen = [pod.after(second).ready for second in (9, 10, 39, 40, 44, 45, 74, 75)]
        assert seen == [False, True, True, False, False, True, True, False]

    def test_addresses_and_ids_are_there_and_stay(self, life: Any) -> None:
        pod = life().after(1)
        first = (pod.status["podIP"], pod.main["containerID"], pod.main["imageID"])
        assert pod.status["hostIP"] == "10.0.0.1"
        assert pod.main["imageID"].startswith("shop/web@sha256:")
        assert first == (pod.after(60).status["podIP"], pod.main["containerID"], pod.main["imageID"])

    def test_a_pod_on_the_hosts_network_has_its_address(self, life: Any) -> None:
        assert life(hostNetwork=True).after(1).status["podIP"] == "10.0.0.1"

    def test_a_pod_without_a_node_has_no_kubelet(self, life: Any) -> None:
        pod = life(nodeName="")
        assert advance(pod.pod, Behaviour(), pod.now) == PodStep(None, None)


class TestConditions:
    def test_what_others_wrote_is_kept(self, life: Any) -> None:
        pod = life()
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T11:59:59Z"}
        pod.pod["status"] = {"phase": "Pending", "qosClass": "Burstable", "conditions": [scheduled]}
        pod.after(1)
        assert scheduled in pod.status["conditions"]
        assert pod.status["qosClass"] == "Burstable"

    def test_a_readiness_gate_holds_only_the_pod_back(self, life: Any) -> None:
        pod = life(readinessGates=[{"conditionType": "lb"}]).after(1)
        assert pod.condition("ContainersReady")["status"] == "True"
        assert pod.condition("Ready")["reason"] == "ReadinessGatesNotReady"
        pod.status["conditions"].append({"type": "lb", "status": "True", "lastTransitionTime": "x"})
        assert pod.settle().ready

    def test_a_false_verdict_of_others_on_ready_is_put_right(self, life: Any) -> None:
        """As after an outage: the controller manager had marked the pod, and the node is back."""
        pod = life().after(1)
        pod.condition("Ready")["status"] = "False"
        assert pod.settle().ready

    def test_a_resize_in_place_is_granted(self, life: Any) -> None:
        container = {"name": "main", "image": "a", "resources": {"requests": {"cpu": "1"}}}
        pod = life(containers=[container]).after(1)
        container["resources"] = {"requests": {"cpu": "2"}}
        pod.pod = pod.pod | {"spec": pod.pod["spec"] | {"containers": [container]}}
        assert pod.settle().main["allocatedResources"] == {"cpu": "2"}
        assert pod.main["restartCount"] == 0


class TestEnding:
    @pytest.mark.parametrize(
        ("policy", "exit_code", "phase", "restarts"),
        [
            pytest.param("Never", 0, "Succeeded", 0, id="Never: done well is Succeeded"),
            pytest.param("Never", 3, "Failed", 0, id="Never: done badly is Failed"),
            pytest.param("OnFailure", 0, "Succeeded", 0, id="OnFailure: done well is Succeeded"),
            pytest.param("OnFailure", 3, "Running", 1, id="OnFailure: done badly is tried again"),
            pytest.param("Always", 0, "Running", 1, id="Always: done well is started again all the same"),
        ],
    )
    def test_the_restart_policy_decides(
        self, life: Any, policy: str, exit_code: int, phase: str, restarts: int
    ) -> None:
        pod = life({"run": {"lasts": "10s", "exitCode": exit_code}}, restartPolicy=policy).after(13)
        assert (pod.status["phase"], pod.main["restartCount"]) == (phase, restarts)

    def test_a_finished_pod_is_not_ready_any_more(self, life: Any) -> None:
        aspects = {"run": {"lasts": "10s"}, "evicted": {"after": "1h"}}
        pod = life(aspects, restartPolicy="Never").after(11)
        assert pod.condition("Ready")["reason"] == "PodCompleted"
        assert (pod.ready, pod.wake_at) == (False, None)

    def test_a_killed_container_says_so(self, life: Any) -> None:
        pod = life({"run": {"lasts": "5s", "reason": "OOMKilled"}}).after(6)
        assert pod.main["state"]["terminated"]["exitCode"] == 137
        assert shown(pod) == "OOMKilled"

    def test_an_evicted_pod_fails_with_its_reason(self, life: Any) -> None:
        pod = life({"evicted": {"after": "1m"}})
        assert pod.after(59).ready
        status = pod.after(60).status
        assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
        assert pod.condition("DisruptionTarget")["reason"] == "TerminationByKubelet"
        assert pod.main["state"]["terminated"]["exitCode"] == 137

    def test_a_deadline_ends_a_pod(self, life: Any) -> None:
        pod = life(activeDeadlineSeconds=20).after(20)
        assert (pod.status["phase"], pod.status["reason"]) == ("Failed", "DeadlineExceeded")


class TestCrashing:
    def test_waits_double_up_to_five_minutes(self, life: Any) -> None:
        pod = life({"startup": "0s", "run": {"lasts": "2s", "exitCode": 1}})
        pod.after(3600)
        starts = [
            entry["containerStatuses"][0]["state"]["running"]["startedAt"]
            for entry in pod.history
            if "running" in entry["containerStatuses"][0]["state"]
        ]
        seconds = [int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19]) for text in starts]
        gaps = [after - before - 2 for before, after in pairwise(seconds)]
        assert gaps[:9] == [1, 10, 20, 40, 80, 160, 300, 300, 300]

    def test_it_looks_like_a_kubelets(self, life: Any) -> None:
        pod = life({"startup": "0s", "run": {"lasts": "2s", "exitCode": 7}})
        assert shown(pod.after(2)) == "Error"
        assert pod.after(3).main["restartCount"] == 1
        pod.after(7)
        assert shown(pod) == "CrashLoopBackOff"
        assert pod.main["state"]["waiting"]["message"] == (
            "back-off 10s restarting failed container=main pod=web-1_shop(u-1)"
        )
        assert pod.main["lastState"]["terminated"]["exitCode"] == 7
        assert pod.status["phase"] == "Running"
        assert not pod.ready

    def test_it_heals_after_so_many_crashes(self, life: Any) -> None:
        pod = life({"startup": "0s", "run": {"lasts": "2s", "exitCode": 1, "times": 2}}).after(600)
        assert (pod.main["restartCount"], pod.ready, pod.wake_at) == (2, True, None)

    def test_a_long_run_is_not_held_against_it(self, life: Any) -> None:
        pod = life({"startup": "0s", "run": {"lasts": "10m", "exitCode": 1}}).after(1800 + 4)
        assert pod.main["restartCount"] == 3


class TestBlocked:
    def test_an_image_is_pulled_again_and_again(self, life: Any) -> None:
        pod = life({"startup": "0s", "blocked": "ErrImagePull"})
        seen = [shown(pod.after(second)) for second in (0, 1, 10, 11, 12, 31, 32, 33)]
        failing, waiting = "ErrImagePull", "ImagePullBackOff"
        assert seen == [failing, waiting, waiting, failing, waiting, waiting, failing, waiting]
        assert pod.status["phase"] == "Pending"
        assert pod.main["state"]["waiting"]["message"].startswith('Back-off pulling image "shop/web:1"')

    def test_it_may_heal(self, life: Any) -> None:
        blocked = {"reason": "CreateContainerConfigError", "message": 'secret "x" not found', "heals": "1m"}
        pod = life({"startup": "0s", "blocked": blocked})
        assert pod.after(59).main["state"]["waiting"]["message"] == 'secret "x" not found'
        assert pod.after(60).ready

    def test_a_stuck_container_never_gets_its_sandbox(self, life: Any) -> None:
        pod = life({"blocked": "ContainerCreating"}).after(3600)
        assert pod.condition("PodReadyToStartContainers")["status"] == "False"
        assert "podIP" not in pod.status


class TestInitContainers:
    def test_they_come_first(self, life: Any) -> None:
        pod = life({"startup": "1s", "init": {"lasts": "10s"}}, initContainers=INIT)
        assert shown(pod.after(10)) == "PodInitializing"
        assert pod.condition("Initialized")["message"] == "containers with incomplete status: [migrate]"
        assert pod.after(11).condition("Initialized")["status"] == "True"
        assert pod.after(12).ready

    def test_a_failing_one_keeps_the_pod_pending(self, life: Any) -> None:
        pod = life({"startup": "0s", "init": {"lasts": "1s", "exitCode": 1}}, initContainers=INIT).after(5)
        state = pod.status["initContainerStatuses"][0]["state"]
        assert (pod.status["phase"], state["waiting"]["reason"]) == ("Pending", "CrashLoopBackOff")

    def test_a_failing_one_fails_a_pod_that_is_never_restarted(self, life: Any) -> None:
        aspects = {"startup": "0s", "init": {"lasts": "1s", "exitCode": 1}}
        pod = life(aspects, initContainers=INIT, restartPolicy="Never").after(1)
        assert pod.status["phase"] == "Failed"

    def test_it_succeeds_in_the_end(self, life: Any) -> None:
        aspects = {"startup": "0s", "init": {"lasts": "1s", "exitCode": 1, "times": 2}}
        assert life(aspects, initContainers=INIT).after(60).ready

    def test_a_sidecar_goes_on_and_counts_for_readiness(self, life: Any) -> None:
        pod = life({"startup": "1s", "readiness": "3s"}, initContainers=SIDECAR)
        assert not pod.after(4).ready
        assert pod.after(5).ready
        assert "running" in pod.status["initContainerStatuses"][0]["state"]

    def test_a_sidecar_that_crashes_is_restarted_whatever_the_policy(self, life: Any) -> None:
        pod = life(restartPolicy="Never", initContainers=SIDECAR)
        crash = {"match": {"container": "proxy"}, "run": {"lasts": "5s", "exitCode": 1, "times": 1}}
        pod.behaviour = Behaviour.model_validate({"pods": [crash]})
        assert not pod.after(6).ready
        assert pod.condition("Initialized")["status"] == "True", "once initialized, always initialized"
        assert pod.after(7).ready
        assert pod.status["initContainerStatuses"][0]["restartCount"] == 1

    def test_a_sidecar_ends_with_the_work(self, life: Any) -> None:
        pod = life(restartPolicy="Never", initContainers=SIDECAR)
        pod.behaviour = Behaviour.model_validate(
            {"pods": [{"match": {"container": "main"}, "run": {"lasts": "5s"}}]}
        )
        pod.after(10)
        assert pod.status["phase"] == "Succeeded"
        assert "terminated" in pod.status["initContainerStatuses"][0]["state"]


class TestDeletion:
    def test_containers_take_their_time(self, life: Any) -> None:
        pod = life({"termination": "5s"}).after(10).delete(grace_s=30)
        assert pod.after(14).pod is not None
        assert pod.ready, "a terminating container may well be ready until it ends"
        assert pod.after(15).pod is None
        assert pod.history[-1]["phase"] == "Succeeded"

    @pytest.mark.parametrize("termination", ["ignored", "2h"])
    def test_but_not_more_than_the_grace_period(self, life: Any, termination: str) -> None:
        pod = life({"termination": termination}, slow=2).after(10).delete(grace_s=30)
        assert pod.after(39).pod is not None
        assert pod.after(40).pod is None
        assert pod.history[-1]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137

    def test_a_slow_node_takes_longer(self, life: Any) -> None:
        pod = life({"termination": "5s"}, slow=3).after(10).delete(grace_s=30)
        assert pod.after(24).pod is not None
        assert pod.after(25).pod is None

    def test_a_pod_that_never_started_goes_at_once(self, life: Any) -> None:
        assert life({"blocked": "ErrImagePull", "termination": "ignored"}).after(10).delete().pod is None

    def test_so_does_one_that_was_not_observed_yet(self, life: Any) -> None:
        assert life().delete().pod is None

    def test_nothing_is_started_any_more(self, life: Any) -> None:
        aspects = {"startup": "0s", "run": {"lasts": "2s", "exitCode": 1}}
        pod = life(aspects, containers=[{"name": "main"}, {"name": "other"}]).after(6)
        assert pod.delete().pod is None

    def test_a_finished_pod_goes_at_once(self, life: Any) -> None:
        pod = life({"run": {"lasts": "1s"}}, restartPolicy="Never").after(5)
        assert pod.delete().pod is None

    def test_a_pod_that_finalizers_hold_is_deleted_only_once(self, life: Any) -> None:
        pod = life({"run": {"lasts": "1s"}}, restartPolicy="Never").after(5)
        held = pod.pod | {"metadata": pod.pod["metadata"] | {"deletionTimestamp": "2026-03-01T12:00:05Z"}}
        assert advance(held, pod.behaviour, pod.now).action == PodRemoval("u-1")
        held["metadata"]["deletionGracePeriodSeconds"] = 0
        assert advance(held, pod.behaviour, pod.now).action is None
