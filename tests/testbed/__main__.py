"""The testbed as a tool for contributors: `python -m tests.testbed up | down | status`."""

import argparse
import os
import sys
import time
from pathlib import Path

from tests.testbed.build import main as build_main
from tests.testbed.cache import Binaries, located
from tests.testbed.control_plane import ControlPlane, PartError
from tests.testbed.leftovers import running
from tests.testbed.options import Options
from tests.testbed.run_dir import ForeignFolderError, RunDir, down


def default_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rescheduler" / "testbed"


def up(folder: Path, options: Options) -> int:
    """Leaves a cluster running, or says where it already runs."""
    if build_main() != 0:
        return 1
    binaries = located()
    run_dir = RunDir(folder)
    parts = run_dir.remembered()
    dead = [part for part, record in parts.items() if not record.process.alive()]
    if dead and len(dead) < len(parts):
        print(
            f"{', '.join(dead)} no longer running in {folder}: run `down` first, then `up`", file=sys.stderr
        )
        return 1
    if parts and not dead:
        print(f"already running in {folder}")
    else:
        began = time.monotonic()
        ControlPlane(folder, options, binaries).start()
        print(f"ready in {time.monotonic() - began:.1f} s; logs in {run_dir.logs}")
    _print_exports(run_dir, binaries)
    return 0


def up_with_nodes(folder: Path, count: int) -> int:
    """Leaves a cluster with real nodes running, or says where it already runs."""
    if build_main(nodes=True) != 0:
        return 1
    # Only here: real nodes need more than the standard library.
    from tests.testbed.nodes.kept_cluster import outside_kubeconfig, start_kept_cluster  # noqa: PLC0415

    if RunDir(folder).remembered():
        print(f"already running in {folder}")
    else:
        began = time.monotonic()
        folder.parent.mkdir(parents=True, exist_ok=True)
        start_kept_cluster(folder, count)
        print(f"{count} nodes are Ready after {time.monotonic() - began:.1f} s; logs in {folder}")
    print(f"export KUBECONFIG={outside_kubeconfig(folder)}")
    print(f"export PATH={located().folder}:$PATH")
    return 0


def take_down(folder: Path) -> int:
    if (folder / "sandbox.json").exists():
        from tests.testbed.nodes.kept_cluster import end_kept_cluster  # noqa: PLC0415

        end_kept_cluster(folder)
        print(f"ended the nodes in {folder}")
    ended = down(folder)
    print(f"ended {', '.join(ended)} in {folder}" if ended else f"nothing is running in {folder}")
    return 0


def status(folder: Path) -> int:
    """0 if everything that was started runs."""
    parts = RunDir(folder).remembered()
    for part, record in parts.items():
        state = "running" if record.process.alive() else "ENDED"
        print(f"{part:24} {state:8} pid {record.process.pid:<8} port {record.ports[0]}")
    others = [leftover for leftover in running() if leftover.run_dir != folder]
    for leftover in others:
        print(f"elsewhere: {leftover}")
    if not parts:
        print(f"nothing is running in {folder}")
    return 0 if parts and all(record.process.alive() for record in parts.values()) else 1


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    folder = chosen.run_dir.absolute()
    try:
        if chosen.command == "up" and chosen.nodes:
            return up_with_nodes(folder, chosen.nodes)
        if chosen.command == "up":
            return up(folder, Options(kept=True, service_accounts=chosen.service_accounts))
        return take_down(folder) if chosen.command == "down" else status(folder)
    except (ForeignFolderError, PartError, OSError) as error:
        print(f"{chosen.command} failed: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.testbed", description=__doc__)
    parser.add_argument("command", choices=["up", "down", "status"])
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=Path(os.environ.get("TESTBED_RUN_DIR") or default_folder()),
        help="the cluster's folder (%(default)s, or TESTBED_RUN_DIR)",
    )
    parser.add_argument("--nodes", type=int, default=0, help="with so many real nodes; needs root")
    parser.add_argument("--service-accounts", action="store_true", help="pods get a service account")
    return parser


def _print_exports(run_dir: RunDir, binaries: Binaries) -> None:
    print(f"export KUBECONFIG={run_dir.kubeconfig}")
    print(f"export PATH={binaries.folder}:$PATH")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
