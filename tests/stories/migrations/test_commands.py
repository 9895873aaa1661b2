"""`move`, `apply`, `migrations` and `simulate` as a user runs them on a real control plane."""

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import LEASES
from rescheduler.kube.client import Client
from rescheduler.kube.leader_election import LeaderElector
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.testbed import ControlPlane

pytestmark = pytest.mark.control_plane(reason="starts the commands as processes of their own")

PROPOSES_MOVES = 3
INTERRUPTED = 130

Start = Callable[..., Awaitable[asyncio.subprocess.Process]]
Run = Callable[..., Awaitable["Done"]]


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def start(control_plane: ControlPlane, tmp_path: Path) -> Start:
    """Another process."""
    args = {
        "settleTime": "100ms",
        "minPodAge": "0s",
        "usageSource": "requests",
        "maxConcurrentPerWorkload": 2,
    }
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"pluginConfig": [{"name": "Rescheduler", "args": args}]}],
            }
        )
    )

    async def started(command: str, *arguments: object) -> asyncio.subprocess.Process:
        options = [] if command == "snapshot" else ["--config", config]
        return await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("rescheduler"),
            *map(str, (command, *arguments, *options)),
            env={"KUBECONFIG": str(control_plane.kubeconfig), "PATH": "/usr/bin"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    return started


@pytest.fixture
def run(start: Start) -> Run:
    async def rescheduler(command: str, *arguments: object) -> Done:
        return await _done(await start(command, *arguments))

    return rescheduler


async def _done(process: asyncio.subprocess.Process) -> Done:
    out, err = await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


async def _lopsided(make_moves: MakeMoves, replicas: int = 6) -> Moves:
    """All pods on the first of three nodes."""
    moves: Moves = await make_moves(nodes=3)
    _, *others = moves.sandbox.nodes
    await moves.sandbox.cordon(*others)
    container: Any = {"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}
    await moves.sandbox.deployment(replicas, pod={"containers": [container]})
    await moves.sandbox.budget(maxUnavailable=1)
    await moves.sandbox.cordon(*others, on=False)
    # Slower than the adoption: else the ReplicaSet may keep its own replacement, and drop another pod.
    moves.sandbox.behave({"startup": "1s", "termination": "0s"})
    return moves


async def test_a_saved_plan_is_carried_out_and_simulated_before(
    run: Run, make_moves: MakeMoves, tmp_path: Path
) -> None:
    moves = await _lopsided(make_moves)
    cluster, plan = tmp_path / "cluster.json", tmp_path / "plan.json"
    config = ("--strategy", "LoadBalancing")
    assert (await run("snapshot", cluster)).code == 0
    simulated = await run("simulate", "--from", cluster, *config, "--checks", 1, "-o", "json")
    assert simulated.code == 0, simulated.err
    (check,) = json.loads(simulated.out)["checks"]
    expected = _ours(moves, check["moves"])
    assert expected, simulated.out
    assert {each["result"] for each in expected} == {"Completed"}

    made = await run("plan", *config, "--save", plan)
    assert made.code == PROPOSES_MOVES, made.err
    applied = await run("apply", plan, "--yes", "-o", "json")
    assert applied.code == 0, applied.err
    ours = _ours(moves, json.loads(applied.out)["moves"])
    assert [(each["pod"], each["to"]) for each in ours] == [(each["pod"], each["to"]) for each in expected]
    for each in ours:
        assert each["result"] == "Completed"
        pod = await moves.client.get(PODS, each["successor"])
        assert pod.node == each["to"]
    await moves.until_nothing_left()


def _ours(moves: Moves, reported: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in reported if each["pod"].startswith(f"{moves.sandbox.namespace}/")]


async def test_a_single_replica_that_may_not_be_missed_is_moved_by_hand(
    run: Run, make_moves: MakeMoves
) -> None:
    moves: Moves = await make_moves(nodes=2)
    await moves.sandbox.deployment(1)
    await moves.sandbox.budget(minAvailable=1)
    (pod,) = await moves.sandbox.pods()
    target = await moves.sandbox.free_node()
    async with observing(moves.client, moves.sandbox.namespace) as seen:
        done = await run("move", pod["metadata"]["name"], "-n", moves.sandbox.namespace, "--to", target)
        (successor,) = await moves.sandbox.until_ready(1)
    assert done.code == 0, (done.out, done.err)
    assert min(seen.ready) == 1
    assert node_of(successor) == target
    listed = json.loads((await run("migrations", "-n", moves.sandbox.namespace, "-o", "json")).out)["items"]
    story = await run("migrations", listed[0]["metadata"]["name"], "-n", moves.sandbox.namespace)
    assert "MigrationCompleted" in story.out
    await moves.until_nothing_left()


async def test_ctrl_c_finishes_what_is_under_way_and_begins_nothing_more(
    run: Run, start: Start, make_moves: MakeMoves, tmp_path: Path
) -> None:
    moves: Moves = await make_moves(nodes=3)
    await moves.sandbox.deployment(2)
    pods = await moves.sandbox.pods()
    target = await moves.sandbox.free_node()
    moves.sandbox.behave({"startup": "3s", "termination": "0s"})
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(_plan(*((pod, target, wave) for wave, pod in enumerate(pods)))))
    process = await start("apply", plan, "--yes", "-o", "json")
    assert process.stderr is not None
    reported = b""
    while b"InProgress" not in reported:
        line = await process.stderr.readline()
        assert line, reported
        reported += line
    process.send_signal(signal.SIGINT)
    done = await _done(process)
    assert done.code == INTERRUPTED, done.err
    first, second = json.loads(done.out)["moves"]
    assert first["result"] == "Completed"
    assert second["result"] == "Cancelled"
    await moves.until_nothing_left()


def _plan(*moves: tuple[dict[str, Any], str, int]) -> dict[str, Any]:
    return {
        "apiVersion": "rescheduler.dev/v1alpha1",
        "kind": "Plan",
        "takenAt": "2026-01-01T00:00:00Z",
        "moves": [
            {
                "pod": f"{pod['metadata']['namespace']}/{pod['metadata']['name']}",
                "uid": pod["metadata"]["uid"],
                "from": node_of(pod),
                "to": target,
                "strategy": "LoadBalancing",
                "handover": "Adopt",
                "reason": "test",
                "gain": 0.1,
                "wave": wave + 1,
                "group": "",
                "hop": False,
            }
            for pod, target, wave in moves
        ],
    }


async def test_of_two_contenders_one_leads_and_the_other_follows(client: Client, namespace: str) -> None:
    key = f"{namespace}/rescheduler"
    first, second = LeaderElector(client, key, "first"), LeaderElector(client, key, "second")
    async with second.running():
        await second.acquired()
        async with first.running():
            await first.tried()
            assert not first.is_held
            assert first.is_held_by_another
            assert first.holder == "second"
    async with first.running():
        await first.acquired()
        spec = (await client.get(LEASES, key))["spec"]
        assert spec["holderIdentity"] == "first"
        assert spec["leaseTransitions"] == 1
