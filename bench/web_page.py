"""What the web page costs at the design size: cluster, delta, what-if, node, pauses of the loop.

python -m bench.web_page [--nodes 5000] [--pods 150000]
"""

import argparse
import asyncio
import sys
import time
import zlib
from dataclasses import replace

import msgspec
import numpy as np

from bench.clusters import NOW_S, big_cluster
from rescheduler.cli.execution import short_collections
from rescheduler.cluster.sources.cluster_kinds import WebhookProbeResult
from rescheduler.config.policy import Policy
from rescheduler.web.cluster_grid import GridMarks, NodeNumbers, nodes_delta
from rescheduler.web.node_page import node_detail
from rescheduler.web.page_model import SavedPage
from rescheduler.web.plan_api_types import WhatIfRequest
from rescheduler.web.web_events import EventHub
from rescheduler.web.web_viewer import EVERYTHING_VISIBLE
from rescheduler.web.what_if import plan_what_if

__all__ = ["main"]

BEAT_S = 0.005


async def longest_pause_ms(work):
    """Return the result, how long it took, and for how long nothing else could run meanwhile."""
    task, longest, began_s = asyncio.ensure_future(work), 0.0, time.perf_counter()
    while not task.done():
        before_s = time.perf_counter()
        await asyncio.sleep(BEAT_S)
        longest = max(longest, time.perf_counter() - before_s - BEAT_S)
    return task.result(), 1000 * (time.perf_counter() - began_s), 1000 * longest


async def measure(options):
    snapshot = big_cluster(options.nodes, options.pods).state().freeze(NOW_S)
    page = SavedPage(snapshot, Policy(), WebhookProbeResult(), "bench")
    hub = EventHub(page)
    encoded, took_ms, pause_ms = await longest_pause_ms(hub.cluster())
    packed = len(zlib.compress(encoded, 6))
    sizes = f"{len(encoded) >> 10} KiB, {packed >> 10} KiB compressed"
    print(f"cluster: {sizes}, {took_ms:.0f} ms, pause {pause_ms:.0f} ms")
    before = NodeNumbers.of(snapshot, GridMarks())
    load = before.load.copy()
    load[np.arange(0, len(load), 50)] += 1
    after = replace(before, load=load)
    began_s = time.perf_counter()
    delta = nodes_delta(before, after, 1, NOW_S, ())
    size = len(msgspec.json.encode(delta))
    print(f"delta of {len(delta.rows)} nodes: {size} bytes, {1000 * (time.perf_counter() - began_s):.1f} ms")
    request = WhatIfRequest(max_moves=100)

    def what_if():
        return plan_what_if(snapshot, page.state, request, EVERYTHING_VISIBLE, steered=None)

    found, took_ms, pause_ms = await longest_pause_ms(asyncio.to_thread(what_if))
    _, _, idle_ms = await longest_pause_ms(asyncio.sleep(took_ms / 1000))
    print(
        f"what-if with {len(found.plan.moves)} moves: {took_ms:.0f} ms, pause {pause_ms:.0f} ms "
        f"(as long without work: {idle_ms:.0f} ms)"
    )
    name = snapshot.nodes.records[29].name

    def node():
        return node_detail(
            snapshot, page.state.policy, name, EVERYTHING_VISIBLE, history=hub.history.of_node(name)
        )

    _, took_ms, pause_ms = await longest_pause_ms(asyncio.to_thread(node))
    print(f"a node: {took_ms:.0f} ms, pause {pause_ms:.0f} ms")


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m bench.web_page", description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=150_000)
    with short_collections():
        asyncio.run(measure(parser.parse_args(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
