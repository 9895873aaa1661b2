"""Saved objects are checked before they are loaded, and each unusable one is named."""

import pytest

from kubesim.apiserver.simulated_cluster import faults_of


def config_map(owners):
    metadata = {"name": "settings", "namespace": "shop", "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


WHOLE = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}


def test_an_owner_that_is_fully_named_is_sound():
    assert faults_of([config_map([WHOLE])]) == []


@pytest.mark.parametrize(
    ("owners", "fault"),
    [
        pytest.param([WHOLE, {"uid": "q", "name": "x"}], "[1]: apiVersion, kind missing", id="half an owner"),
        pytest.param(["web"], "[0]: apiVersion, kind, name, uid missing", id="an owner that is only text"),
        pytest.param("web", "a list is needed", id="no list at all"),
    ],
)
def test_an_owner_that_is_not_is_named_with_its_object(owners, fault):
    found = faults_of([config_map(owners)])
    assert found
    assert found[0].startswith("ConfigMap shop/settings: metadata.ownerReferences")
    assert fault in found[0]
