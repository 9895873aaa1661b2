"""Node autoscalers: how they are recognized, and which nodes they are about to remove."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.cluster.node_autoscalers import (
    NO_SIGNS,
    AutoscalerSigns,
    Consolidation,
    consolidation_of,
    detect_autoscalers,
    parse_status_time,
)
from rescheduler.cluster.node_record import MAINTENANCE_CONDITIONS, leaving_because
from rescheduler.config.policy import NodeAutoscaler
from tests.building import LONG_AGO, NOW
from tests.building import node_record as record_of
from tests.objects import node_object

POOL = {"karpenter.sh/nodepool": "general"}
KARPENTER, CLUSTER_AUTOSCALER = NodeAutoscaler.KARPENTER, NodeAutoscaler.CLUSTER_AUTOSCALER
RUNNING = AutoscalerSigns(status_updated_s=NOW - 10)


def node_record(name, **parts):
    return record_of(node_object(name, **parts))


def found(*nodes, signs=NO_SIGNS):
    return detect_autoscalers(nodes, signs, NOW)


def test_no_autoscaler_is_found_in_a_cluster_without_one():
    autoscalers = found(node_record("a"))
    assert not autoscalers.evidence
    assert autoscalers.removal_of(node_record("a")).why == "no node autoscaler was found"


def test_karpenter_is_recognized_by_its_api_and_by_its_nodes():
    by_api = found(node_record("a"), signs=AutoscalerSigns(node_pools={"general": Consolidation.NEVER}))
    by_nodes = found(node_record("a", labels=POOL), node_record("b"))
    assert by_api.evidence == {KARPENTER: "1 NodePool"}
    assert by_nodes.evidence == {KARPENTER: "1 node"}


@pytest.mark.parametrize(
    ("parts", "evidence"),
    [
        pytest.param(
            {"taints": [{"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}]},
            "its taint on 1 node",
            id="a taint",
        ),
        pytest.param(
            {"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}},
            "its annotation on 1 node",
            id="an annotation",
        ),
    ],
)
def test_the_cluster_autoscaler_is_recognized_by_its_marks_on_nodes(parts, evidence):
    assert found(node_record("a", **parts)).evidence == {CLUSTER_AUTOSCALER: evidence}


def test_the_cluster_autoscaler_is_recognized_by_a_status_that_is_not_stale():
    assert CLUSTER_AUTOSCALER in found(node_record("a"), signs=RUNNING).evidence
    stale = AutoscalerSigns(status_updated_s=NOW - 3600)
    assert not found(node_record("a"), signs=stale).evidence, "it was uninstalled an hour ago"


@pytest.mark.parametrize(
    ("node", "by"),
    [
        pytest.param(node_record("a", labels=POOL), KARPENTER, id="a node of a NodePool: Karpenter"),
        pytest.param(node_record("a"), CLUSTER_AUTOSCALER, id="any other node: the cluster autoscaler"),
        pytest.param(
            node_record("a", labels=POOL, annotations={"karpenter.sh/do-not-disrupt": "true"}),
            None,
            id="no one, with do-not-disrupt on the node",
        ),
        pytest.param(
            node_record("a", annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}),
            None,
            id="no one, with scale-down-disabled",
        ),
        pytest.param(
            node_record("a", labels={"karpenter.sh/nodepool": "fixed"}),
            None,
            id="no one, if the NodePool never consolidates",
        ),
    ],
)
def test_who_removes_a_node(node, by):
    signs = AutoscalerSigns({"general": Consolidation.WHEN_EMPTY, "fixed": Consolidation.NEVER}, NOW)
    assert found(node, signs=signs).removal_of(node).by is by


def test_the_configuration_overrides_what_was_found():
    node = node_record("a", labels=POOL)
    autoscalers = found(node)
    assert autoscalers.as_configured(NodeAutoscaler.AUTO) == autoscalers
    assert autoscalers.as_configured(NodeAutoscaler.NONE).removal_of(node).by is None
    assert autoscalers.as_configured(NodeAutoscaler.OTHER).removal_of(node).by is NodeAutoscaler.OTHER


@pytest.mark.parametrize(
    ("spec", "consolidation"),
    [
        pytest.param({}, Consolidation.WHEN_UNDERUTILIZED, id="Karpenter's default"),
        pytest.param(
            {"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}},
            Consolidation.WHEN_EMPTY,
            id="when empty",
        ),
        pytest.param(
            {"disruption": {"consolidationPolicy": "Balanced"}},
            Consolidation.WHEN_UNDERUTILIZED,
            id="Balanced removes under-used nodes, too",
        ),
        pytest.param(
            {"disruption": {"consolidateAfter": "Never"}}, Consolidation.NEVER, id="consolidateAfter: Never"
        ),
        pytest.param({"replicas": 3}, Consolidation.NEVER, id="a static NodePool"),
        pytest.param({"disruption": "?"}, Consolidation.WHEN_UNDERUTILIZED, id="what can't be read"),
    ],
)
def test_when_a_node_pool_consolidates(spec, consolidation):
    assert consolidation_of({"metadata": {"name": "p"}, "spec": spec}) is consolidation


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-03-02 12:00:00.354884346 +0000 UTC", NOW),
        ("2026-03-02 13:00:00 +0100 CET", NOW),
        ("2026-13-99 12:00:00 +0000 UTC", None),
        ("", None),
    ],
)
def test_the_time_of_the_status(text, seconds):
    name = "cluster-autoscaler.kubernetes.io/last-updated"
    assert parse_status_time({"metadata": {"annotations": {name: text}}}) == seconds


@given(st.text(max_size=60))
def test_any_text_may_stand_where_the_time_should_be(text):
    name = "cluster-autoscaler.kubernetes.io/last-updated"
    parse_status_time({"metadata": {"annotations": {name: text}}})


# -- nodes that are about to go


@pytest.mark.parametrize(
    "key", ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"]
)
@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule"])
def test_a_node_with_a_removal_taint_is_leaving(key, effect):
    assert leaving_because(node_record("a", taints=[{"key": key, "effect": effect}])) == (
        f"is being removed (taint {key})"
    )


@pytest.mark.parametrize("kind", MAINTENANCE_CONDITIONS)
def test_a_node_with_a_maintenance_condition_is_leaving_while_it_is_true(kind):
    def node(status):
        return node_record("a", status={"conditions": [{"type": kind, "status": status}]})

    assert leaving_because(node("True")) == f"has the condition {kind}"
    assert leaving_because(node("False")) == ""


def test_a_deleted_node_is_leaving():
    item = node_object("a")
    assert leaving_because(record_of(item)) == ""
    item["metadata"]["deletionTimestamp"] = LONG_AGO
    assert leaving_because(record_of(item)) == "is being deleted"
