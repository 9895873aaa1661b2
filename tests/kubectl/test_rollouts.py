"""kubectl follows and steers rollouts; the status is written by the tests, as a controller would."""

import json

import pytest

from tests.kubectl.objects import deployment

pytestmark = pytest.mark.kubectl


@pytest.fixture
def web(kubectl):
    kubectl.create(deployment("web", replicas=2))


def report(kubectl, **counts):
    generation = kubectl.json("get deployment web")["metadata"]["generation"]
    status = json.dumps({"status": {"observedGeneration": generation, "replicas": 2, **counts}})
    kubectl(f"patch deployment web --subresource=status --type=merge -p '{status}'")


def test_rollout_status_ends_when_all_pods_are_new_and_available(kubectl, web):
    report(kubectl, updatedReplicas=2, availableReplicas=2, readyReplicas=2)

    assert kubectl("rollout status deployment web") == 'deployment "web" successfully rolled out\n'


def test_rollout_status_follows_the_progress(kubectl, web):
    report(kubectl, updatedReplicas=1, availableReplicas=2, readyReplicas=2)
    watching = kubectl.start("rollout status deployment web")
    assert "1 out of 2 new replicas have been updated" in watching.stdout.readline()

    report(kubectl, updatedReplicas=2, availableReplicas=2, readyReplicas=2)

    assert "successfully rolled out" in watching.communicate(timeout=10)[0]


def test_pause_and_resume(kubectl, web):
    assert kubectl("rollout pause deployment web") == "deployment.apps/web paused\n"
    assert kubectl.json("get deployment web")["spec"]["paused"] is True
    assert "already paused" in kubectl.refused("rollout pause deployment web")
    assert kubectl("rollout resume deployment web") == "deployment.apps/web resumed\n"
    assert not kubectl.json("get deployment web")["spec"].get("paused")


def test_restart_changes_the_template_and_nothing_else(kubectl, web):
    before = kubectl.json("get deployment web")["metadata"]["generation"]

    assert kubectl("rollout restart deployment web") == "deployment.apps/web restarted\n"

    shown = kubectl.json("get deployment web")
    assert shown["metadata"]["generation"] == before + 1
    assert "kubectl.kubernetes.io/restartedAt" in shown["spec"]["template"]["metadata"]["annotations"]
