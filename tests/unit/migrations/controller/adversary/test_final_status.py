"""The final status of a migration is true, written in time, and small enough."""

from datetime import timedelta

from kubesim.apiserver.api_messages import object_response
from rescheduler.api.podmigration import MAX_TEXT_LENGTH
from rescheduler.cluster.codecs.record_resources import PODS
from tests.stories.waiting import until_gone

LONG_MESSAGE = "no, " * MAX_TEXT_LENGTH


async def test_a_bare_pod_that_was_deleted_with_its_copy_was_not_moved(set_evicting, client):
    moves, key, pod, copy = await set_evicting()
    for each in (pod, copy):
        name = moves.sandbox.key(each["metadata"]["name"])
        await client.delete(PODS, name)
        await until_gone(client, PODS.as_json, name)
    async with moves.executing():
        ended = await moves.until_finished(key)
    assert (ended.status.phase, ended.status.failure) == ("Failed", "CopyGone")


async def test_a_copy_that_settles_for_longer_than_the_attempt_may_last_is_not_waited_for(make_moves):
    limit = timedelta(minutes=10)
    moves = await make_moves(3, settle_time=timedelta(hours=2), migration_timeout=limit, max_retries=0)
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    began = moves.now()
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with moves.executing():
        ended = await moves.until_finished(key, timeout_s=3 * 3600)
    assert ended.status.failure == "TimedOut"
    assert moves.now() - began < limit + timedelta(minutes=1)


async def test_a_refusal_in_more_words_than_a_record_may_hold_is_a_refusal(make_moves, connect, server):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    key = await moves.create_migration(source, await moves.sandbox.free_node())

    async def overwriting(method, target, headers, body):
        if method == "POST" and target.partition("?")[0].endswith("/pods"):
            return object_response(
                403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": LONG_MESSAGE}
            )
        return await server.handle(method, target, headers, body)

    async with moves.executing(connect(overwriting)):
        ended = await moves.until_finished(key, timeout_s=30)
    assert (ended.status.phase, ended.status.failure) == ("Failed", "CopyRefused")
    assert "no, no, no" in ended.status.message
