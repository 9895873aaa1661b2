"""Credentials from an exec plugin: when it runs, its input, and its failures."""

import asyncio
import datetime as dt
import sys
from pathlib import Path

import pytest

from rescheduler.kube.transport import NoResponse


def plugin(folder: Path, body: str, **spec) -> dict:
    """A user with an exec plugin: a script that counts its runs in a file."""
    script = folder / "plugin.py"
    script.write_text(
        f"#!{sys.executable} -IS\n"
        "import json, os, pathlib, sys\n"
        f"runs = pathlib.Path({str(folder / 'runs')!r})\n"
        "count = int(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text(str(count))\n"
        "def give(**status):\n"
        "    print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1',\n"
        "                      'kind': 'ExecCredential', 'status': status}))\n"
        f"{body}\n"
    )
    script.chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin.py", **spec}}


def runs(folder: Path) -> int:
    return int((folder / "runs").read_text())


async def test_a_plugin_without_an_expiry_is_run_once(serve, reach, tmp_path, ask):
    user = plugin(tmp_path, "give(token=f'token-{count}')")
    async with serve() as server, reach(server, user) as network:
        await asyncio.gather(*(ask(network) for _ in range(5)))
        assert {call.headers["Authorization"] for call in server.calls} == {"Bearer token-1"}
        assert runs(tmp_path) == 1


async def test_a_plugin_is_run_again_when_its_token_expires(serve, reach, tmp_path, ask):
    past = (dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)).isoformat()
    future = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).isoformat()
    user = plugin(
        tmp_path,
        f"give(token=f'token-{{count}}', expirationTimestamp={past!r} if count == 1 else {future!r})",
    )
    async with serve() as server, reach(server, user) as network:
        for _ in range(3):
            await ask(network)
        reported = [call.headers["Authorization"] for call in server.calls]
        assert reported == ["Bearer token-1", "Bearer token-2", "Bearer token-2"]


async def test_a_plugin_is_run_again_when_its_token_is_refused(serve, reach, tmp_path, ask):
    user = plugin(tmp_path, "give(token=f'token-{count}')")
    async with serve() as server, reach(server, user) as network:
        server.accepts = lambda call: call.headers["Authorization"] == "Bearer token-2"
        assert await ask(network) == 200
        assert runs(tmp_path) == 2


async def test_a_plugin_may_give_a_certificate(serve, reach, authority, tmp_path, ask):
    pair = authority.issue("machine")
    body = f"give(clientCertificateData={pair.chain.decode()!r}, clientKeyData={pair.key.decode()!r})"
    async with serve() as server, reach(server, plugin(tmp_path, body)) as network:
        await ask(network)
        assert server.calls[0].certificate == "machine"


async def test_a_plugin_gets_its_arguments_its_environment_and_the_cluster(serve, reach, tmp_path, ask):
    body = (
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "give(token='|'.join([sys.argv[1], os.environ['REGION'], info['spec']['cluster']['server']]))"
    )
    user = plugin(
        tmp_path, body, args=["login"], env=[{"name": "REGION", "value": "x"}], provideClusterInfo=True
    )
    async with serve() as server, reach(server, user) as network:
        await ask(network)
        assert server.calls[0].headers["Authorization"] == f"Bearer login|x|{server.url}"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        pytest.param(
            "sys.exit('please log in first')",
            "failed with exit code 1: please log in first",
            id="its own words when it fails",
        ),
        pytest.param("sys.stderr.write('x' * 300_000); sys.exit(3)", "exit code 3: xxx", id="much to say"),
        pytest.param("print('hello')", "did not print an ExecCredential", id="something else on its output"),
        pytest.param("give()", "neither a token nor a certificate", id="nothing to show"),
        pytest.param(
            "give(clientCertificateData='x')", "neither a token nor a certificate", id="half a certificate"
        ),
    ],
)
async def test_a_plugin_that_fails_is_reported_with(body, complaint, reach, tmp_path, serve, ask):
    async with serve() as server, reach(server, plugin(tmp_path, body)) as network:
        with pytest.raises(NoResponse, match=complaint) as failed:
            await ask(network)
        assert not failed.value.sent
        assert not server.calls


async def test_a_missing_plugin_is_reported_with_its_install_hint(reach, serve, ask):
    user = {"exec": {"command": "no-such-plugin", "installHint": "Install it with apt."}}
    async with serve() as server, reach(server, user) as network:
        with pytest.raises(
            NoResponse, match=r"no-such-plugin: No such file or directory\. Install it with apt\."
        ):
            await ask(network)


async def test_a_plugin_that_never_ends_is_killed(reach, serve, tmp_path, monkeypatch, ask):
    monkeypatch.setattr("rescheduler.kube.access.external_credentials.RUN_TIMEOUT_S", 0.2)
    body = "import time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(60)"
    monkeypatch.chdir(tmp_path)
    async with serve() as server, reach(server, plugin(tmp_path, body)) as network:
        with pytest.raises(NoResponse, match="did not finish within"):
            await ask(network)
    started = tmp_path / "pid"
    assert not started.exists() or not (Path("/proc") / started.read_text()).exists()
