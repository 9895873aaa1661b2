"""kubectl deletes: grace, propagation, finalizers, and waiting for the end."""

import pytest

from tests.kubectl.objects import deployment, node, pod

pytestmark = pytest.mark.kubectl


def test_delete_waits_until_the_pod_has_ended(kubectl, cluster):
    cluster.load(node("east"), pod("web", on="east"))

    assert 'pod "web" deleted' in kubectl("delete pod web")
    assert "not found" in kubectl.refused("get pod web")


@pytest.mark.parametrize("stop_s", [60])
def test_delete_without_waiting_leaves_a_terminating_pod(kubectl, cluster):
    cluster.load(node("east"), pod("web", on="east", grace_s=60))

    kubectl("delete pod web --wait=false")

    assert kubectl.rows("get pod web")[0][2] == "Terminating"


@pytest.mark.parametrize("stop_s", [60])
def test_delete_says_how_long_the_pod_may_take(kubectl, cluster):
    cluster.load(node("east"), pod("web", on="east", grace_s=60))

    kubectl("delete pod web --wait=false --grace-period=77")

    assert kubectl.json("get pod web")["metadata"]["deletionGracePeriodSeconds"] == 77


def test_delete_with_force_does_not_wait_for_the_kubelet(kubectl, cluster):
    cluster.load(node("east"), pod("web", on="east"))

    done = kubectl.run("delete pod web --grace-period=0 --force --wait=false")

    assert "force deleted" in done.stdout
    assert "not found" in kubectl.refused("get pod web")


def test_a_finalizer_holds_an_object_until_it_is_removed(kubectl):
    kubectl("create configmap settings")
    kubectl('patch configmap settings -p \'{"metadata":{"finalizers":["example.com/hold"]}}\'')

    assert "timed out" in kubectl.refused("delete configmap settings --timeout=1s")
    kubectl('patch configmap settings --type=json -p \'[{"op":"remove","path":"/metadata/finalizers"}]\'')
    assert "not found" in kubectl.refused("get configmap settings")


@pytest.fixture
def owned(kubectl):
    """A Deployment that owns a ReplicaSet."""
    kubectl.create(deployment("web"))
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    owner["uid"] = kubectl("get deployment web -o jsonpath={.metadata.uid}")
    replica_set = deployment("web-1") | {"kind": "ReplicaSet"}
    replica_set["metadata"]["ownerReferences"] = [owner]
    kubectl.create(replica_set)


def test_delete_takes_what_is_owned_with_it(kubectl, owned):
    kubectl("delete deployment web")

    kubectl("wait replicaset/web-1 --for=delete --timeout=5s")
    assert "not found" in kubectl.refused("get replicaset web-1")


def test_delete_in_the_foreground_ends_after_what_is_owned(kubectl, owned):
    kubectl("delete deployment web --cascade=foreground")

    assert kubectl("get deployments,replicasets -o name") == ""


def test_delete_as_orphan_leaves_what_was_owned(kubectl, owned):
    kubectl("delete deployment web --cascade=orphan")

    assert "ownerReferences" not in kubectl.json("get replicaset web-1")["metadata"]


def test_delete_by_label_takes_all_that_match(kubectl):
    for name in ("a", "b", "c"):
        kubectl(f"create configmap {name}")
    kubectl("label configmap a b gone=soon")

    kubectl("delete configmap -l gone=soon")

    assert kubectl("get configmaps -o name").split() == ["configmap/c"]


def test_delete_all_empties_a_namespace_of_a_kind(kubectl):
    kubectl("create configmap a")
    kubectl("create configmap b")

    kubectl("delete configmaps --all")

    assert kubectl("get configmaps -o name") == ""


def test_delete_a_namespace_takes_everything_in_it(kubectl):
    kubectl("create namespace shop")
    kubectl("create configmap settings -n shop")

    assert kubectl("delete namespace shop") == 'namespace "shop" deleted\n'
    assert kubectl("get configmaps -A -o name") == ""
