"""Custom resources: their definitions, schemas, subresources and end."""

from typing import Any

from rescheduler.kube.api_resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    Object,
    apply_patch,
    json_patch,
    merge_patch,
    strategic_patch,
)
from tests.conformance.cluster_under_test import WHOLE, ClusterUnderTest
from tests.conformance.definitions import define, version, widgets
from tests.conformance.notes import at
from tests.conformance.scenario import scenario

SIZE: Object = {"type": "integer", "minimum": 0, "maximum": 10}
SCALE = {
    "specReplicasPath": ".spec.size",
    "statusReplicasPath": ".status.size",
    "labelSelectorPath": ".status.selector",
}


def _widget(name: str, metadata: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": name, **(metadata or {})}, "spec": spec}


@scenario("a definition is accepted and established, and lists its stored versions")
async def established(cluster: ClusterUnderTest) -> None:
    await define(cluster, version(size=SIZE))
    name = f"widgets.{cluster.namespace}.example.com"
    found = await cluster.client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    conditions = sorted(at(found, "status.conditions"), key=lambda condition: condition["type"])
    cluster.saw("conditions", conditions)
    cluster.saw("accepted names", at(found, "status.acceptedNames"))
    cluster.saw("stored versions", at(found, "status.storedVersions"))


@scenario("an object is validated against its schema, and every error is reported")
async def schema(cluster: ClusterUnderTest) -> None:
    resource = await define(
        cluster,
        version(
            size=SIZE,
            color={"type": "string", "enum": ["red", "blue"]},
            title={"type": "string", "pattern": "^[a-z]+$", "maxLength": 5, "minLength": 2},
            parts={"type": "array", "maxItems": 2, "items": {"type": "string"}},
            ratio={"type": "number"},
            on={"type": "boolean"},
            port={"x-kubernetes-int-or-string": True},
            at={"type": "string", "format": "date-time"},
            labels={"type": "object", "additionalProperties": {"type": "string"}},
            inner={"type": "object", "required": ["key"], "properties": {"key": {"type": "string"}}},
            maybe={"type": "string", "nullable": True},
        ),
    )
    cases: dict[str, Object] = {
        "too large": {"size": 11},
        "too small": {"size": -1},
        "text as a number": {"size": "3"},
        "a fraction": {"size": 1.5},
        "an unknown color": {"color": "green"},
        "a pattern": {"title": "ABC"},
        "too long": {"title": "abcdef"},
        "too short": {"title": "a"},
        "too many": {"parts": ["a", "b", "c"]},
        "a part of another type": {"parts": ["a", 1]},
        "no boolean": {"on": "yes"},
        "neither number nor text": {"port": True},
        "no time": {"at": "yesterday"},
        "a label that is a number": {"labels": {"a": 1}},
        "a required field": {"inner": {}},
        "null": {"color": None},
        "null where it may be": {"maybe": None, "size": 1},
        "fine": {"size": 3, "port": "80%", "ratio": 1, "labels": {"a": "b"}, "at": "2026-01-02T03:04:05Z"},
    }
    for number, (what, spec) in enumerate(cases.items()):
        await cluster.created(what, resource, _widget(f"w{number}", **spec), "spec")
    two = cluster.placed(resource, _widget("two", size=11, color="green"))
    answer = await cluster.asked("", "POST", resource.collection_path(cluster.namespace), body=two)
    # In any order: the real server walks the fields as Go walks a map.
    cluster.saw("two faults", sorted(cause["field"] for cause in answer.json["details"]["causes"]))


@scenario("unknown fields are pruned unless the schema keeps them; defaults are filled in")
async def pruning_and_defaults(cluster: ClusterUnderTest) -> None:
    resource = await define(
        cluster,
        version(
            size={**SIZE, "default": 3},
            inner={"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "x"}}},
            free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        ),
    )
    spec = {"unknown": 1, "free": {"anything": [1]}}
    made = await cluster.created("pruned", resource, {**_widget("one", **spec), "extra": 1}, WHOLE)
    cluster.saw("extra", made.get("extra"))
    path = resource.collection_path(cluster.namespace)
    body = cluster.placed(resource, _widget("two", unknown=1))
    answer = await cluster.asked("strict", "POST", path, body=body, query={"fieldValidation": "Strict"})
    answer = await cluster.asked("warn", "POST", path, body=body, query={"fieldValidation": "Warn"})
    cluster.saw("warning", answer.headers.get("warning"))
    await cluster.patched("null", resource, "one", merge_patch({"spec": {"size": None}}), "spec")


@scenario(
    "with a status subresource, spec and status are written apart, and only the spec counts as a change"
)
async def status(cluster: ClusterUnderTest) -> None:
    resource = await define(cluster, version(size=SIZE, more={"subresources": {"status": {}}}))
    item = {**_widget("one", size=1), "status": {"phase": "early"}}
    await cluster.created("created with a status", resource, item, "status", "metadata.generation")
    both = merge_patch({"spec": {"size": 2}, "status": {"phase": "late"}, "metadata": {"labels": {"a": "b"}}})
    fields = ("spec", "status", "metadata.generation", "metadata.labels")
    await cluster.patched("through the status", resource.status, "one", both, *fields)
    await cluster.patched("through the object", resource, "one", both, *fields)


@scenario("without a status subresource the status is a field like others")
async def no_status(cluster: ClusterUnderTest) -> None:
    resource = await define(cluster, version(size=SIZE))
    fields = ("status", "metadata.generation")
    await cluster.created("created", resource, {**_widget("one"), "status": {"phase": "early"}}, *fields)
    late = {"status": {"phase": "late"}}
    await cluster.patched("changed", resource, "one", merge_patch(late), *fields)
    path = resource.status.object_path(cluster.namespace, "one")
    answer = await cluster.asked("", "PATCH", path, body=late, content_type="application/merge-patch+json")
    cluster.saw("through the status", answer.code)


@scenario("a custom resource can be scaled through the paths of its definition")
async def scale(cluster: ClusterUnderTest) -> None:
    resource = await define(
        cluster, version(size=SIZE, more={"subresources": {"status": {}, "scale": SCALE}})
    )
    await cluster.create(resource, _widget("one", size=2))
    known = merge_patch({"status": {"size": 1, "selector": "app=web"}})
    await cluster.patched("a status", resource.status, "one", known, "status")
    await cluster.tried("scale", cluster.client.get(resource.scale, cluster.key("one")), WHOLE)
    await cluster.patched("to 5", resource.scale, "one", merge_patch({"spec": {"replicas": 5}}), WHOLE)
    left = await cluster.read(resource, "one")
    cluster.saw("the object", [at(left, "spec"), at(left, "metadata.generation")])
    await cluster.patched("to 11", resource.scale, "one", merge_patch({"spec": {"replicas": 11}}))
    await cluster.patched("to -1", resource.scale, "one", merge_patch({"spec": {"replicas": -1}}))
    await cluster.create(resource, _widget("unsized"))
    await cluster.tried(
        "without replicas", cluster.client.get(resource.scale, cluster.key("unsized")), "spec", "status"
    )


@scenario("rules of a schema see the old object: a field can be made immutable")
async def rules(cluster: ClusterUnderTest) -> None:
    fixed = {
        "type": "string",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}],
    }
    small = {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 10"}]}
    resource = await define(cluster, version(fixed=fixed, small=small))
    await cluster.created("too large", resource, _widget("one", small=10))
    await cluster.created("fine", resource, _widget("one", fixed="a", small=1), "spec")
    await cluster.patched("changed", resource, "one", merge_patch({"spec": {"fixed": "b"}}))
    await cluster.patched("another field", resource, "one", merge_patch({"spec": {"small": 2}}), "spec")
    await cluster.patched("removed", resource, "one", merge_patch({"spec": {"fixed": None}}), "spec")


@scenario("custom resources take JSON and merge patches and apply, not strategic merges")
async def patches(cluster: ClusterUnderTest) -> None:
    resource = await define(cluster, version(size=SIZE, parts={"type": "array", "items": {"type": "string"}}))
    await cluster.create(resource, _widget("one", size=1, parts=["a"]))
    await cluster.patched("merge", resource, "one", merge_patch({"spec": {"parts": ["b"]}}), "spec")
    operation = [{"op": "add", "path": "/spec/parts/-", "value": "c"}]
    await cluster.patched("JSON", resource, "one", json_patch(operation), "spec")
    await cluster.patched("strategic", resource, "one", strategic_patch({"spec": {"size": 2}}))
    wanted = cluster.placed(resource, _widget("two", size=1))
    await cluster.patched("apply", resource, "two", apply_patch(wanted, field_manager="one"), "spec")
    other = cluster.placed(resource, _widget("two", size=2))
    await cluster.patched("apply by another", resource, "two", apply_patch(other, field_manager="two"))
    unversioned = cluster.placed(resource, _widget("one", size=3))
    await cluster.tried("an update without version", cluster.client.replace(resource, unversioned))


@scenario("an object can be read in every version that is served")
async def versions(cluster: ClusterUnderTest) -> None:
    resource = await define(cluster, version("v1", size=SIZE), version("v2", storage=False, size=SIZE))
    await cluster.create(resource, _widget("one", size=1))
    second = widgets(cluster, "v2")
    found = await cluster.client.get(second, cluster.key("one"))
    cluster.saw("as v2", [found["apiVersion"], found["spec"]])
    await cluster.patched(
        "changed as v2", second, "one", merge_patch({"spec": {"size": 2}}), "apiVersion", "spec"
    )
    found = await cluster.client.get(resource, cluster.key("one"))
    cluster.saw("as v1", [found["apiVersion"], found["spec"]])
    await cluster.tried("as v3", cluster.client.get(widgets(cluster, "v3"), cluster.key("one")))


@scenario("items of custom lists say their kind")
async def lists(cluster: ClusterUnderTest) -> None:
    resource = await define(cluster, version(size=SIZE))
    await cluster.create(resource, _widget("one", size=1))
    answer = await cluster.asked("", "GET", resource.collection_path(cluster.namespace))
    cluster.saw("list", {**answer.json, "items": [sorted(item) for item in answer.json["items"]]})


@scenario("deleting a definition deletes its objects")
async def removal(cluster: ClusterUnderTest) -> None:
    resource = await define(cluster, version(size=SIZE))
    await cluster.create(resource, _widget("one", size=1))
    held = {"finalizers": ["example.com/hold"]}
    await cluster.create(resource, _widget("held", held, size=1))
    page = await cluster.client.list(resource, namespace=cluster.namespace)
    name = f"widgets.{cluster.namespace}.example.com"
    await cluster.client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)
    reported = await cluster.events(resource, 2, version=page.resource_version)
    cluster.saw("events", sorted(reported))
    await cluster.created("a new one meanwhile", resource, _widget("two", size=1))
    release = json_patch([{"op": "remove", "path": "/metadata/finalizers"}])
    await cluster.client.patch(resource, cluster.key("held"), release)
    await cluster.until(CUSTOM_RESOURCE_DEFINITIONS, lambda found: name not in found)


@scenario("lists of custom resources are applied as their schema says: as a whole, as a set, by key")
async def applied_lists(cluster: ClusterUnderTest) -> None:
    text = {"type": "string"}
    pair = {"type": "object", "required": ["name"], "properties": {"name": text, "value": text}}
    resource = await define(
        cluster,
        version(
            whole={"type": "array", "items": text},
            set={"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            pairs={
                "type": "array",
                "items": pair,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    )
    for manager in ("one", "two"):
        wanted = _widget("it", set=[manager], pairs=[{"name": manager, "value": "x"}])
        patch = apply_patch(cluster.placed(resource, wanted), field_manager=manager)
        await cluster.patched(manager, resource, "it", patch, "spec")
    other = _widget("it", whole=["a"], pairs=[{"name": "one", "value": "y"}])
    patch = apply_patch(cluster.placed(resource, other), field_manager="two")
    await cluster.patched("two, of one's", resource, "it", patch, "spec")
    patch = apply_patch(cluster.placed(resource, _widget("it")), field_manager="one")
    await cluster.patched("one lets go", resource, "it", patch, "spec")
    twice = _widget("twice", set=["a", "a"])
    await cluster.created("twice in a set", resource, twice)
