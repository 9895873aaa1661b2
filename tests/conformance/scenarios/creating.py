"""Creation: names the server chooses, namespaces, dry runs, fields that a kind does not have."""

import re

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, api_resource, merge_patch
from rescheduler.kube.errors import Invalid
from tests.conformance.notes import at
from tests.conformance.objects import config_map, deployment, pod
from tests.conformance.scenario import scenario
from tests.conformance.world import World


@scenario("the server completes a generated name with five letters that can't be misread")
async def generated_name(world: World) -> None:
    made = await world.create(CONFIG_MAPS, {"metadata": {"generateName": "settings-"}})
    name = made["metadata"]["name"]
    world.saw("a name", bool(re.fullmatch(r"settings-[bcdfghjklmnpqrstvwxz2456789]{5}", name)))
    world.saw("generateName stays", made["metadata"]["generateName"])
    long = await world.create(CONFIG_MAPS, {"metadata": {"generateName": "x" * 100}})
    world.saw("length of a long one", len(long["metadata"]["name"]))
    both = {"metadata": {"generateName": "settings-", "name": "mine"}}
    await world.created("with a name", CONFIG_MAPS, both, "metadata.name")
    await world.created("with neither", CONFIG_MAPS, {"metadata": {}})
    bad = world.placed(CONFIG_MAPS, {"metadata": {"generateName": "Not_good-"}})
    with pytest.raises(Invalid) as refused:
        await world.client.create(CONFIG_MAPS, bad)
    world.saw("a bad beginning", [cause.field for cause in refused.value.causes])


@scenario("a namespace must be there, and be the one that the path names")
async def namespaces(world: World) -> None:
    nowhere = CONFIG_MAPS.collection_path(world.unique("nowhere"))
    here = CONFIG_MAPS.collection_path(world.namespace)
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    await world.asked("into a namespace that is not there", "POST", nowhere, body=item)
    other = {**item, "metadata": {"name": "settings", "namespace": "default"}}
    await world.asked("another namespace in the body", "POST", here, body=other)
    answer = await world.asked("", "POST", here, body=item)
    world.saw("none in the body", [answer.code, at(answer.json, "metadata.namespace")])
    await world.asked("into all namespaces", "POST", CONFIG_MAPS.collection_path(), body=item)
    await world.tried("read in it", world.client.get(CONFIG_MAPS, f"{world.unique('nowhere')}/settings"))
    listed = await world.client.list(CONFIG_MAPS, namespace=world.unique("nowhere"))
    world.saw("listed in it", listed.items)


@scenario("a namespace labels itself with its name, and is refused a bad one")
async def a_namespace(world: World) -> None:
    made = await world.client.get(NAMESPACES, world.namespace)
    world.saw("as made", made)
    await world.created("a bad name", NAMESPACES, {"metadata": {"name": "Not_Good"}})
    await world.created("a long name", NAMESPACES, {"metadata": {"name": "x" * 64}})
    label = merge_patch({"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}})
    await world.patched("its label changed", NAMESPACES, world.namespace, label, "metadata.labels")


@scenario("a dry run answers as if it had been done, and does nothing")
async def dry_run(world: World) -> None:
    item = world.placed(CONFIG_MAPS, config_map("settings"))
    made = await world.client.create(CONFIG_MAPS, item, dry_run=True)
    world.saw("has a uid", "uid" in made["metadata"])
    world.saw("has a version", "resourceVersion" in made["metadata"])
    world.saw("after creation", await world.read(CONFIG_MAPS, "settings"))
    await world.create(CONFIG_MAPS, config_map("settings"))
    key = world.key("settings")
    await world.tried("creation again", world.client.create(CONFIG_MAPS, item, dry_run=True))
    change = merge_patch({"data": {"a": "2"}})
    await world.tried("patch", world.client.patch(CONFIG_MAPS, key, change, dry_run=True), "data")
    await world.tried("deletion", world.client.delete(CONFIG_MAPS, key, dry_run=True))
    left = await world.read(CONFIG_MAPS, "settings")
    world.saw("after all", left and left["data"])
    path = CONFIG_MAPS.collection_path(world.namespace)
    await world.asked("another word than All", "POST", path, body=item, query={"dryRun": "Some"})


@scenario("unknown fields are refused, warned about or ignored, as the request says")
async def field_validation(world: World) -> None:
    path = DEPLOYMENTS.collection_path(world.namespace)
    body = world.placed(DEPLOYMENTS, deployment("web"))
    body["spec"]["frobnicate"] = True
    for directive in ("Strict", "Warn", "Ignore", "", "Perhaps"):
        query = {"dryRun": "All"} | ({"fieldValidation": directive} if directive else {})
        answer = await world.asked(directive or "unsaid", "POST", path, body=body, query=query)
        if answer.code < 400:
            world.saw(directive or "unsaid", [answer.code, answer.headers.get("warning")])
            world.saw("kept", at(answer.json, "spec.frobnicate"))
    body["spec"]["template"]["spec"]["containers"][0]["imaeg"] = "example.com/app:1"
    await world.asked("two", "POST", path, body=body, query={"fieldValidation": "Strict"})


@scenario("patches are held to known fields, too")
async def field_validation_of_patches(world: World) -> None:
    await world.create(DEPLOYMENTS, deployment("web"))
    path = DEPLOYMENTS.object_path(world.namespace, "web")
    for content_type in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
        for directive in ("Strict", "Warn"):
            what = f"{content_type}, {directive}"
            answer = await world.asked(
                what,
                "PATCH",
                path,
                body={"spec": {"frobnicate": 1}},
                query={"fieldValidation": directive},
                content_type=content_type,
            )
            if answer.code < 400:
                world.saw(what, [answer.code, answer.headers.get("warning")])


@scenario("what the server alone decides is not taken from the request")
async def servers_own(world: World) -> None:
    item = pod(
        "one",
        uid="00000000-0000-0000-0000-000000000001",
        creationTimestamp="2001-01-01T00:00:00Z",
        generation=77,
        deletionTimestamp="2001-01-01T00:00:00Z",
        deletionGracePeriodSeconds=7,
        selfLink="/x",
    )
    item["status"] = {"phase": "Running", "podIP": "10.0.0.1"}
    made = await world.created("a pod", PODS, item, "metadata", "status")
    world.saw("its own uid", made["metadata"]["uid"] != item["metadata"]["uid"])
    world.saw("its own time", made["metadata"]["creationTimestamp"] > "2002")
    versioned = config_map("settings", resourceVersion="12")
    await world.created("with a version", CONFIG_MAPS, versioned)


@scenario("a create-or-update by PUT works for a few kinds, for the others the object must be there")
async def put_of_nothing(world: World) -> None:
    leases = api_resource("coordination.k8s.io", "v1", "leases", "Lease")
    lease = world.placed(leases, {"metadata": {"name": "lock"}, "spec": {"holderIdentity": "me"}})
    await world.tried("a lease", world.client.replace(leases, lease), "spec")
    settings = world.placed(CONFIG_MAPS, config_map("settings"))
    await world.tried("a config map", world.client.replace(CONFIG_MAPS, settings))
    await world.tried(
        "a deployment", world.client.replace(DEPLOYMENTS, world.placed(DEPLOYMENTS, deployment("web")))
    )
