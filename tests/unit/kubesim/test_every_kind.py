"""Every served kind can be created, read, listed and deleted.

The objects are those that a real API server took when its tables were captured.
"""

from pathlib import Path

import pytest
import yaml

from kubesim.apiserver.kind_registry import BUILT_IN
from rescheduler.install.manifests import install_manifests

CASES = yaml.safe_load((Path(__file__).parent / "captured" / "cases.yaml").read_text())
BY_KIND = {(case["apiVersion"], case["kind"]): case for case in CASES}
READ_ONLY = "metrics.k8s.io"
WRITABLE = [kind for kind in BUILT_IN if kind.group != READ_ONLY and kind.name != "CustomResourceDefinition"]


def sample(kind):
    """An object of this kind; those with nothing to say need only a name."""
    blank = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "sample"}}
    return BY_KIND.get((kind.api_version, kind.name), blank | EXTRA.get(kind.name, {}))


EXTRA = {
    "NetworkPolicy": {"spec": {"podSelector": {}}},
    "Secret": {"data": {"a": "MQ=="}},
    "CSIDriver": {"spec": {}},
    "CSIStorageCapacity": {"storageClassName": "fast"},
    "ControllerRevision": {"revision": 1},
    "VolumeAttachment": {
        "spec": {"attacher": "csi.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    },
    "ReplicationController": {
        "spec": {
            "replicas": 0, "selector": {"a": "b"},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        }
    },
}  # fmt: skip


def test_everything_that_we_install_is_of_a_served_kind():
    """So that `rescheduler manifests | kubectl apply -f -` works with a simulated cluster."""
    installed = {(item["apiVersion"], item["kind"]) for item in install_manifests(create_namespace=True)}
    assert installed <= {(kind.api_version, kind.name) for kind in BUILT_IN}


@pytest.mark.parametrize("kind", WRITABLE, ids=lambda kind: f"{kind.api_version} {kind.name}")
async def test_it_is_made_read_listed_and_removed(api, kind):
    item = sample(kind)
    prefix = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    where = f"{prefix}/namespaces/default/{kind.plural}" if kind.namespaced else f"{prefix}/{kind.plural}"
    metadata = item["metadata"] | ({"namespace": "default"} if kind.namespaced else {})
    made = await api.post(where, item | {"metadata": metadata})
    assert made.status == 201, made.body
    name = made.body["metadata"]["name"]
    read = await api.get(f"{where}/{name}")
    assert (read.body["kind"], read.body["apiVersion"]) == (kind.name, kind.api_version)
    listed = await api.get(f"{prefix}/{kind.plural}")
    assert listed.body["kind"] == kind.list_name
    assert name in {each["metadata"]["name"] for each in listed.body["items"]}
    assert (await api.delete(f"{where}/{name}?gracePeriodSeconds=0")).status == 200
