"""Resource versions, generations and who may write over whom."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import CONFIG_MAPS, DEPLOYMENTS, json_patch, merge_patch
from tests.conformance.objects import config_map, deployment, pod
from tests.conformance.scenario import scenario
from tests.conformance.world import World


@scenario("an update with an outdated version is refused with a conflict")
async def outdated_update(world: World) -> None:
    first = await world.create(CONFIG_MAPS, config_map("settings"))
    await world.client.patch(CONFIG_MAPS, world.key("settings"), merge_patch({"data": {"a": "2"}}))
    await world.tried("the first version, written again", world.client.replace(CONFIG_MAPS, first))


@scenario("an update that names no version is accepted")
async def unconditional_update(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("settings"))
    again = world.placed(CONFIG_MAPS, config_map("settings", a="3"))
    await world.tried("without a version", world.client.replace(CONFIG_MAPS, again), "data")


@scenario("an update that changes nothing leaves the version as it is")
async def no_change(world: World) -> None:
    first = await world.create(CONFIG_MAPS, config_map("settings"))
    second = await world.client.replace(CONFIG_MAPS, first)
    third = await world.client.patch(CONFIG_MAPS, world.key("settings"), merge_patch({"data": {"a": "1"}}))
    versions = [item["metadata"]["resourceVersion"] for item in (first, second, third)]
    world.saw("number of versions", len(set(versions)))


@scenario("a name can be taken once")
async def taken_name(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("settings"))
    second = world.placed(CONFIG_MAPS, config_map("settings"))
    await world.tried("a second one", world.client.create(CONFIG_MAPS, second))


@scenario("only a change of the spec raises the generation")
async def generations(world: World) -> None:
    made = await world.create(DEPLOYMENTS, deployment("web"))
    world.saw("at first", made["metadata"]["generation"])
    changes = {
        "after a label": merge_patch({"metadata": {"labels": {"a": "b"}}}),
        "after a change of the spec": merge_patch({"spec": {"replicas": 4}}),
        "after the same change again": merge_patch({"spec": {"replicas": 4}}),
    }
    for what, patch in changes.items():
        await world.tried(
            what, world.client.patch(DEPLOYMENTS, world.key("web"), patch), "metadata.generation"
        )


@scenario("a patch can be made to depend on the version")
async def conditional_patch(world: World) -> None:
    made = await world.create(CONFIG_MAPS, config_map("settings"))
    version = made["metadata"]["resourceVersion"]
    mark = merge_patch({"metadata": {"resourceVersion": version, "labels": {"lock": "mine"}}})
    await world.tried(
        "the first", world.client.patch(CONFIG_MAPS, world.key("settings"), mark), "metadata.labels"
    )
    other = merge_patch({"metadata": {"resourceVersion": version, "labels": {"lock": "yours"}}})
    await world.tried("the second", world.client.patch(CONFIG_MAPS, world.key("settings"), other))


@scenario("a deletion can be made to depend on uid and version")
async def conditional_deletion(world: World) -> None:
    made = await world.create(CONFIG_MAPS, config_map("settings"))
    wrong = "00000000-0000-0000-0000-000000000000"
    key = world.key("settings")
    await world.tried("another uid", world.client.delete(CONFIG_MAPS, key, uid=wrong))
    await world.tried("another version", world.client.delete(CONFIG_MAPS, key, version="1"))
    await world.tried("its uid", world.client.delete(CONFIG_MAPS, key, uid=made["metadata"]["uid"]))
    await world.tried("once more", world.client.delete(CONFIG_MAPS, key))


@scenario("a JSON patch whose test fails changes nothing")
async def failed_test(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("settings"))
    patch = json_patch(
        [
            {"op": "replace", "path": "/data/a", "value": "2"},
            {"op": "test", "path": "/data/a", "value": "1"},
        ]
    )
    await world.tried("the patch", world.client.patch(CONFIG_MAPS, world.key("settings"), patch))
    left = await world.read(CONFIG_MAPS, "settings")
    world.saw("what is left", left and left["data"])


@scenario("a write to the status leaves the spec alone, and the other way round")
async def status_apart(world: World) -> None:
    await world.create(PODS, pod("one"))
    both = merge_patch(
        {"metadata": {"labels": {"from": "status"}}, "spec": {"priority": 7}, "status": {"message": "hello"}}
    )
    fields = ("metadata.labels", "spec.priority", "status.message")
    one, pods = world.key("one"), PODS.as_json
    await world.tried("through the status", world.client.patch(pods.status, one, both), *fields)
    plain = merge_patch({"metadata": {"labels": {"from": "main"}}, "status": {"message": "other"}})
    await world.tried("through the object", world.client.patch(pods, one, plain), *fields)
