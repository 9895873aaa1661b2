"""`plan`, `explain` and `snapshot` on a real control plane: a saved cluster gives the same plan."""

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, merge_patch
from rescheduler.kube.client import Client
from tests.testbed import ControlPlane

PROPOSES_MOVES = 3
REPLICAS = 6


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(control_plane: ControlPlane):
    """Run a command in another process, as a user does."""

    async def rescheduler(*arguments: object) -> Done:
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("rescheduler"),
            *map(str, arguments),
            env={"KUBECONFIG": str(control_plane.kubeconfig), "PATH": "/usr/bin"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())

    return rescheduler


@pytest.fixture
async def lopsided(client: Client, namespace: str, start_kubelet, eventually):
    """A Deployment whose pods are all on one node, because the other two were cordoned when it came."""
    kubelet = await start_kubelet(nodes=3)
    crowded, *others = sorted(kubelet.played)
    for name in others:
        await client.patch(NODES, name, merge_patch({"spec": {"unschedulable": True}}))
    labels = {"app": "web"}
    pod = {
        "containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}],
    }
    await client.create(
        DEPLOYMENTS,
        {
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "replicas": REPLICAS, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    )  # fmt: skip
    await client.create(
        POD_DISRUPTION_BUDGETS,
        {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        },
    )  # fmt: skip

    async def all_ready() -> bool:
        pods = (await client.list(PODS, namespace=namespace)).items
        return sum(pod.is_ready for pod in pods) == REPLICAS

    await eventually(all_ready)
    for name in others:
        await client.patch(NODES, name, merge_patch({"spec": {"unschedulable": False}}))
    return crowded


def in_an_hour() -> str:
    """Return a time when all pods are old enough to be moved."""
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


async def test_a_plan_is_made_explained_saved_and_made_again_from_the_file(
    run, lopsided, namespace, tmp_path
):
    file, now = tmp_path / "cluster.json.gz", in_an_hour()
    saved = await run("snapshot", file)
    assert saved.code == 0, saved.err
    live = await run("plan", "--now", now, "-o", "json")
    assert live.code == PROPOSES_MOVES, live.err
    offline = await run("plan", "--from", file, "--now", now, "-o", "json")
    assert offline.code == PROPOSES_MOVES, offline.err

    first, second = json.loads(live.out), json.loads(offline.out)
    assert first["moves"] == second["moves"]
    assert first["nodes"] == second["nodes"]
    assert first["refused"] == second["refused"]
    ours = [move for move in first["moves"] if move["pod"].startswith(f"{namespace}/")]
    assert ours
    assert {(move["from"], move["handover"]) for move in ours} == {(lopsided, "Adopt")}

    pod = ours[0]["pod"]
    reported = json.loads((await run("explain", "pod", pod, "--now", now, "-o", "json")).out)
    assert reported["mayMove"] is True
    assert ours[0]["to"] in reported["places"]["available"]
    node = json.loads((await run("explain", "node", lopsided, "--now", now, "-o", "json")).out)
    assert pod in {each["pod"] for each in node["pods"]}


async def test_the_anonymous_file_gives_the_same_plan_in_other_words(run, lopsided, namespace, tmp_path):
    named, hidden, now = tmp_path / "named.json", tmp_path / "hidden.json", in_an_hour()
    assert (await run("snapshot", named)).code == 0
    assert (await run("snapshot", hidden, "--from", named, "--anonymize")).code == 0
    assert namespace not in hidden.read_text()
    assert lopsided not in hidden.read_text()
    plans = [
        json.loads((await run("plan", "--from", file, "--now", now, "-o", "json")).out)
        for file in (named, hidden)
    ]
    first, second = (
        [(move["wave"], move["gain"], move["reason"]) for move in plan["moves"]] for plan in plans
    )
    assert first == second
    assert first
