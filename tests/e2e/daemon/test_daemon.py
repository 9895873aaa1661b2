"""What an operator does with the daemon, and what may happen to it."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from rescheduler.api.podmigration import Migration, MigrationPhase, decode_migration
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import LEASES
from tests.e2e.daemon.conftest import Lopsided, Run
from tests.e2e.daemon.processes import Cluster, Replica, write_config
from tests.stories.migrations.moves import Moves
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.testbed import ControlPlane, Part

Eventually = Callable[..., Awaitable[Any]]
SETTLED_CHECKS = 5


async def migrations_of(moves: Moves) -> list[Migration]:
    items = (await moves.client.list(POD_MIGRATIONS, namespace=moves.sandbox.namespace)).items
    return [decode_migration(item) for item in items]


async def loads_of(moves: Moves) -> Counter[str]:
    """Return loads in percent of the node's cpu: a pod is a twentieth."""
    pods = [*await moves.sandbox.pods("web"), *await moves.sandbox.pods("api")]
    return Counter({node: 5 * count for node, count in Counter(node_of(pod) for pod in pods).items()})


def is_settled(moves: Moves, replica: Replica, checks: int = 2) -> Callable[[], Awaitable[bool]]:
    """All that was begun is over, and the last checks have found nothing to do."""

    async def look() -> bool:
        done = await migrations_of(moves)
        is_calm = [line["moves"] for line in replica.said("CheckDone")[-checks:]] == [0] * checks
        return bool(done) and all(each.is_finished for each in done) and is_calm

    return look


async def test_the_documented_cluster_becomes_balanced(
    cluster: Cluster, run: Run, lopsided: Lopsided, eventually: Eventually
) -> None:
    """A change of the configuration starts the moves."""
    moves = await lopsided()
    source, target = moves.sandbox.nodes
    assert await loads_of(moves) == {source: 85, target: 45}
    write_config(cluster.config, imbalanceThreshold=50)
    replica = await run()
    await replica.until_said("CheckDone", 3)
    assert await migrations_of(moves) == [], "the configuration tolerates it"

    write_config(cluster.config, imbalanceThreshold="a lot")
    (refused,) = await replica.until_said("ConfigurationRefused")
    assert "imbalanceThreshold" in refused["message"]

    async def is_reported() -> bool:
        return "imbalanceThreshold" in (await cluster.status())["configuration"]

    await eventually(is_reported)
    async with observing(moves.client, moves.sandbox.namespace) as seen:
        write_config(cluster.config, imbalanceThreshold=20)
        await replica.until_said("MovePlanned")
        await eventually(is_settled(moves, replica))
    assert min(seen.ready) == 17, "nothing was missed for a moment"
    loads = await loads_of(moves)
    assert max(loads.values()) - min(loads.values()) <= 20
    checks, moved = len(replica.said("CheckDone")), len(await migrations_of(moves))
    await replica.until_said("CheckDone", checks + SETTLED_CHECKS)
    assert len(await migrations_of(moves)) == moved, "and stays like that"
    assert {each.status.phase for each in await migrations_of(moves)} == {MigrationPhase.COMPLETED}

    status = await cluster.status()
    (cpu,) = [each for each in status["balance"] if each["resource"] == "cpu"]
    assert cpu["most"]["percent"] - cpu["least"]["percent"] <= 20
    assert status["halts"] == []
    assert len(status["migrations"]["recent"]) == moved
    await replica.end()
    assert replica.process.returncode == 0
    assert replica.log[-1]["event"] == "Ended"
    lease = await moves.client.get(LEASES, f"{cluster.namespace}/rescheduler")
    assert lease["spec"]["holderIdentity"] == "", "given back"
    await moves.until_nothing_left()


async def test_the_other_replica_takes_over(
    cluster: Cluster, run: Run, lopsided: Lopsided, eventually: Eventually
) -> None:
    """The leader is killed in the middle of a migration."""
    moves = await lopsided(startup="4s")
    await cluster.run("pause", "--why", "until both are there")
    first = await run()
    await first.until_said("Leading")
    second = await run()
    await second.until_said("Started")

    async def begun() -> list[Migration]:
        return [
            each for each in await migrations_of(moves) if each.status.phase is MigrationPhase.IN_PROGRESS
        ]

    async with observing(moves.client, moves.sandbox.namespace) as seen:
        await cluster.run("resume")
        (migration, *_) = await eventually(begun)
        first.kill()
        await second.until_said("Leading")
        await eventually(is_settled(moves, second))
    assert second.said("Leading")[0]["time"] > first.log[-1]["time"]
    assert min(seen.ready) == 17
    ended = {each.key: each.status.phase for each in await migrations_of(moves)}
    assert ended[migration.key] is MigrationPhase.COMPLETED

    async def reported() -> bool:
        steps = (line for line in second.said("MigrationStep") if line["migration"] == migration.key)
        return "Completed" in {line["step"] for line in steps}

    await eventually(reported)  # it logs the end after it has written it
    await moves.until_nothing_left()


async def test_pause_and_resume(
    cluster: Cluster, run: Run, lopsided: Lopsided, eventually: Eventually, control_plane: ControlPlane
) -> None:
    """The daemon also survives a restart of the API server."""
    moves = await lopsided()
    assert "Paused" in await cluster.run("pause", "--why", "the fair")
    replica = await run()
    (halted,) = await replica.until_said("Halted")
    assert "the fair" in halted["message"]
    await replica.until_said("MovePlanned")
    await replica.until_said("CheckDone", len(replica.said("CheckDone")) + 2)
    assert await migrations_of(moves) == []
    assert "the fair" in await cluster.run("status")
    assert [each["reason"] for each in (await cluster.status())["halts"]] == ["Paused"]

    await cluster.run("resume")
    await replica.until_said("HaltEnded")

    async def begun() -> list[Migration]:
        return [
            each for each in await migrations_of(moves) if each.status.phase is MigrationPhase.IN_PROGRESS
        ]

    await eventually(begun)
    await asyncio.to_thread(control_plane.restart, Part.API_SERVER, kill=True)
    await eventually(is_settled(moves, replica))
    assert {each.status.phase for each in await migrations_of(moves)} == {MigrationPhase.COMPLETED}
    loads = await loads_of(moves)
    assert max(loads.values()) - min(loads.values()) <= 20
    assert not [line for line in replica.log if "traceback" in line or line["event"] == "NotJson"]
    assert control_plane.admin_token not in json.dumps(replica.log), "no secret is logged"
    await moves.until_nothing_left()


async def test_a_dry_run_shows_and_writes_nothing(
    cluster: Cluster, run: Run, lopsided: Lopsided, control_plane: ControlPlane
) -> None:
    moves = await lopsided()
    replica = await run("--dry-run")
    (planned, *_) = await replica.until_said("MovePlanned")
    assert planned["pod"].startswith(f"{moves.sandbox.namespace}/web-")
    await replica.until_said("CheckDone", 3)
    await replica.end()
    assert replica.process.returncode == 0
    began, ended = replica.log[0]["time"], replica.log[-1]["time"]
    meanwhile = [
        each for each in control_plane.audited() if began <= each["requestReceivedTimestamp"] <= ended
    ]
    assert [each["objectRef"] for each in meanwhile if _is_write(each)] == []


def _is_write(audited: dict[str, Any]) -> bool:
    """Whether our client wrote it; the fake kubelet is one too, and writes what kubelets do."""
    what = audited.get("objectRef", {})
    is_ours = "rescheduler" in audited.get("userAgent", "")
    is_kubelet = what.get("subresource") == "status" or what.get("namespace") == "kube-node-lease"
    return is_ours and not is_kubelet and audited["verb"] not in {"get", "list", "watch"}
