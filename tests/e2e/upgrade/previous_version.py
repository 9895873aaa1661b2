"""The previous version: its code from the history of this repository, run with today's dependencies."""

import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pytest

__all__ = ["COMMIT_OF_0_1", "PreviousVersion", "export_previous_version"]

COMMIT_OF_0_1 = "f9a539ee85ab8ce9fab8056fbd629b27abb8186a"
_REPOSITORY = Path(__file__).parents[3]
# Each worker ends at the request at which its migration is stopped: one for each migration.
_MAIN = (
    "from rescheduler.cli import main\n"
    "from rescheduler.controller.controller import Controller\n"
    "Controller.__init__.__kwdefaults__['workers'] = 100\n"
    "main()\n"
)


@dataclass(frozen=True)
class PreviousVersion:
    folder: Path

    @property
    def chart(self) -> Path:
        return self.folder / "deploy" / "helm"

    @property
    def command(self) -> tuple[str, ...]:
        return (sys.executable, "-c", _MAIN)

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.folder / "src")}

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self.command, *arguments],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout


def export_previous_version(folder: Path) -> PreviousVersion:
    """Write its files to the folder, or skip the test in a clone without that history."""
    archive = subprocess.run(
        ["git", "archive", COMMIT_OF_0_1, "src", "deploy"],
        cwd=_REPOSITORY,
        capture_output=True,
        check=False,
    )
    if archive.returncode != 0:
        pytest.skip("version 0.1 is not in this clone: run `git fetch --unshallow`")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return PreviousVersion(folder)
