"""Which handover is chosen for a pod, and why."""

import dataclasses

import pytest

from rescheduler.api.podmigration import Handover
from rescheduler.config.policy import Policy
from rescheduler.planner.handover_choice import HandoverChoice, HandoverChooser, ImpossibleHandover
from rescheduler.planner.reasons import Reason
from tests.building import ClusterBuilder, cluster

POD = "shop/web-1-0"


def choice(
    built: ClusterBuilder, pod: str = POD, **handovers: Handover
) -> HandoverChoice | ImpossibleHandover:
    snapshot = built.snapshot()
    row = snapshot.pods.row[pod]
    policy = dataclasses.replace(Policy(), handovers=handovers)
    shared = snapshot.classes[snapshot.pods.pod_class[row]]
    return HandoverChooser(snapshot, policy).choose(snapshot.pods.records[row], shared)


def chosen(built: ClusterBuilder, pod: str = POD, **handovers: Handover) -> Handover | Reason:
    found = choice(built, pod, **handovers)
    return found.handover if isinstance(found, HandoverChoice) else found.reason


def web(**parts) -> ClusterBuilder:
    return cluster().nodes("a", "b").deployment("shop/web", **{"replicas": 2, "on": ["a", "b"], **parts})


def data(modes: list[str]) -> ClusterBuilder:
    return (
        web(claims=["data"])
        .claim("shop/data", volume="disk", modes=modes)
        .volume("disk", claim="shop/data", modes=modes)
    )


STRATEGIES = [
    pytest.param({"type": "Recreate"}, 2, Handover.EVICT, id="Recreate says never one more"),
    pytest.param(
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}},
        2,
        Handover.EVICT,
        id="no surge: never one more",
    ),
    pytest.param(
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "1%"}},
        1,
        Handover.ADOPT,
        id="any surge rounds up to one",
    ),
]


@pytest.mark.parametrize(("strategy", "replicas", "handover"), STRATEGIES)
def test_adopt_where_the_deployment_tolerates_one_more(strategy, replicas, handover):
    assert chosen(web(strategy=strategy, replicas=replicas)) is handover


def test_adopt_for_a_replica_set_of_its_own():
    assert chosen(cluster().node("a").replica_set("shop/web-1", replicas=1, on=["a"])) is Handover.ADOPT


@pytest.mark.parametrize(
    ("modes", "handover"),
    [
        pytest.param(["ReadWriteOnce"], Handover.EVICT, id="one node at a time"),
        pytest.param(["ReadWriteOncePod"], Handover.EVICT, id="one pod at a time"),
        pytest.param(["ReadWriteMany"], Handover.ADOPT, id="from everywhere"),
        pytest.param(["ReadWriteOnce", "ReadWriteMany"], Handover.ADOPT, id="from everywhere as well"),
    ],
)
def test_a_claim_that_only_one_node_can_use_rules_out_a_copy(modes, handover):
    assert chosen(data(modes)) is handover


def test_a_volume_that_is_made_for_the_pod_is_no_hindrance():
    built = web(volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
    built.claim("shop/web-1-0-scratch", volume="v").volume("v", claim="shop/web-1-0-scratch")
    assert chosen(built) is Handover.ADOPT


def test_pods_of_stateful_sets_and_jobs_are_evicted():
    built = cluster().node("a").stateful_set("shop/db", on=["a"]).job("shop/report", on=["a"])
    assert chosen(built, "shop/db-0") is Handover.EVICT
    assert chosen(built, "shop/report-0") is Handover.EVICT


def test_a_bare_pod_is_copied():
    assert chosen(cluster().node("a").pod("shop/tool", on="a"), "shop/tool") is Handover.COPY


def test_a_bare_pod_whose_claim_no_copy_can_use_can_not_be_moved():
    built = cluster().node("a").pod("shop/tool", on="a", claims=["data"])
    built.claim("shop/data", volume="disk").volume("disk", claim="shop/data")
    assert chosen(built, "shop/tool") is Reason.HANDOVER_IMPOSSIBLE


def test_a_rollout_is_not_disturbed():
    assert chosen(web(status={"updatedReplicas": 1})) is Reason.ROLLING_OUT
    waiting = cluster().node("a").stateful_set("shop/db", on=["a"], status={"updateRevision": "2"})
    assert chosen(waiting, "shop/db-0") is Reason.ROLLING_OUT


def test_a_rollout_is_disturbed_where_evict_is_asked_for():
    assert chosen(web(status={"updatedReplicas": 1}), Deployment=Handover.EVICT) is Handover.EVICT
    assert chosen(web(status={"updatedReplicas": 1}), Deployment=Handover.ADOPT) is Reason.ROLLING_OUT


# --- owners


def test_a_replica_set_of_a_stranger_is_unknown():
    built = cluster().node("a").replica_set("shop/web-1", on=["a"], owner="Rollout/web")
    found = choice(built)
    assert isinstance(found, ImpossibleHandover)
    assert (found.reason, found.by) == (Reason.OWNER_UNKNOWN, "Rollout/web")
    assert chosen(built, ReplicaSet=Handover.ADOPT) is Reason.OWNER_UNKNOWN


@pytest.mark.parametrize("kind", ["Rollout", "Rollout.apps"])
def test_a_handover_for_the_stranger_makes_it_known(kind):
    built = cluster().node("a").replica_set("shop/web-1", on=["a"], owner="Rollout/web")
    assert chosen(built, **{kind: Handover.ADOPT}) is Handover.ADOPT
    assert chosen(built, **{kind: Handover.AUTO}) is Handover.EVICT


def test_an_owner_that_is_gone_is_unknown():
    built = web().pod("shop/orphan", on="a", owner="ReplicaSet/gone")
    assert chosen(built, "shop/orphan") is Reason.OWNER_UNKNOWN


def test_without_workloads_the_handover_follows_the_kind_of_the_owner_and_says_so():
    built = cluster().node("a")
    for name, kind in (("web-1-0", "ReplicaSet"), ("db-0", "StatefulSet")):
        built.pod(f"shop/{name}", on="a", owner=f"{kind}/{name[:-2]}")
    adopt, evict = choice(built), choice(built, "shop/db-0")
    assert isinstance(adopt, HandoverChoice)
    assert isinstance(evict, HandoverChoice)
    assert (adopt.handover, evict.handover) == (Handover.ADOPT, Handover.EVICT)
    assert adopt.assumed == evict.assumed
    assert "no workloads" in adopt.assumed


def test_with_workloads_nothing_is_assumed():
    found = choice(web())
    assert isinstance(found, HandoverChoice)
    assert found.assumed == ""


# --- forced


def test_the_annotation_on_the_workload_overrules_the_configuration():
    asked = {"rescheduler.dev/handover": "Evict"}
    assert chosen(web(annotations=asked), Deployment=Handover.ADOPT) is Handover.EVICT


def test_adopt_can_be_asked_for_where_no_surge_is_allowed():
    recreate = web(strategy={"type": "Recreate"})
    assert chosen(recreate, Deployment=Handover.ADOPT) is Handover.ADOPT
    assert chosen(recreate, ReplicaSet=Handover.ADOPT) is Handover.ADOPT


def test_an_annotation_that_names_no_handover_is_reported():
    found = choice(web(annotations={"rescheduler.dev/handover": "Teleport"}))
    assert isinstance(found, ImpossibleHandover)
    assert found.reason is Reason.HANDOVER_IMPOSSIBLE
    assert '"Teleport" is not one of Auto, Adopt, Copy, Evict' in found.detail


@pytest.mark.parametrize(
    ("pod", "kind", "asked"),
    [
        pytest.param("shop/db-0", "StatefulSet", Handover.ADOPT, id="a StatefulSet adopts no pods"),
        pytest.param(
            "shop/db-0", "StatefulSet", Handover.COPY, id="a copy would be one more than the controller wants"
        ),
        pytest.param("shop/tool", "Pod", Handover.EVICT, id="no controller would replace it"),
        pytest.param("shop/tool", "Pod", Handover.ADOPT, id="there is no controller to adopt it"),
    ],
)
def test_what_can_not_be_done_is_refused_even_if_asked_for(pod, kind, asked):
    built = cluster().node("a").stateful_set("shop/db", on=["a"]).pod("shop/tool", on="a")
    assert chosen(built, pod, **{kind: asked}) is Reason.HANDOVER_IMPOSSIBLE


def test_adopt_with_a_claim_that_a_copy_can_not_use_is_refused_even_if_asked_for():
    assert chosen(data(["ReadWriteOnce"]), Deployment=Handover.ADOPT) is Reason.HANDOVER_IMPOSSIBLE


def test_the_annotation_on_a_bare_pod_is_its_own():
    tools = cluster().node("a").pod("shop/tool", on="a", annotations={"rescheduler.dev/handover": "Evict"})
    assert chosen(tools, "shop/tool") is Reason.HANDOVER_IMPOSSIBLE
