"""Requests that are refused, on the simulator; and how often they are repeated."""

import asyncio
import json
from datetime import timedelta

import pytest

from rescheduler.api.podmigration import MigrationPhase, decode_migration
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.migrations.controller.pod_writes import nominate_node_patch, remove_gate_patch
from tests.stories.migrations.workloads import stateful_set
from tests.stories.sandbox import node_of
from tests.stories.waiting import until_object

HOUR_S = 3600


class Refusing:
    """A transport to the server on which one kind of write is refused, or accepted and without effect."""

    def __init__(self, server, method, ending, code, message="not today", times=None):
        self._server = server
        self._refused = method, ending
        self._code = code
        self._message = message
        self._times = times
        self.requests = 0
        self.refused = 0

    async def __call__(self, method, target, headers, body):
        path = target.partition("?")[0]
        self.requests += method != "GET"
        wanted, ending = self._refused
        is_over = self._times is not None and self.refused >= self._times
        if is_over or method != wanted or not path.endswith(ending) or b"migration-id" not in (body or b""):
            return await self._server.handle(method, target, headers, body)
        self.refused += 1
        if self._code == 200:
            return await self._server.handle("GET", path, headers, b"")
        return await refusal(self._server, self._code, self._message)


async def refusal(server, code, message="not today"):
    """The answer of a server that refuses a request."""
    answer = await server.handle("GET", "/api/v1/nodes/that-is-not-there", {}, b"")
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}
    status["reason"] = {409: "Conflict", 403: "Forbidden"}.get(code, "Invalid")
    return answer._replace(status=code, chunks=_one(json.dumps(status).encode()))


async def _one(chunk):
    yield chunk


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        pytest.param(422, "MarkRefused", id="422 ends the migration"),
        pytest.param(403, "MarkRefused", id="403 ends the migration"),
        pytest.param(409, "", id="409 forever is retried with a growing pause"),
        pytest.param(200, "", id="a mark that is accepted and dropped is retried with a growing pause"),
    ],
)
async def test_a_mark_that_is_answered_with(make_moves, connect, server, code, failure):
    moves = await make_moves(nodes=2, migration_timeout=timedelta(hours=2), max_retries=0)
    source = await moves.sandbox.until_pod_ready(await moves.sandbox.pod("web"))
    way = Refusing(server, "PATCH", "/pods/web", code)
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with moves.executing(connect(way)):
        await asyncio.sleep(HOUR_S)
        migration = decode_migration(await moves.client.get(POD_MIGRATIONS, key))
    assert migration.status.failure == failure
    if failure:
        assert migration.status.phase is MigrationPhase.FAILED
        assert way.refused == 1
    # A pause that doubles up to two minutes: some ten tries, then one every one or two minutes (jitter).
    assert way.refused <= 10 + HOUR_S / 60
    assert way.requests <= way.refused + 20
    assert node_of(source) in {node_of(pod) for pod in await moves.sandbox.pods()}


@pytest.mark.parametrize(
    ("method", "ending"),
    [
        pytest.param("PATCH", "/pods/web", id="the mark"),
        pytest.param("POST", "/pods", id="the copy"),
    ],
)
async def test_a_write_is_tried_again_when_permission_is_missing_for(
    make_moves, connect, server, method, ending
):
    """An API server that has just started has not read its roles yet, and refuses what it allows later."""
    moves = await make_moves(nodes=2)
    source = await moves.sandbox.until_pod_ready(await moves.sandbox.pod("web"))
    message = (
        'pods "web" is forbidden: User "us" cannot patch resource "pods" in API group "" in namespace "x"'
    )
    way = Refusing(server, method, ending, 403, message, times=3)
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with moves.executing(connect(way)):
        migration = await moves.until_finished(key)
    assert migration.status.phase is MigrationPhase.COMPLETED
    assert way.refused == 3


class StoppedBeforeNomination:
    """A transport on which no nomination is ever answered."""

    def __init__(self, server):
        self._server = server
        self.reached = asyncio.Event()

    async def __call__(self, method, target, headers, body):
        if method == "PATCH" and b"nominatedNodeName" in (body or b""):
            self.reached.set()
            await asyncio.Event().wait()
        return await self._server.handle(method, target, headers, body)


class FasterProcess:
    """A transport on which another process nominates and opens the copy while this one reads it."""

    def __init__(self, server, client, node):
        self._server, self._client, self._node = server, client, node
        self.bound = ""

    async def __call__(self, method, target, headers, body):
        path = target.partition("?")[0].split("/")
        if method == "GET" and path[-2:-1] == ["pods"] and path[-1] != "web" and not self.bound:
            key = f"{path[-3]}/{path[-1]}"
            uid = (await self._client.get(PODS.as_json, key))["metadata"]["uid"]
            await self._client.patch(PODS.as_json.status, key, nominate_node_patch(uid, self._node))
            await self._client.patch(PODS.as_json, key, remove_gate_patch(uid))
            self.bound = node_of(await until_object(self._client, PODS.as_json, key, node_of))
            await asyncio.sleep(1)  # in virtual time: the caches know it, too
        return await self._server.handle(method, target, headers, body)


async def test_a_nomination_that_another_process_was_faster_with(make_moves, connect, server):
    """Bound pods refuse it: the copy is where it should be, so the move goes on."""
    moves = await make_moves(nodes=2, max_retries=0)
    source = await moves.sandbox.until_pod_ready(await moves.sandbox.pod("web"))
    node = await moves.sandbox.free_node()
    key = await moves.create_migration(source, node)
    stopped = StoppedBeforeNomination(server)
    async with moves.executing(connect(stopped)):
        await stopped.reached.wait()
    other = FasterProcess(server, moves.client, node)
    async with moves.executing(connect(other)):
        await asyncio.sleep(HOUR_S)
        migration = decode_migration(await moves.client.get(POD_MIGRATIONS, key))
    assert other.bound == node
    assert (migration.status.phase, migration.status.failure) == (MigrationPhase.COMPLETED, "")


class RefusingAlways:
    """A transport on which the server refuses every write of one kind for good."""

    def __init__(self, server, is_refused):
        self._server = server
        self._is_refused = is_refused
        self.writes = 0
        self.refused = 0

    async def __call__(self, method, target, headers, body):
        path = target.partition("?")[0]
        # Events and the Lease are written at their own pace.
        if method == "GET" or "/events" in path or "/leases" in path:
            return await self._server.handle(method, target, headers, body)
        self.writes += 1
        if not self._is_refused(method, path, body or b""):
            return await self._server.handle(method, target, headers, body)
        self.refused += 1
        return await refusal(self._server, 422)


def _patch_of_pod(content):
    return lambda method, path, body: method == "PATCH" and "/pods/" in path and content in body


@pytest.mark.parametrize(
    ("handover", "is_refused"),
    [
        pytest.param(
            "Adopt", lambda m, p, _: m == "PUT" and "/podmigrations/" in p and p.endswith("/status"),
            id="the status of the PodMigration",
        ),
        pytest.param("Adopt", lambda m, p, _: m == "POST" and p.endswith("/pods"), id="the copy"),
        pytest.param("Adopt", _patch_of_pod(b"nominatedNodeName"), id="the nomination"),
        pytest.param("Adopt", _patch_of_pod(b"schedulingGates"), id="the removal of the gate"),
        pytest.param("Adopt", lambda m, p, _: p.endswith("/eviction"), id="the eviction"),
        pytest.param("Adopt", _patch_of_pod(b"ownerReferences"), id="the release of the copy"),
        pytest.param("Copy", _patch_of_pod(b"completed"), id="the labels of a completed move"),
        pytest.param(
            "Evict", lambda m, p, _: m == "POST" and p.endswith("/poddisruptionbudgets"), id="the budget"
        ),
    ],
)  # fmt: skip
async def test_a_write_that_is_refused_for_good_is_not_repeated_at_once(
    make_moves, connect, server, handover, is_refused
):
    moves = await make_moves(nodes=3, max_retries=1, allow_unsteered=True)
    sandbox = moves.sandbox
    if handover == "Adopt":
        await sandbox.deployment(2)
        source = (await sandbox.pods())[0]
    elif handover == "Copy":
        source = await sandbox.until_pod_ready(await sandbox.pod("web"))
    else:
        await stateful_set(sandbox, 2)
        source = (await sandbox.pods())[-1]
    refusing = RefusingAlways(server, is_refused)
    await moves.create_migration(source, await sandbox.free_node())
    async with moves.executing(connect(refusing)):
        await asyncio.sleep(HOUR_S)
    assert refusing.refused
    # A pause that doubles up to two minutes: in each of two attempts some ten tries, then one every one or
    # two minutes. An eviction is recorded before each try.
    assert refusing.writes <= 3 * HOUR_S / 60
