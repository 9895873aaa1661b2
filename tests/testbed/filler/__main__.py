"""Fills a cluster: `python -m tests.testbed.filler --kubeconfig F --nodes 200 --pods 6000`.

Fill first, with neither fake kubelet nor controller manager: the one would play each new pod itself, at twice
the cost, and the other would miss heartbeats and, with --owners, make the missing pods on its own. Then start
the fake kubelet (with --nodes 0; it plays the nodes by their label), then the controller manager.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rescheduler.kube.access.cluster_config import BadClusterConfig
from tests.testbed.filler.processes import FillError, Filling, fill_nodes, fill_pods


def main(arguments: list[str]) -> int:
    filling = Filling(**vars(_parser().parse_args(arguments)))
    began = time.monotonic()
    try:
        asyncio.run(fill_nodes(filling))
        print(f"{filling.nodes} nodes in {time.monotonic() - began:.1f} s", flush=True)
        began = time.monotonic()
        fill_pods(filling, _progress(filling.pods))
    except (FillError, BadClusterConfig) as failed:
        print(failed, file=sys.stderr)
        return 1
    took_s = time.monotonic() - began
    print(f"{filling.pods} pods in {took_s:.1f} s: {filling.pods / took_s:.0f} a second")
    return 0


def _progress(pods: int) -> Callable[[int], None]:
    def reported(made: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{made} of {pods} pods ", end="", file=sys.stderr, flush=True)

    return reported


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.testbed.filler",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kubeconfig", type=Path, help="as kubectl finds it, if not named")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--prefix", default="filled", help="of node names (%(default)s)")
    parser.add_argument("--kubelet", default="fake", help="which fake kubelet plays them (%(default)s)")
    parser.add_argument("--owners", action="store_true", help="a ReplicaSet for each workload")
    parser.add_argument("--seed", type=int, default=0, help="another one, another cluster")
    parser.add_argument("--processes", type=int, default=3, help="(%(default)s)")
    parser.add_argument(
        "--etcd", default="", metavar="URL", help="write pods straight into etcd, ten times as fast"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
