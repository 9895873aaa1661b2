"""`python -m kubesim` as a user runs it: a process of its own, reached over HTTPS, without the product."""

import asyncio
import json
import signal
import ssl
import sys
import urllib.request
from base64 import b64decode

import pytest
import yaml

from kubesim.__main__ import main

SCENARIO = """
name: small
pools: [{name: w, count: 2}]
events:
- {at: 0s, cordon: w-1}
"""


def get(kubeconfig: str, path: str) -> dict:
    """Send a request with the standard library alone, so that no client of ours can hide a mistake."""
    content = yaml.safe_load(kubeconfig)
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    trusted = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
    request = urllib.request.Request(cluster["server"] + path, headers={"Accept": "application/json"})
    request.add_header("Authorization", f"Bearer {user['token']}")
    with urllib.request.urlopen(request, context=trusted, timeout=30) as response:
        return json.load(response)


async def test_a_process_serves_a_scenario_and_writes_a_kubeconfig(tmp_path):
    scenario, kubeconfig = tmp_path / "small.yaml", tmp_path / "kubeconfig"
    scenario.write_text(SCENARIO)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubesim", "--scenario", scenario, "--kubeconfig", kubeconfig, "--token", "s3",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            while b"cordon w-1" not in (line := await process.stdout.readline()):
                assert line, "it ended early"
            nodes = await asyncio.to_thread(get, kubeconfig.read_text(), "/api/v1/nodes")
            assert {
                node["metadata"]["name"]: node["spec"].get("unschedulable", False) for node in nodes["items"]
            } == {"w-1": True, "w-2": False}
            process.send_signal(signal.SIGTERM)
            assert b"has stopped" in await process.stdout.read()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_the_library_and_the_command_work_without_the_product():
    code = "import sys, kubesim, kubesim.__main__; print([m for m in sys.modules if 'rescheduler' in m])"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert (await process.communicate())[0].strip() == b"[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--scenario", "a", "--from", "b"], "can't be used together", id="two sources"),
        pytest.param(["--port", "65536"], "not between 0 and 65535", id="a port that does not exist"),
        pytest.param(["--speed", "0"], "not above 0", id="a clock that stands still"),
        pytest.param(["--scenario", "\x1b[2J"], "\\u001b[2J", id="a name that a terminal would act on"),
    ],
)
def test_unusable_arguments_end_with_code_2_and_a_message(capsys, arguments, message):
    try:
        code = main(arguments)
    except SystemExit as error:
        code = error.code
    assert (code, message in capsys.readouterr().err) == (2, True)
