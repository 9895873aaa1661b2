"""Our clock and that of the API server are minutes apart."""

import asyncio
from datetime import timedelta

import pytest

from rescheduler.kube.api_resources import STATEFUL_SETS
from tests.stories import objects
from tests.stories.observer import observing
from tests.stories.sandbox import node_of


def stateful_set(namespace, kubelet):
    template = {"metadata": {"labels": {"app": "db"}}, "spec": objects.pod_spec(kubelet)}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"namespace": namespace, "name": "db"},
        "spec": {
            "replicas": 1,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template,
        },
    }


@pytest.mark.parametrize("ahead_s", [0, 300, -300], ids=["the same", "ours is ahead", "ours is behind"])
async def test_a_replacement_that_finds_no_place_is_created_again_once_when_the_clocks_are(
    make_moves, client, ahead_s
):
    moves = await make_moves(3, scheduler_extender=True, steer_timeout=timedelta(seconds=5))
    sandbox, by_the_server = moves.sandbox, moves.now
    moves.now = lambda: by_the_server() + timedelta(seconds=ahead_s)
    await client.create(STATEFUL_SETS, stateful_set(sandbox.namespace, sandbox.kubelet.name))
    (source,) = await sandbox.until_ready(1, app="db")
    await sandbox.cordon(*sandbox.nodes)
    target = next(node for node in sandbox.nodes if node != node_of(source))
    key = await moves.create_migration(source, target)
    async with observing(client, sandbox.namespace, app="db") as seen, moves.executing():
        await asyncio.sleep(400)
        assert seen.created.count("db-0") == 2, "the first one, and another without our constraints"
        await sandbox.cordon(target, on=False)
        migration = await moves.until_finished(key, timeout_s=300)
    assert migration.status.phase == "Completed", migration.status
    assert migration.status.target_pod.uid == (await sandbox.until_ready(1, app="db"))[0]["metadata"]["uid"]
