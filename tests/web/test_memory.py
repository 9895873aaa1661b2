"""After an hour of churn in virtual time, neither the server nor the page has grown."""

import gc
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import CDPSession, Route, expect

from bench import clusters
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.sources.cluster_kinds import WebhookProbeResult
from rescheduler.config.policy import Policy
from rescheduler.web.page_model import SavedPage
from rescheduler.web.web_events import EventHub
from tests.web.conftest import PageServer, PageUser

pytestmark = pytest.mark.full

HOUR_S, BATCH = 3600, 300


class ChangingPage(SavedPage):
    """A cluster whose load changes every second."""

    seconds = 0

    async def snapshot(self) -> Snapshot:
        nodes = self._snapshot.nodes
        load = nodes.load.copy()
        load[self.seconds % len(load) :: 50] += 1 + self.seconds % 7
        at_s = self._snapshot.taken_at_s + self.seconds
        return replace(self._snapshot, taken_at_s=at_s, nodes=replace(nodes, load=load))


async def test_server_memory() -> None:
    """After ten minutes all buffers are full: fifty more minutes add less than a megabyte."""
    made = clusters.big_cluster(1_000, 20_000).state().freeze(clusters.NOW_S)
    page = ChangingPage(made, Policy(), WebhookProbeResult(), "churn")
    hub = EventHub(page)
    sizes = []
    tracemalloc.start()
    try:
        for page.seconds in range(HOUR_S):
            await hub.refresh()
            if page.seconds in {600, HOUR_S - 1}:
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    early, late = sizes
    print(f"server: {early / 1e6:.1f} MB after ten minutes, {late / 1e6:.1f} MB after an hour")
    assert late - early < 1_000_000
    assert hub.history.of_node(made.nodes.records[0].name).at[0] == made.taken_at_s


def test_page_memory(user: PageUser, server_of: Callable[[str], PageServer]) -> None:
    """The page of 5,000 nodes gets 3,600 changes of 100 nodes each, and needs no more memory than before."""
    user.expected = ("net::ERR",)
    page = user.visit(server_of("fleet"), "moves")
    expect(page.locator("h1")).to_have_text("Moves")
    cluster = page.evaluate("fetch('/api/v1/cluster').then((answer) => answer.json())")
    sent = 0

    def events(route: Route) -> None:
        nonlocal sent
        if sent >= HOUR_S:
            return  # the stream stays open, and is silent
        batch = [event(cluster, number) for number in range(sent + 1, sent + BATCH + 1)]
        sent += BATCH
        route.fulfill(content_type="text/event-stream", body="retry: 10\n\n" + "".join(batch))

    page.route("**/api/v1/events", events)
    page.goto(server_of("fleet").address("cluster"))
    page.reload()
    expect(page.locator(".answers")).to_contain_text("5,000 nodes")
    devtools = page.context.new_cdp_session(page)
    while sent < 2 * BATCH:
        page.wait_for_timeout(100)
    early = heap_bytes(devtools)
    for _ in range(1800):
        if sent >= HOUR_S:
            break
        page.wait_for_timeout(100)
    assert sent >= HOUR_S, "the page did not read an hour of changes"
    page.wait_for_timeout(1000)
    late = heap_bytes(devtools)
    print(f"page: {early / 1e6:.1f} MB at first, {late / 1e6:.1f} MB after an hour")
    assert late < early + 5_000_000


def event(cluster: dict[str, Any], number: int) -> str:
    """Return the change of 100 nodes as the server sends it."""
    names = cluster["nodes"]["names"]
    rows = np.arange(number % 50, len(names), 50)[:100].tolist()
    columns = [
        {
            "name": each["name"],
            **{
                kind: [each[kind][row] for row in rows]
                if kind != "usage"
                else [number * 10 % 3000] * len(rows)
                for kind in ("allocatable", "requests", "usage")
            },
        }
        for each in cluster["nodes"]["resources"]
    ]
    at = datetime.fromtimestamp(clusters.NOW_S + number, UTC).isoformat()
    data = {
        "revision": cluster["revision"] + number,
        "takenAt": at,
        "rows": rows,
        "resources": columns,
        "pods": [cluster["nodes"]["pods"][row] for row in rows],
        "flags": [cluster["nodes"]["flags"][row] for row in rows],
        "balance": cluster["balance"],
    }
    return f"id: {cluster['epoch']}-{number}\nevent: nodes\ndata: {json.dumps(data)}\n\n"


def heap_bytes(devtools: CDPSession) -> float:
    devtools.send("HeapProfiler.collectGarbage")
    return float(devtools.send("Runtime.getHeapUsage")["usedSize"])
