"""`python -m kubesim`: run a simulated cluster on loopback and write a kubeconfig for it."""

import argparse
import sys
from pathlib import Path

from kubesim.standalone_cluster import StandaloneError, StandaloneOptions, print_safely, run_standalone


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m kubesim",
        description="Run a simulated Kubernetes cluster until Ctrl-C, and write a kubeconfig for it. "
        "Without --scenario and --from, it runs the scenario that comes with kubesim.",
    )
    parser.add_argument("--scenario", metavar="FILE", help="a scenario in YAML; - is standard input")
    parser.add_argument(
        "--from", dest="saved", metavar="FILE",
        help="a saved cluster: a v1 List in JSON or YAML, gzipped or not; - is standard input",
    )  # fmt: skip
    parser.add_argument("--port", type=_port, default=0, help="port on loopback (default: a free port)")
    parser.add_argument("--token", help="reject requests without this bearer token; the kubeconfig has it")
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE",
        help="write the kubeconfig here and keep it (default: a temporary file)",
    )  # fmt: skip
    parser.add_argument(
        "--speed", type=_speed, default=1.0, help="cluster seconds per real second, up to 1000 (default: 1)"
    )
    try:
        run_standalone(StandaloneOptions(**vars(parser.parse_args(arguments))))
    except StandaloneError as error:
        print_safely(str(error), err=True)
        return error.exit_code
    return 0


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 65535")
    return port


def _speed(text: str) -> float:
    speed = float(text)
    if not 0 < speed <= 1000:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most 1000")
    return speed


if __name__ == "__main__":
    sys.exit(main())
