"""Which fields of claims, volumes and storage objects are kept."""

from typing import Any

import pytest

from rescheduler.cluster.object_meta import UnreadableObject
from rescheduler.cluster.pod_constraints import LabelSelector, NodeSelectorRequirement
from rescheduler.cluster.storage_decoders import (
    decode_attachment,
    decode_capacity,
    decode_claim,
    decode_csi_driver,
    decode_csi_node,
    decode_storage_class,
    decode_volume,
)
from rescheduler.cluster.storage_records import ClaimReference, TopologyRequirement

GIB = 2**30


def claim(annotations: dict[str, str] | None = None, **spec: Any):
    metadata = {"name": "data", "namespace": "shop", "uid": "u", "annotations": annotations or {}}
    return decode_claim({"metadata": metadata, "spec": spec, "status": {"phase": "Bound"}})


def volume(**spec: Any):
    return decode_volume({"metadata": {"name": "v", "labels": {"zone": "a"}}, "spec": spec})


def test_what_is_kept_of_a_claim():
    found = claim(
        {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "a"},
        volumeName="v",
        storageClassName="fast",
        accessModes=["ReadWriteOnce"],
        volumeMode="Block",
        volumeAttributesClassName="gold",
        resources={"requests": {"storage": "10Gi"}},
        selector={"matchLabels": {"b": "2", "a": "1"}},
    )
    assert (found.key, found.volume, found.is_bound, found.phase) == ("shop/data", "v", True, "Bound")
    assert (found.storage_class, found.access_modes, found.volume_mode) == (
        "fast",
        ("ReadWriteOnce",),
        "Block",
    )
    assert (found.attributes_class, found.size_bytes, found.selected_node) == ("gold", 10 * GIB, "a")
    assert found.selector == LabelSelector((("a", "1"), ("b", "2")))


def test_a_claim_is_bound_only_when_both_sides_have_agreed():
    assert not claim(volumeName="v").is_bound
    assert not claim({"pv.kubernetes.io/bind-completed": "yes"}).is_bound


def test_the_older_annotation_for_the_class_comes_first():
    found = claim({"volume.beta.kubernetes.io/storage-class": "old"}, storageClassName="new")
    assert found.storage_class == "old"


def test_what_is_kept_of_a_volume():
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    found = volume(
        csi={"driver": "disks.example.com", "volumeHandle": "h1"},
        capacity={"storage": "1Gi"},
        claimRef={"namespace": "shop", "name": "data", "uid": "u"},
        nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        accessModes=["ReadWriteMany"],
        storageClassName="fast",
    )
    assert (found.name, found.labels, found.capacity_bytes) == ("v", {"zone": "a"}, GIB)
    assert (found.source, found.source_name, found.csi_driver) == ("csi", "h1", "disks.example.com")
    assert found.claim == ClaimReference("shop", "data", "u")
    assert found.claim.key == "shop/data"
    assert found.node_affinity is not None
    (term,) = found.node_affinity.node_selector_terms
    assert term.match_expressions == (NodeSelectorRequirement("zone", "In", ("a",)),)
    assert not found.is_local


@pytest.mark.parametrize(
    ("source", "kind", "name", "local"),
    [
        pytest.param({"local": {"path": "/disk"}}, "local", "/disk", True, id="a disk of the node"),
        pytest.param({"hostPath": {"path": "/data"}}, "hostPath", "/data", True, id="a path of the node"),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "vol-1"}},
            "awsElasticBlockStore",
            "vol-1",
            False,
            id="a disk of a cloud, as before CSI",
        ),
        pytest.param({"nfs": {"server": "s", "path": "/p"}}, "nfs", "/p", False, id="a share"),
        pytest.param({"glusterfs": {"path": "/p"}}, "glusterfs", "", False, id="a kind that no rule reads"),
        pytest.param({}, "", "", False, id="none"),
    ],
)
def test_the_source_of_a_volume(source: dict[str, Any], kind: str, name: str, local: bool):
    found = volume(**source)
    assert (found.source, found.source_name, found.is_local) == (kind, name, local)
    assert found.csi_driver == ""


def test_what_is_kept_of_a_storage_class():
    expressions = [{"key": "zone", "values": ["a", "b"]}]
    found = decode_storage_class(
        {
            "metadata": {
                "name": "fast",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "disks.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": expressions}],
        }
    )
    assert (found.name, found.provisioner, found.waits_for_pod) == ("fast", "disks.example.com", True)
    assert found.allowed_topologies == ((TopologyRequirement("zone", ("a", "b")),),)
    assert found.is_default
    assert not decode_storage_class({"metadata": {"name": "slow"}}).waits_for_pod


def test_what_is_kept_of_the_drivers_on_a_node():
    found = decode_csi_node(
        {
            "metadata": {"name": "a"},
            "spec": {"drivers": [{"name": "x", "allocatable": {"count": 0}}, {"name": "y"}]},
        }
    )
    assert found.drivers == {"x": 0, "y": None}, "a limit of none is not the same as no limit"


def test_what_is_kept_of_a_driver():
    spec = {"storageCapacity": True, "preventPodSchedulingIfMissing": True}
    found = decode_csi_driver({"metadata": {"name": "x"}, "spec": spec})
    assert (found.publishes_capacity, found.must_be_installed) == (True, True)
    silent = decode_csi_driver({"metadata": {"name": "x"}})
    assert (silent.publishes_capacity, silent.must_be_installed) == (False, False)


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        pytest.param({"capacity": "5Gi"}, 5 * GIB, id="what is left"),
        pytest.param(
            {"capacity": "5Gi", "maximumVolumeSize": "1Gi"}, GIB, id="no volume is larger than that"
        ),
        pytest.param({}, None, id="it is not known"),
        pytest.param({"capacity": "0"}, 0, id="nothing is left"),
    ],
)
def test_how_large_a_new_volume_can_be(reported: dict[str, str], expected: int | None):
    found = decode_capacity(
        {
            "metadata": {"name": "c", "namespace": "csi"},
            "storageClassName": "fast",
            "nodeTopology": {},
            **reported,
        }
    )
    assert (found.key, found.storage_class, found.nodes) == ("csi/c", "fast", LabelSelector())
    assert found.largest_volume_bytes == expected


def test_what_is_kept_of_an_attachment():
    spec = {"attacher": "x", "nodeName": "a", "source": {"persistentVolumeName": "v"}}
    found = decode_attachment({"metadata": {"name": "t"}, "spec": spec})
    assert (found.driver, found.node, found.volume) == ("x", "a", "v")


def test_a_size_that_is_none_is_refused_with_the_object_s_name():
    with pytest.raises(UnreadableObject) as refused:
        claim(resources={"requests": {"storage": "much"}})
    assert str(refused.value).startswith(
        "PersistentVolumeClaim shop/data: spec.resources.requests.storage: 'much' is not a quantity"
    )
