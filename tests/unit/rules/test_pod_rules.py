"""Rules between pods: affinity and anti-affinity both ways, topology spread; with the source and without."""

from typing import Any

import pytest

from rescheduler.rules.placement import Placement
from rescheduler.rules.rule_check import SchedulerRule
from tests.building import ClusterBuilder, cluster
from tests.unit.rules.rule_answers import fits, only_refusal

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
UNREADABLE = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["db"]}]}


def zones() -> ClusterBuilder:
    """Two nodes in the east, two in the west, one nowhere."""
    found = cluster().namespace("shop").namespace("bank", team="red")
    for name, zone in (("e1", "east"), ("e2", "east"), ("w1", "west"), ("w2", "west")):
        found.node(name, labels={ZONE: zone})
    return found.node("off")


def term(key: str = ZONE, selector: Any = None, **more: Any) -> dict[str, Any]:
    meant = {"matchLabels": {"app": "db"}} if selector is None else selector
    return {"topologyKey": key, "labelSelector": meant, **more}


def together(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def test_affinity_leads_to_the_domain_of_a_match() -> None:
    shop = zones().pod("shop/db", on="e1", labels={"app": "db"}).pod("shop/web", spec=together(term()))
    assert fits(shop) == {"e1", "e2"}
    refusal = only_refusal(shop, "w1")
    assert refusal.reasons == ("node(s) didn't match pod affinity rules",)
    assert refusal.detail == f"requires affinity to app=db: 0 pods in {ZONE}=west"


def test_one_pod_must_match_all_terms_of_an_affinity() -> None:
    back = term(HOST, {"matchLabels": {"tier": "back"}})
    shop = (
        zones()
        .pod("shop/db", on="e1", labels={"app": "db"})
        .pod("shop/api", on="e1", labels={"tier": "back"})
    )
    assert fits(shop.pod("shop/web", spec=together(term(), back))) == set()
    shop.pod("shop/both", on="w1", labels={"app": "db", "tier": "back"})
    assert fits(shop.pod("shop/web", spec=together(term(), back))) == {"w1"}


def test_the_first_of_pods_that_want_to_be_together_may_go_anywhere_with_the_label() -> None:
    shop = zones().pod("shop/web", labels={"app": "db"}, spec=together(term()))
    assert fits(shop) == {"e1", "e2", "w1", "w2"}
    shop.pod("shop/second", on="w1", labels={"app": "db"})
    assert fits(shop) == {"w1", "w2"}


def test_a_pod_alone_in_its_series_may_leave_its_domain_only_without_its_source() -> None:
    shop = zones().pod("shop/web", on="e1", labels={"app": "db"}, spec=together(term()))
    assert fits(shop, source_stays=True) == {"e2"}
    assert fits(shop, source_stays=False) == {"e2", "w1", "w2"}


def test_anti_affinity_keeps_out_of_the_domain_of_a_match() -> None:
    shop = zones().pod("shop/db", on="e1", labels={"app": "db"}).pod("shop/web", spec=apart(term()))
    assert fits(shop) == {"w1", "w2", "off"}
    refusal = only_refusal(shop, "e2")
    assert refusal.reasons == ("node(s) didn't match pod anti-affinity rules",)
    assert refusal.detail == f"requires anti-affinity to app=db: 1 pods in {ZONE}=east"


def test_a_selector_may_mean_every_pod_or_none() -> None:
    """A cluster has many kinds of pods: all of them count."""
    shop = zones()
    for number in range(40):
        shop.pod(f"shop/other-{number}", on="e1", cpu="1m", labels={"number": str(number)})
    shop.pod("shop/web", spec=apart(term(selector={})))
    assert fits(shop) == {"w1", "w2", "off"}
    assert only_refusal(shop, "e2").detail == f"requires anti-affinity to every pod: 40 pods in {ZONE}=east"
    none = {"topologyKey": ZONE}
    assert fits(shop.pod("shop/web", spec=apart(none))) == {"e1", "e2", "w1", "w2", "off"}
    shop.pod("shop/web", spec=together(none))
    assert only_refusal(shop, "e1").detail == f"requires affinity to no pod: 0 pods in {ZONE}=east"


def test_pods_that_are_there_keep_others_away_as_well() -> None:
    shop = zones().pod("shop/db", on="e1", spec=apart(term(HOST, {"matchLabels": {"app": "web"}})))
    shop.pod("shop/web", labels={"app": "web"})
    assert fits(shop) == {"e2", "w1", "w2", "off"}
    assert only_refusal(shop, "e1").reasons == ("node(s) didn't satisfy existing pods anti-affinity rules",)


def test_a_pod_that_keeps_its_own_kind_away_is_in_its_own_way_as_long_as_it_stays() -> None:
    shop = zones().pod("shop/web", on="e1", labels={"app": "db"}, spec=apart(term()))
    assert fits(shop, source_stays=True) == {"w1", "w2", "off"}
    assert fits(shop, source_stays=False) == {"e2", "w1", "w2", "off"}


@pytest.mark.parametrize(
    ("more", "is_meant"),
    [
        pytest.param({}, False, id="its own namespace"),
        pytest.param({"namespaces": ["bank"]}, True, id="by name"),
        pytest.param({"namespaceSelector": {}}, True, id="every namespace"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "red"}}}, True, id="by labels"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, False, id="by other labels"),
        pytest.param(
            {"namespaces": ["bank"], "namespaceSelector": {"matchLabels": {"team": "blue"}}},
            True,
            id="either",
        ),
    ],
)
def test_namespaces_of_a_term_both_ways(more: dict[str, Any], is_meant: bool) -> None:
    away = {"w1", "w2", "off"} if is_meant else {"e1", "e2", "w1", "w2", "off"}
    theirs = zones().pod("bank/db", on="e1", labels={"app": "db"})
    assert fits(theirs.pod("shop/web", spec=apart(term(**more)))) == away
    ours = zones().pod("shop/web", on="e1", spec=apart(term(**more)))
    assert fits(ours.pod("bank/db", labels={"app": "db"}), "bank/db") == away


@pytest.mark.parametrize(
    ("keys", "nodes"),
    [
        pytest.param({"matchLabelKeys": ["version"]}, {"w1", "w2", "off"}, id="the same value is meant"),
        pytest.param({"mismatchLabelKeys": ["version"]}, {"e1", "e2", "off"}, id="other values are meant"),
        pytest.param({"matchLabelKeys": ["absent"]}, {"off"}, id="a label that the pod has not says nothing"),
    ],
)
def test_label_keys_of_a_term(keys: dict[str, Any], nodes: set[str]) -> None:
    shop = zones().pod("shop/one", on="e1", labels={"app": "db", "version": "1"})
    shop.pod("shop/two", on="w1", labels={"app": "db", "version": "2"})
    assert fits(shop.pod("shop/web", labels={"version": "1"}, spec=apart(term(**keys)))) == nodes


def test_match_label_keys_use_the_labels_at_admission() -> None:
    """The API server merged them into the selector, so a label that changed later doesn't matter."""
    shop = zones().pod("shop/one", on="e1", labels={"app": "db", "version": "1"})
    shop.pod("shop/two", on="w1", labels={"app": "db", "version": "2"})
    admitted = term(selector={"matchLabels": {"app": "db", "version": "1"}}, matchLabelKeys=["version"])
    assert fits(shop.pod("shop/web", labels={"version": "2"}, spec=apart(admitted))) == {"w1", "w2", "off"}


def test_a_missing_selector_selects_no_pod_and_an_empty_one_all() -> None:
    shop = zones().pod("shop/db", on="e1")
    no_selector = {"topologyKey": ZONE}
    assert fits(shop.pod("shop/web", spec=apart(no_selector))) == {"e1", "e2", "w1", "w2", "off"}
    assert fits(shop.pod("shop/web", spec=apart(term(selector={})))) == {"w1", "w2", "off"}


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        pytest.param(together(term(selector=UNREADABLE)), SchedulerRule.POD_AFFINITY, id="affinity"),
        pytest.param(apart(term(selector=UNREADABLE)), SchedulerRule.POD_AFFINITY, id="anti-affinity"),
        pytest.param(
            {"topologySpreadConstraints": [{
                "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": UNREADABLE,
            }]},
            SchedulerRule.TOPOLOGY_SPREAD,
            id="spread",
        ),
    ],
)  # fmt: skip
def test_a_pod_whose_selector_cannot_be_read_fits_nowhere(spec: dict[str, Any], rule: SchedulerRule) -> None:
    shop = zones().pod("shop/web", spec=spec)
    assert fits(shop) == set()
    assert only_refusal(shop, "e1").rule is rule
    assert fits(shop.pod("shop/other"), "shop/other") == {"e1", "e2", "w1", "w2", "off"}


def spread(key: str = ZONE, **more: Any) -> dict[str, Any]:
    meant = {"labelSelector": {"matchLabels": {"app": "web"}}}
    return {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **meant, **more}


def spreading(*constraints: dict[str, Any]) -> dict[str, Any]:
    return {"topologySpreadConstraints": list(constraints)}


def webs(shop: ClusterBuilder, *nodes: str, **more: Any) -> ClusterBuilder:
    for number, node in enumerate(nodes):
        shop.pod(f"shop/web-{number}", on=node, labels={"app": "web"}, **more)
    return shop


def test_spread_keeps_out_of_the_fuller_domain_and_of_nodes_without_the_label() -> None:
    shop = webs(zones(), "e1").pod("shop/web", labels={"app": "web"}, spec=spreading(spread()))
    assert fits(shop) == {"w1", "w2"}
    refusal = only_refusal(shop, "e2")
    assert refusal.reasons == ("node(s) didn't match pod topology spread constraints",)
    assert refusal.detail == f"2 pods in {ZONE}=east with this one, at least 0 in every domain, maxSkew is 1"
    assert only_refusal(shop, "off").reasons == (
        "node(s) didn't match pod topology spread constraints (missing required label)",
    )


@pytest.mark.parametrize(
    ("constraint", "nodes"),
    [
        pytest.param(spread(maxSkew=2), {"e1", "e2", "w1", "w2"}, id="a larger skew"),
        pytest.param(
            spread(whenUnsatisfiable="ScheduleAnyway"), {"e1", "e2", "w1", "w2", "off"}, id="a preference"
        ),
        pytest.param(
            spread(labelSelector={}), {"e1", "e2", "w1", "w2"}, id="an empty selector counts no pods"
        ),
        pytest.param(spread(labelSelector=None), {"e1", "e2", "w1", "w2"}, id="no selector counts no pods"),
        pytest.param(spread(HOST), {"e2", "w1", "w2", "off"}, id="by node"),
        pytest.param(
            spread(matchLabelKeys=["version"]), {"e1", "e2", "w1", "w2"}, id="only pods of its own version"
        ),
    ],
)
def test_spread_constraints(constraint: dict[str, Any], nodes: set[str]) -> None:
    shop = webs(zones(), "e1")
    labels = {"app": "web", "version": "2"}
    assert fits(shop.pod("shop/web", labels=labels, spec=spreading(constraint))) == nodes


def test_a_pod_that_does_not_match_its_own_constraint_does_not_count_itself() -> None:
    shop = webs(zones(), "e1")
    assert fits(shop.pod("shop/web", labels={"app": "api"}, spec=spreading(spread()))) == {
        "e1", "e2", "w1", "w2",
    }  # fmt: skip


def test_with_fewer_domains_than_wanted_the_emptiest_counts_as_empty() -> None:
    shop = webs(zones(), "e1", "w1")
    labels = {"app": "web"}
    assert fits(shop.pod("shop/web", labels=labels, spec=spreading(spread(minDomains=2)))) == {
        "e1", "e2", "w1", "w2",
    }  # fmt: skip
    assert fits(shop.pod("shop/web", labels=labels, spec=spreading(spread(minDomains=3)))) == set()


def test_pods_that_are_being_deleted_count_for_affinity_but_not_for_spread() -> None:
    shop = webs(zones(), "e1", deleted="2026-03-02T12:00:00Z")
    assert fits(shop.pod("shop/web", labels={"app": "web"}, spec=spreading(spread()))) == {
        "e1",
        "e2",
        "w1",
        "w2",
    }
    meant = term(selector={"matchLabels": {"app": "web"}})
    assert fits(shop.pod("shop/web", spec=apart(meant))) == {"w1", "w2", "off"}


def test_nodes_that_a_policy_leaves_out_are_no_domains() -> None:
    shop = webs(zones(), "e1").node("s1", labels={ZONE: "south", "disk": "hdd"}, taints=["old:NoSchedule"])
    shop.pod("shop/web-w", on="w1", labels={"app": "web"})
    labels = {"app": "web"}
    everywhere = {"e1", "e2", "w1", "w2"}
    # The empty south counts as a domain as long as its taint is ignored.
    assert fits(shop.pod("shop/web", labels=labels, spec=spreading(spread()))) == set()
    honoring = spreading(spread(nodeTaintsPolicy="Honor"))
    assert fits(shop.pod("shop/web", labels=labels, spec=honoring)) == everywhere
    choosy = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["hdd"]}]}
    ]}}}}  # fmt: skip
    assert fits(shop.pod("shop/web", labels=labels, spec=spreading(spread()) | choosy)) == everywhere
    ignoring = spreading(spread(nodeAffinityPolicy="Ignore")) | choosy
    assert fits(shop.pod("shop/web", labels=labels, spec=ignoring)) == set()


def test_pods_that_require_other_nodes_have_other_domains() -> None:
    """Two pods with the same constraint: only one of them may run in the empty south."""
    shop = webs(zones(), "e1", "w1").node("s1", labels={ZONE: "south", "disk": "hdd"})
    shop.pod("shop/any", labels={"app": "web"}, spec=spreading(spread()))
    choosy = {"nodeSelector": {"disk": "ssd"}}
    shop.node("e1", labels={ZONE: "east", "disk": "ssd"}).node("w1", labels={ZONE: "west", "disk": "ssd"})
    shop.pod("shop/choosy", labels={"app": "web"}, spec=spreading(spread()) | choosy)
    snapshot = shop.snapshot()
    placement = Placement(snapshot)
    found = {
        name: [
            node.name
            for node, fit in zip(
                snapshot.nodes.records,
                placement.fits(snapshot.pods.row[f"shop/{name}"], source_stays=True),
                strict=True,
            )
            if fit
        ]
        for name in ("any", "choosy")
    }
    assert found == {"any": ["s1"], "choosy": ["e1", "w1"]}


def test_spread_judges_a_copy_beside_its_source_or_instead_of_it() -> None:
    shop = webs(zones(), "e1", "e2", "w1").pod(
        "shop/web-1", on="e2", labels={"app": "web"}, spec=spreading(spread())
    )
    assert fits(shop, "shop/web-1", source_stays=True) == {"w1", "w2"}
    assert fits(shop, "shop/web-1", source_stays=False) == {"e1", "w1", "w2"}
