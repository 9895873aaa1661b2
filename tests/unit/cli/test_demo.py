"""The demo: its story in virtual time, and the command as a person runs it."""

import asyncio
import contextlib
import io
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from rich.console import Console

from rescheduler.cli.demo.playing import daemon_at_work, prepare
from rescheduler.cli.demo.screen import Screen, print_summary
from rescheduler.cli.demo.story import CHAPTERS, LENGTH_S, story
from rescheduler.cli.demo.telling import told
from rescheduler.cli.demo.witness import Witness
from rescheduler.kube import Client, Network, cluster_config
from rescheduler.kube.in_process import InProcess
from rescheduler.kube.patches import merge_patch
from rescheduler.kube.resources import MUTATING_WEBHOOKS, NODES
from rescheduler.model.plan import Handover
from rescheduler.model.webhook_registration import AtUrl, registrations
from rescheduler.serving.steering_desk import SteeringDesk
from rescheduler.simulator.life import EPOCH, simulated
from rescheduler.simulator.scenario import settled
from rescheduler.simulator.virtual_time import run_virtual

PATIENCE_S = 60


class Desk:
    """The webhook, without a network in between: that would take real time."""

    def __init__(self, desk):
        self._desk = desk

    async def call(self, _endpoint, body, _timeout_s):
        return self._desk.answer(body)


def play(scenario, interfere=None):
    """The whole story at once: what was printed, the witness, and what did not come true."""
    printed = io.StringIO()
    objects = settled(scenario, EPOCH)

    async def playing():
        loop = asyncio.get_running_loop()
        server = simulated(objects, scenario, start=EPOCH)
        transport = InProcess(server.handle)
        client = Client(transport)
        await prepare(client)
        await client.create(MUTATING_WEBHOOKS, registrations(AtUrl("https://webhook.invalid"))[0])
        desk = SteeringDesk(client)
        server.cluster.admission.webhooks.caller = Desk(desk)
        screen = Screen(Console(file=printed, width=200), loop.time)
        witness = Witness(client, screen.migration)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(transport.close)
            await stack.enter_async_context(desk.running())
            await stack.enter_async_context(witness.watching())
            stack.enter_context(screen.showing(witness))
            await stack.enter_async_context(daemon_at_work(client, server.clock.now))
            if interfere is not None:
                interfering = asyncio.create_task(interfere(client))
                stack.push_async_callback(lambda: asyncio.wait([interfering]))
            wrong = await told(screen, witness, CHAPTERS, LENGTH_S, asyncio.Event())
        print_summary(screen.console, witness, wrong)
        return witness, wrong

    witness, wrong = run_virtual(playing())
    return printed.getvalue(), witness, wrong


def test_the_story_comes_true_and_nobody_notices():
    printed, witness, wrong = play(story())
    assert wrong == {}, printed
    assert witness.violated == {}
    assert witness.moved[Handover.ADOPT] >= 8
    assert witness.moved[Handover.EVICT] == 1
    assert witness.ready_seconds_lost(Handover.ADOPT) == 0
    assert witness.spread_at_first > 70
    assert witness.spread() <= 20
    assert "shop/checkout" in printed
    assert "CrashLoopBackOff" in printed
    assert "the story           came true" in printed


def test_a_story_in_which_somebody_interferes_does_not_come_true_and_says_what_is_wrong():
    async def cordon_everything_else(client):
        for number in (1, 2, 4, 5, 6):
            await client.patch(NODES, f"worker-{number}", merge_patch({"spec": {"unschedulable": True}}))

    printed, _, wrong = play(story(), cordon_everything_else)
    assert "worker-3 goes into maintenance" in wrong
    assert "still on worker-3" in printed


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


async def test_kubectl_can_look_on_and_ctrl_c_ends_it():
    async with demo() as shown:
        kubeconfig = Path((await shown.line_with("export KUBECONFIG=")).strip().partition("=")[2])
        await shown.line_with("A lopsided shop")
        async with Network(cluster_config.load(kubeconfig)) as network:
            assert len((await Client(network).list(NODES)).items) == 6
        await shown.line_with("LoadBalancing: cpu: source")
        shown.process.send_signal(signal.SIGINT)
        await shown.line_with("ready-seconds lost")
        assert await shown.ends() == 130
        assert not await asyncio.to_thread(kubeconfig.exists), "what it wrote goes with it"


async def test_a_port_that_is_taken_is_named():
    async with demo() as first:
        url = await first.line_with("runs at")
        port = url.split("127.0.0.1:")[1].split(",")[0]
        async with demo("--port", port) as second:
            assert await second.ends() == 1
