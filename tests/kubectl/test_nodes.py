"""kubectl manages nodes: cordon, taint, drain."""

import pytest

from tests.kubectl.objects import budget, node, pod

pytestmark = pytest.mark.kubectl


@pytest.fixture
def east(cluster):
    cluster.load(node("east"))


def test_cordon_and_uncordon(kubectl, east):
    assert kubectl("cordon east") == "node/east cordoned\n"
    assert kubectl.rows("get node east")[0][1] == "Ready,SchedulingDisabled"
    assert kubectl("uncordon east") == "node/east uncordoned\n"
    assert kubectl.rows("get node east")[0][1] == "Ready"


def test_taint_adds_and_removes(kubectl, east):
    assert kubectl("taint nodes east dedicated=db:NoSchedule") == "node/east tainted\n"
    assert kubectl.json("get node east")["spec"]["taints"] == [
        {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    ]
    assert kubectl("taint nodes east dedicated-") == "node/east untainted\n"
    assert not kubectl.json("get node east")["spec"].get("taints")


def test_drain_evicts_every_pod_and_leaves_the_node_cordoned(kubectl, cluster, east):
    cluster.load(pod("web-1", on="east", owner="web"), pod("web-2", on="east", owner="web"))
    cluster.load(replica_set("web"))

    reported = kubectl("drain east --timeout=20s")

    assert "node/east drained" in reported
    assert kubectl("get pods -o name") == ""
    assert kubectl.rows("get node east")[0][1] == "Ready,SchedulingDisabled"


def replica_set(name):
    """Which owner the pods have; no controller acts on it here."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-of-{name}"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}},
    }


def test_drain_refuses_pods_without_a_controller(kubectl, cluster, east):
    cluster.load(pod("alone", on="east"))

    assert "cannot delete Pods that declare no controller" in kubectl.refused("drain east")
    assert "node/east drained" in kubectl("drain east --force --timeout=20s", warns=True)


def test_drain_waits_while_a_budget_refuses_and_goes_on_when_it_allows(kubectl, cluster, east):
    labels = {"app": "web"}
    cluster.load(replica_set("web"), pod("web-1", on="east", labels=labels, owner="web"))
    cluster.load(budget("keep", min_available=1, healthy=1, labels=labels))

    reported = kubectl.refused("drain east --timeout=1s")
    assert "Cannot evict pod as it would violate the pod's disruption budget" in reported
    assert kubectl("get pods -o name") == "pod/web-1\n"

    allow = '{"status":{"disruptionsAllowed":1,"currentHealthy":2}}'
    kubectl(f"patch pdb keep --subresource=status --type=merge -p '{allow}'")
    assert "node/east drained" in kubectl("drain east --timeout=20s")
    assert kubectl("get pods -o name") == ""
    assert kubectl.rows("get pdb keep")[0][3] == "0"
