"""Filters about claims and volumes: topology, binding, provisioning and attach limits."""

from typing import Any

import pytest

from tests.unit.kubesim.scheduler.conftest import node, pod, required, why_not

Object = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
EAST, WEST = node("n1", zone="east"), node("n2", zone="west")
UNREACHABLE = ["node(s) didn't match PersistentVolume's node affinity"]
NONE_TO_BIND = ["node(s) didn't find available persistent volumes to bind"]
TOO_SMALL = ["node(s) did not have enough free storage"]
TOO_MANY = ["node(s) exceed max volume count"]
DRIVER = "csi.example.com"


def asking(*claims: str) -> Object:
    listed = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return pod(volumes=listed)


def claim(name: str = "data", volume: str = "", *, of: str = "fast", **spec: Any) -> Object:
    metadata: Object = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "annotations": {}}
    spec = {"storageClassName": of, "resources": {"requests": {"storage": "1Gi"}}, **spec}
    spec.setdefault("accessModes", ["ReadWriteOnce"])
    if volume:
        spec["volumeName"] = volume
        metadata["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def volume(
    name: str = "v", zone: str = "", *, of: str = "fast", phase: str = "Available", **spec: Any
) -> Object:
    labels = spec.pop("labels", {})
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": of, **spec}
    if zone:
        term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    metadata = {"name": name, "labels": labels}
    return {"kind": "PersistentVolume", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


def storage_class(name: str = "fast", *, waits: bool = True, makes: bool = True, **more: Any) -> Object:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    maker = DRIVER if makes else "kubernetes.io/no-provisioner"
    return {
        "kind": "StorageClass",
        "metadata": {"name": name},
        "volumeBindingMode": mode,
        "provisioner": maker,
        **more,
    }


def test_a_claim_that_is_missing_keeps_the_pod_from_every_node() -> None:
    assert why_not(asking("data"), EAST)[0] == 'persistentvolumeclaim "data" not found'


def test_a_bound_volume_must_be_reachable() -> None:
    objects = (EAST, WEST, claim(volume="v"), volume(zone="east"))
    assert why_not(asking("data"), *objects) == []
    assert why_not(asking("data"), *objects, on="n2") == UNREACHABLE


def test_a_volume_that_is_gone_keeps_the_pod_from_every_node() -> None:
    assert 'persistentvolume "v" not found' in why_not(asking("data"), EAST, claim(volume="v"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(
            {"status": {"phase": "Lost"}},
            'bound to non-existent persistentvolume "v"',
            id="its volume is lost",
        ),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "is being deleted", id="it is going"),
    ],
)
def test_claims_that_are_no_good(change: Object, reason: str) -> None:
    bad = claim(volume="v")
    bad["metadata"] |= {key: value for key, value in change.items() if key == "deletionTimestamp"}
    bad |= {key: value for key, value in change.items() if key == "status"}
    assert why_not(asking("data"), EAST, bad, volume()) == [f'persistentvolumeclaim "data" {reason}']


def test_a_claim_that_should_have_been_bound_by_now() -> None:
    unbound = ["pod has unbound immediate PersistentVolumeClaims"]
    assert why_not(asking("data"), EAST, claim(), storage_class(waits=False)) == unbound
    assert why_not(asking("data"), EAST, claim(of="unknown")) == unbound
    named = claim()
    named["spec"]["volumeName"] = "v"
    assert why_not(asking("data"), EAST, named, volume(), storage_class()) == unbound, "not yet completed"


@pytest.mark.parametrize(
    ("there", "reasons"),
    [
        pytest.param(volume(zone="east"), [], id="one that fits"),
        pytest.param(volume(zone="west"), NONE_TO_BIND, id="elsewhere"),
        pytest.param(volume(of="slow"), NONE_TO_BIND, id="of another class"),
        pytest.param(volume(phase="Released"), NONE_TO_BIND, id="used by another claim before"),
        pytest.param(volume(capacity={"storage": "1Mi"}), NONE_TO_BIND, id="too small"),
        pytest.param(volume(accessModes=["ReadOnlyMany"]), NONE_TO_BIND, id="read only"),
        pytest.param(volume(volumeMode="Block"), NONE_TO_BIND, id="a block device"),
        pytest.param(volume(claimRef={"namespace": "default", "name": "other"}), NONE_TO_BIND,
                     id="meant for another claim"),
        pytest.param(volume(claimRef={"namespace": "default", "name": "data"}, phase="Pending"), [],
                     id="meant for this claim"),
    ],
)  # fmt: skip
def test_a_waiting_claim_needs_a_volume_that_is_there(there: Object, reasons: list[str]) -> None:
    assert why_not(asking("data"), EAST, claim(), storage_class(makes=False), there) == reasons


def test_a_claim_may_choose_among_volumes_by_their_labels() -> None:
    choosy = claim(selector={"matchLabels": {"speed": "high"}})
    objects = (EAST, choosy, storage_class(makes=False), volume())
    assert why_not(asking("data"), *objects) == NONE_TO_BIND
    assert why_not(asking("data"), *objects, volume("w", labels={"speed": "high"})) == []


def test_each_claim_needs_a_volume_of_its_own() -> None:
    objects = (EAST, claim("a"), claim("b"), storage_class(makes=False), volume("v"))
    assert why_not(asking("a"), *objects) == []
    assert why_not(asking("a", "b"), *objects) == NONE_TO_BIND
    assert why_not(asking("a", "b"), *objects, volume("w")) == []


def test_a_waiting_claim_may_have_a_volume_made_where_the_class_allows() -> None:
    zones = [{"matchLabelExpressions": [{"key": ZONE, "values": ["east"]}]}]
    objects = (EAST, WEST, claim(), storage_class(allowedTopologies=zones))
    assert why_not(asking("data"), *objects) == []
    assert why_not(asking("data"), *objects, on="n2") == NONE_TO_BIND


def test_a_claim_whose_volume_is_being_made_for_a_node_waits_for_that_node() -> None:
    chosen = claim()
    chosen["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = "n2"
    objects = (EAST, WEST, chosen, storage_class())
    assert why_not(asking("data"), *objects) == NONE_TO_BIND
    assert why_not(asking("data"), *objects, on="n2") == []


def test_drivers_that_say_what_is_left_are_believed() -> None:
    driver = {"kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}}
    objects = (EAST, claim(), storage_class(), driver)

    def capacity(size: str, **more: Any) -> Object:
        metadata = {"name": "c", "namespace": "default"}
        said = {"storageClassName": "fast", "capacity": size, "nodeTopology": {}, **more}
        return {"kind": "CSIStorageCapacity", "metadata": metadata, **said}

    assert why_not(asking("data"), *objects) == TOO_SMALL
    assert why_not(asking("data"), *objects, capacity("1Gi")) == []
    assert why_not(asking("data"), *objects, capacity("1023Mi")) == TOO_SMALL
    assert why_not(asking("data"), *objects, capacity("9Gi", maximumVolumeSize="1Mi")) == TOO_SMALL
    west = {"matchLabels": {ZONE: "west"}}
    assert why_not(asking("data"), *objects, capacity("9Gi", nodeTopology=west)) == TOO_SMALL


def test_volumes_with_zone_labels_go_with_nodes_that_have_them() -> None:
    def labelled(**labels: str) -> tuple[Object, ...]:
        return (EAST, WEST, node("n3"), claim(volume="v"), volume(labels=labels))

    zones = {ZONE: "west__south"}
    no_zone = ["node(s) had no available volume zone"]
    assert why_not(asking("data"), *labelled(**zones)) == no_zone
    assert why_not(asking("data"), *labelled(**zones), on="n2") == []
    assert why_not(asking("data"), *labelled(**zones), on="n3") == [], "a node without any zone is no zone's"
    beta = {"failure-domain.beta.kubernetes.io/zone": "west"}
    assert why_not(asking("data"), *labelled(**beta)) == no_zone
    assert why_not(asking("data"), *labelled(**beta), on="n2") == [], "the old name means the new one"


def test_a_claim_for_one_pod_is_for_one_pod_wherever_it_is() -> None:
    objects = (EAST, WEST, claim(volume="v", accessModes=["ReadWriteOncePod"]), volume())
    user = asking("data")
    user["metadata"]["name"], user["spec"]["nodeName"] = "user", "n2"
    assert why_not(asking("data"), *objects) == []
    (reason,) = why_not(asking("data"), *objects, user)
    assert reason.endswith("with ReadWriteOncePod access mode already in-use by another pod")


def gce(**more: Any) -> Object:
    return {"gcePersistentDisk": {"pdName": "a", **more}}


def aws(**more: Any) -> Object:
    return {"awsElasticBlockStore": {"volumeID": "a", **more}}


def rbd(*monitors: str) -> Object:
    return {"rbd": {"monitors": list(monitors), "image": "a"}}


@pytest.mark.parametrize(
    ("mine", "other", "clash"),
    [
        pytest.param(gce(), gce(), True, id="a Google disk"),
        pytest.param(gce(readOnly=True), gce(), True, id="a Google disk, read by one"),
        pytest.param(gce(readOnly=True), gce(readOnly=True), False, id="a Google disk, read by both"),
        pytest.param(aws(readOnly=True), aws(readOnly=True), True, id="an Amazon disk, even to read"),
        pytest.param(rbd("m1", "m2"), rbd("m2"), True, id="an image with a monitor in common"),
        pytest.param(rbd("m1"), rbd("m2"), False, id="an image of other monitors"),
        pytest.param({"iscsi": {"iqn": "a"}}, {"iscsi": {"iqn": "b"}}, False, id="another iSCSI target"),
    ],
)
def test_disks_named_in_the_pod_itself(mine: Object, other: Object, clash: bool) -> None:
    there = pod("other", on="n1", volumes=[{"name": "d", **other}])
    reasons = ["node(s) had no available disk"] if clash else []
    assert why_not(pod(volumes=[{"name": "d", **mine}]), EAST, there) == reasons


def csi_node(count: int | None = 1) -> Object:
    driver: Object = {"name": DRIVER, "nodeID": "n1"}
    if count is not None:
        driver["allocatable"] = {"count": count}
    return {"kind": "CSINode", "metadata": {"name": "n1"}, "spec": {"drivers": [driver]}}


def driven(name: str) -> Object:
    return volume(name, csi={"driver": DRIVER, "volumeHandle": name})


def test_no_more_volumes_than_the_node_can_attach() -> None:
    user = asking("a")
    user["metadata"]["name"], user["spec"]["nodeName"] = "user", "n1"
    objects = (EAST, claim("a", "va"), claim("b", "vb"), driven("va"), driven("vb"), user)
    assert why_not(asking("b"), *objects, csi_node(1)) == TOO_MANY
    assert why_not(asking("b"), *objects, csi_node(2)) == []
    assert why_not(asking("b"), *objects, csi_node(None)) == [], "no limit"
    assert why_not(asking("a"), *objects, csi_node(1)) == [], "it is attached already"
    attachment = {
        "kind": "VolumeAttachment",
        "metadata": {"name": "x"},
        "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "vc"}},
    }
    assert why_not(asking("b"), *objects, csi_node(2), driven("vc"), attachment) == TOO_MANY


def test_a_volume_that_is_attached_without_a_pod_counts_twice() -> None:
    """Seen on a real scheduler: it forgives only volumes that another pod on the node uses."""
    attachment = {
        "kind": "VolumeAttachment",
        "metadata": {"name": "x"},
        "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "va"}},
    }
    objects = (EAST, claim("a", "va"), driven("va"), attachment)
    assert why_not(asking("a"), *objects, csi_node(1)) == TOO_MANY
    assert why_not(asking("a"), *objects, csi_node(2)) == []


def test_a_volume_that_will_be_made_counts_as_well() -> None:
    assert why_not(asking("data"), EAST, claim(), storage_class(), csi_node(0)) == TOO_MANY


def test_a_driver_may_ask_to_be_installed_first() -> None:
    insists = {
        "kind": "CSIDriver",
        "metadata": {"name": DRIVER},
        "spec": {"preventPodSchedulingIfMissing": True},
    }
    objects = (EAST, claim("a", "va"), driven("va"), insists)
    assert why_not(asking("a"), *objects) == [f"{DRIVER} CSI driver is not installed on the node"]
    assert why_not(asking("a"), *objects, csi_node()) == []


def test_an_ephemeral_volume_waits_for_a_claim_made_for_it() -> None:
    asks = pod(volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "asking-scratch"'
    assert why_not(asks, EAST) == [waiting]
    made = claim("asking-scratch", "v")
    stranger = "PVC default/asking-scratch was not created for pod default/asking (pod is not owner)"
    assert why_not(asks, EAST, made, volume()) == [stranger]
    made["metadata"]["ownerReferences"] = [{"uid": "uid-of-asking", "controller": True}]
    assert why_not(asks, EAST, made, volume()) == []


def test_affinity_of_a_volume_ignores_the_nodes_name() -> None:
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["elsewhere"]}]}
    there = volume(nodeAffinity=required("nodeAffinity", by_name)["nodeAffinity"])
    there["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [by_name]}}
    assert why_not(asking("data"), EAST, claim(volume="v"), there) == []
