"""`rescheduler simulator`, run as a user runs it: in another process, observed by its output."""

import asyncio
import contextlib
import gzip
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from rescheduler.cli import main
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.access import cluster_config
from rescheduler.kube.api_resources import DEPLOYMENTS, LEASES, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.errors import NotFound
from rescheduler.kube.http_transport import HttpTransport
from tests.unit.cli.command_process import PrintingProcess

PATIENCE_S = 120
ROOT = Path(__file__).parents[3]
SMALL = """
name: small
description: Two nodes.
pools: [{name: w, count: 2}]
workloads: [{name: web, replicas: 2}]
events:
- {at: 0s, cordon: w-1}
- {at: 0s, evict: Pod/default/none}
"""


def saved_cluster(**status) -> dict:
    """Return a saved cluster with only the pods of a Deployment."""
    labels = {"app": "web", "pod-template-hash": "abc"}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-abc",
        "uid": "rs-1",
        "controller": True,
    }
    node = {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-1"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                   "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip
    pods = [
        {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"web-abc-{n}", "namespace": "shop", "uid": f"pod-{n}", "labels": labels,
                         "ownerReferences": [owner]},
            "spec": {"nodeName": "n-1", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Running", "startTime": "2025-01-01T00:00:00Z",
                       "conditions": [{"type": "Ready", "status": "True",
                                       "lastTransitionTime": "2025-01-01T00:00:00Z"}],
                       "containerStatuses": [{"name": "c", "ready": True, "restartCount": 0, "image": "i",
                                              "imageID": "", "lastState": {},
                                              "state": {"running": {"startedAt": "2025-01-01T00:00:00Z"}}}]},
        }
        for n in (1, 2)
    ]  # fmt: skip
    return {"apiVersion": "v1", "kind": "List", "items": [node, *pods]}


@contextlib.asynccontextmanager
async def simulator(*arguments: object, stdin: bytes | None = None) -> AsyncIterator[PrintingProcess]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from rescheduler.cli import main; main()", "simulator", *map(str, arguments),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    if stdin is not None:
        process.stdin.write(stdin)
    process.stdin.close()
    try:
        yield PrintingProcess(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@contextlib.asynccontextmanager
async def client_of(kubeconfig: Path) -> AsyncIterator[Client]:
    async with HttpTransport(cluster_config.load_cluster_access(kubeconfig)) as network:
        yield Client(network)


async def clock_passes(client: Client, minutes: int) -> None:
    """Wait by the cluster's own clock, which its heartbeats show."""

    async def beat() -> datetime:
        lease = await client.get(LEASES, "kube-node-lease/n-1")
        return datetime.fromisoformat(lease["spec"]["renewTime"])

    async with asyncio.timeout(PATIENCE_S):
        first = None
        while first is None or await beat() < first + timedelta(minutes=minutes):
            with contextlib.suppress(NotFound):  # it has not begun to beat
                first = first or await beat()
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_runs_a_scenario_until_it_is_asked_to_end(tmp_path, number):
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    async with simulator("--scenario", file) as running:
        await running.line_with("A simulated Kubernetes cluster (small) runs at https://127.0.0.1:")
        await running.line_with("Two nodes.")
        kubeconfig = await running.kubeconfig()
        await running.line_with("0s  cordon w-1")
        await running.line_with('refused: none: pods "none" not found')
        async with client_of(kubeconfig) as client:
            nodes = (await client.list(NODES)).items
            assert {node.name: node.unschedulable for node in nodes} == {"w-1": True, "w-2": False}
            pods = (await client.list(PODS)).items
            assert all(pod.is_ready for pod in pods)
            assert len(pods) == 2
        running.process.send_signal(number)
        await running.line_with("has stopped")
        assert await running.ends() == 0
        assert not kubeconfig.exists(), "what it wrote by itself goes with it"


async def test_its_controllers_scheduler_and_kubelets_work(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    async with (
        simulator("--scenario", file, "--speed", 20) as running,
        client_of(await running.kubeconfig()) as client,
    ):
        await client.patch(DEPLOYMENTS, "default/web", merge_patch({"spec": {"replicas": 4}}))
        async with asyncio.timeout(PATIENCE_S):
            while [pod.is_ready for pod in (await client.list(PODS)).items] != [True] * 4:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("form", ["plain", "gzipped", "YAML", "standard input"])
async def test_it_runs_a_saved_cluster_and_collects_nothing_for_want_of_an_owner(tmp_path, form):
    raw = json.dumps(saved_cluster()).encode()
    file = tmp_path / "cluster"
    file.write_bytes(
        gzip.compress(raw)
        if form == "gzipped"
        else yaml.safe_dump(json.loads(raw)).encode()
        if form == "YAML"
        else raw
    )
    source, stdin = ("-", raw) if form == "standard input" else (file, None)
    async with (
        simulator("--from", source, "--speed", 500, stdin=stdin) as running,
        client_of(await running.kubeconfig()) as client,
    ):
        await clock_passes(client, minutes=2)  # time enough to be collected
        pods = (await client.list(PODS)).items
        assert {pod.uid for pod in pods} == {"pod-1", "pod-2"}
        assert all(pod.is_ready and not pod.is_terminating for pod in pods)


async def test_the_kubeconfig_goes_where_it_is_wanted_and_stays(tmp_path):
    wanted = tmp_path / "config"
    for _ in range(2):  # its own old one is written over
        async with simulator("--kubeconfig", wanted, "--token", "secret") as running:
            assert await running.kubeconfig() == wanted
            assert wanted.stat().st_mode & 0o777 == 0o600
            async with client_of(wanted) as client:
                assert len((await client.list(NODES)).items) == 6
            anyone = tmp_path / "anyone"
            anyone.write_text(wanted.read_text().replace("secret", "guess"))
            async with client_of(anyone) as client:
                with pytest.raises(Exception, match="Unauthorized"):
                    await client.list(NODES)
            running.process.send_signal(signal.SIGTERM)
            assert await running.ends() == 0
        assert wanted.exists()


def test_a_port_that_is_taken_is_named(tmp_path, run):
    file = tmp_path / "empty.yaml"
    file.write_text("settle: 0s")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = run("simulator", "--scenario", file, "--port", port)
    assert result.exit_code == 1
    assert f"can't listen on port {port}" in result.stderr
    assert "Choose another one with --port" in result.stderr


# -- what keeps it from running


def refusal(*arguments: object, stdin: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(main, ["simulator", *map(str, arguments)], input=stdin)
    return result.exit_code, result.stderr


def test_an_existing_kubeconfig_is_not_overwritten(tmp_path):
    precious = tmp_path / "config"
    precious.write_text("clusters: [{name: production}]\n")
    code, reported = refusal("--kubeconfig", precious)
    assert (code, "not a simulator's kubeconfig" in reported) == (1, True)
    assert "production" in precious.read_text()


def test_a_kubeconfig_in_a_directory_that_is_not_there_is_refused(tmp_path):
    result = CliRunner().invoke(main, ["simulator", "--kubeconfig", str(tmp_path / "none" / "config")])
    assert result.exit_code == 1
    assert f"there is no directory {tmp_path / 'none'}" in result.output


def test_a_bad_scenario_is_refused_with_all_its_errors(tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text("nodes: [{nam: a}]\nseed: x")
    code, reported = refusal("--scenario", file)
    assert code == 2
    assert f"{file}: 3 errors" in reported
    assert "nodes[0].nam: unknown field" in reported


def test_a_scenario_that_the_api_server_refuses_is_a_bad_one():
    code, reported = refusal(
        "--scenario", "-", stdin="workloads: [{name: a, pod: {restartPolicy: Sometimes}}]"
    )
    assert (code, "Deployment default/a: " in reported) == (2, True)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        pytest.param(lambda pod: pod["spec"].update(containers=5), "Pod shop/web-abc-1: ", id="a wrong type"),
        pytest.param(lambda pod: pod["spec"].clear(), "web-abc-1: spec.containers", id="no containers"),
        pytest.param(lambda pod: pod.pop("apiVersion"), "(Pod web-abc-1) has no apiVersion", id="no version"),
        pytest.param(lambda pod: pod.pop("kind"), "items[1] has no kind", id="no kind"),
    ],
)
def test_a_saved_cluster_that_cant_be_used_is_refused_and_the_object_named(spoil, why):
    cluster = saved_cluster()
    spoil(cluster["items"][1])
    code, reported = refusal("--from", "-", stdin=json.dumps(cluster))
    assert (code, why in reported) == (1, True), reported


def test_a_saved_cluster_that_is_not_there_is_named(tmp_path):
    code, reported = refusal("--from", tmp_path / "none")
    assert (code, "none: No such file or directory" in reported) == (1, True)


def test_a_cluster_has_one_beginning():
    code, reported = refusal("--scenario", "a", "--from", "b")
    assert (code, "can't be used together" in reported) == (2, True)
