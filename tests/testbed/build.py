"""Builds the control plane into the cache: `python3 tests/testbed/build.py`.

Compiling Kubernetes takes minutes, so it is done once per version, outside the work tree. Each program is
moved into place when it is whole; a build that was interrupted goes on where it stopped, and two at once
wait for each other.

With COLD=1 nothing cached is used: everything is downloaded and compiled anew, with Go caches of its
own that are removed afterwards, and takes the place of what was there.
"""

import contextlib
import fcntl
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if not __package__:  # run as a file: the package's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.testbed.cache import Binaries, cache_folder
from tests.testbed.compile import BuildError, Go
from tests.testbed.debian import unpack_etcd
from tests.testbed.progress import clock
from tests.testbed.recipe import KUBERNETES_BINARIES, kubernetes_version

__all__ = ["build", "main"]

_TOOLS = {
    "go": "apt-get install golang-go; 1.21 or newer, with GOTOOLCHAIN=auto if older than go.mod asks for",
    "apt-get": "etcd comes from Debian's packages: use a Debian or Ubuntu machine",
    "dpkg-deb": "apt-get install dpkg",
    "openssl": "apt-get install openssl",
    "setpriv": "apt-get install util-linux",
}


def main() -> int:
    if absent := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        for tool in absent:
            print(f"missing: {tool} ({_TOOLS[tool]})", file=sys.stderr)
        return 1
    try:
        binaries = build(cold=os.environ.get("COLD", "") not in ("", "0"))
    except BuildError as failure:
        print(f"The control plane was not built: {failure}", file=sys.stderr)
        return 1
    print(f"Kubernetes {kubernetes_version()} and etcd are in {binaries.folder}")
    return 0


def build(*, cold: bool) -> Binaries:
    """Everything that is missing, or with `cold` everything."""
    folder = cache_folder()
    binaries = Binaries(folder / "bin")
    if not cold and not binaries.missing():
        return binaries
    binaries.folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder), _caches(folder, cold=cold) as caches:
        wanted = [*KUBERNETES_BINARIES, "etcd"] if cold else binaries.missing()
        if "etcd" in wanted:
            unpack_etcd(binaries.etcd)
        _compile(
            [name for name in KUBERNETES_BINARIES if name in wanted], binaries.folder, Go.with_caches(caches)
        )
    return binaries


def _compile(names: list[str], folder: Path, go: Go) -> None:
    began = time.monotonic()
    packages = {name: go.dependencies(name) for name in names}
    build_date = go.release_time() if names else ""
    compiled: frozenset[str] = frozenset()
    for place, name in enumerate(names, start=1):
        partial = folder / f".{name}.partial"
        title = f"{name} ({place}/{len(names)})"
        go.build(name, partial, build_date, expected=len(packages[name] - compiled), title=title)
        partial.replace(folder / name)
        compiled |= packages[name]
    if names:
        print(f"compiled {len(names)} programs in {clock(time.monotonic() - began)}", file=sys.stderr)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One build at a time. The lock goes with its process, so a killed build leaves none behind."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another build is at work in {folder}: waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _caches(folder: Path, *, cold: bool) -> Iterator[dict[str, str]]:
    """Go's own caches: the user's, or empty ones that are gone afterwards."""
    place = folder / "cold"
    shutil.rmtree(place, ignore_errors=True)  # of a cold build that was killed
    if not cold:
        yield {}
        return
    flags = "-mod=readonly -modcacherw"  # Go's module cache is read-only otherwise, and could not be removed
    try:
        yield {"GOCACHE": str(place / "build"), "GOMODCACHE": str(place / "modules"), "GOFLAGS": flags}
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
