"""Rules about volumes: topology, shared access, attach limits, and unknown objects."""

from typing import Any

import pytest

from rescheduler.rules.rule_check import SchedulerRule
from tests.building import ClusterBuilder, cluster
from tests.unit.rules.rule_answers import fits, only_refusal, refusals

ZONE = "topology.kubernetes.io/zone"
DRIVER = "disks.example.com"


def zones() -> ClusterBuilder:
    found = cluster()
    for name, zone in (("e1", "east"), ("e2", "east"), ("w1", "west")):
        found.node(name, labels={ZONE: zone})
    return found.storage_class("standard").storage_class("late", waits=True)


def test_a_bound_volume_is_only_reached_from_some_nodes() -> None:
    shop = zones().claim("shop/data", volume="pv-7").volume("pv-7", claim="shop/data", zones=["east"])
    shop.pod("shop/web", claims=["data"])
    assert fits(shop) == {"e1", "e2"}
    refusal = only_refusal(shop, "w1")
    assert refusal.rule is SchedulerRule.VOLUME_BINDING
    assert refusal.reasons == ("node(s) didn't match PersistentVolume's node affinity",)
    assert refusal.detail == f"claim shop/data is bound to pv-7, which is only available at {ZONE} In (east)"


def test_a_volume_with_match_fields() -> None:
    """The scheduler ignores matchFields of volumes, so every node can use it."""
    field = {"key": "metadata.name", "operator": "In", "values": ["e1"]}
    named = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": [field]}]}}}
    shop = zones().claim("shop/data", volume="pv-7").volume("pv-7", claim="shop/data", spec=named)
    assert fits(shop.pod("shop/web", claims=["data"])) == {"e1", "e2", "w1"}


def test_a_volume_in_zones_by_label() -> None:
    shop = zones().node("zoneless").claim("shop/data", volume="pv-7")
    shop.volume("pv-7", claim="shop/data", labels={ZONE: "east__south"}).pod("shop/web", claims=["data"])
    assert fits(shop) == {"e1", "e2", "zoneless"}
    refusal = only_refusal(shop, "w1")
    assert (refusal.rule, refusal.reasons) == (
        SchedulerRule.VOLUME_ZONE,
        ("node(s) had no available volume zone",),
    )
    assert refusal.detail == f"claim data is bound to pv-7 in {ZONE}=east or south"


def test_an_old_zone_label_is_found_under_the_new_one() -> None:
    old = "failure-domain.beta.kubernetes.io/zone"
    shop = zones().node("old", labels={old: "east"}).claim("shop/data", volume="pv-7")
    shop.volume("pv-7", claim="shop/data", labels={old: "east"}).pod("shop/web", claims=["data"])
    assert fits(shop) == {"e1", "e2", "old"}
    # Only nodes that have not the old one: where both are, the old one is believed.
    assert fits(shop.node("both", labels={old: "west", ZONE: "east"})) == {"e1", "e2", "old"}


def test_a_claim_that_the_cluster_did_not_show_makes_the_pod_immovable_and_says_so() -> None:
    shop = zones().pod("shop/web", claims=["data"])
    assert fits(shop) == set()
    refusal = only_refusal(shop, "e1")
    assert refusal.reasons == ('persistentvolumeclaim "data" not found',)
    assert refusal.detail == "claim shop/data does not exist"


def test_a_volume_that_the_cluster_did_not_show_is_named_too() -> None:
    shop = zones().claim("shop/data", volume="pv-7").pod("shop/web", claims=["data"])
    found = refusals(shop, "e1")
    assert found[SchedulerRule.VOLUME_BINDING].reasons == (
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    )
    assert all("is bound to pv-7, which does not exist" in refusal.detail for refusal in found.values())


def test_of_bound_claims_only_the_first_that_is_out_of_reach_is_reported() -> None:
    shop = zones().claim("shop/data", volume="pv-7").volume("pv-7", claim="shop/data", zones=["east"])
    shop.claim("shop/more", volume="pv-8").pod("shop/web", claims=["data", "more"])
    found = refusals(shop, "w1")[SchedulerRule.VOLUME_BINDING]
    assert found.reasons == ("node(s) didn't match PersistentVolume's node affinity",)


def test_a_claim_whose_class_does_not_wait_must_be_bound_first() -> None:
    shop = zones().claim("shop/data").pod("shop/web", claims=["data"])
    assert only_refusal(shop, "e1").reasons == ("pod has unbound immediate PersistentVolumeClaims",)


def test_a_claim_that_waits_for_its_pod_can_have_a_volume_made_anywhere() -> None:
    assert fits(zones().claim("shop/data", storage_class="late").pod("shop/web", claims=["data"])) == {
        "e1", "e2", "w1",
    }  # fmt: skip


def test_volumes_are_only_made_in_allowed_topologies() -> None:
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["west"]}]}]
    shop = zones().storage_class("late", waits=True, allowedTopologies=allowed)
    shop.claim("shop/data", storage_class="late").pod("shop/web", claims=["data"])
    assert fits(shop) == {"w1"}
    assert only_refusal(shop, "e1").reasons == ("node(s) didn't find available persistent volumes to bind",)


def test_volumes_are_only_made_where_there_is_room_for_them() -> None:
    shop = zones().apply(
        {"kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}}
    )
    for zone, left in (("east", "5Gi"), ("west", "50Gi")):
        shop.apply({
            "kind": "CSIStorageCapacity", "metadata": {"name": zone, "namespace": "kube-system"},
            "storageClassName": "late", "capacity": left, "nodeTopology": {"matchLabels": {ZONE: zone}},
        })  # fmt: skip
    shop.claim("shop/data", storage_class="late", size="10Gi").pod("shop/web", claims=["data"])
    assert fits(shop) == {"w1"}
    assert only_refusal(shop, "e1").reasons == ("node(s) did not have enough free storage",)


def test_a_volume_that_is_being_made_for_a_node_binds_the_pod_to_it() -> None:
    chosen = {"volume.kubernetes.io/selected-node": "e2"}
    shop = (
        zones().claim("shop/data", storage_class="late", annotations=chosen).pod("shop/web", claims=["data"])
    )
    assert fits(shop) == {"e2"}
    assert only_refusal(shop, "w1").detail == "the volume of claim shop/data is being provisioned for e2"


def test_unbound_claims_find_free_volumes_each_its_own() -> None:
    shop = zones().storage_class("local", waits=True, provisioner="kubernetes.io/no-provisioner")
    for name, node in (("pv-1", "e1"), ("pv-2", "e2"), ("pv-3", "e2")):
        shop.volume(name, nodes=[node], storage_class="local", size="10Gi")
    shop.claim("shop/one", storage_class="local").claim("shop/two", storage_class="local")
    assert fits(shop.pod("shop/web", claims=["one"])) == {"e1", "e2"}
    assert fits(shop.pod("shop/web", claims=["one", "two"])) == {"e2"}
    assert (
        fits(shop.claim("shop/big", storage_class="local", size="11Gi").pod("shop/web", claims=["big"]))
        == set()
    )


def static() -> ClusterBuilder:
    """A class whose volumes are there or not, but never made; one free volume on e2."""
    shop = zones().storage_class("local", waits=True, provisioner="kubernetes.io/no-provisioner")
    return shop.volume("pv-free", nodes=["e2"], storage_class="local")


def test_a_volume_that_is_kept_for_a_claim_is_the_only_one_it_can_get() -> None:
    shop = static().claim("shop/data", storage_class="local").pod("shop/web", claims=["data"])
    shop.volume("pv-kept", claim="shop/data", nodes=["e1"], storage_class="local")
    assert fits(shop) == {"e1"}


def test_a_volume_of_an_earlier_claim_is_no_candidate() -> None:
    """The volume is reserved for the uid of an earlier claim with the same name."""
    shop = static().claim("shop/data", storage_class="local").pod("shop/web", claims=["data"])
    earlier = {"claimRef": {"namespace": "shop", "name": "data", "uid": "gone"}}
    shop.volume("pv-kept", nodes=["e1"], storage_class="local", spec=earlier)
    assert fits(shop) == {"e2"}


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"modes": ["ReadWriteMany"]}, id="access mode"),
        pytest.param({"size": "11Gi"}, id="size"),
        pytest.param({"spec": {"volumeMode": "Block"}}, id="volume mode"),
        pytest.param({"spec": {"selector": {"matchLabels": {"speed": "fast"}}}}, id="labels"),
        pytest.param({"spec": {"volumeAttributesClassName": "gold"}}, id="attributes"),
    ],
)
def test_a_free_volume_must_be_as_the_claim_wants_it(parts: dict[str, Any]) -> None:
    shop = static().claim("shop/data", storage_class="local").pod("shop/web", claims=["data"])
    assert fits(shop) == {"e2"}
    assert fits(shop.claim("shop/data", storage_class="local", **parts)) == set()


def test_only_the_first_thing_that_keeps_a_volume_from_being_made_is_reported() -> None:
    """No storage has room; but the east is not allowed anyway, and elsewhere no capacity is checked."""
    nowhere = "node(s) didn't find available persistent volumes to bind"
    full = "node(s) did not have enough free storage"
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["west"]}]}]
    shop = zones().storage_class("late", waits=True, allowedTopologies=allowed)
    shop.apply({"kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}})
    shop.claim("shop/data", storage_class="late").pod("shop/web", claims=["data"])
    assert only_refusal(shop, "e1").reasons == (nowhere,)
    assert only_refusal(shop, "w1").reasons == (full,)
    chosen = {"volume.kubernetes.io/selected-node": "e2"}
    shop.claim("shop/data", storage_class="late", annotations=chosen)
    assert only_refusal(shop, "w1").reasons == (nowhere,)


def test_a_claim_for_one_pod_at_a_time_moves_only_without_its_source() -> None:
    single = ["ReadWriteOncePod"]
    shop = (
        zones()
        .claim("shop/data", volume="pv-7", modes=single)
        .volume("pv-7", claim="shop/data", modes=single)
    )
    shop.pod("shop/web", on="e1", claims=["data"])
    assert fits(shop, source_stays=False) == {"e2", "w1"}
    assert fits(shop, source_stays=True) == set()
    refusal = only_refusal(shop, "w1", source_stays=True)
    assert refusal.rule is SchedulerRule.VOLUME_RESTRICTIONS
    assert refusal.detail == "claim shop/data is ReadWriteOncePod and in use"


def test_a_claim_of_the_same_name_in_another_namespace_is_another_claim() -> None:
    single, shop = ["ReadWriteOncePod"], zones()
    for namespace, node in (("shop", "e1"), ("bank", "w1")):
        key, volume = f"{namespace}/data", f"pv-{namespace}"
        shop.claim(key, volume=volume, modes=single).volume(volume, claim=key, modes=single)
        shop.pod(f"{namespace}/web", on=node, claims=["data"])
    assert fits(shop, source_stays=False) == {"e2", "w1"}


@pytest.mark.parametrize(
    ("mine", "theirs", "is_taken"),
    [
        pytest.param({"gcePersistentDisk": {"pdName": "d"}}, {}, True, id="written by both"),
        pytest.param({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, {}, False, id="read by both"),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            {"gcePersistentDisk": {"pdName": "d"}},
            True,
            id="written by one",
        ),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}}, {}, True, id="not even read by two"
        ),
        pytest.param(
            {"iscsi": {"iqn": "i", "lun": 0}}, {"iscsi": {"iqn": "j", "lun": 0}}, False, id="another"
        ),
        pytest.param(
            {"rbd": {"image": "i", "monitors": ["a", "b"]}},
            {"rbd": {"image": "i", "monitors": ["b", "c"]}},
            True,
            id="a monitor in common",
        ),
        pytest.param(
            {"rbd": {"image": "i", "monitors": ["a"]}},
            {"rbd": {"image": "i", "monitors": ["c"]}},
            False,
            id="no monitor in common",
        ),
    ],
)
def test_disks_named_in_pods(mine: dict[str, Any], theirs: dict[str, Any], is_taken: bool) -> None:
    shop = cluster().nodes("a", "b").pod("shop/other", on="a", volumes=[{"name": "v", **(theirs or mine)}])
    shop.pod("shop/web", volumes=[{"name": "v", **mine}])
    assert fits(shop) == ({"b"} if is_taken else {"a", "b"})
    if is_taken:
        assert only_refusal(shop, "a").reasons == ("node(s) had no available disk",)


def test_a_disk_that_is_taken_is_named() -> None:
    disk = {"name": "v", "gcePersistentDisk": {"pdName": "d"}}
    shop = cluster().node("a").pod("shop/other", on="a", volumes=[disk]).pod("shop/web", volumes=[disk])
    assert only_refusal(shop, "a").detail == "needs gcePersistentDisk d, used by shop/other"


def attaching(*, limit: int, taken: int) -> ClusterBuilder:
    """A node that takes so many volumes, and pods there with some; a pod that wants one more."""
    shop = cluster().node("a").apply({
        "kind": "CSINode", "metadata": {"name": "a"},
        "spec": {"drivers": [{"name": DRIVER, "allocatable": {"count": limit}}]},
    })  # fmt: skip
    for number in range(taken + 1):
        shop.claim(f"shop/d{number}", volume=f"pv-{number}").volume(f"pv-{number}", claim=f"shop/d{number}")
        if number < taken:
            shop.pod(f"shop/p{number}", on="a", claims=[f"d{number}"])
    return shop.pod("shop/web", claims=[f"d{taken}"])


def test_a_node_takes_only_so_many_volumes_of_a_driver() -> None:
    assert fits(attaching(limit=3, taken=2)) == {"a"}
    refusal = only_refusal(attaching(limit=2, taken=2), "a")
    assert (refusal.rule, refusal.reasons) == (
        SchedulerRule.VOLUME_LIMITS,
        ("node(s) exceed max volume count",),
    )
    assert refusal.detail == f"needs 1 more volumes of {DRIVER}, 2 of 2 are attached"


def test_a_volume_that_another_pod_uses_there_takes_no_place_more() -> None:
    assert fits(attaching(limit=2, taken=2).pod("shop/web", claims=["d0"])) == {"a"}


def test_volumes_that_are_attached_without_a_pod_count() -> None:
    shop = attaching(limit=2, taken=1)
    assert fits(shop) == {"a"}
    shop.volume("pv-left").apply({
        "kind": "VolumeAttachment", "metadata": {"name": "left"},
        "spec": {"attacher": DRIVER, "nodeName": "a", "source": {"persistentVolumeName": "pv-left"}},
    })  # fmt: skip
    assert fits(shop) == set()


def test_a_shared_volume_counts_once() -> None:
    """However many pods use it, and although a VolumeAttachment names it, too."""
    shop = attaching(limit=2, taken=1).pod("shop/beside", on="a", claims=["d0"])
    assert fits(shop) == {"a"}
    shop.apply({
        "kind": "VolumeAttachment", "metadata": {"name": "in-use"},
        "spec": {"attacher": DRIVER, "nodeName": "a", "source": {"persistentVolumeName": "pv-0"}},
    })  # fmt: skip
    assert fits(shop) == {"a"}


def test_disks_that_a_csi_driver_has_taken_over_count_for_it() -> None:
    shop = cluster().node("a").node("b").csi_node("a", ebs__csi__aws__com=1)
    shop.pod("shop/other", on="a", volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}])
    shop.pod("shop/web", volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-2"}}])
    assert fits(shop) == {"b"}


def test_a_driver_can_ask_to_be_installed_where_its_pods_go() -> None:
    shop = cluster().nodes("a", "b", "c").csi_node("a", disks__example__com=None).csi_node("b")
    shop.apply(
        {"kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": {"preventPodSchedulingIfMissing": True}}
    )
    shop.claim("shop/data", volume="pv-7").volume("pv-7", claim="shop/data").pod("shop/web", claims=["data"])
    assert fits(shop) == {"a"}
    assert only_refusal(shop, "b").reasons == (f"{DRIVER} CSI driver is not installed on the node",)


SCRATCH = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def scratch_claim(shop: ClusterBuilder, owner_uid: str, **parts: Any) -> ClusterBuilder:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner_uid, "controller": True}
    shop.claim("shop/web-scratch", **parts)
    claim = shop.objects[-1]
    return shop.apply(claim | {"metadata": claim["metadata"] | {"ownerReferences": [owner]}})


def test_an_ephemeral_volume_is_created_again_for_the_successor_of_a_running_pod() -> None:
    shop = scratch_claim(zones(), "its-pod", volume="pv-7", storage_class="late")
    shop.volume("pv-7", claim="shop/web-scratch", zones=["east"], storage_class="late")
    assert fits(shop.pod("shop/web", uid="its-pod", on="e1", volumes=[SCRATCH])) == {"e2", "w1"}
    # A pod that has no node yet gets the volume that was made for it.
    assert fits(shop.pod("shop/web", uid="its-pod", volumes=[SCRATCH])) == {"e1", "e2"}


def test_the_claim_of_an_ephemeral_volume_must_be_the_pods_own() -> None:
    shop = scratch_claim(zones(), "another-pod", storage_class="late")
    shop.pod("shop/web", uid="its-pod", volumes=[SCRATCH])
    assert only_refusal(shop, "e1").reasons == (
        "PVC shop/web-scratch was not created for pod shop/web (pod is not owner)",
    )


def test_an_ephemeral_volume_whose_claim_is_not_known() -> None:
    refusal = only_refusal(zones().pod("shop/web", volumes=[SCRATCH]), "e1")
    assert refusal.reasons == (
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "web-scratch"',
    )
    assert refusal.detail == "claim shop/web-scratch does not exist"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        pytest.param(
            {"status": {"phase": "Lost"}},
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv-7"',
            id="lost",
        ),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2026-03-02T12:00:00Z"}},
            'persistentvolumeclaim "data" is being deleted',
            id="being deleted",
        ),
    ],
)
def test_claims_that_are_no_good_any_more(parts: dict[str, Any], reason: str) -> None:
    shop = zones().claim("shop/data", volume="pv-7").volume("pv-7", claim="shop/data")
    claim = next(item for item in shop.objects if item["kind"] == "PersistentVolumeClaim")
    shop.apply({**claim, **{name: claim[name] | part for name, part in parts.items()}})
    assert only_refusal(shop.pod("shop/web", claims=["data"]), "e1").reasons == (reason,)
