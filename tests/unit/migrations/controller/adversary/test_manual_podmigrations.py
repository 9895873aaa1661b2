"""PodMigrations that users create, and delete by force, as no program would."""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from kubesim.apiserver.api_messages import object_response
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy import Configuration
from rescheduler.daemon.components import Rescheduler
from rescheduler.kube.api_resources import merge_patch
from rescheduler.migrations.runtime_state import SteeringStatus
from tests.stories.migrations.workloads import stateful_set
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.unit.daemon.conftest import HOME, POLICY


@pytest.fixture
def program(connect, server):
    """async with program(**policy) as it: executes as the daemon does, with its revalidation."""

    @contextlib.asynccontextmanager
    async def executing(**policy):
        configuration = Configuration(policy=replace(POLICY, **policy))
        it = Rescheduler(
            connect(), configuration, lease_at=f"{HOME}/rescheduler", now=server.clock.now, me="me"
        )
        async with it.watching(), it.executing():
            yield it

    return executing


def manual_migration_of(pod, **spec):
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    return {"pod": {"name": name, "uid": uid}, "sourceNode": node_of(pod), **spec}


async def test_invalid_migrations_fail_with_their_reason_and_touch_nothing(make_moves, client, program):
    moves = await make_moves(4)
    await moves.sandbox.deployment(2)
    await stateful_set(moves.sandbox, 1, app="db")
    await moves.sandbox.until_pod_ready(await moves.sandbox.pod("bare", metadata={"labels": {"app": "bare"}}))
    (web, other), (db,), (bare,) = [await moves.sandbox.pods(app) for app in ("web", "db", "bare")]
    uid_of_another = {"name": web["metadata"]["name"], "uid": other["metadata"]["uid"]}
    specs = {
        "SourceGone": manual_migration_of(web) | {"pod": uid_of_another},
        "Elsewhere": manual_migration_of(web, targetNode=node_of(web)) | {"sourceNode": "nowhere"},
        "TargetUnfit": manual_migration_of(web, targetNode="nowhere"),
        "HandoverImpossible": manual_migration_of(web, handover="Copy"),
        "Unsteered": manual_migration_of(db),
        "Recovered": manual_migration_of(web, strategy="FailedPods"),
    }
    specs |= {
        f"HandoverImpossible {each}": manual_migration_of(bare, handover=each) for each in ("Adopt", "Evict")
    }
    keys = {}
    for number, (why, spec) in enumerate(specs.items()):
        item = {"metadata": {"namespace": "moves", "name": f"odd-{number}"}, "spec": spec}
        await client.create(POD_MIGRATIONS, item)
        keys[f"moves/odd-{number}"] = why.split()[0]
    before = [await moves.sandbox.pods(app) for app in ("web", "db", "bare")]
    async with program():
        ended = {key: await moves.until_finished(key) for key in keys}
    assert {key: each.status.failure for key, each in ended.items()} == keys
    assert [await moves.sandbox.pods(app) for app in ("web", "db", "bare")] == before


async def test_of_several_migrations_of_one_pod_one_runs(make_moves, client, program):
    moves = await make_moves(4)
    await moves.sandbox.deployment(2)
    source, _ = await moves.sandbox.pods()
    target = await moves.sandbox.free_node()
    keys = [await moves.create_migration(source, target, held=number % 2 == 0) for number in range(4)]
    async with (
        observing(client, "moves") as seen,
        program(max_concurrent_per_workload=4, max_concurrent_per_node=4),
    ):
        ended = [await moves.until_finished(key) for key in keys]
        await moves.until_nothing_left()
    assert sorted(each.status.phase for each in ended) == ["Completed", "Failed", "Failed", "Failed"]
    assert min(seen.ready) >= 2
    assert {each.status.failure for each in ended} <= {"", "AlreadyMoving", "Locked", "SourceGone"}


async def test_a_deleted_migration_is_no_error(make_moves, client, connect, server, caplog):
    """It is gone when the controller writes its status."""
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    key = await moves.create_migration(source, await moves.sandbox.free_node())

    async def removed_meanwhile(method, target, headers, body):
        if method == "POST" and target.partition("?")[0].endswith("/pods"):
            await client.patch(POD_MIGRATIONS, key, merge_patch({"metadata": {"finalizers": None}}))
            await client.delete(POD_MIGRATIONS, key)
            await asyncio.sleep(1)
            return object_response(
                403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}
            )
        return await server.handle(method, target, headers, body)

    async with moves.executing(connect(removed_meanwhile)):
        await moves.until_over(key)
        await asyncio.sleep(5)
        await moves.until_nothing_left()
    assert "a bug in rescheduler" not in caplog.text


async def test_a_pod_stays_if_the_webhook_goes_while_a_budget_holds_its_eviction_up(
    make_moves, client, program
):
    moves = await make_moves(4)
    await stateful_set(moves.sandbox, 2)
    sibling, source = await moves.sandbox.pods()
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with program() as it:
        it.runtime.update(steering=SteeringStatus(steers=True))
        await moves.until(key, lambda migration: migration.status.started_at)
        it.runtime.update(steering=SteeringStatus())
        ended = await moves.until_finished(key)
        await moves.until_nothing_left()
    assert (ended.status.phase, ended.status.failure) == ("Failed", "Unsteered")
    staying = {pod["metadata"]["uid"] for pod in await moves.sandbox.pods()}
    assert staying == {sibling["metadata"]["uid"], source["metadata"]["uid"]}
