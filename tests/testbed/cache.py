"""Where the built control plane is kept: outside the work tree, one folder per recipe.

The folder's name is a hash of everything that decides what comes out (go.mod, go.sum, the recipe), so a
new Kubernetes version never meets an old binary, and going back to an older commit finds its own again.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.recipe import (
    KUBERNETES_BINARIES,
    MODULE_FOLDER,
    NODE_MODULE_FOLDER,
    NODE_PROGRAMS,
    NODE_RECIPE,
    PEER_MODULE_FOLDER,
    PEER_PROGRAMS,
    PEER_RECIPE,
    RECIPE,
)

__all__ = [
    "BUILD_COMMAND",
    "Binaries",
    "NodeBinaries",
    "NotBuiltError",
    "PeerBinaries",
    "cache_folder",
    "cache_root",
    "located",
    "located_node_binaries",
    "located_peers",
    "node_cache_folder",
    "peer_cache_folder",
]

BUILD_COMMAND = "python3 tests/testbed/build.py"


class NotBuiltError(Exception):
    """The control plane has not been built yet for this version of go.mod."""


@dataclass(frozen=True)
class Binaries:
    """The five programs, all in one folder."""

    folder: Path

    @property
    def etcd(self) -> Path:
        return self.folder / "etcd"

    @property
    def kube_apiserver(self) -> Path:
        return self.folder / "kube-apiserver"

    @property
    def kube_controller_manager(self) -> Path:
        return self.folder / "kube-controller-manager"

    @property
    def kube_scheduler(self) -> Path:
        return self.folder / "kube-scheduler"

    @property
    def kubectl(self) -> Path:
        return self.folder / "kubectl"

    def missing(self) -> list[str]:
        return [name for name in (*KUBERNETES_BINARIES, "etcd") if not (self.folder / name).is_file()]


@dataclass(frozen=True)
class NodeBinaries:
    """What runs on nodes: the programs in `bin`, Debian's packages unpacked in `debian`."""

    folder: Path

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    @property
    def debian(self) -> Path:
        return self.folder / "debian"

    @property
    def cni_plugins(self) -> Path:
        return self.debian / "usr" / "lib" / "cni"

    @property
    def environment(self) -> dict[str, str]:
        """What finds these programs and their libraries first."""
        libraries = sorted(str(path) for path in self.debian.glob("usr/lib/*-linux-gnu*"))
        path = f"{self.programs}:{self.debian / 'usr' / 'sbin'}:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"PATH": path, "LD_LIBRARY_PATH": ":".join(libraries)}

    def missing(self) -> list[str]:
        absent = [name for name in NODE_PROGRAMS if not (self.programs / name).is_file()]
        return absent + ([] if self.debian.is_dir() else ["Debian's packages"])


@dataclass(frozen=True)
class PeerBinaries:
    """Other projects' programs that evict pods: in `bin`, Karpenter's CRDs in `crds`."""

    folder: Path

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    @property
    def karpenter(self) -> Path:
        return self.programs / "karpenter"

    @property
    def descheduler(self) -> Path:
        return self.programs / "descheduler"

    @property
    def crds(self) -> Path:
        return self.folder / "crds"

    def missing(self) -> list[str]:
        absent = [name for name in PEER_PROGRAMS if not (self.programs / name).is_file()]
        return absent + ([] if self.crds.is_dir() else ["Karpenter's CRDs"])


def cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rescheduler" / "control-plane"


def cache_folder() -> Path:
    return cache_root() / _key(*_module(MODULE_FOLDER), RECIPE)


def node_cache_folder() -> Path:
    sources = [path.read_bytes() for path in sorted(NODE_MODULE_FOLDER.glob("cmd/*/*.go"))]
    key = _key(*_module(MODULE_FOLDER), *_module(NODE_MODULE_FOLDER), *sources, NODE_RECIPE)
    return cache_root().with_name("nodes") / key


def peer_cache_folder() -> Path:
    return cache_root().with_name("peers") / _key(*_module(PEER_MODULE_FOLDER), PEER_RECIPE)


def located() -> Binaries:
    """The built programs; NotBuiltError with the command that builds them if one is not there."""
    binaries = Binaries(cache_folder() / "bin")
    if missing := binaries.missing():
        raise NotBuiltError(f"{', '.join(missing)} not in {binaries.folder}: build with `{BUILD_COMMAND}`")
    return binaries


def located_node_binaries() -> NodeBinaries:
    """The built programs of nodes; NotBuiltError with the command that builds them if one is not there."""
    binaries = NodeBinaries(node_cache_folder())
    if missing := binaries.missing():
        raise NotBuiltError(
            f"{', '.join(missing)} not in {binaries.folder}: build with `{BUILD_COMMAND} nodes`"
        )
    return binaries


def located_peers() -> PeerBinaries:
    """The built programs of other projects; NotBuiltError with the command that builds them otherwise."""
    binaries = PeerBinaries(peer_cache_folder())
    if missing := binaries.missing():
        raise NotBuiltError(
            f"{', '.join(missing)} not in {binaries.folder}: build with `{BUILD_COMMAND} peers`"
        )
    return binaries


def _module(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "go.mod").read_bytes(), (folder / "go.sum").read_bytes()


def _key(*contents: bytes) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()[:16]
