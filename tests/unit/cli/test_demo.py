"""The demo: its scenario in virtual time, and the command as a user runs it."""

import asyncio
import contextlib
import io
import signal
import socket
import sys
from collections.abc import AsyncIterator

from rich.console import Console

from kubesim.running_cluster import EPOCH, simulated_server
from kubesim.scenario import initial_objects
from kubesim.virtual_time import run_virtual
from rescheduler.api.podmigration import Handover
from rescheduler.cli.demo.demo_command import play_chapters
from rescheduler.cli.demo.demo_scenario import (
    CHAPTERS,
    DEMO_LENGTH_S,
    ClusterMonitor,
    demo_scenario,
    install_prerequisites,
    running_daemon,
)
from rescheduler.cli.demo.demo_screen import DemoScreen, print_demo_summary
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.access import cluster_config
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.transport import InProcessTransport
from rescheduler.steering.steering_service import SteeringService
from rescheduler.steering.webhook.webhook_configurations import UrlAddress, webhook_configurations
from tests.unit.cli.command_process import PrintingProcess

PATIENCE_S = 60


class InProcessWebhook:
    """The webhook, without a network in between: that would take real time."""

    def __init__(self, service):
        self._service = service

    async def call(self, _endpoint, body, _timeout_s):
        return self._service.answer(body)


def play(scenario, interfere=None):
    """The whole story at once: what was printed, the monitor, and what did not come true."""
    printed = io.StringIO()
    objects = initial_objects(scenario, EPOCH)

    async def playing():
        loop = asyncio.get_running_loop()
        server = simulated_server(objects, scenario, start=EPOCH)
        transport = InProcessTransport(server.handle)
        client = Client(transport)
        await install_prerequisites(client)
        await client.create(
            MUTATING_WEBHOOKS, webhook_configurations(UrlAddress("https://webhook.invalid"))[0]
        )
        service = SteeringService(client)
        server.cluster.admission.webhooks.caller = InProcessWebhook(service)
        screen = DemoScreen(Console(file=printed, width=200), loop.time)
        monitor = ClusterMonitor(client, screen.migration, server.clock.now)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(transport.close)
            await stack.enter_async_context(service.running())
            await stack.enter_async_context(monitor.watching())
            stack.enter_context(screen.showing(monitor))
            await stack.enter_async_context(running_daemon(client, server.clock.now))
            if interfere is not None:
                interfering = asyncio.create_task(interfere(client))
                stack.push_async_callback(lambda: asyncio.wait([interfering]))
            wrong = await play_chapters(screen, monitor, CHAPTERS, DEMO_LENGTH_S, asyncio.Event())
        print_demo_summary(screen.console, monitor, wrong)
        return monitor, wrong

    monitor, wrong = run_virtual(playing())
    return printed.getvalue(), monitor, wrong


def test_the_story_comes_true_without_an_outage():
    printed, monitor, wrong = play(demo_scenario())
    assert wrong == {}, printed
    assert monitor.violated == {}
    assert monitor.moved[Handover.ADOPT] >= 8
    assert monitor.moved[Handover.EVICT] == 1
    assert monitor.ready_seconds_lost(Handover.ADOPT) == 0
    assert monitor.spread_at_first > 70
    assert monitor.spread() <= 20
    assert "shop/checkout" in printed
    assert "CrashLoopBackOff" in printed
    assert "goals               reached" in printed


def test_a_story_with_interference_fails_and_says_what_is_wrong():
    async def cordon_everything_else(client):
        for number in (1, 2, 4, 5, 6):
            await client.patch(NODES, f"worker-{number}", merge_patch({"spec": {"unschedulable": True}}))

    printed, _, wrong = play(demo_scenario(), cordon_everything_else)
    assert "worker-3 goes into maintenance" in wrong
    assert "still on worker-3" in printed


@contextlib.asynccontextmanager
async def demo(*arguments: str) -> AsyncIterator[PrintingProcess]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from rescheduler.cli import main; main()", "demo", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield PrintingProcess(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_kubectl_can_look_on_and_ctrl_c_ends_it():
    async with demo() as shown:
        kubeconfig = await shown.kubeconfig()
        await shown.line_with("An unbalanced cluster")
        async with HttpTransport(cluster_config.load_cluster_access(kubeconfig)) as network:
            assert len((await Client(network).list(NODES)).items) == 6
        await shown.line_with("LoadBalancing: cpu: source")
        shown.process.send_signal(signal.SIGINT)
        await shown.line_with("Stopped before the end of the demo.")
        assert await shown.ends() == 130
        assert not [line for line in shown.printed if "✗" in line], "Ctrl-C is no verdict on a goal"
        assert not await asyncio.to_thread(kubeconfig.exists), "what it wrote goes with it"


def test_a_port_that_is_taken_is_named(run):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = run("demo", "--port", port)
    assert result.exit_code == 1
    (words,) = result.stderr.splitlines()
    assert words.endswith("Choose another one with --port.")
    assert words.startswith(f"Error: the simulated API server can't listen on port {port}: ")
