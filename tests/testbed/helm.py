"""The real Helm, compiled from source into the cache on first use: it renders our chart in tests."""

import os
import subprocess
import tempfile
from pathlib import Path

from tests.testbed.cache import cache_root
from tests.testbed.compile import BuildError

__all__ = ["VERSION", "helm"]

VERSION = "v3.19.0"


def helm() -> Path:
    path = cache_root().parent / "helm" / VERSION / "helm"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        _build(path)
    return path


def _build(to: Path) -> None:
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=".helm-") as folder:
        command = ["go", "install", f"helm.sh/helm/v3/cmd/helm@{VERSION}"]
        done = subprocess.run(
            command, env={**os.environ, "GOBIN": folder}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise BuildError(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr[-2000:]}")
        (Path(folder) / "helm").replace(to)


if __name__ == "__main__":
    print(f"Helm {VERSION} is in {helm().parent}")
