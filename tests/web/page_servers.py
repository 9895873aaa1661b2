"""Serve the page of a cluster on loopback, and print its link: `python -m tests.web.page_servers KIND`.

`shop` is the demo's simulated cluster with the daemon in it, live. In `calm`, it has nothing to do. In
`trouble`, a node is in maintenance and pods fail. `tokens` is `calm` for people who log in with a token.
`standby` is `calm` on a replica that doesn't lead. In `rooms`, a pod fits on no node until others move away.
In `shop`, `held` (which is `calm`) and `rooms`, moves go on only when a test labels their new pods.
`fleet` has 5,000 nodes and 150,000 pods. `hostile` has names and annotations that try to be markup.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import yaml

from bench import clusters
from kubesim.running_cluster import simulated_server
from kubesim.scenario import Scenario, initial_objects, parse_scenario
from kubesim.sockets.loopback_server import serve
from kubesim.sockets.outbound_calls import HttpsWebhookCaller
from rescheduler.api.well_known_names import MAINTENANCE_LABEL
from rescheduler.cli.demo.demo_scenario import (
    DEMO_CONFIGURATION,
    DEMO_NAMESPACE,
    install_prerequisites,
    running_daemon,
    running_webhook,
)
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.sources.cluster_kinds import WebhookProbeResult
from rescheduler.config.policy import Configuration, Policy
from rescheduler.config.policy_blocks import MakeRoomPolicy
from rescheduler.kube.access import cluster_config
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.transport import InProcessTransport
from rescheduler.steering.webhook.eviction_guard import EvictionSettings
from rescheduler.web.page_model import LivePage, PageModel, SavedPage
from rescheduler.web.web_authorization import Authorizer, LinkAuthorizer, TokenAuthorizer
from rescheduler.web.web_server import PageOptions, serve_page
from tests.unit.web.conftest import Cluster as ReviewTables

KUBECONFIG = "kubeconfig"
LONGEST = "-".join(["node-with-the-longest-name"] * 9)[:242] + ".example.io"
"""253 characters."""
READY_LABEL = "ready"
"""In some clusters, new pods get ready only once they have it, however slow the browser of the test is."""
HELD_RULES: list[dict[str, Any]] = [
    {"match": {"labels": {READY_LABEL: "true"}}, "readiness": "0s"},
    {"readiness": "9m"},  # pods that exist at the start are ten minutes old, and ready
]
HOSTILE = "<img src=x onerror=alert(1)>\"'\u202e\u0007"


def big_snapshot(nodes: int, pods: int) -> Snapshot:
    made = clusters.big_cluster(nodes, pods)
    state = made.state()
    state.apply_usage(clusters.usage_of(made))
    return state.freeze(clusters.NOW_S)


def hostile_snapshot() -> Snapshot:
    """Return a cluster with names of 253 characters, and with markup in names and labels, which no API server
    accepts, but a file may have."""
    made = clusters.big_cluster(30, 400)
    old, other = (node.name for node in made.nodes[:2])
    made.nodes[1] = msgspec.structs.replace(made.nodes[1], name=LONGEST)
    made.pods[:] = [
        msgspec.structs.replace(pod, key=f"{pod.namespace}/{row}-{LONGEST}"[:317], node=LONGEST)
        if pod.node == other
        else pod
        for row, pod in enumerate(made.pods)
    ]
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


async def serve_saved(snapshot: Snapshot, name: str, port: int, *, max_moves: int) -> None:
    policy = replace(Policy(), max_reschedule_pods=max_moves)
    page = SavedPage(snapshot, policy, WebhookProbeResult(steers=True, guards=True), name)
    authorizer = LinkAuthorizer(page, read_only=True)
    await _serve(page, authorizer, PageOptions(port=port), f"#login={authorizer.secret}")


def held_shop_scenario() -> Scenario:
    """Return the demo's shop, in which moves begin by themselves."""
    return parse_scenario(json.dumps(_story(HELD_RULES)).encode(), source="shop")


def calm_scenario(rules: Sequence[dict[str, Any]] = ()) -> Scenario:
    """Return the shop with nothing to do: nothing moves unless a user requests it."""
    story = _story(rules)
    everywhere = [f"worker-{number}" for number in range(1, 7)]
    for workload in story["workloads"]:
        if workload["name"] in {"web", "cart", "search"}:
            workload["on"] = everywhere
            workload.pop("budget", None)
    story["events"] = []
    return parse_scenario(json.dumps(story).encode(), source="calm")


def _story(rules: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return the demo's scenario as a document, with rules that precede its own."""
    text = files("rescheduler.cli.demo").joinpath("story.yaml").read_bytes()
    story: dict[str, Any] = yaml.safe_load(text)
    for workload in story["workloads"]:  # YAML 1.1 reads "on" as true
        if True in workload:
            workload["on"] = workload.pop(True)
    story["behaviour"]["pods"] = [*rules, *story["behaviour"]["pods"]]
    return story


def trouble_scenario() -> Scenario:
    """Return the shop with a node in maintenance that can't be emptied, and pods that fail on another."""
    story = _story()
    story["workloads"] += [
        {"kind": "Job", "namespace": "reports", "name": "export", "cpu": "100m", "on": ["worker-3"]},
        {"namespace": "billing", "name": "invoices", "cpu": "100m", "on": ["worker-4", "worker-5"]},
        {"namespace": "billing", "name": "ledger", "cpu": "100m", "on": ["worker-4", "worker-6"]},
        {"namespace": "billing", "name": "statements", "cpu": "100m", "on": ["worker-5"]},
    ]
    fails = {"run": {"lasts": "1s", "exitCode": 1}}
    story["events"] = [
        {"at": "0s", "label": {"what": "Node/worker-3", "set": {MAINTENANCE_LABEL: "true"}}},
        {"at": "0s", "cordon": ["worker-4"]},  # new pods that run there would speak for it
        {
            "at": "1s",
            "behaviour": {
                "pods": [
                    {"match": {"node": "worker-4", "labels": {"app": app}}, **fails}
                    for app in ("renderer", "invoices", "ledger")
                ]
                # Fails everywhere, so that the page has a failing pod whenever it is opened.
                + [{"match": {"labels": {"app": "statements"}}, **fails}]
            },
        },
        *(
            {"at": "0s", "annotate": {"what": f"Deployment/{name}", "set": {"scheduling-retries": "3"}}}
            for name in ("reports/renderer", "billing/invoices", "billing/ledger", "billing/statements")
        ),
    ]
    return parse_scenario(json.dumps(story).encode(), source="trouble")


def rooms_scenario() -> Scenario:
    """Return three nodes of 4 cores, of which each has a bit more than one free, and a pod that needs two."""
    nodes = [f"worker-{number}" for number in range(1, 4)]
    story = {
        "name": "rooms",
        "seed": 3,
        "pools": [{"name": "worker", "count": 3, "cpu": 4, "memory": "16Gi"}],
        "workloads": [
            {"namespace": "ml", "name": "serve", "cpu": "1500m", "on": nodes},
            {"namespace": "ml", "name": "embed", "cpu": "1", "on": nodes},
            {"namespace": "ml", "name": "train", "cpu": "2", "memory": "1Gi", "replicas": 1},
        ],
        "behaviour": {"pods": [*HELD_RULES, {"startup": "1s", "termination": "1s"}]},
    }
    return parse_scenario(json.dumps(story).encode(), source="rooms")


@contextlib.asynccontextmanager
async def simulated_page(
    scenario: Scenario, folder: str, *, replicas: int = 1, **settings: Any
) -> AsyncIterator[tuple[LivePage, Client]]:
    """Run the cluster with the daemon and the webhook, and yield the page of its last replica.

    The first replica leads; the others are on standby.
    """
    start = datetime.now(UTC)
    configuration = Configuration(policy=replace(DEMO_CONFIGURATION.policy, **settings))
    async with contextlib.AsyncExitStack() as stack:
        objects = await asyncio.to_thread(initial_objects, scenario, start)
        server = simulated_server(objects, scenario, start=start)
        server.cluster.admission.webhooks.caller = await stack.enter_async_context(HttpsWebhookCaller())
        running = await stack.enter_async_context(await serve(server, port=0))
        kubeconfig = Path(folder, KUBECONFIG)
        await asyncio.to_thread(kubeconfig.write_text, running.kubeconfig)
        network = await stack.enter_async_context(
            HttpTransport(cluster_config.load_cluster_access(str(kubeconfig)))
        )
        client = Client(network)
        await install_prerequisites(client)
        evictions = EvictionSettings(DEMO_CONFIGURATION.policy, DEMO_NAMESPACE, "rescheduler", DEMO_NAMESPACE)
        await stack.enter_async_context(running_webhook(client, evictions))
        for number in range(replicas):
            daemon = await stack.enter_async_context(
                running_daemon(client, server.clock.now, configuration=configuration, me=f"replica-{number}")
            )
            await daemon.rescheduler.lease.tried()
        page = LivePage("demo", "demo shop", daemon.rescheduler, daemon.state)
        daemon.listener.listeners.append(page.listener)
        stack.push_async_callback(page.close)
        yield page, client


async def serve_shop(scenario: Scenario, port: int, *, replicas: int = 1, **settings: Any) -> None:
    """Serve the page of a simulated cluster to every client with the link."""
    with TemporaryDirectory() as folder:
        async with simulated_page(scenario, folder, replicas=replicas, **settings) as (page, client):
            authorizer = LinkAuthorizer(page, read_only=False, client=client, user="demo")
            more = f"#login={authorizer.secret} {Path(folder, KUBECONFIG)}"
            await _serve(page, authorizer, PageOptions(port=port), more)


class SimulatedTokens(TokenAuthorizer):
    """Asks tables for reviews, and acts as the simulator's only user: it has no accounts."""

    def __init__(self, page: LivePage, client: Client) -> None:
        async def no_cluster(*_: object) -> None:
            raise AssertionError("only reviews are asked for")

        transport = InProcessTransport(ReviewTables()(no_cluster))
        super().__init__(page, Client(transport), read_only=False)
        self._user = client

    @contextlib.asynccontextmanager
    async def client(self, token: str) -> AsyncIterator[Client]:
        del token
        yield self._user


async def serve_tokens(port: int) -> None:
    with TemporaryDirectory() as folder:
        async with simulated_page(calm_scenario(), folder, imbalance_threshold=100.0) as (page, client):
            await _serve(page, SimulatedTokens(page, client), PageOptions(port=port), "")


async def _serve(page: PageModel, authorizer: Authorizer, options: PageOptions, more: str) -> None:
    # All windows of a test run are one client.
    async with serve_page(page, authorizer, replace(options, requests_per_second=1000.0)) as bound:
        while not page.is_ready:  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(0.05)
        print(f"http://127.0.0.1:{bound}/{more}", flush=True)
        await asyncio.Event().wait()


KINDS: dict[str, Callable[[int], Awaitable[None]]] = {
    "shop": lambda port: serve_shop(held_shop_scenario(), port),
    "calm": lambda port: serve_shop(calm_scenario(), port, imbalance_threshold=100.0),
    "held": lambda port: serve_shop(calm_scenario(HELD_RULES), port, imbalance_threshold=100.0),
    "standby": lambda port: serve_shop(calm_scenario(), port, replicas=2, imbalance_threshold=100.0),
    "trouble": lambda port: serve_shop(trouble_scenario(), port),
    "tokens": serve_tokens,
    "rooms": lambda port: serve_shop(
        rooms_scenario(),
        port,
        enabled_strategies=("MakeRoom",),
        make_room=MakeRoomPolicy(min_pending_time=timedelta()),
    ),
    "pool": lambda port: serve_saved(big_snapshot(40, 900), "pool", port, max_moves=20),
    "fleet": lambda port: serve_saved(big_snapshot(5_000, 150_000), "fleet", port, max_moves=100),
    "hostile": lambda port: serve_saved(hostile_snapshot(), HOSTILE, port, max_moves=20),
}


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(KINDS[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 0))
