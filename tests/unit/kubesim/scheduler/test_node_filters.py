"""Filters about nodes: taints, labels, ports and free resources."""

from typing import Any

import pytest

from tests.unit.kubesim.scheduler.conftest import node, pod, required, why_not

TAINTED = ["node(s) had untolerated taint(s)"]
CORDONED = ["node(s) were unschedulable"]
AFFINITY = ["node(s) didn't match Pod's node affinity/selector"]
PORTS = ["node(s) didn't have free ports for the requested pod ports"]
GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "taint", "reasons"),
    [
        pytest.param({}, GPU, TAINTED, id="an empty toleration has the value to match, too"),
        pytest.param({"operator": "Exists"}, GPU, [], id="Exists without a key tolerates everything"),
        pytest.param({"key": "gpu", "operator": "Exists"}, GPU, [], id="Exists tolerates any value"),
        pytest.param({"key": "gpu", "value": "yes"}, GPU, [], id="Equal is the default"),
        pytest.param({"key": "gpu", "value": "no"}, GPU, TAINTED, id="another value is not tolerated"),
        pytest.param({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, GPU, TAINTED,
                     id="another effect is not tolerated"),
        pytest.param({"key": "x", "value": "1"}, {"key": "a", "effect": "PreferNoSchedule"}, [],
                     id="a preference keeps no pod away"),
        pytest.param({"key": "x", "value": "1"}, {"key": "a", "effect": "NoExecute"}, TAINTED,
                     id="NoExecute keeps new pods away as well"),
        pytest.param({"key": "gpu", "operator": "Gt", "value": "1"}, {**GPU, "value": "5"}, TAINTED,
                     id="numeric operators are switched off"),
    ],
)  # fmt: skip
def test_taints_and_tolerations(toleration: Any, taint: Any, reasons: list[str]) -> None:
    assert why_not(pod(tolerations=[toleration]), node(taints=[taint])) == reasons


def test_a_cordoned_node_takes_only_pods_that_tolerate_the_cordon() -> None:
    cordon = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    assert why_not(pod(), node(cordoned=True)) == CORDONED
    assert why_not(pod(tolerations=[cordon]), node(cordoned=True)) == []


def test_a_pod_that_names_its_node_goes_nowhere_else() -> None:
    asking = pod(on="n2")
    assert why_not(asking, node("n1")) == ["node(s) didn't match the requested node name"]
    assert why_not(asking, node("n2"), on="n2") == []


def expression(operator: str, *values: str, key: str = "disk") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("term", "fits"),
    [
        pytest.param(expression("In", "ssd", "nvme"), True, id="In"),
        pytest.param(expression("In", "hdd"), False, id="not In"),
        pytest.param(expression("NotIn", "hdd"), True, id="NotIn"),
        pytest.param(expression("NotIn", "x", key="absent"), True, id="NotIn holds without the label"),
        pytest.param(expression("Exists"), True, id="Exists"),
        pytest.param(expression("DoesNotExist"), False, id="DoesNotExist"),
        pytest.param(expression("Gt", "6", key="size"), True, id="Gt"),
        pytest.param(expression("Gt", "7", key="size"), False, id="Gt is not at least"),
        pytest.param(expression("Lt", "8", key="size"), True, id="Lt"),
        pytest.param(expression("Lt", "8"), False, id="Lt of a label that is no number"),
        pytest.param({}, False, id="a term without conditions matches no node"),
    ],
)
def test_node_affinity_operators(term: Any, fits: bool) -> None:
    there = node(disk="ssd")
    there["metadata"]["labels"]["size"] = "7"
    assert why_not(pod(affinity=required("nodeAffinity", term)), there) == ([] if fits else AFFINITY)


def test_one_matching_term_is_enough_but_the_selector_must_hold_too() -> None:
    affinity = required("nodeAffinity", expression("In", "hdd"), expression("Exists"))
    assert why_not(pod(affinity=affinity), node(disk="ssd")) == []
    assert why_not(pod(affinity=affinity, nodeSelector={"disk": "hdd"}), node(disk="ssd")) == AFFINITY


def named(operator: str, *names: str) -> dict[str, Any]:
    return {
        "matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]} for name in names]
    }


@pytest.mark.parametrize(
    ("terms", "reasons"),
    [
        pytest.param([named("In", "n1")], [], id="the node named"),
        pytest.param(
            [named("In", "n2")], ["node(s) didn't satisfy plugin(s) [NodeAffinity]"], id="another node named"
        ),
        pytest.param([named("In", "n2"), named("In", "n1")], [], id="one of the nodes named"),
        pytest.param(
            [named("In", "n2"), expression("Exists")], [], id="a name in one term, a label in the other"
        ),
        pytest.param([named("NotIn", "n1")], AFFINITY, id="any node but this"),
        pytest.param(
            [named("In", "n1", "n2")],
            ["pod affinity terms conflict"],
            id="two names at once are a contradiction",
        ),
    ],
)
def test_nodes_by_name(terms: list[Any], reasons: list[str]) -> None:
    there = node(disk="ssd")
    assert why_not(pod(affinity=required("nodeAffinity", *terms)), there, node("n2")) == reasons


def port(number: int, **more: str) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "none", "ports": [{"hostPort": number, **more}]}]}


@pytest.mark.parametrize(
    ("taken", "asked", "reasons"),
    [
        pytest.param(port(80), port(80), PORTS, id="the same port"),
        pytest.param(port(80), port(81), [], id="another port"),
        pytest.param(port(80), port(80, protocol="UDP"), [], id="the same number, another protocol"),
        pytest.param(port(80, hostIP="10.0.0.1"), port(80, hostIP="10.0.0.2"), [], id="another address"),
        pytest.param(port(80, hostIP="10.0.0.1"), port(80), PORTS, id="the wildcard wants every address"),
        pytest.param(port(80), port(80, hostIP="10.0.0.1"), PORTS, id="the wildcard has every address"),
    ],
)
def test_host_ports(taken: Any, asked: Any, reasons: list[str]) -> None:
    assert why_not(pod(**asked), node(), pod("other", on="n1", **taken)) == reasons


def test_ports_of_sidecars_count_and_those_of_init_containers_do_not() -> None:
    container = {"name": "first", "image": "none", "ports": [{"hostPort": 80}]}
    asked = port(80)
    assert why_not(pod(**asked), node(), pod("o", on="n1", initContainers=[container])) == []
    sidecar = {**container, "restartPolicy": "Always"}
    assert why_not(pod(**asked), node(), pod("o", on="n1", initContainers=[sidecar])) == PORTS


@pytest.mark.parametrize(
    ("asked", "reasons"),
    [
        pytest.param("3", [], id="fits when free equals request"),
        pytest.param("3001m", ["Insufficient cpu"], id="a thousandth too much"),
        pytest.param("0", [], id="nothing always fits"),
    ],
)
def test_cpu_that_is_left(asked: str, reasons: list[str]) -> None:
    assert why_not(pod(cpu=asked), node(cpu="4"), pod("other", on="n1", cpu="1")) == reasons


def test_all_that_is_missing_is_reported_at_once() -> None:
    asks = {"cpu": "9", "memory": "9Gi", "ephemeral-storage": "1Gi", "example.com/gpu": "1"}
    asking = pod()
    asking["spec"]["containers"][0]["resources"] = {"requests": asks}
    assert why_not(asking, node(pods="1"), pod("other", on="n1")) == [
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient ephemeral-storage",
        "Insufficient example.com/gpu",
    ]


def test_an_overfull_node_still_takes_pods_that_ask_for_nothing() -> None:
    assert why_not(pod(), node(cpu="1"), pod("other", on="n1", cpu="3")) == []


def test_finished_pods_hold_nothing() -> None:
    done = pod("done", on="n1", cpu="4")
    done["status"]["phase"] = "Succeeded"
    assert why_not(pod(cpu="4"), node(), done) == []


def test_terminating_pods_still_hold_their_room() -> None:
    ending = pod("ending", on="n1", cpu="4")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert why_not(pod(cpu="1"), node(), ending) == ["Insufficient cpu"]


def test_fields_that_need_a_newer_kubelet() -> None:
    asking = pod(hostNetwork=True, hostUsers=False)
    there = node()
    assert why_not(asking, there) == ["node(s) didn't match Pod's required features"]
    there["status"]["declaredFeatures"] = ["UserNamespacesHostNetworkSupport"]
    assert why_not(asking, there) == []
