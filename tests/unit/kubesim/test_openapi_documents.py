"""The documents that kubectl reads before it creates, applies, patches or explains anything."""

import json
from urllib.parse import urlsplit

import pytest

from kubesim.apiserver.kind_registry import KindRegistry, ResourceKind
from kubesim.apiserver.openapi_documents import openapi_response

JSON = "application/json"
V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
GADGET = ResourceKind(
    group="example.com", version="v1", name="Gadget", plural="gadgets", singular="gadget", custom=True
)


def document(path, kinds=None, schemas=lambda _: None):
    return json.loads(openapi_response(path, kinds or KindRegistry(), JSON, schemas)[1])


def with_gadgets():
    kinds = KindRegistry()
    kinds.add(GADGET)
    return kinds


def links(kinds=None, schemas=lambda _: None):
    return {
        name: link["serverRelativeURL"]
        for name, link in document("/openapi/v3", kinds, schemas)["paths"].items()
    }


def test_the_root_links_to_one_document_per_group_and_version():
    found = links(with_gadgets())

    assert {"api/v1", "apis/apps/v1", "apis/policy/v1", "apis/example.com/v1"} <= set(found)
    for link in found.values():
        assert document(urlsplit(link).path, with_gadgets())["openapi"] == "3.0.0"


def test_a_document_that_changes_gets_a_new_address_and_the_others_keep_theirs():
    before = links(with_gadgets())
    after = links(with_gadgets(), lambda kind: {"description": "New."} if kind == GADGET else None)

    assert [name for name in before if before[name] != after[name]] == ["apis/example.com/v1"]


@pytest.mark.parametrize("path", ["/openapi", "/openapi/v3/apis/nothing/v1", "/openapi/v4", "/api/v1"])
def test_other_paths_are_left_to_others(path):
    assert openapi_response(path, KindRegistry(), JSON) is None


@pytest.mark.parametrize(
    "kind",
    [k for k in KindRegistry() if "patch" in k.verbs],
    ids=lambda kind: f"for {kind.name} of {kind.api_version}",
)
def test_the_server_offers_to_validate_fields_so_that_kubectl_does_not_have_to(kind):
    root = f"apis/{kind.group}" if kind.group else "api"
    operations = document(f"/openapi/v3/{root}/{kind.version}")["paths"].values()
    identity = {"group": kind.group, "version": kind.version, "kind": kind.name}

    [patch] = [
        operation["patch"]
        for operation in operations
        if operation.get("patch", {}).get("x-kubernetes-group-version-kind") == identity
    ]
    assert "fieldValidation" in [p["name"] for p in patch["parameters"] if p["in"] == "query"]


def test_strategic_merge_is_not_offered_so_that_kubectl_uses_the_merge_keys_it_knows():
    offered = {
        content_type
        for path in document("/openapi/v3/apis/apps/v1")["paths"].values()
        for content_type in path["patch"]["requestBody"]["content"]
    }
    assert "application/strategic-merge-patch+json" not in offered
    assert "application/merge-patch+json" in offered


def test_kinds_that_can_not_be_patched_offer_no_patch():
    paths = document("/openapi/v3/apis/metrics.k8s.io/v1beta1")["paths"]

    assert all("patch" not in operations for operations in paths.values())


def test_a_custom_resource_is_described_by_its_definition():
    schema = {"type": "object", "description": "Does things.", "properties": {"spec": {"type": "object"}}}

    found = document("/openapi/v3/apis/example.com/v1", with_gadgets(), lambda _: schema)

    [described] = found["components"]["schemas"].values()
    assert described["description"] == "Does things."
    assert described["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "version": "v1", "kind": "Gadget"}
    ]
    assert set(described["properties"]) == {"apiVersion", "kind", "metadata", "spec"}


def test_built_in_kinds_are_described_with_all_their_fields():
    schemas = document("/openapi/v3/apis/apps/v1")["components"]["schemas"]

    assert schemas["apps.v1.Deployment"]["properties"]["spec"] == {
        "$ref": "#/components/schemas/DeploymentSpec"
    }
    assert schemas["Container"]["properties"]["image"] == {"type": "string"}


@pytest.mark.parametrize("name", links())
def test_every_reference_leads_somewhere(name):
    found = document(f"/openapi/v3/{name}")

    assert set(references(found)) <= {
        f"#/components/schemas/{schema}" for schema in found["components"]["schemas"]
    }


def references(content):
    if isinstance(content, dict):
        yield from ([content["$ref"]] if isinstance(content.get("$ref"), str) else [])
        content = list(content.values())
    if isinstance(content, list):
        for part in content:
            yield from references(part)


def test_version_2_is_empty_but_valid():
    content_type, body = openapi_response("/openapi/v2", KindRegistry(), JSON)

    assert content_type == JSON
    assert json.loads(body)["swagger"] == "2.0"


def test_version_2_is_there_in_the_form_that_kubectl_asks_for():
    content_type, body = openapi_response("/openapi/v2", KindRegistry(), V2)

    assert content_type == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert body == b"\x0a\x032.0" + b"\x12\x13" + b"\x0a\x0aKubernetes" + b"\x12\x05v1.37"
