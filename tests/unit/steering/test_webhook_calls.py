"""The webhook as a whole on a simulated cluster, which calls it over HTTPS as a real one would."""

import logging

import pytest

from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME
from rescheduler.api.well_known_names import (
    AVOIDED_NODES_ANNOTATION,
    GROUP,
    POD_MIGRATION_KIND,
    STEERED_BY_ANNOTATION,
    VERSION,
)
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOKS,
    json_patch,
    merge_patch,
)
from rescheduler.kube.client import Client
from tests.unit.steering.conftest import Serve
from tests.unit.steering.reviews import OWNER, REQUIRED, pod_of
from tests.unit.steering.steered_migrations import (
    MIGRATIONS,
    Eventually,
    begin,
    created,
    is_steered,
    steering,
)
from tests.webhook_installed import configuration_of

OURS = configuration_of("ours")


async def test_a_pod_of_a_workload_that_is_being_moved_is_steered(
    client: Client, serve: Serve, eventually: Eventually
):
    async with serve():
        assert not is_steered(await created(client))
        await begin(client)
        await eventually(steering(client))
        pod = await created(client)
        assert pod["metadata"]["annotations"] == {
            AVOIDED_NODES_ANNOTATION: '["old"]',
            STEERED_BY_ANNOTATION: "move-1",
        }
        terms = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        assert terms[0]["matchFields"][0]["values"] == ["old"]
        others = [{**OWNER, "uid": "rs-2"}]
        assert not is_steered(await created(client, ownerReferences=others))


async def test_it_ends_with_the_migration(client: Client, serve: Serve, eventually: Eventually):
    await begin(client)
    async with serve():
        await eventually(steering(client))
        done = merge_patch({"status": {"phase": "Completed", "step": "Completed"}})
        await client.patch(MIGRATIONS.status, "shop/move-1", done)

        async def unsteered() -> bool:
            return not is_steered(await created(client))

        await eventually(unsteered)


async def test_one_that_is_deleted_steers_no_more(client: Client, serve: Serve, eventually: Eventually):
    await begin(client)
    async with serve():
        await eventually(steering(client))
        await client.delete(MIGRATIONS, "shop/move-1")

        async def unsteered() -> bool:
            return not is_steered(await created(client))

        await eventually(unsteered)


async def test_pods_are_made_as_usual_when_it_is_gone(client: Client, serve: Serve):
    await begin(client)
    async with serve():
        pass
    assert not is_steered(await created(client))
    assert await client.get(MUTATING_WEBHOOKS, OURS), "the registration stays for other replicas"


async def test_several_replacements_are_sent_to_several_targets(
    client: Client, serve: Serve, eventually: Eventually
):
    await begin(client, "move-1", targetNode="new-1")
    await begin(client, "move-2", targetNode="new-2")
    async with serve():

        async def both_known() -> bool:
            return len({(await created(client))["metadata"]["annotations"][STEERED_BY_ANNOTATION]}) == 1

        await eventually(both_known)
        causes = []
        for number in range(2):
            pod = await client.create(PODS.as_json, pod_of(name=f"web-{number}", generateName=None))
            causes.append(pod["metadata"]["annotations"][STEERED_BY_ANNOTATION])
        assert sorted(causes) == ["move-1", "move-2"], "dry runs before it don't count"


async def test_an_unreadable_migration_steers_nothing(
    client: Client, serve: Serve, eventually: Eventually, caplog: pytest.LogCaptureFixture
):
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    path = "/spec/versions/0/schema/openAPIV3Schema"
    patch = json_patch([{"op": "replace", "path": path, "value": loose}])
    await client.patch(CUSTOM_RESOURCE_DEFINITIONS, PODMIGRATION_CRD_NAME, patch)
    await client.create(
        MIGRATIONS,
        {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": POD_MIGRATION_KIND,
            "metadata": {"namespace": "shop", "name": "odd"},
            "spec": {"pod": 5},
        },
    )
    with caplog.at_level(logging.WARNING, "rescheduler"):
        async with serve():
            assert not is_steered(await created(client))
    assert "PodMigration shop/odd is invalid" in caplog.text
