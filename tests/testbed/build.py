"""Builds the control plane into the cache: `python3 tests/testbed/build.py`; `nodes`: what nodes need, too;
`peers`: other projects' programs that evict pods, too.

Compiling Kubernetes takes minutes, so it is done once per version, outside the work tree. Each program is
moved into place when it is whole; a build that was interrupted goes on where it stopped, and two at once
wait for each other.

With COLD=1 nothing cached is used: everything is downloaded and compiled again, with Go caches of its
own that are removed afterwards, and takes the place of what was there.
"""

import contextlib
import fcntl
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

if not __package__:  # run as a file: the package's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.testbed.cache import (
    Binaries,
    NodeBinaries,
    PeerBinaries,
    cache_folder,
    node_cache_folder,
    peer_cache_folder,
)
from tests.testbed.compile import BuildError, Go
from tests.testbed.debian import unpack_etcd, unpack_packages
from tests.testbed.progress import clock
from tests.testbed.recipe import (
    KUBERNETES_BINARIES,
    MODULE_FOLDER,
    NODE_PACKAGES,
    NODE_PROGRAMS,
    PEER_MODULE_FOLDER,
    PEER_PROGRAMS,
    GoProgram,
    arguments_for,
    kubernetes_version,
    package_of,
)

__all__ = ["build", "build_nodes", "build_peers", "main"]

_TOOLS = {
    "go": "apt-get install golang-go; 1.21 or newer, with GOTOOLCHAIN=auto if older than go.mod asks for",
    "apt-get": "etcd comes from Debian's packages: use a Debian or Ubuntu machine",
    "dpkg-deb": "apt-get install dpkg",
    "openssl": "apt-get install openssl",
    "setpriv": "apt-get install util-linux",
}


def main(more: str = "") -> int:
    if absent := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        for tool in absent:
            print(f"missing: {tool} ({_TOOLS[tool]})", file=sys.stderr)
        return 1
    cold = os.environ.get("COLD", "") not in ("", "0")
    try:
        binaries = build(cold=cold)
        print(f"Kubernetes {kubernetes_version()} and etcd are in {binaries.folder}")
        if more == "nodes":
            print(f"the programs of nodes are in {build_nodes(cold=cold).programs}")
        elif more == "peers":
            print(f"other projects' programs are in {build_peers(cold=cold).programs}")
    except BuildError as failure:
        print(f"The {more or 'control plane'} could not be built: {failure}", file=sys.stderr)
        return 1
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
        programs = {
            name: GoProgram(package_of(name), MODULE_FOLDER) for name in KUBERNETES_BINARIES if name in wanted
        }
        _compile(programs, binaries.folder, caches)
    return binaries


def build_nodes(*, cold: bool) -> NodeBinaries:
    """Everything of the nodes that is missing, or with `cold` everything."""
    folder = node_cache_folder()
    binaries = NodeBinaries(folder)
    if not cold and not binaries.missing():
        return binaries
    binaries.programs.mkdir(parents=True, exist_ok=True)
    with _alone(folder), _caches(folder, cold=cold) as caches:
        wanted = [*NODE_PROGRAMS] if cold else binaries.missing()
        if cold or not binaries.debian.is_dir():
            unpack_packages(NODE_PACKAGES, binaries.debian)
        programs = {name: program for name, program in NODE_PROGRAMS.items() if name in wanted}
        _compile(programs, binaries.programs, caches)
    return binaries


def build_peers(*, cold: bool) -> PeerBinaries:
    """Every program of other projects that is missing, or with `cold` all of them."""
    folder = peer_cache_folder()
    binaries = PeerBinaries(folder)
    if not cold and not binaries.missing():
        return binaries
    binaries.programs.mkdir(parents=True, exist_ok=True)
    with _alone(folder), _caches(folder, cold=cold) as go_caches:
        wanted = [*PEER_PROGRAMS] if cold else binaries.missing()
        programs = {name: program for name, program in PEER_PROGRAMS.items() if name in wanted}
        # They may need a newer release of Go than is installed; Go downloads it.
        caches = {**go_caches, "GOTOOLCHAIN": "auto"}
        _compile(programs, binaries.programs, caches)
        source = Go.with_caches(caches, PEER_MODULE_FOLDER).source_folder("sigs.k8s.io/karpenter")
        _copy_crds(source, binaries.crds)
    return binaries


def _copy_crds(source: Path, to: Path) -> None:
    """Copy Karpenter's CRDs, and those of its provider without a cloud."""
    partial = to.with_name(".crds.partial")
    partial.mkdir(exist_ok=True)
    for folder in ("pkg/apis/crds", "kwok/apis/crds"):
        for file in (source / folder).glob("*.yaml"):
            shutil.copyfile(file, partial / file.name)  # Go's module cache is read-only
    shutil.rmtree(to, ignore_errors=True)
    partial.replace(to)


def _compile(programs: Mapping[str, GoProgram], folder: Path, caches: Mapping[str, str]) -> None:
    began = time.monotonic()
    go = {program.folder: Go.with_caches(caches, program.folder) for program in programs.values()}
    packages = {name: go[each.folder].dependencies(each.package) for name, each in programs.items()}
    build_date = go[MODULE_FOLDER].release_time() if MODULE_FOLDER in go else ""
    compiled: frozenset[str] = frozenset()
    for place, (name, program) in enumerate(programs.items(), start=1):
        partial = folder / f".{name}.partial"
        title = f"{name} ({place}/{len(programs)})"
        flags = arguments_for(program, build_date)
        expected = len(packages[name] - compiled)
        go[program.folder].build(program.package, partial, flags, expected=expected, title=title)
        partial.replace(folder / name)
        compiled |= packages[name]
    if programs:
        print(f"compiled {len(programs)} programs in {clock(time.monotonic() - began)}", file=sys.stderr)


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
    sys.exit(main(*sys.argv[1:2]))
