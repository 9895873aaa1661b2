"""Nodes for a cluster without machines: `python -m tests.testbed.fake_kubelet --kubeconfig F --nodes 20`.

Registers the nodes and plays their kubelets until Ctrl-C: pods run, become ready, crash, and terminate as the
behaviour file says (see kubesim.behaviour.vocabulary). With --metrics `kubectl top` works.
"""

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
from pathlib import Path

import yaml

from kubesim.behaviour import Behaviour, BehaviourError, load_behaviour
from rescheduler.kube.access.cluster_config import BadClusterConfig, load_cluster_access
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.testbed.fake_kubelet import FakeKubelet, node_shapes
from tests.testbed.usage import UsageApi


async def play(chosen: argparse.Namespace, behaviour: Behaviour) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    client = Client(HttpTransport(load_cluster_access(chosen.kubeconfig)), field_manager="fake-kubelet")
    kubelet = FakeKubelet(client, behaviour, name=chosen.name, beat_every_s=chosen.beat_every)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(client.close)
        await stack.enter_async_context(kubelet.running())
        await kubelet.register(node_shapes(chosen.nodes, chosen.prefix, cpu=chosen.cpu, memory=chosen.memory))
        if chosen.metrics:
            await stack.enter_async_context(UsageApi(client, kubelet).running())
        print(f"playing {chosen.nodes} nodes; Ctrl-C ends it", flush=True)
        await stop.wait()
        if chosen.remove:
            await kubelet.remove_registered()
    print(", ".join(f"{verb}: {count}" for verb, count in kubelet.done.most_common()) or "nothing to do")


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        content = yaml.safe_load(chosen.scenario.read_text()) if chosen.scenario else None
        asyncio.run(play(chosen, load_behaviour(content)))
    except BehaviourError as wrong:
        print(f"{chosen.scenario} is not a behaviour:\n{wrong}", file=sys.stderr)
        return 2
    except (BadClusterConfig, OSError, yaml.YAMLError) as wrong:
        print(wrong, file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.testbed.fake_kubelet",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kubeconfig", type=Path, help="as kubectl finds it, if not named")
    parser.add_argument("--nodes", type=int, default=3, help="how many (%(default)s)")
    parser.add_argument("--prefix", default="node", help="of their names (%(default)s)")
    parser.add_argument("--cpu", default="8", help="of each (%(default)s)")
    parser.add_argument("--memory", default="32Gi", help="of each (%(default)s)")
    parser.add_argument("--name", default="fake", help="plays the nodes labelled with it (%(default)s)")
    parser.add_argument("--scenario", type=Path, help="a YAML file: how nodes and pods behave")
    parser.add_argument("--beat-every", type=float, metavar="SECONDS", help="10, or more for many nodes")
    parser.add_argument("--metrics", action="store_true", help="serve usage as metrics.k8s.io")
    parser.add_argument("--remove", action="store_true", help="remove the nodes at the end")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
