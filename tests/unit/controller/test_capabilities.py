"""A server that can't do what a handover needs: noticed where it is needed, and everything is undone."""

import json

import pytest

from rescheduler.model.migrations import Phase


def forgetting(server, path_end, part, name):
    """A server that drops a field of what is sent to it, as one does that has never heard of it."""

    async def handle(method, target, headers, body):
        path = target.partition("?")[0]
        if method in {"POST", "PATCH"} and path.endswith(path_end) and "/pods" in path:
            content = json.loads(body)
            content.get(part, {}).pop(name, None)
            body = json.dumps(content).encode()
        return await server.handle(method, target, headers, body)

    return handle


@pytest.mark.parametrize(
    ("path_end", "part", "field", "failure"),
    [
        pytest.param("/pods", "spec", "schedulingGates", "GateMissing", id="no scheduling gates"),
        pytest.param("/status", "status", "nominatedNodeName", "NominationIgnored", id="no nomination"),
    ],
)
async def test_a_server_that_knows(set_moves, connect, server, path_end, part, field, failure):
    moves = await set_moves(nodes=2)
    await moves.stage.deployment(1)
    (source,) = await moves.stage.pods()
    key = await moves.wish(source, await moves.stage.free_node())
    async with moves.executing(connect(forgetting(server, path_end, part, field))):
        migration = await moves.until_finished(key)
        await moves.until_nothing_left()
    assert migration.status.phase is Phase.FAILED
    assert migration.status.failure == failure
    assert "1.30" in migration.status.message
    assert len(await moves.stage.until_ready(1)) == 1
