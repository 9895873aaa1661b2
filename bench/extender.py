"""How long the extender takes to filter 5,000 nodes: by itself, and asked over HTTPS from another process.

    python -m bench.extender [--nodes 5000] [--rate 20] [--seconds 10] [--gate]

A scheduler places one pod after the other, so it has one question at a time. Beside the extender's answers a
handler is asked that answers "ok" to the same question: what aiohttp, TLS and this machine cost. With --gate
the exit code is 1 if filtering takes more than 2 ms of a processor by itself.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from statistics import median

from aiohttp import web

from bench.decode import machine
from bench.webhook import MIGRATIONS, Load, as_request, known_intents, measured
from rescheduler.steering.extender_verbs import filter_nodes, prioritize_nodes
from rescheduler.steering.steering_server import FILTER_PATH, PRIORITIZE_PATH, webhook_application

AT_MOST_MS = 2.0
ROUNDS = 200


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.extender", description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--rate", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--gate", action="store_true", help="exit 1 if the aim is missed")
    options = parser.parse_args(arguments)
    print(machine())
    print(f"{options.nodes:,} node names, {MIGRATIONS} running migrations")
    steered, other = (question(f"rs-{n}", options.nodes) for n in (1, MIGRATIONS + 1))
    book = known_intents()
    took_ms = timed_ms(lambda: filter_nodes(steered, book))
    print(f"  filter, a pod that is steered: {took_ms:.2f} ms of a processor")
    print(f"  filter, one that is not:       {timed_ms(lambda: filter_nodes(other, book)):.2f} ms")
    print(f"  prioritize:                    {timed_ms(lambda: prioritize_nodes(steered, book)):.2f} ms")
    for name, make, path in (
        ("an empty handler", empty_application, FILTER_PATH),
        ("filter", extending_application, FILTER_PATH),
        ("prioritize", extending_application, PRIORITIZE_PATH),
    ):
        measured(name, make, Load((as_request(path, steered),), options.rate, options.seconds, 1))
    reached = took_ms <= AT_MOST_MS
    print(f"the aim is {AT_MOST_MS:g} ms for a filter: {'reached' if reached else 'missed'}")
    return 1 if options.gate and not reached else 0


def timed_ms(answer: Callable[[], object]) -> float:
    """Half of the times it takes less: who else is busy does not count for that."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        answer()
        times.append(time.process_time() - began)
    return 1000 * median(times)


def empty_application() -> web.Application:
    return webhook_application({FILTER_PATH: lambda _: b"ok"}, lambda: True)


def extending_application() -> web.Application:
    book = known_intents()
    answers = {
        FILTER_PATH: lambda body: filter_nodes(body, book).body,
        PRIORITIZE_PATH: lambda body: prioritize_nodes(body, book).body,
    }
    return webhook_application(answers, lambda: True)


def question(owner_uid: str, nodes: int) -> bytes:
    """About a pod of about 6 KB; the node that it is moved away from is among them, and its target."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": owner_uid,
        "controller": True,
    }
    variables = [{"name": f"VARIABLE_{n}", "value": "x" * 40} for n in range(60)]
    metadata = {"name": "web-x2v4q", "namespace": "shop", "uid": "p-1", "ownerReferences": [owner]}
    spec = {"containers": [{"name": "main", "image": "shop/web:1", "env": variables}]}
    names = [f"ip-10-0-{n >> 8}-{n & 255}.eu-central-1.compute.internal" for n in range(nodes - 2)]
    asked = {"Pod": {"metadata": metadata, "spec": spec}, "Nodes": None, "NodeNames": [*names, "old", "new"]}
    return json.dumps(asked).encode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
