"""The discovery documents that a client reads first."""

import pytest

from kubesim.apiserver.discovery_documents import discovery_response
from kubesim.apiserver.kind_registry import KindRegistry, ResourceKind

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KUBECTL = f"{AGGREGATED},application/json"
JSON = "application/json"


def reported(path, kinds=None, accept=JSON):
    return discovery_response(path, kinds or KindRegistry(), accept)[1]


def custom(version, *, plural="gadgets", served=True):
    return ResourceKind(
        group="example.com", version=version, name="Gadget", plural=plural, singular="gadget", custom=True,
        served=served, subresources=("scale", "status"),
    )  # fmt: skip


def with_custom(*versions, **rest):
    kinds = KindRegistry()
    for version in versions:
        kinds.add(custom(version, **rest))
    return kinds


def test_the_version_is_that_of_the_server_it_stands_in_for():
    version = reported("/version")

    assert (version["major"], version["minor"]) == ("1", "37")
    assert version["gitVersion"].startswith("v1.37.")


@pytest.mark.parametrize("path", ["/", "/api/v2", "/apis/nothing", "/apis/apps/v9", "/api/v1/pods"])
def test_other_paths_are_left_to_others(path):
    assert discovery_response(path, KindRegistry(), JSON) is None


def test_a_slash_at_the_end_makes_no_difference():
    assert reported("/apis/") == reported("/apis")


def test_the_core_group_has_one_version():
    assert reported("/api")["versions"] == ["v1"]


def test_groups_are_listed_with_the_version_to_prefer():
    groups = {group["name"]: group for group in reported("/apis")["groups"]}

    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert "" not in groups


def test_a_group_can_be_asked_for_alone():
    group = reported("/apis/policy")

    assert group["kind"] == "APIGroup"
    assert [version["groupVersion"] for version in group["versions"]] == ["policy/v1"]


@pytest.mark.parametrize(
    ("served", "order"),
    [
        pytest.param(["v1alpha1", "v1"], ["v1", "v1alpha1"], id="stable before alpha"),
        pytest.param(["v1beta1", "v2alpha1"], ["v1beta1", "v2alpha1"], id="beta before alpha"),
        pytest.param(["v1", "v10", "v2"], ["v10", "v2", "v1"], id="numbers, not letters"),
        pytest.param(["v1beta1", "v1beta2"], ["v1beta2", "v1beta1"], id="newer betas first"),
        pytest.param(["foo", "v1alpha1"], ["v1alpha1", "foo"], id="free names last"),
    ],
)
def test_versions_stand_in_the_order_of_their_maturity(served, order):
    group = reported("/apis/example.com", with_custom(*served))

    assert [version["version"] for version in group["versions"]] == order
    assert group["preferredVersion"]["version"] == order[0]


def resources(path, kinds=None):
    return {resource["name"]: resource for resource in reported(path, kinds)["resources"]}


CREATE, READ_AND_WRITE = ["create"], ["get", "patch", "update"]


def test_a_resource_says_all_its_names_and_verbs():
    assert resources("/apis/apps/v1")["deployments"] == {
        "name": "deployments",
        "singularName": "deployment",
        "namespaced": True,
        "kind": "Deployment",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["deploy"],
        "categories": ["all"],
    }


@pytest.mark.parametrize(
    ("path", "name", "kind", "verbs"),
    [
        pytest.param("/api/v1", "pods/eviction", ("policy", "v1", "Eviction"), CREATE, id="evictions"),
        pytest.param("/api/v1", "pods/binding", (None, None, "Binding"), CREATE, id="bindings"),
        pytest.param("/api/v1", "nodes/status", (None, None, "Node"), READ_AND_WRITE, id="a status"),
        pytest.param(
            "/apis/apps/v1", "deployments/scale", ("autoscaling", "v1", "Scale"), READ_AND_WRITE, id="a scale"
        ),
    ],
)
def test_a_subresource_says_what_it_takes_and_what_can_be_done_with_it(path, name, kind, verbs):
    found = resources(path)[name]

    assert (found.get("group"), found.get("version"), found["kind"]) == kind
    assert found["verbs"] == verbs


def test_custom_resources_are_reported_like_all_others():
    found = resources("/apis/example.com/v1", with_custom("v1"))

    assert list(found) == ["gadgets", "gadgets/scale", "gadgets/status"]


def test_what_is_not_served_is_not_reported():
    assert discovery_response("/apis/example.com", with_custom("v1", served=False), JSON) is None


def test_clients_that_ask_for_it_get_everything_at_once():
    content_type, core = discovery_response("/api", KindRegistry(), KUBECTL)
    _, groups = discovery_response("/apis", KindRegistry(), KUBECTL)

    assert content_type == AGGREGATED
    assert [item["metadata"].get("name", "") for item in core["items"]] == [""]
    assert "apps" in [item["metadata"]["name"] for item in groups["items"]]


def test_clients_that_do_not_ask_for_it_get_the_old_form():
    assert discovery_response("/api", KindRegistry(), JSON)[0] == JSON


def flattened(aggregated):
    """The aggregated form, as a client turns it into the old one."""
    for item in aggregated["items"]:
        for version in item["versions"]:
            for resource in version["resources"]:
                name, namespaced = resource["resource"], resource["scope"] == "Namespaced"
                yield (
                    item["metadata"].get("name", ""),
                    version["version"],
                    name,
                    namespaced,
                    tuple(resource["verbs"]),
                )
                for sub in resource.get("subresources", ()):
                    whole = f"{name}/{sub['subresource']}"
                    yield (
                        item["metadata"].get("name", ""),
                        version["version"],
                        whole,
                        namespaced,
                        tuple(sub["verbs"]),
                    )


def test_the_aggregated_form_says_what_a_subresource_takes():
    [core] = reported("/api", accept=KUBECTL)["items"]
    pods = next(resource for resource in core["versions"][0]["resources"] if resource["resource"] == "pods")
    kinds = {sub["subresource"]: sub["responseKind"] for sub in pods["subresources"]}

    assert kinds["eviction"] == {"group": "policy", "version": "v1", "kind": "Eviction"}
    assert kinds["status"] == {"group": "", "version": "v1", "kind": "Pod"}


def test_both_forms_are_equal():
    kinds = with_custom("v1", "v1beta1")
    new = [*flattened(reported("/api", kinds, KUBECTL)), *flattened(reported("/apis", kinds, KUBECTL))]

    group_versions = [("", "v1", "/api/v1")]
    group_versions += [
        (group["name"], version["version"], f"/apis/{version['groupVersion']}")
        for group in reported("/apis", kinds)["groups"]
        for version in group["versions"]
    ]
    old = [
        (group, version, resource["name"], resource["namespaced"], tuple(resource["verbs"]))
        for group, version, path in group_versions
        for resource in reported(path, kinds)["resources"]
    ]
    assert new == old
