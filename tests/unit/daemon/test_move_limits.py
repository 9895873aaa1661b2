"""Limits of moves per hour, by the daemon on a simulated cluster in virtual time."""

import json
from datetime import timedelta

from rescheduler.api.podmigration import Handover, MigrationPhase
from rescheduler.api.well_known_names import MAX_MOVES_ANNOTATION, WINDOWS_ANNOTATION
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.move_limits import MovesPerHour
from rescheduler.kube.api_resources import DEPLOYMENTS, NAMESPACES, merge_patch
from rescheduler.migrations.controller.plan_execution import podmigration_for
from rescheduler.planner.plan import Move
from tests.unit.cli.live_cluster import write_config


async def test_after_a_restart_no_more_moves_start_than_allowed_per_hour(
    crowd, start, migrations, status, eventually
):
    """The PodMigrations are the history: the next process knows as much as the one before."""
    await crowd(pods=6)
    limits = {"max_moves_per_hour": MovesPerHour(total=1), "pod_cooldown": timedelta()}
    running = await start("first", **limits)

    async def completed():
        return [each for each in await migrations() if each.status.phase is MigrationPhase.COMPLETED]

    (moved,) = await eventually(completed)
    await running.end()
    successor = await start("second", **limits)
    await successor.until_checked(3)
    assert [each.key for each in await migrations()] == [moved.key]
    assert successor.received.checks[0].plan.refused_counts["HourlyLimit"] >= 1
    opens = moved.status.started_at + timedelta(hours=1)
    (limit,) = (await status()).last_check.limits
    assert limit == (
        "maxMovesPerHour.total (1) allows 1 move per hour: 1 started in the last hour; "
        f"the next is possible at {opens:%H:%M:%S} UTC"
    )
    await successor.until(lambda: successor.received.moves[-1] == 1, timeout_s=4000)
    assert successor.received.checks[-1].at >= opens


async def test_of_migrations_whose_turn_comes_at_the_same_time_no_more_start_than_allowed(
    crowd, start, migrations, client, server, eventually
):
    """Two plans may have counted on the same moves: the last check before the start decides."""
    moves = await crowd(pods=3)
    pods, target = await moves.sandbox.pods(), moves.sandbox.nodes[1]
    for pod in pods:
        move = Move(
            pod=moves.sandbox.key(pod["metadata"]["name"]),
            uid=pod["metadata"]["uid"],
            source=moves.sandbox.nodes[0],
            target=target,
            strategy="LoadBalancing",
            handover=Handover.ADOPT,
            reason="",
            gain=0.0,
        )
        await client.create(POD_MIGRATIONS, podmigration_for(move, server.clock.now().timestamp()))
    limits = MovesPerHour(per_workload=1)
    await start(enabled_strategies=(), max_moves_per_hour=limits, max_concurrent_per_workload=3)

    async def completed():
        return [each for each in await migrations() if each.status.phase is MigrationPhase.COMPLETED]

    await eventually(completed)
    assert sum(each.status.started_at is not None for each in await migrations()) == 1


async def test_annotations_of_the_workload_and_its_namespace_hold_back_moves(crowd, start, client):
    moves = await crowd(pods=6)
    name = moves.sandbox.namespace
    (item,) = (await client.list(DEPLOYMENTS, namespace=name)).items
    key = f"{name}/{item['metadata']['name']}"
    await client.patch(NAMESPACES, name, annotated(MAX_MOVES_ANNOTATION, "0"))
    running = await start()
    await running.until_checked(1)
    assert running.received.checks[0].plan.refused_counts["HourlyLimit"] == 6
    await client.patch(NAMESPACES, name, annotated(MAX_MOVES_ANNOTATION, None))
    await client.patch(DEPLOYMENTS, key, annotated(WINDOWS_ANNOTATION, "at night"))
    await running.until(lambda: "LimitMalformed" in running.received.checks[-1].plan.refused_counts)
    assert set(running.received.moves) == {0}
    await client.patch(DEPLOYMENTS, key, annotated(WINDOWS_ANNOTATION, "00:00-24:00"))
    await running.until(lambda: running.received.moves[-1] > 0)


def annotated(name, value):
    return merge_patch({"metadata": {"annotations": {name: value}}})


async def test_each_profile_of_the_file_moves_its_own_pods(crowd, start, tmp_path):
    """A file with several profiles takes effect at the next check, as any other change."""
    moves = await crowd(pods=6)
    name = moves.sandbox.namespace
    file = write_config(tmp_path / "config.json", imbalanceThreshold=100, cpuThreshold=100)
    running = await start(file=file, imbalance_threshold=100.0, cpu_threshold=100.0)
    await running.until_checked(2)
    assert set(running.received.moves) == {0}
    content = json.loads(file.read_text())
    (profile,) = content["profiles"]
    profile["pluginConfig"][0]["args"] |= {"namespaceSelector": f"kubernetes.io/metadata.name!={name}"}
    args = {"namespaceSelector": f"kubernetes.io/metadata.name={name}", "minPodAge": "0s"}
    content["profiles"].append({"pluginConfig": [{"name": "Rescheduler", "args": args}]})
    file.write_text(json.dumps(content))
    await running.until(lambda: running.received.moves[-1] > 0)
    plan = running.received.checks[-1].plan
    assert {move.pod.partition("/")[0] for move in plan.moves} == {name}
    assert "NamespaceNotSelected" not in plan.refused_counts
