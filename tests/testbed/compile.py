"""Compile Go programs and report the progress.

`go build -v` names each package as it is compiled; how many there are to name comes from `go list -deps`.
Packages that Go's own cache already has are never named, so the count may end early: it is an upper bound.
"""

import os
import select
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.testbed.progress import Progress
from tests.testbed.recipe import GO_ENVIRONMENT, MODULE_FOLDER

__all__ = ["BuildError", "Go"]

_KEPT_LINES = 30
# A killed build must not leave a compiler behind that writes where the next build writes.
_DIES_WITH_US = ("setpriv", "--pdeathsig", "TERM")


class BuildError(Exception):
    """A step of the build ended with an error; the message has the tool's last words."""


@dataclass(frozen=True)
class Go:
    """The go command in one of our modules, with its environment."""

    environment: Mapping[str, str]
    folder: Path = MODULE_FOLDER

    @staticmethod
    def with_caches(caches: Mapping[str, str], folder: Path = MODULE_FOLDER) -> "Go":
        return Go({**os.environ, **GO_ENVIRONMENT, **caches}, folder)

    def dependencies(self, package: str) -> frozenset[str]:
        """Every package that goes into a program. Downloads the modules they are in."""
        progress = Progress(f"modules of {package.rpartition('/')[2]}")
        downloads = 0

        def count(line: str) -> None:
            nonlocal downloads
            downloads += line.startswith("go: downloading")
            progress.note(f"{downloads} downloaded")

        out = self._run(["list", "-deps", package], count, lambda: progress.note(f"{downloads} downloaded"))
        packages = frozenset(out.split())
        progress.done(f"{downloads} downloaded, {len(packages)} packages")
        return packages

    def source_folder(self, module: str) -> Path:
        """Return where Go has unpacked the sources of a module."""
        return Path(self._run(["list", "-m", "-f", "{{.Dir}}", module]).strip())

    def release_time(self) -> str:
        """Return when the pinned release was made: as build date, it makes two builds of it the same."""
        template = '{{if .Time}}{{.Time.Format "2006-01-02T15:04:05Z"}}{{end}}'
        out = self._run(["list", "-m", "-f", template, "k8s.io/kubernetes"])
        return out.strip() or "1970-01-01T00:00:00Z"

    def build(self, package: str, to: Path, flags: Sequence[str], expected: int, title: str) -> None:
        progress = Progress(title)
        compiled = 0

        def tell() -> None:
            linking = ", linking" if compiled >= expected else ""
            progress.note(f"{compiled} of {expected} packages compiled{linking}")

        def count(line: str) -> None:
            nonlocal compiled
            compiled += not line.startswith("go: ")
            tell()

        self._run(["build", "-v", *flags, "-o", str(to), package], count, tell)
        progress.done(f"built, {to.stat().st_size / 1e6:.0f} MB")

    def _run(
        self,
        arguments: list[str],
        line: Callable[[str], None] | None = None,
        idle: Callable[[], None] | None = None,
    ) -> str:
        """Runs go, handing over each line of stderr; `idle` is called about once a second."""
        last: deque[str] = deque(maxlen=_KEPT_LINES)
        # stdout goes to a file: read after stderr has ended, a pipe could fill and block go.
        with _memory_file() as out:
            with subprocess.Popen(
                [*_DIES_WITH_US, "go", *arguments],
                cwd=self.folder,
                env=self.environment,
                stdout=out,
                stderr=subprocess.PIPE,
            ) as process:
                assert process.stderr is not None
                for text in _lines(process.stderr, idle or (lambda: None)):
                    last.append(text)
                    if line:
                        line(text)
            out.seek(0)
            if process.returncode != 0:
                raise BuildError(
                    f"`go {arguments[0]}` in {self.folder} ended with {process.returncode}:\n"
                    + "\n".join(last)
                )
            return out.read().decode()


def _memory_file() -> IO[bytes]:
    return os.fdopen(os.memfd_create("go-stdout"), "w+b")


def _lines(stream: IO[bytes], idle: Callable[[], None]) -> Iterator[str]:
    """Lines of a pipe as they come, with a call about once a second in between."""
    rest = b""
    while True:
        if not select.select([stream], [], [], 1.0)[0]:
            idle()
            continue
        chunk = os.read(stream.fileno(), 65536)
        if not chunk:
            return
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
