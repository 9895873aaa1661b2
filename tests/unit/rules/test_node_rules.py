"""Rules about a node and a pod alone: cordons, readiness, taints, labels, resources, ports, features."""

from typing import Any

import pytest

from rescheduler.cluster.node_record import Taint
from rescheduler.cluster.pod_constraints import Toleration
from rescheduler.rules.rule_check import SchedulerRule
from rescheduler.rules.taint_toleration import tolerates
from tests.building import cluster
from tests.unit.rules.rule_answers import fits, only_refusal, refusals

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_a_cordoned_node_takes_no_pods() -> None:
    shop = cluster().node("a", cordoned=True).node("b").pod("shop/web")
    assert fits(shop) == {"b"}
    refusal = only_refusal(shop, "a")
    assert (refusal.rule, refusal.reasons) == (
        SchedulerRule.NODE_UNSCHEDULABLE,
        ("node(s) were unschedulable",),
    )


def test_a_cordoned_node_takes_pods_that_tolerate_the_taint_that_goes_with_it() -> None:
    tolerant = {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}
    assert fits(cluster().node("a", cordoned=True).pod("shop/web", spec=tolerant)) == {"a"}


def test_a_node_that_is_not_ready_takes_no_pods_even_before_it_is_tainted() -> None:
    lost = {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}
    shop = cluster().node("a", status=lost).pod("shop/web")
    refusal = only_refusal(shop, "a")
    assert (refusal.rule, refusal.detail) == (
        SchedulerRule.NODE_READY,
        "the condition Ready is Unknown (NodeStatusUnknown)",
    )


def test_taints_are_named() -> None:
    taints = ["dedicated=gpu:NoSchedule", "old:NoExecute", "slow:PreferNoSchedule"]
    refusal = only_refusal(cluster().node("a", taints=taints).pod("shop/web"), "a")
    assert refusal.reasons == ("node(s) had untolerated taint(s)",)
    assert refusal.detail == "taint dedicated=gpu:NoSchedule, old:NoExecute"


@pytest.mark.parametrize(
    ("toleration", "taint", "is_tolerated"),
    [
        pytest.param(Toleration(operator="Exists"), Taint("a", "x", "NoExecute"), True, id="everything"),
        pytest.param(Toleration("a", "Exists"), Taint("a", "x", "NoSchedule"), True, id="any value of a key"),
        pytest.param(Toleration("a", "Exists"), Taint("b", "x", "NoSchedule"), False, id="another key"),
        pytest.param(
            Toleration("a", "", "x"), Taint("a", "x", "NoSchedule"), True, id="no operator is Equal"
        ),
        pytest.param(Toleration("a", "Equal", "x"), Taint("a", "x", "NoSchedule"), True, id="the same value"),
        pytest.param(Toleration("a", "Equal", "x"), Taint("a", "y", "NoSchedule"), False, id="another value"),
        pytest.param(
            Toleration("a", "Exists", "", "NoExecute"),
            Taint("a", "", "NoSchedule"),
            False,
            id="another effect",
        ),
        pytest.param(Toleration("a", "Gt", "5"), Taint("a", "7", "NoSchedule"), True, id="greater"),
        pytest.param(
            Toleration("a", "Gt", "5"), Taint("a", "5", "NoSchedule"), False, id="equal is not greater"
        ),
        pytest.param(Toleration("a", "Lt", "-5"), Taint("a", "-7", "NoSchedule"), True, id="less"),
        pytest.param(Toleration("a", "Lt", "5"), Taint("a", "04", "NoSchedule"), False, id="leading zero"),
        pytest.param(Toleration("a", "Lt", "5"), Taint("a", "low", "NoSchedule"), False, id="no number"),
        pytest.param(
            Toleration("a", "Near", "5"), Taint("a", "5", "NoSchedule"), False, id="unknown operator"
        ),
    ],
)
def test_tolerations(toleration: Toleration, taint: Taint, is_tolerated: bool) -> None:
    assert tolerates(toleration, taint) is is_tolerated


def test_a_node_selector_is_reported_with_what_the_node_has_instead() -> None:
    shop = cluster().node("a", labels={"disk": "hdd"}).node("b", labels={"disk": "ssd"}).node("c")
    shop.pod("shop/web", spec={"nodeSelector": {"disk": "ssd"}})
    assert fits(shop) == {"b"}
    refusal = only_refusal(shop, "a")
    assert refusal.reasons == ("node(s) didn't match Pod's node affinity/selector",)
    assert refusal.detail == "the pod selects disk=ssd, the node has disk=hdd"
    assert only_refusal(shop, "c").detail == "the pod selects disk=ssd, the node has none"


def asking_for(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("wanted", "nodes"),
    [
        pytest.param(expression("gen", "In", "3", "5"), {"three", "five"}, id="in"),
        pytest.param(expression("gen", "NotIn", "3"), {"five", "nine", "next", "none"}, id="not in"),
        pytest.param(expression("gen", "Exists"), {"three", "five", "nine", "next"}, id="exists"),
        pytest.param(expression("gen", "DoesNotExist"), {"none"}, id="does not exist"),
        pytest.param(expression("gen", "Gt", "3"), {"five", "nine"}, id="greater"),
        pytest.param(expression("gen", "Lt", "5"), {"three"}, id="less"),
        pytest.param(expression("gen", "Gt", "many"), set(), id="not a number"),
        pytest.param(expression("gen", "Like", "3"), set(), id="unknown operator"),
    ],
)
def test_operators_of_node_affinity(wanted: dict[str, Any], nodes: set[str]) -> None:
    shop = cluster().node("none")
    for name, generation in (("three", "3"), ("five", "5"), ("nine", "9"), ("next", "next")):
        shop.node(name, labels={"gen": generation})
    assert fits(shop.pod("shop/web", spec=asking_for({"matchExpressions": [wanted]}))) == nodes


def test_one_term_of_a_node_affinity_is_enough_but_it_must_hold_whole() -> None:
    shop = cluster().node("a", labels={"disk": "ssd"}).node("b", labels={"zone": "east"})
    shop.node("c", labels={"disk": "ssd", "zone": "east"})
    both = [expression("disk", "In", "ssd"), expression("zone", "In", "east")]
    assert fits(shop.pod("shop/web", spec=asking_for({"matchExpressions": both}))) == {"c"}
    either = [{"matchExpressions": [each]} for each in both]
    assert fits(shop.pod("shop/web", spec=asking_for(*either))) == {"a", "b", "c"}


def test_terms_without_conditions_match_no_node() -> None:
    assert fits(cluster().node("a").pod("shop/web", spec=asking_for({}))) == set()
    assert fits(cluster().node("a").pod("shop/web", spec=asking_for())) == set()


def test_nodes_by_name() -> None:
    shop = cluster().nodes("a", "b", "c")
    field = expression("metadata.name", "In", "b")
    shop.pod("shop/web", spec=asking_for({"matchFields": [field]}))
    assert fits(shop) == {"b"}
    refusal = only_refusal(shop, "a")
    assert refusal.reasons == ("node(s) didn't satisfy plugin(s) [NodeAffinity]",)
    assert refusal.detail == "the affinity allows only b"
    shop.pod("shop/web", spec=asking_for({"matchFields": [expression("metadata.name", "NotIn", "b")]}))
    assert fits(shop) == {"a", "c"}
    shop.pod("shop/web", spec=asking_for({"matchFields": [field, expression("metadata.name", "In", "a")]}))
    assert only_refusal(shop, "a").reasons == ("pod affinity terms conflict",)


def test_resources_are_reported_with_numbers() -> None:
    shop = cluster().node("a", cpu="8", memory="4Gi", pods=2, more={"example.com/gpu": "2"})
    shop.pod("shop/other", on="a", cpu="6500m", memory="3Gi", more={"example.com/gpu": "2"})
    shop.pod("shop/more", on="a", cpu="0", memory="0")
    shop.pod("shop/web", cpu="2", memory="2Gi", more={"example.com/gpu": "1"})
    assert fits(shop) == set()
    refusal = only_refusal(shop, "a")
    assert refusal.reasons == (
        "Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient example.com/gpu",
    )  # fmt: skip
    assert refusal.detail == (
        "runs 2 of 2 pods, requests 2000m cpu, 1500m of 8000m free, "
        "requests 2048Mi memory, 1024Mi of 4096Mi free, requests 1 example.com/gpu, 0 of 2 free"
    )


def test_a_pod_fits_when_free_equals_request() -> None:
    shop = cluster().node("a", cpu="2").pod("shop/other", on="a", cpu="1500m").pod("shop/web", cpu="500m")
    assert fits(shop) == {"a"}


def test_a_pod_does_not_fit_when_one_of_its_requests_is_more_than_is_free() -> None:
    shop = cluster().node("a", cpu="2", memory="1Gi").node("b", cpu="1", memory="4Gi")
    assert fits(shop.pod("shop/web", cpu="2", memory="2Gi")) == set()


def test_what_a_pod_does_not_ask_for_can_be_overdrawn() -> None:
    shop = cluster().node("a", cpu="2", memory="1Gi").pod("shop/other", on="a", cpu="3", memory="0")
    assert fits(shop.pod("shop/web", cpu="0", memory="1Gi")) == {"a"}


@pytest.mark.parametrize(
    ("taken", "wanted", "collides"),
    [
        pytest.param({}, {}, True, id="every address twice"),
        pytest.param({"hostIP": "10.0.0.1"}, {}, True, id="every address includes one"),
        pytest.param({}, {"hostIP": "10.0.0.1"}, True, id="one is included in every address"),
        pytest.param({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}, False, id="two addresses"),
        pytest.param({"protocol": "UDP"}, {}, False, id="two protocols"),
        pytest.param({"hostPort": 81}, {}, False, id="two ports"),
    ],
)
def test_host_ports(taken: dict[str, Any], wanted: dict[str, Any], collides: bool) -> None:
    def listening(port: dict[str, Any]) -> dict[str, Any]:
        ports = [{"containerPort": 80, "hostPort": 80, **port}]
        return {"containers": [{"name": "app", "image": "none", "ports": ports}]}

    shop = cluster().nodes("a", "b").pod("shop/other", on="a", spec=listening(taken))
    shop.pod("shop/web", spec=listening(wanted))
    assert fits(shop) == ({"b"} if collides else {"a", "b"})
    if collides:
        refusal = only_refusal(shop, "a")
        assert refusal.reasons == ("node(s) didn't have free ports for the requested pod ports",)
        assert refusal.detail == "requests host port 80/TCP, used by shop/other"


def test_a_node_must_declare_every_feature_that_the_pod_needs() -> None:
    restarts = "RestartAllContainersOnContainerExits"
    shop = cluster().node("old")
    for name, features in (("half", [restarts]), ("new", [restarts, "UserNamespacesHostNetworkSupport"])):
        shop.node(name, status={"declaredFeatures": features})
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    containers = [{"name": "app", "image": "none", "restartPolicyRules": [rule]}]
    shop.pod("shop/web", spec={"hostNetwork": True, "hostUsers": False, "containers": containers})
    assert fits(shop) == {"new"}
    refusal = only_refusal(shop, "half")
    assert refusal.reasons == ("node(s) didn't match Pod's required features",)
    assert refusal.detail == "the node does not declare UserNamespacesHostNetworkSupport"


def test_all_rules_that_refuse_are_reported_in_the_schedulers_order() -> None:
    shop = cluster().node("a", cpu="1", cordoned=True, ready=False, taints=["old:NoSchedule"])
    shop.pod("shop/web", on="a", cpu="2", spec={"nodeSelector": {"disk": "ssd"}})
    assert list(refusals(shop, "a")) == [
        SchedulerRule.NODE_UNSCHEDULABLE,
        SchedulerRule.TAINT_TOLERATION,
        SchedulerRule.NODE_AFFINITY,
        SchedulerRule.NODE_RESOURCES,
        SchedulerRule.NODE_READY,
        SchedulerRule.ALREADY_HERE,
    ]
