"""`rescheduler demo` as a person runs it: another process, looked at through what it prints."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from rescheduler.kube import Client, Network, cluster_config
from rescheduler.kube.patches import merge_patch
from rescheduler.kube.resources import NODES, PODS

PATIENCE_S = 60


class Demo:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.printed: list[str] = []

    async def line_with(self, text: str) -> str:
        """The next line that contains this; fails if the demo ends before."""
        assert self.process.stdout is not None
        while line := (await asyncio.wait_for(self.process.stdout.readline(), PATIENCE_S)).decode():
            self.printed.append(line)
            if text in line:
                return line
        raise AssertionError(f"{text!r} was never printed: {''.join(self.printed)}")

    async def ends(self) -> int:
        return await asyncio.wait_for(self.process.wait(), PATIENCE_S)


@contextlib.asynccontextmanager
async def demo(*arguments: str) -> AsyncIterator[Demo]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from rescheduler.cli import main; main()", "demo", *arguments,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Demo(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_it_shows_the_nodes_and_ends_by_itself():
    async with demo("--seconds", "0") as shown:
        await shown.line_with("for 0 seconds")
        await shown.line_with("kubectl get pods -A")
        await shown.line_with("worker-1")
        await shown.line_with("worker-6")
        await shown.line_with("is gone")
        assert await shown.ends() == 0


async def test_forever_it_tells_what_others_change_until_it_is_interrupted():
    async with demo("--forever") as shown:
        kubeconfig = Path((await shown.line_with("export KUBECONFIG=")).strip().partition("=")[2])
        await shown.line_with("worker-6")
        async with Network(cluster_config.load(kubeconfig)) as network:
            client = Client(network)
            await client.patch(NODES, "worker-6", merge_patch({"spec": {"unschedulable": True}}))
            await shown.line_with("worker-6 changed")
            pod = next(
                pod for pod in (await client.list(PODS, namespace="shop")).items if pod.node == "worker-1"
            )
            await client.delete(PODS, pod.key)
            await shown.line_with(f"{pod.key} deleted")
        shown.process.send_signal(signal.SIGINT)
        await shown.line_with("is gone")
        assert await shown.ends() == 0
        assert not await asyncio.to_thread(kubeconfig.exists), "what it wrote goes with it"


async def test_a_port_that_is_taken_is_named():
    async with demo("--forever", "--port", "0") as first:
        url = await first.line_with("runs at")
        port = url.split("127.0.0.1:")[1].split()[0]
        async with demo("--port", port) as second:
            assert await second.ends() == 1
