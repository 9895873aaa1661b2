"""kubectl and kinds that are defined at run time."""

import json

import pytest
import yaml

pytestmark = pytest.mark.kubectl

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gd"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                    {"name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A thing that does things.",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "description": "What it should do.",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1, "description": "How large."},
                                    "note": {"type": "string"},
                                    "replicas": {"type": "integer"},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}  # fmt: skip


def gadget(name, **spec):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": name},
        "spec": {"size": 3} | spec,
    }


@pytest.fixture
def gadgets(kubectl):
    kubectl.create(DEFINITION)
    kubectl("wait crd/gadgets.example.com --for=condition=Established --timeout=5s")


def test_a_definition_is_shown_with_its_versions(kubectl, gadgets):
    assert kubectl.rows("get crd")[0][:3] == ["gadgets.example.com", "Namespaced", "v1(storage)"]


def test_get_prints_the_columns_of_the_definition(kubectl, gadgets):
    kubectl.create(gadget("one", note="hello"))
    kubectl('patch gadget one --subresource=status --type=merge -p \'{"status":{"phase":"Ready"}}\'')

    assert kubectl("get gd").splitlines()[0].split() == ["NAME", "SIZE", "PHASE"]
    assert kubectl.rows("get gadgets -o wide") == [["one", "3", "Ready", "hello"]]


def test_apply_creates_changes_and_removes_fields(kubectl, gadgets):
    def apply(content):
        return kubectl("apply -f -", stdin=yaml.safe_dump(content))

    assert apply(gadget("one", note="hello")) == "gadget.example.com/one created\n"
    assert apply(gadget("one", size=4)) == "gadget.example.com/one configured\n"
    assert kubectl.json("get gadget one")["spec"] == {"size": 4}


def test_apply_on_the_server_merges(kubectl, gadgets):
    kubectl("apply --server-side -f -", stdin=yaml.safe_dump(gadget("one", note="hello")))
    kubectl("annotate gadget one team=shop")
    kubectl("apply --server-side -f -", stdin=yaml.safe_dump(gadget("one", size=5)))

    shown = kubectl.json("get gadget one")
    assert shown["spec"] == {"size": 5}
    assert shown["metadata"]["annotations"]["team"] == "shop"


def test_what_the_schema_forbids_is_refused(kubectl, gadgets):
    reported = kubectl.refused("create -f -", stdin=json.dumps(gadget("one", size=0)))

    assert "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1" in reported


def test_fields_that_the_schema_does_not_know_are_refused(kubectl, gadgets):
    reported = kubectl.refused("create -f -", stdin=json.dumps(gadget("one", sise=1)))

    assert 'unknown field "spec.sise"' in reported


def test_scale_works_through_the_paths_of_the_definition(kubectl, gadgets):
    kubectl.create(gadget("one", replicas=1))

    assert kubectl("scale gadget one --replicas=4") == "gadget.example.com/one scaled\n"
    assert kubectl.json("get gadget one")["spec"]["replicas"] == 4


def test_explain_shows_what_the_schema_says(kubectl, gadgets):
    assert "A thing that does things." in kubectl("explain gadget")
    assert "How large." in kubectl("explain gadget.spec.size")


def test_delete_of_the_definition_takes_its_objects_and_its_name(kubectl, gadgets):
    kubectl.create(gadget("one"))

    kubectl("delete crd gadgets.example.com")

    assert "gadgets" not in kubectl("api-resources --cached=false -o name")
    assert "the server doesn't have a resource type" in kubectl.refused("get gadgets")
