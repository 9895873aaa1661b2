"""`rescheduler demo`: a simulated cluster in the terminal, which kubectl can look into and change."""

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console, RenderableType
from rich.live import Live

from rescheduler.cli.cluster_view import cluster_view
from rescheduler.cli.signals import ended_by_signals
from rescheduler.kube import Client, Informer, Network, cluster_config
from rescheduler.kube.resources import NODES, PODS
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.pods import PodRecord
from rescheduler.simulator import ApiServer
from rescheduler.simulator.life import simulated
from rescheduler.simulator.scenario import settled
from rescheduler.simulator.scenario.gallery import lopsided_shop
from rescheduler.simulator.shells.http import serve
from rescheduler.simulator.shells.webhook_caller import HttpsCaller

__all__ = ["demo"]

_FRAMES_PER_SECOND = 4


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(min=0), default=20.0, show_default=True, help="How long it runs."
)
@click.option("--forever", is_flag=True, help="Runs until Ctrl-C.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback; a free one if not given."
)
def demo(seconds: float, forever: bool, port: int) -> None:
    """Shows a simulated cluster, live; kubectl can look on."""
    console = Console()
    start = datetime.now(UTC)
    shop = lopsided_shop()
    objects = settled(shop, start)
    try:
        asyncio.run(
            _show(console, lambda: simulated(objects, shop, start=start), None if forever else seconds, port)
        )
    except OSError as error:
        raise click.ClickException(
            f"the simulated API server can't listen on port {port}: {error.strerror}"
        ) from error


class Caches(NamedTuple):
    nodes: Informer[NodeRecord]
    pods: Informer[PodRecord]


async def _show(console: Console, make: Callable[[], ApiServer], seconds: float | None, port: int) -> None:
    ended = ended_by_signals()
    server = make()
    with tempfile.TemporaryDirectory(prefix="rescheduler-demo-") as folder:
        kubeconfig = Path(folder, "kubeconfig")
        async with contextlib.AsyncExitStack() as stack:
            server.cluster.admission.webhooks.caller = await stack.enter_async_context(HttpsCaller())
            running = await stack.enter_async_context(await serve(server, port=port))
            await asyncio.to_thread(kubeconfig.write_text, running.kubeconfig)
            # Over HTTPS and by the kubeconfig, as any client would: what you see is what kubectl sees.
            network = await stack.enter_async_context(Network(cluster_config.load(str(kubeconfig))))
            client = Client(network)
            caches = Caches(Informer(client, NODES), Informer(client, PODS))
            for cache in caches:
                await stack.enter_async_context(cache.running())
                await cache.synced()
            _introduce(console, running.url, kubeconfig, seconds)
            view = _live if console.is_terminal else _plain
            with view(console, caches), contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), seconds)
    console.print("The simulated cluster is gone.")


def _introduce(console: Console, url: str, kubeconfig: Path, seconds: float | None) -> None:
    length = "until Ctrl-C" if seconds is None else f"for {seconds:g} seconds"
    console.print(f"A simulated Kubernetes API server runs at {url} {length}.", highlight=False)
    console.print("Look into it, and change it, from another terminal:\n", highlight=False)
    console.print(f"  export KUBECONFIG={kubeconfig}", soft_wrap=True, highlight=False)
    console.print("  kubectl get pods -A -o wide\n", highlight=False)


@contextlib.contextmanager
def _live(console: Console, caches: Caches) -> Iterator[None]:
    def frame() -> RenderableType:
        return cluster_view(caches.nodes, caches.pods)

    with Live(console=console, get_renderable=frame, refresh_per_second=_FRAMES_PER_SECOND):
        yield


@contextlib.contextmanager
def _plain(console: Console, caches: Caches) -> Iterator[None]:
    """Where nothing can be redrawn: the cluster once, then a line per change."""
    shown = False

    def tell(old: PodRecord | NodeRecord | None, new: PodRecord | NodeRecord | None) -> None:
        subject = new or old
        if not shown or subject is None:
            return
        verb = "added" if old is None else "deleted" if new is None else "changed"
        console.print(f"{subject.key} {verb}", highlight=False)

    with contextlib.ExitStack() as stack:
        for cache in caches:
            stack.callback(cache.subscribe(tell))
        console.print(cluster_view(caches.nodes, caches.pods))
        shown = True
        yield
