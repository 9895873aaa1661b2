"""`rescheduler demo`: play the chapters in a simulated cluster that kubectl can access."""

import asyncio
import contextlib
import logging
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from kubesim.running_cluster import simulated_server
from kubesim.scenario import initial_objects
from kubesim.sockets.loopback_server import serve
from kubesim.sockets.outbound_calls import HttpsWebhookCaller
from rescheduler.cli.commands.web_command import login_link
from rescheduler.cli.demo.demo_scenario import (
    CHAPTERS,
    DEMO_LENGTH_S,
    ClusterMonitor,
    DemoChapter,
    demo_scenario,
    install_prerequisites,
    running_daemon,
    running_webhook,
)
from rescheduler.cli.demo.demo_screen import DemoScreen, LiveDemoScreen, print_demo_summary
from rescheduler.cli.execution import stop_event_on_signals
from rescheduler.cli.progress_display import SafeConsole
from rescheduler.daemon.daemon_process import Daemon
from rescheduler.kube.access import cluster_config
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.web.page_model import LivePage
from rescheduler.web.web_authorization import LinkAuthorizer
from rescheduler.web.web_server import PageOptions, serve_page

__all__ = ["demo", "play_chapters"]

_POLL_INTERVAL_S: Final = 0.5
_LAST_CHAPTER_GRACE_S: Final = 40.0
"""Extra time for the last chapter on a busy machine."""


async def play_chapters(
    screen: DemoScreen,
    monitor: ClusterMonitor,
    chapters: Sequence[DemoChapter],
    length_s: float,
    ended: asyncio.Event,
) -> dict[str, str]:
    """Play the chapters and return, by title, why a goal was not reached; stop early if `ended` is set."""
    began_s = asyncio.get_running_loop().time()
    wrong: dict[str, str] = {}
    ends = [*(chapter.begins_s for chapter in chapters[1:]), length_s]
    for chapter, end_s in zip(chapters, ends, strict=True):
        screen.chapter(chapter)
        grace_s = _LAST_CHAPTER_GRACE_S if chapter is chapters[-1] else 0.0
        why = await _wait_for_goal(chapter, monitor, began_s + end_s + grace_s, ended)
        if ended.is_set():  # after Ctrl-C, an unreached goal is not a failure
            break
        screen.report_result(chapter, why)
        if why:
            wrong[chapter.title] = why
        await _sleep_until(began_s + end_s, ended)
    return wrong


async def _wait_for_goal(
    chapter: DemoChapter, monitor: ClusterMonitor, end_s: float, ended: asyncio.Event
) -> str:
    """Return an empty string as soon as the goal is reached; at the end, return what is missing."""
    loop = asyncio.get_running_loop()
    while (why := chapter.check(monitor)) and loop.time() < end_s and not ended.is_set():
        await _sleep_until(min(end_s, loop.time() + _POLL_INTERVAL_S), ended)
    return why


async def _sleep_until(moment_s: float, ended: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(moment_s):
            await ended.wait()


@click.command()
@click.option("--forever", is_flag=True, help="Keep the cluster running after the demo, until Ctrl-C.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback; by default a free one."
)
def demo(forever: bool, port: int) -> None:
    """You can watch with kubectl. Only the cluster is simulated; daemon and webhook are the real ones.

    Exit codes: 0 if all goals were reached, 1 if not, 130 after Ctrl-C.
    """
    logging.getLogger("rescheduler").addHandler(logging.NullHandler())
    logging.getLogger("rescheduler").propagate = False
    try:
        sys.exit(asyncio.run(_run_demo(SafeConsole(), forever=forever, port=port)))
    except OSError as error:
        raise click.ClickException(
            f"the simulated API server can't listen on port {port}: {error.strerror}. "
            "Choose another one with --port."
        ) from error


async def _run_demo(console: Console, *, forever: bool, port: int) -> int:
    ended = stop_event_on_signals()
    start = datetime.now(UTC)
    scenario = demo_scenario()
    objects = await asyncio.to_thread(initial_objects, scenario, start)
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rescheduler-demo-"))
        server = simulated_server(objects, scenario, start=start)
        server.cluster.admission.webhooks.caller = await stack.enter_async_context(HttpsWebhookCaller())
        running = await stack.enter_async_context(await serve(server, port=port))
        kubeconfig = Path(folder, "kubeconfig")
        await asyncio.to_thread(kubeconfig.write_text, running.kubeconfig)
        # Over HTTPS with the kubeconfig, as any client, so that the demo shows the same as kubectl.
        network = await stack.enter_async_context(
            HttpTransport(cluster_config.load_cluster_access(str(kubeconfig)))
        )
        client = Client(network)
        await install_prerequisites(client)
        screen = LiveDemoScreen(console) if console.is_terminal else DemoScreen(console)
        monitor = ClusterMonitor(client, screen.migration, server.clock.now)
        await stack.enter_async_context(running_webhook(client))
        await stack.enter_async_context(monitor.watching())
        async with running_daemon(client, server.clock.now) as daemon, _page(daemon, client) as link:
            _print_introduction(console, running.url, kubeconfig, link)
            with screen.showing(monitor):
                wrong = await play_chapters(screen, monitor, CHAPTERS, DEMO_LENGTH_S, ended)
                if forever:
                    await ended.wait()
        if ended.is_set() and not forever:
            console.print("Stopped before the end of the demo.")
            return 130
        print_demo_summary(console, monitor, wrong)
        is_fine = not wrong and not monitor.violated
    return 0 if is_fine else 1


@contextlib.asynccontextmanager
async def _page(daemon: Daemon, client: Client) -> AsyncIterator[str]:
    """Serve the web page while the body runs; yield its link."""
    page = LivePage("demo", "demo", daemon.rescheduler, daemon.state)
    daemon.listener.listeners.append(page.listener)
    authorizer = LinkAuthorizer(page, read_only=False, client=client, user="demo")
    try:
        async with serve_page(page, authorizer, PageOptions(cookie=authorizer.cookie)) as port:
            yield login_link(port, authorizer)
    finally:
        await page.close()


def _print_introduction(console: Console, url: str, kubeconfig: Path, link: str) -> None:
    console.print(f"A simulated Kubernetes cluster runs at {url}, with the daemon in it.")
    console.print("To watch it in your browser, open:\n")
    console.print(f"  {link}\n", soft_wrap=True)
    console.print("To watch or change it with kubectl, run in another terminal:\n")
    console.print(f"  export KUBECONFIG={kubeconfig}", soft_wrap=True)
    console.print("  kubectl get pods -A -o wide --watch\n")
