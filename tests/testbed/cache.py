"""Where the built control plane is kept: outside the work tree, one folder per recipe.

The folder's name is a hash of everything that decides what comes out (go.mod, go.sum, the recipe), so a
new Kubernetes version never meets an old binary, and going back to an older commit finds its own again.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.recipe import KUBERNETES_BINARIES, MODULE_FOLDER, RECIPE

__all__ = ["BUILD_COMMAND", "Binaries", "NotBuiltError", "cache_folder", "cache_root", "located"]

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


def cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rescheduler" / "control-plane"


def cache_folder() -> Path:
    digest = hashlib.sha256()
    for content in ((MODULE_FOLDER / "go.mod").read_bytes(), (MODULE_FOLDER / "go.sum").read_bytes(), RECIPE):
        digest.update(len(content).to_bytes(8, "big") + content)
    return cache_root() / digest.hexdigest()[:16]


def located() -> Binaries:
    """The built programs; NotBuiltError with the command that builds them if one is not there."""
    binaries = Binaries(cache_folder() / "bin")
    if missing := binaries.missing():
        raise NotBuiltError(f"{', '.join(missing)} not in {binaries.folder}: build with `{BUILD_COMMAND}`")
    return binaries
