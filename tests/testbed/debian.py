"""etcd from Debian's `etcd-server` package, unpacked and not installed.

Installing it would start a system service on the ports of a real cluster; only the program is wanted.
apt checks the package's signature and checksum.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.testbed.compile import BuildError

__all__ = ["unpack_etcd"]

_PACKAGE = "etcd-server"


def unpack_etcd(to: Path) -> None:
    """Downloads the package and moves its etcd to `to`, in one step."""
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=".etcd-") as name:
        folder = Path(name)
        package = _download(folder)
        _run(["dpkg-deb", "-x", str(package), "unpacked"], folder)
        (folder / "unpacked" / "usr" / "bin" / "etcd").replace(to)
    version = _run([str(to), "--version"], to.parent).splitlines()[0]
    print(f"etcd from {package.name}: {version}", file=sys.stderr)


def _download(folder: Path) -> Path:
    # As root apt would drop to a user that may not write here, and warn about it.
    command = ["apt-get", "download", "--quiet", "-o", "APT::Sandbox::User=root", _PACKAGE]
    try:
        _run(command, folder)
    except BuildError:
        _update_lists(folder)
        _run(command, folder)
    return next(folder.glob(f"{_PACKAGE}_*.deb"))


def _update_lists(folder: Path) -> None:
    """Fresh package lists: a machine that never had any, or only old ones, can't download."""
    if os.geteuid() != 0:
        raise BuildError(
            f"apt-get can't download {_PACKAGE}, its lists are missing or old: run `sudo apt-get update`"
        )
    _run(["apt-get", "update", "--quiet"], folder)


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout
