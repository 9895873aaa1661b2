"""A server that can't do what a handover needs: too old ones are refused at the start; what is switched off
in a newer one is noticed where it is needed, and everything is undone."""

import json

import pytest

from kubesim.apiserver.api_messages import object_response
from rescheduler.api.podmigration import MigrationPhase
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.kube import errors
from rescheduler.kube.server_capabilities import MissingCapability


def answering(server, code, content):
    """A server that tells something else about its version."""

    async def handle(method, target, headers, body):
        if target == "/version":
            return object_response(code, content)
        return await server.handle(method, target, headers, body)

    return handle


@pytest.mark.parametrize(
    ("version", "reported"),
    [
        pytest.param({"gitVersion": "v1.29.14"}, "v1.29.14", id="the last before"),
        pytest.param({"gitVersion": "v1.9.0"}, "v1.9.0", id="numbers, not letters"),
        pytest.param({"major": "1", "minor": "29+"}, "1.29", id="as some providers write it"),
    ],
)
async def test_nothing_is_moved_in_a_cluster_that_is_too_old(make_moves, connect, server, version, reported):
    moves = await make_moves(nodes=2)
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    await moves.create_migration(source, await moves.sandbox.free_node())
    with pytest.raises(MissingCapability) as refused:
        async with moves.executing(connect(answering(server, 200, version))):
            pytest.fail("it has begun")
    assert str(refused.value) == (
        f"can't move pods: the cluster runs Kubernetes {reported}, but scheduling gates and match conditions "
        "of webhooks need 1.30 or newer. Upgrade the cluster. `rescheduler plan` also works with older "
        "versions."
    )
    assert not refused.value.retriable


@pytest.mark.parametrize(
    "version",
    [
        pytest.param({"gitVersion": "v1.30.0"}, id="the first"),
        pytest.param({"gitVersion": "v1.30.5-gke.1"}, id="a provider's"),
        pytest.param({"gitVersion": "v2.0.0"}, id="one far away"),
        pytest.param({"gitVersion": "unknown", "major": "1", "minor": "31+"}, id="by its two numbers"),
        pytest.param({"gitVersion": "unknown"}, id="that says nothing of use: what is missing will show"),
        pytest.param({}, id="that says nothing"),
    ],
)
async def test_a_server_is_good_enough(make_moves, connect, server, version):
    await make_moves(nodes=1)
    async with WatchedObjects(connect(answering(server, 200, version))).running():
        pass


async def test_an_unreadable_version_prevents_no_move(make_moves, connect, server):
    await make_moves(nodes=1)
    async with WatchedObjects(connect(answering(server, 403, {"kind": "Status", "code": 403}))).running():
        pass


async def test_a_server_that_answers_nonsense_is_an_error(make_moves, connect, server):
    await make_moves(nodes=1)
    with pytest.raises(errors.InvalidResponse):
        async with WatchedObjects(connect(answering(server, 200, ["nonsense"]))).running():
            pytest.fail("it has begun")


def forgetting(server, path_end, part, name):
    """A server that drops a field of requests, as one does that doesn't know the field."""

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
async def test_a_server_that_knows(make_moves, connect, server, path_end, part, field, failure):
    moves = await make_moves(nodes=2)
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with moves.executing(connect(forgetting(server, path_end, part, field))):
        migration = await moves.until_finished(key)
        await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.FAILED
    assert migration.status.failure == failure
    assert "1.30" in migration.status.message
    assert len(await moves.sandbox.until_ready(1)) == 1


async def test_a_nomination_that_meets_a_conflict_is_repeated(make_moves, connect, server):
    """The copy changed at that moment: the server does know nominations."""
    conflicts = 1

    async def handle(method, target, headers, body):
        nonlocal conflicts
        if (
            method == "PATCH"
            and target.partition("?")[0].endswith("/status")
            and b"nominatedNodeName" in body
        ):
            conflicts -= 1
            if conflicts >= 0:
                return object_response(409, {"kind": "Status", "code": 409, "reason": "Conflict"})
        return await server.handle(method, target, headers, body)

    moves = await make_moves(nodes=2)
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with moves.executing(connect(handle)):
        migration = await moves.until_finished(key)
    assert conflicts < 0
    assert (migration.status.phase, migration.status.failure) == (MigrationPhase.COMPLETED, "")
