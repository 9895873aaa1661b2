"""`rescheduler demo`: what the product does, in two minutes, in a cluster that kubectl can look into."""

import asyncio
import contextlib
import logging
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from rescheduler.cli.demo.playing import daemon_at_work, prepare, webhook_at_work
from rescheduler.cli.demo.screen import LiveScreen, Screen, print_summary
from rescheduler.cli.demo.story import CHAPTERS, LENGTH_S, story
from rescheduler.cli.demo.telling import told
from rescheduler.cli.demo.witness import Witness
from rescheduler.cli.safe_console import SafeConsole
from rescheduler.cli.signals import ended_by_signals
from rescheduler.kube import Client, Network, cluster_config
from rescheduler.simulator.life import simulated
from rescheduler.simulator.scenario import settled
from rescheduler.simulator.shells.http import serve
from rescheduler.simulator.shells.webhook_caller import HttpsCaller

__all__ = ["demo"]


@click.command()
@click.option("--forever", is_flag=True, help="Goes on after the story, until Ctrl-C.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback; a free one if not given."
)
def demo(forever: bool, port: int) -> None:
    """Shows what it does: two minutes in a simulated cluster, live.

    kubectl can look on. The daemon and the webhook are the real ones; only the cluster is simulated. Exit
    codes: 0 if the story came true, 1 if it did not, 130 after Ctrl-C.
    """
    logging.getLogger("rescheduler").addHandler(logging.NullHandler())
    logging.getLogger("rescheduler").propagate = False
    try:
        sys.exit(asyncio.run(_show(SafeConsole(), forever=forever, port=port)))
    except OSError as error:
        raise click.ClickException(
            f"the simulated API server can't listen on port {port}: {error.strerror}"
        ) from error


async def _show(console: Console, *, forever: bool, port: int) -> int:
    ended = ended_by_signals()
    start = datetime.now(UTC)
    scenario = story()
    objects = await asyncio.to_thread(settled, scenario, start)
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rescheduler-demo-"))
        server = simulated(objects, scenario, start=start)
        server.cluster.admission.webhooks.caller = await stack.enter_async_context(HttpsCaller())
        running = await stack.enter_async_context(await serve(server, port=port))
        kubeconfig = Path(folder, "kubeconfig")
        await asyncio.to_thread(kubeconfig.write_text, running.kubeconfig)
        # Over HTTPS and by the kubeconfig, as any client would: what you see is what kubectl sees.
        network = await stack.enter_async_context(Network(cluster_config.load(str(kubeconfig))))
        client = Client(network)
        await prepare(client)
        screen = LiveScreen(console) if console.is_terminal else Screen(console)
        witness = Witness(client, screen.migration)
        await stack.enter_async_context(webhook_at_work(client))
        await stack.enter_async_context(witness.watching())
        _introduce(console, running.url, kubeconfig)
        with screen.showing(witness):
            async with daemon_at_work(client, server.clock.now):
                wrong = await told(screen, witness, CHAPTERS, LENGTH_S, ended)
                if forever:
                    await ended.wait()
        print_summary(console, witness, wrong)
        is_fine = not wrong and not witness.violated
    return 130 if ended.is_set() and not forever else 0 if is_fine else 1


def _introduce(console: Console, url: str, kubeconfig: Path) -> None:
    console.print(f"A simulated Kubernetes API server runs at {url}, and the daemon in it.")
    console.print("Look on, or interfere, from another terminal:\n")
    console.print(f"  export KUBECONFIG={kubeconfig}", soft_wrap=True)
    console.print("  kubectl get pods -A -o wide --watch\n")
