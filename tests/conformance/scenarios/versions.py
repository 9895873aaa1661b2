"""Resource versions, generations, and conflicts between writers."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import CONFIG_MAPS, DEPLOYMENTS, json_patch, merge_patch
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.objects import config_map, deployment, pod
from tests.conformance.scenario import scenario


@scenario("an update with an outdated version is refused with a conflict")
async def outdated_update(cluster: ClusterUnderTest) -> None:
    first = await cluster.create(CONFIG_MAPS, config_map("settings"))
    await cluster.client.patch(CONFIG_MAPS, cluster.key("settings"), merge_patch({"data": {"a": "2"}}))
    await cluster.tried("the first version, written again", cluster.client.replace(CONFIG_MAPS, first))


@scenario("an update that names no version is accepted")
async def unconditional_update(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("settings"))
    again = cluster.placed(CONFIG_MAPS, config_map("settings", a="3"))
    await cluster.tried("without a version", cluster.client.replace(CONFIG_MAPS, again), "data")


@scenario("an update that changes nothing leaves the version as it is")
async def no_change(cluster: ClusterUnderTest) -> None:
    first = await cluster.create(CONFIG_MAPS, config_map("settings"))
    second = await cluster.client.replace(CONFIG_MAPS, first)
    third = await cluster.client.patch(
        CONFIG_MAPS, cluster.key("settings"), merge_patch({"data": {"a": "1"}})
    )
    versions = [item["metadata"]["resourceVersion"] for item in (first, second, third)]
    cluster.saw("number of versions", len(set(versions)))


@scenario("a name can be used once")
async def taken_name(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("settings"))
    second = cluster.placed(CONFIG_MAPS, config_map("settings"))
    await cluster.tried("a second one", cluster.client.create(CONFIG_MAPS, second))


@scenario("only a change of the spec raises the generation")
async def generations(cluster: ClusterUnderTest) -> None:
    made = await cluster.create(DEPLOYMENTS, deployment("web"))
    cluster.saw("at first", made["metadata"]["generation"])
    changes = {
        "after a label": merge_patch({"metadata": {"labels": {"a": "b"}}}),
        "after a change of the spec": merge_patch({"spec": {"replicas": 4}}),
        "after the same change again": merge_patch({"spec": {"replicas": 4}}),
    }
    for what, patch in changes.items():
        await cluster.tried(
            what, cluster.client.patch(DEPLOYMENTS, cluster.key("web"), patch), "metadata.generation"
        )


@scenario("a patch can be made to depend on the version")
async def conditional_patch(cluster: ClusterUnderTest) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("settings"))
    version = made["metadata"]["resourceVersion"]
    mark = merge_patch({"metadata": {"resourceVersion": version, "labels": {"lock": "mine"}}})
    await cluster.tried(
        "the first", cluster.client.patch(CONFIG_MAPS, cluster.key("settings"), mark), "metadata.labels"
    )
    other = merge_patch({"metadata": {"resourceVersion": version, "labels": {"lock": "yours"}}})
    await cluster.tried("the second", cluster.client.patch(CONFIG_MAPS, cluster.key("settings"), other))


@scenario("a deletion can be made to depend on uid and version")
async def conditional_deletion(cluster: ClusterUnderTest) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("settings"))
    wrong = "00000000-0000-0000-0000-000000000000"
    key = cluster.key("settings")
    await cluster.tried("another uid", cluster.client.delete(CONFIG_MAPS, key, uid=wrong))
    await cluster.tried("another version", cluster.client.delete(CONFIG_MAPS, key, version="1"))
    await cluster.tried("its uid", cluster.client.delete(CONFIG_MAPS, key, uid=made["metadata"]["uid"]))
    await cluster.tried("once more", cluster.client.delete(CONFIG_MAPS, key))


@scenario("a JSON patch whose test fails changes nothing")
async def failed_test(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("settings"))
    patch = json_patch(
        [
            {"op": "replace", "path": "/data/a", "value": "2"},
            {"op": "test", "path": "/data/a", "value": "1"},
        ]
    )
    await cluster.tried("the patch", cluster.client.patch(CONFIG_MAPS, cluster.key("settings"), patch))
    left = await cluster.read(CONFIG_MAPS, "settings")
    cluster.saw("what is left", left and left["data"])


@scenario("a write to the status leaves the spec alone, and the other way round")
async def status_apart(cluster: ClusterUnderTest) -> None:
    await cluster.create(PODS, pod("one"))
    both = merge_patch(
        {"metadata": {"labels": {"from": "status"}}, "spec": {"priority": 7}, "status": {"message": "hello"}}
    )
    fields = ("metadata.labels", "spec.priority", "status.message")
    one, pods = cluster.key("one"), PODS.as_json
    await cluster.tried("through the status", cluster.client.patch(pods.status, one, both), *fields)
    plain = merge_patch({"metadata": {"labels": {"from": "main"}}, "status": {"message": "other"}})
    await cluster.tried("through the object", cluster.client.patch(pods, one, plain), *fields)
