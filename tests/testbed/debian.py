"""Programs from Debian's packages, unpacked and not installed.

Installing etcd would start a system service on the ports of a real cluster, and Prometheus one on its own;
only the programs are wanted. apt checks the packages' signatures and checksums.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.testbed.compile import BuildError

__all__ = ["unpack_etcd", "unpack_packages", "unpack_prometheus", "unpack_promtool"]


def unpack_etcd(to: Path) -> None:
    _unpack("etcd-server", "etcd", to)


def unpack_prometheus(to: Path) -> None:
    _unpack("prometheus", "prometheus", to)


def unpack_promtool(to: Path) -> None:
    _unpack("prometheus", "promtool", to)


def unpack_packages(packages: Sequence[str], to: Path) -> None:
    """Unpacks whole packages over each other into a folder, which appears when it is complete."""
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=f".{to.name}-") as name:
        folder = Path(name)
        for package in packages:
            downloaded = _download(package, folder)
            _run(["dpkg-deb", "-x", str(downloaded), "unpacked"], folder)
            print(f"unpacked {downloaded.name}", file=sys.stderr)
        shutil.rmtree(to, ignore_errors=True)
        (folder / "unpacked").replace(to)


def _unpack(package: str, program: str, to: Path) -> None:
    """Downloads the package and moves its program to `to`, in one step."""
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=f".{program}-") as name:
        folder = Path(name)
        downloaded = _download(package, folder)
        _run(["dpkg-deb", "-x", str(downloaded), "unpacked"], folder)
        (folder / "unpacked" / "usr" / "bin" / program).replace(to)
    version = _run([str(to), "--version"], to.parent).splitlines()[0]
    print(f"{program} from {downloaded.name}: {version}", file=sys.stderr)


def _download(package: str, folder: Path) -> Path:
    # As root apt would drop to a user that may not write here, and warn about it.
    command = ["apt-get", "download", "--quiet", "-o", "APT::Sandbox::User=root", package]
    try:
        _run(command, folder)
    except BuildError:
        _update_lists(package, folder)
        _run(command, folder)
    return next(folder.glob(f"{package}_*.deb"))


def _update_lists(package: str, folder: Path) -> None:
    """Fresh package lists: a machine that never had any, or only old ones, can't download."""
    if os.geteuid() != 0:
        raise BuildError(
            f"apt-get can't download {package}, its lists are missing or old: run `sudo apt-get update`"
        )
    _run(["apt-get", "update", "--quiet"], folder)


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout
