"""A live cluster is read completely, and everything that can't be read is reported."""

import asyncio

from kubesim.apiserver.api_server import ApiServer
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.sources.live_source import read_live
from rescheduler.cluster.sources.usage_sources import usage_reader
from rescheduler.cluster.trusted_usage import RequestsOnlyReader
from rescheduler.config.policy import Policy
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from tests.stories.facts.podmigrations import PODMIGRATIONS, definitions


async def test_a_migration_of_an_older_definition_is_left_out_and_said():
    client = Client(InProcessTransport(ApiServer().handle))
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definitions()[0])
    await client.create(NODES, {"metadata": {"name": "a"}, "status": {"capacity": {"cpu": "4"}}})
    await client.create(
        PODMIGRATIONS,
        {
            "apiVersion": PODMIGRATIONS.api_version,
            "kind": PODMIGRATIONS.kind,
            "metadata": {"namespace": "default", "name": "older"},
            "spec": {"podName": "web-1"},
        },
    )

    reading = await read_live(client, usage_reader(Policy(), client))

    (said,) = [each for each in reading.assumptions if "PodMigration" in each]
    assert said.startswith("PodMigration default/older is invalid: Object missing required field `pod`")
    assert said.endswith("; this migration is ignored")
    await client.close()


async def test_a_few_connections_serve_for_all_lists_and_the_pods_are_asked_for_first():
    server, at_once, most, asked = ApiServer(), 0, 0, []

    async def counted(method, target, headers, body):
        nonlocal at_once, most
        at_once, most = at_once + 1, max(most, at_once + 1)
        asked.append(target)
        await asyncio.sleep(0)
        try:
            return await server.handle(method, target, headers, body)
        finally:
            at_once -= 1

    client = Client(InProcessTransport(counted))
    await client.create(NODES, {"metadata": {"name": "a"}, "status": {"capacity": {"cpu": "4"}}})
    asked.clear()
    await read_live(client, RequestsOnlyReader())
    assert most <= 4
    assert len(asked) > 10
    assert asked[0].startswith("/api/v1/pods?")
    await client.close()
