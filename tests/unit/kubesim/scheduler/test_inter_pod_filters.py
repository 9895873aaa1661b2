"""Filters between pods: affinity, anti-affinity and topology spread."""

from typing import Any

import pytest

from tests.unit.kubesim.scheduler.conftest import node, pod, required, why_not

Object = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
FAR = ["node(s) didn't match pod affinity rules"]
NEAR = ["node(s) didn't match pod anti-affinity rules"]
ANTI_AFFINITY = ["node(s) didn't satisfy existing pods anti-affinity rules"]
UNEVEN = ["node(s) didn't match pod topology spread constraints"]
NO_DOMAIN = ["node(s) didn't match pod topology spread constraints (missing required label)"]
WEB = {"app": "web"}
NODES = (node("n1", zone="east"), node("n2", zone="east"), node("n3", zone="west"))


def term(key: str = ZONE, app: str = "web", **more: Any) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def web(on: str, name: str = "web", **more: Any) -> Object:
    return pod(name, on=on, labels=WEB, **more)


@pytest.mark.parametrize(
    ("wanted", "there", "reasons"),
    [
        pytest.param(term(HOST), "n1", [], id="on the node itself"),
        pytest.param(term(HOST), "n2", FAR, id="only beside it"),
        pytest.param(term(ZONE), "n2", [], id="in the zone"),
        pytest.param(term(ZONE), "n3", FAR, id="in another zone"),
        pytest.param(term("absent"), "n1", FAR, id="by a label that no node has"),
        pytest.param(term(ZONE, labelSelector=None), "n1", FAR, id="a missing selector matches no pod"),
    ],
)
def test_affinity(wanted: Object, there: str, reasons: list[str]) -> None:
    assert why_not(pod(affinity=required("podAffinity", wanted)), *NODES, web(there)) == reasons


def test_the_first_of_a_group_may_go_anywhere_that_has_the_label() -> None:
    first = pod(labels=WEB, affinity=required("podAffinity", term()))
    assert why_not(first, *NODES) == []
    assert why_not(first, node("n1")) == FAR, "but there must be a zone"
    assert why_not(first, *NODES, web("n3")) == FAR, "and it must be the first"
    assert why_not(pod(affinity=required("podAffinity", term())), *NODES) == FAR, "and one of the group"


def test_all_terms_must_be_met_by_the_same_pods() -> None:
    both = required("podAffinity", term(HOST), term(ZONE, "db"))
    apart = (web("n1"), pod("db", on="n1", labels={"app": "db"}))
    assert why_not(pod(affinity=both), *NODES, *apart) == FAR
    together = required("podAffinity", term(HOST), term(ZONE))
    assert why_not(pod(affinity=together), *NODES, web("n1")) == []


@pytest.mark.parametrize(
    ("wanted", "there", "reasons"),
    [
        pytest.param(term(HOST), "n1", NEAR, id="on the node itself"),
        pytest.param(term(HOST), "n2", [], id="beside it"),
        pytest.param(term(ZONE), "n2", NEAR, id="in the zone"),
        pytest.param(term("absent"), "n1", [], id="by a label that no node has"),
    ],
)
def test_anti_affinity(wanted: Object, there: str, reasons: list[str]) -> None:
    assert why_not(pod(affinity=required("podAntiAffinity", wanted)), *NODES, web(there)) == reasons


def test_pods_that_run_may_refuse_their_new_neighbour() -> None:
    anti_affine = pod("anti-affine", on="n2", affinity=required("podAntiAffinity", term(ZONE)))
    assert why_not(pod(labels=WEB), *NODES, anti_affine) == ANTI_AFFINITY
    assert why_not(pod(labels={"app": "db"}), *NODES, anti_affine) == []
    assert why_not(pod(labels=WEB), *NODES, anti_affine, on="n3") == []


def namespace(name: str, **labels: str) -> Object:
    return {"kind": "Namespace", "metadata": {"name": name, "labels": labels}}


@pytest.mark.parametrize(
    ("more", "near"),
    [
        pytest.param({}, False, id="only its own namespace"),
        pytest.param({"namespaces": ["shop"]}, True, id="namespaces by name"),
        pytest.param({"namespaces": ["other"]}, False, id="other namespaces by name"),
        pytest.param({"namespaceSelector": {}}, True, id="an empty selector means every namespace"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "red"}}}, True, id="by its labels"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, False, id="by other labels"),
        pytest.param({"namespaces": ["shop"], "namespaceSelector": {"matchLabels": {"team": "blue"}}}, True,
                     id="by name or by labels"),
    ],
)  # fmt: skip
def test_whose_namespaces_are_meant(more: Object, near: bool) -> None:
    wanted = required("podAntiAffinity", term(**more))
    objects = (*NODES, namespace("shop", team="red"), namespace("default"))
    assert why_not(pod(affinity=wanted), *objects, web("n1", namespace="shop")) == (NEAR if near else [])
    # Seen from the other side: the one that runs says what it means.
    anti_affine = pod("anti-affine", on="n1", affinity=wanted)
    asking = pod(labels=WEB, namespace="shop")
    assert why_not(asking, *objects, anti_affine) == (ANTI_AFFINITY if near else [])


def spread(key: str = ZONE, skew: int = 1, **more: Any) -> Object:
    return {
        "topologySpreadConstraints": [
            {
                "topologyKey": key,
                "maxSkew": skew,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": WEB},
                **more,
            }
        ]
    }


def asking(**constraint: Any) -> Object:
    return pod(labels=WEB, **spread(**constraint))


def test_no_domain_gets_much_fuller_than_the_emptiest() -> None:
    assert why_not(asking(), *NODES) == []
    assert why_not(asking(), *NODES, web("n2")) == UNEVEN
    assert why_not(asking(), *NODES, web("n2"), on="n3") == []
    assert why_not(asking(skew=2), *NODES, web("n2")) == []
    assert why_not(asking(), *NODES, web("n2"), web("n3", "b")) == []
    assert why_not(asking(whenUnsatisfiable="ScheduleAnyway"), *NODES, web("n2")) == []


def test_a_pod_that_is_not_counted_itself_adds_nothing() -> None:
    assert why_not(pod(**spread()), *NODES, web("n2")) == []


def test_a_node_without_the_label_is_no_domain() -> None:
    assert why_not(asking(), node("n1"), node("n2", zone="east")) == NO_DOMAIN


def test_pods_that_end_and_pods_of_other_namespaces_are_not_counted() -> None:
    ending = web("n1")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert why_not(asking(), *NODES, ending) == []
    assert why_not(asking(), *NODES, web("n1", namespace="other")) == []


def test_too_few_domains_count_as_if_one_were_empty() -> None:
    full = (web("n1"), web("n3", "b"))
    assert why_not(asking(minDomains=2), *NODES, *full) == []
    assert why_not(asking(minDomains=3), *NODES, *full) == UNEVEN


def test_nodes_that_the_pod_does_not_want_are_no_domains_unless_configured() -> None:
    east = {"nodeSelector": {ZONE: "east"}}
    constraint = spread()
    assert why_not(pod(labels=WEB, **east, **constraint), *NODES, web("n1")) == []
    constraint = spread(nodeAffinityPolicy="Ignore")
    assert why_not(pod(labels=WEB, **east, **constraint), *NODES, web("n1")) == UNEVEN


def test_tainted_nodes_are_domains_unless_configured_otherwise() -> None:
    west = node("n3", zone="west", taints=[{"key": "a", "effect": "NoSchedule"}])
    nodes = (*NODES[:2], west)
    assert why_not(asking(), *nodes, web("n1")) == UNEVEN
    assert why_not(asking(nodeTaintsPolicy="Honor"), *nodes, web("n1")) == []


def test_label_keys_narrow_down_whom_to_count() -> None:
    old, new = {**WEB, "hash": "1"}, {**WEB, "hash": "2"}
    constraint = spread(matchLabelKeys=["hash"])
    assert why_not(pod(labels=new, **constraint), *NODES, pod("o", on="n1", labels=old)) == []
    assert why_not(pod(labels=new, **constraint), *NODES, pod("o", on="n1", labels=new)) == UNEVEN


def test_an_empty_selector_counts_only_the_pod_itself() -> None:
    assert why_not(asking(labelSelector={}), *NODES, web("n1"), web("n1", "b")) == []


def test_nodes_must_have_the_labels_of_all_constraints_to_be_counted() -> None:
    constraints = [*spread()["topologySpreadConstraints"], *spread("disk")["topologySpreadConstraints"]]
    nodes = (node("n1", zone="east", disk="ssd"), node("n3", zone="west"))
    # West is empty, but has no disk label: so east is the only domain, and the emptiest.
    assert why_not(pod(labels=WEB, topologySpreadConstraints=constraints), *nodes, web("n1")) == []
