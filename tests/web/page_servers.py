"""Serve the page of a cluster on loopback, and print its link: `python -m tests.web.page_servers KIND`.

`shop` is the demo's simulated cluster with the daemon in it, live. `fleet` has 5,000 nodes and 150,000 pods.
`hostile` has names and annotations that try to be markup.
"""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench import clusters
from kubesim.running_cluster import simulated_server
from kubesim.scenario import initial_objects
from kubesim.sockets.loopback_server import serve
from kubesim.sockets.outbound_calls import HttpsWebhookCaller
from rescheduler.cli.demo.demo_scenario import (
    demo_scenario,
    install_prerequisites,
    running_daemon,
    running_webhook,
)
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.sources.cluster_kinds import WebhookProbeResult
from rescheduler.config.policy import Policy
from rescheduler.kube.access import cluster_config
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.web.page_model import LivePage, PageModel, SavedPage
from rescheduler.web.web_authorization import LinkAuthorizer
from rescheduler.web.web_server import PageOptions, serve_page

HOSTILE = "<img src=x onerror=alert(1)>\"'\u202e\u0007"


def big_snapshot(nodes: int, pods: int) -> Snapshot:
    made = clusters.big_cluster(nodes, pods)
    state = made.state()
    state.apply_usage(clusters.usage_of(made))
    return state.freeze(clusters.NOW_S)


def hostile_snapshot() -> Snapshot:
    """Return a cluster with markup in names and labels: no API server accepts it, but a file may have it."""
    made = clusters.big_cluster(30, 400)
    old = made.nodes[0].name
    made.nodes[0] = msgspec.structs.replace(
        made.nodes[0], name=HOSTILE, labels={**made.nodes[0].labels, HOSTILE: HOSTILE}
    )
    made.pods[:] = [
        msgspec.structs.replace(pod, key=f"{pod.namespace}/{HOSTILE}{row}", node=HOSTILE)
        if pod.node == old
        else pod
        for row, pod in enumerate(made.pods)
    ]
    return made.state().freeze(clusters.NOW_S)


async def serve_saved(snapshot: Snapshot, name: str, port: int) -> None:
    policy = replace(Policy(), max_reschedule_pods=100)
    page = SavedPage(snapshot, policy, WebhookProbeResult(steers=True, guards=True), name)
    await _serve(page, LinkAuthorizer(page, read_only=True), port)


async def serve_shop(port: int) -> None:
    """Serve the page of the demo's simulated cluster, with the daemon in it."""
    start = datetime.now(UTC)
    scenario = demo_scenario()
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        objects = await asyncio.to_thread(initial_objects, scenario, start)
        server = simulated_server(objects, scenario, start=start)
        server.cluster.admission.webhooks.caller = await stack.enter_async_context(HttpsWebhookCaller())
        running = await stack.enter_async_context(await serve(server, port=0))
        kubeconfig = Path(folder, "kubeconfig")
        await asyncio.to_thread(kubeconfig.write_text, running.kubeconfig)
        network = await stack.enter_async_context(
            HttpTransport(cluster_config.load_cluster_access(str(kubeconfig)))
        )
        client = Client(network)
        await install_prerequisites(client)
        await stack.enter_async_context(running_webhook(client))
        daemon = await stack.enter_async_context(running_daemon(client, server.clock.now))
        page = LivePage("demo", "demo shop", daemon.rescheduler, daemon.state)
        daemon.listener.listeners.append(page.listener)
        stack.push_async_callback(page.close)
        await _serve(page, LinkAuthorizer(page, read_only=False, client=client, user="demo"), port)


async def _serve(page: PageModel, authorizer: LinkAuthorizer, port: int) -> None:
    async with serve_page(page, authorizer, PageOptions(port=port)) as bound:
        print(f"http://127.0.0.1:{bound}/#login={authorizer.secret}", flush=True)
        await asyncio.Event().wait()


KINDS: dict[str, Callable[[int], Awaitable[None]]] = {
    "shop": serve_shop,
    "pool": lambda port: serve_saved(big_snapshot(40, 900), "pool", port),
    "fleet": lambda port: serve_saved(big_snapshot(5_000, 150_000), "fleet", port),
    "hostile": lambda port: serve_saved(hostile_snapshot(), HOSTILE, port),
}


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(KINDS[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 0))
