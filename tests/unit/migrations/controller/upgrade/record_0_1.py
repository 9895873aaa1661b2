"""Record what version 0.1 leaves in a cluster when it ends after any of its writes.

It runs with the code and the tests of 0.1, in its own simulator, and writes a line for each write:

    git archive f9a539e | tar -x -C /tmp/v0.1
    cd /tmp/v0.1 && PYTHONPATH=src:. python …/record_0_1.py | gzip -9n > …/left_by_0_1.jsonl.gz
"""

import asyncio
import json
import sys
from datetime import timedelta

from rescheduler.controller.followed import POD_MIGRATIONS

from rescheduler.kube import resources  # isort: skip
from rescheduler.simulator.virtual_time import run_virtual
from tests.unit.controller import test_crashes as plays
from tests.unit.controller.crashing import Cluster, Crash, Faulty

PLAYS = (
    plays.Adopt,
    plays.Copy,
    plays.Evict,
    plays.AdoptNeverReady,
    plays.CopyNeverReady,
    plays.EvictRefused,
)
KINDS = (
    resources.CUSTOM_RESOURCE_DEFINITIONS,
    resources.NAMESPACES,
    resources.NODES.as_json,
    resources.DEPLOYMENTS,
    resources.REPLICA_SETS,
    resources.STATEFUL_SETS,
    resources.POD_DISRUPTION_BUDGETS,
    POD_MIGRATIONS,
    resources.PODS.as_json,
)


async def left_after(play, at):
    """Return what is left if 0.1 ends after its call number `at`; None if it makes fewer calls."""
    cluster = Cluster(migration_timeout=timedelta(seconds=60), max_retries=0)
    try:
        moves = await cluster.moves(nodes=4)
        source = await play.set_up(moves)
        moves.stage.behave({"startup": play.startup, "termination": "0s"})
        faulty = Faulty(cluster.server, at, Crash.AFTER)
        key = await moves.wish(source, await moves.stage.free_node())
        await plays.until_crashed(moves, cluster, faulty, key)
        if len(faulty.calls) < at:
            return None
        items = []
        for kind in KINDS:
            for item in (await moves.client.list(kind)).items:
                item["metadata"].pop("managedFields", None)
                items.append({"apiVersion": kind.api_version, "kind": kind.kind, **item})
        return {
            "play": type(play).__name__,
            "after": faulty.calls[-1],
            "now": cluster.server.clock.now().isoformat(),
            "source": source,
            "replicas": play.replicas,
            "startup": play.startup,
            "migration": key,
            "items": items,
        }
    finally:
        await cluster.close()


def main():
    for play in PLAYS:
        for at in range(1, plays.MOST_CALLS):
            left = run_virtual(left_after(play(), at))
            if left is None:
                break
            if not left["after"].startswith("GET "):
                sys.stdout.write(json.dumps(left, sort_keys=True) + "\n")


if __name__ == "__main__":
    asyncio.set_event_loop(None)
    main()
