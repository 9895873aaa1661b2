"""Creation: names the server chooses, namespaces, dry runs, fields that a kind does not have."""

import re

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, api_resource, merge_patch
from rescheduler.kube.errors import Invalid
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.notes import at
from tests.conformance.objects import config_map, deployment, pod
from tests.conformance.scenario import scenario


@scenario("the server completes a generated name with five letters that can't be misread")
async def generated_name(cluster: ClusterUnderTest) -> None:
    made = await cluster.create(CONFIG_MAPS, {"metadata": {"generateName": "settings-"}})
    name = made["metadata"]["name"]
    cluster.saw("a name", bool(re.fullmatch(r"settings-[bcdfghjklmnpqrstvwxz2456789]{5}", name)))
    cluster.saw("generateName stays", made["metadata"]["generateName"])
    long = await cluster.create(CONFIG_MAPS, {"metadata": {"generateName": "x" * 100}})
    cluster.saw("length of a long one", len(long["metadata"]["name"]))
    both = {"metadata": {"generateName": "settings-", "name": "mine"}}
    await cluster.created("with a name", CONFIG_MAPS, both, "metadata.name")
    await cluster.created("with neither", CONFIG_MAPS, {"metadata": {}})
    bad = cluster.placed(CONFIG_MAPS, {"metadata": {"generateName": "Not_good-"}})
    with pytest.raises(Invalid) as refused:
        await cluster.client.create(CONFIG_MAPS, bad)
    cluster.saw("a bad beginning", [cause.field for cause in refused.value.causes])


@scenario("a namespace must exist, and be the one in the path")
async def namespaces(cluster: ClusterUnderTest) -> None:
    nowhere = CONFIG_MAPS.collection_path(cluster.unique("nowhere"))
    here = CONFIG_MAPS.collection_path(cluster.namespace)
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    await cluster.asked("into a namespace that is not there", "POST", nowhere, body=item)
    other = {**item, "metadata": {"name": "settings", "namespace": "default"}}
    await cluster.asked("another namespace in the body", "POST", here, body=other)
    answer = await cluster.asked("", "POST", here, body=item)
    cluster.saw("none in the body", [answer.code, at(answer.json, "metadata.namespace")])
    await cluster.asked("into all namespaces", "POST", CONFIG_MAPS.collection_path(), body=item)
    await cluster.tried(
        "read in it", cluster.client.get(CONFIG_MAPS, f"{cluster.unique('nowhere')}/settings")
    )
    listed = await cluster.client.list(CONFIG_MAPS, namespace=cluster.unique("nowhere"))
    cluster.saw("listed in it", listed.items)


@scenario("a namespace gets a label with its name, and can't have another value there")
async def a_namespace(cluster: ClusterUnderTest) -> None:
    made = await cluster.client.get(NAMESPACES, cluster.namespace)
    cluster.saw("as made", made)
    await cluster.created("a bad name", NAMESPACES, {"metadata": {"name": "Not_Good"}})
    await cluster.created("a long name", NAMESPACES, {"metadata": {"name": "x" * 64}})
    label = merge_patch({"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}})
    await cluster.patched("its label changed", NAMESPACES, cluster.namespace, label, "metadata.labels")


@scenario("a dry run answers as if it had been done, and does nothing")
async def dry_run(cluster: ClusterUnderTest) -> None:
    item = cluster.placed(CONFIG_MAPS, config_map("settings"))
    made = await cluster.client.create(CONFIG_MAPS, item, dry_run=True)
    cluster.saw("has a uid", "uid" in made["metadata"])
    cluster.saw("has a version", "resourceVersion" in made["metadata"])
    cluster.saw("after creation", await cluster.read(CONFIG_MAPS, "settings"))
    await cluster.create(CONFIG_MAPS, config_map("settings"))
    key = cluster.key("settings")
    await cluster.tried("creation again", cluster.client.create(CONFIG_MAPS, item, dry_run=True))
    change = merge_patch({"data": {"a": "2"}})
    await cluster.tried("patch", cluster.client.patch(CONFIG_MAPS, key, change, dry_run=True), "data")
    await cluster.tried("deletion", cluster.client.delete(CONFIG_MAPS, key, dry_run=True))
    left = await cluster.read(CONFIG_MAPS, "settings")
    cluster.saw("after all", left and left["data"])
    path = CONFIG_MAPS.collection_path(cluster.namespace)
    await cluster.asked("another word than All", "POST", path, body=item, query={"dryRun": "Some"})


@scenario("unknown fields are refused, warned about or ignored, as the request says")
async def field_validation(cluster: ClusterUnderTest) -> None:
    path = DEPLOYMENTS.collection_path(cluster.namespace)
    body = cluster.placed(DEPLOYMENTS, deployment("web"))
    body["spec"]["frobnicate"] = True
    for directive in ("Strict", "Warn", "Ignore", "", "Perhaps"):
        query = {"dryRun": "All"} | ({"fieldValidation": directive} if directive else {})
        answer = await cluster.asked(directive or "unsaid", "POST", path, body=body, query=query)
        if answer.code < 400:
            cluster.saw(directive or "unsaid", [answer.code, answer.headers.get("warning")])
            cluster.saw("kept", at(answer.json, "spec.frobnicate"))
    body["spec"]["template"]["spec"]["containers"][0]["imaeg"] = "example.com/app:1"
    await cluster.asked("two", "POST", path, body=body, query={"fieldValidation": "Strict"})


@scenario("patches are checked for unknown fields, too")
async def field_validation_of_patches(cluster: ClusterUnderTest) -> None:
    await cluster.create(DEPLOYMENTS, deployment("web"))
    path = DEPLOYMENTS.object_path(cluster.namespace, "web")
    for content_type in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
        for directive in ("Strict", "Warn"):
            what = f"{content_type}, {directive}"
            answer = await cluster.asked(
                what,
                "PATCH",
                path,
                body={"spec": {"frobnicate": 1}},
                query={"fieldValidation": directive},
                content_type=content_type,
            )
            if answer.code < 400:
                cluster.saw(what, [answer.code, answer.headers.get("warning")])


@scenario("fields that only the server sets are not taken from the request")
async def servers_own(cluster: ClusterUnderTest) -> None:
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
    made = await cluster.created("a pod", PODS, item, "metadata", "status")
    cluster.saw("its own uid", made["metadata"]["uid"] != item["metadata"]["uid"])
    cluster.saw("its own time", made["metadata"]["creationTimestamp"] > "2002")
    versioned = config_map("settings", resourceVersion="12")
    await cluster.created("with a version", CONFIG_MAPS, versioned)


@scenario("PUT creates objects of a few kinds; for the others the object must exist")
async def put_of_nothing(cluster: ClusterUnderTest) -> None:
    leases = api_resource("coordination.k8s.io", "v1", "leases", "Lease")
    lease = cluster.placed(leases, {"metadata": {"name": "lock"}, "spec": {"holderIdentity": "me"}})
    await cluster.tried("a lease", cluster.client.replace(leases, lease), "spec")
    settings = cluster.placed(CONFIG_MAPS, config_map("settings"))
    await cluster.tried("a config map", cluster.client.replace(CONFIG_MAPS, settings))
    await cluster.tried(
        "a deployment", cluster.client.replace(DEPLOYMENTS, cluster.placed(DEPLOYMENTS, deployment("web")))
    )
