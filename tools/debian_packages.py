"""Download the Debian packages of the image, exactly those that requirements/debian.txt names.

    python -m tools.debian_packages    resolve the packages again into requirements/debian.txt (`make lock`)

Each line has an architecture, a package, its version and its checksum, so that the same commit gives the
same image. Debian removes replaced versions from its archive: then the build says so, and `make lock` names
the new ones.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ARCHITECTURES",
    "LOCK",
    "MACHINES",
    "DebianPackage",
    "PackageError",
    "download",
    "locked_packages",
    "main",
]

LOCK = Path(__file__).resolve().parents[1] / "requirements" / "debian.txt"
ARCHITECTURES = ("amd64", "arm64")
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Debian's architecture by the name that the kernel gives the machine."""
# Python and the libraries that its modules and the wheels are linked with.
_NAMES = (
    "python3.11-minimal",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libc6",
    "libgcc-s1",
    "libstdc++6",
    "libexpat1",
    "zlib1g",
    "libssl3",
    "libffi8",
    "libbz2-1.0",
    "liblzma5",
    "libuuid1",
    "ca-certificates",
    "tzdata",
)
_HEADER = (
    "# What the image has of Debian 12: architecture, package, version, SHA-256. Written by `make lock`.\n"
)


class PackageError(Exception):
    """A package could not be downloaded, or is not the one that is locked; the message says what to do."""


@dataclass(frozen=True, order=True)
class DebianPackage:
    architecture: str
    """The architecture of the image: a package for all architectures has one line for each."""
    name: str
    version: str
    sha256: str


def locked_packages(architecture: str) -> list[DebianPackage]:
    lines = (line.split() for line in LOCK.read_text().splitlines() if not line.startswith("#"))
    found = [DebianPackage(*parts) for parts in lines if parts]
    return [each for each in found if each.architecture == architecture]


def download(packages: Sequence[DebianPackage], folder: Path) -> list[Path]:
    """Return the files, in the order of the packages, each of which is what its checksum says."""
    wanted = [f"{each.name}={each.version}" for each in packages]
    found = _download(packages[0].architecture, wanted, folder)
    for package in packages:
        present = hashlib.sha256(found[package.name].read_bytes()).hexdigest()
        if present != package.sha256:
            raise PackageError(
                f"{package.name} {package.version} has the checksum {present}, but {LOCK.name} says "
                f"{package.sha256}. Find out why before you run `make lock`."
            )
    return [found[package.name] for package in packages]


def _download(architecture: str, wanted: Sequence[str], folder: Path) -> dict[str, Path]:
    """Download in one call: apt reads its lists each time, which takes longer than the download."""
    options = _apt_options(architecture)
    command = ["apt-get", *options, "--quiet", "download", *wanted]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        said = "\n".join(line for line in done.stderr.splitlines() if line.startswith("E:"))
        raise PackageError(
            f"apt-get can't download the packages of {LOCK.name}:\n{said or done.stderr[-500:]}\n"
            "Run `apt-get update`. If Debian has replaced a version, run `make lock` and commit the result."
        )
    return {path.name.partition("_")[0]: path for path in folder.glob("*.deb")}


def _apt_options(architecture: str) -> list[str]:
    """Return the options that make apt work for another architecture, with lists of its own."""
    # As root apt would drop to a user that may not write to our folder, and warn about it.
    options = ["-o", "APT::Sandbox::User=root"]
    if architecture == MACHINES.get(platform.machine()):
        return options
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    state = Path(base) / "rescheduler" / f"apt-{architecture}"
    chosen = {"APT::Architecture": architecture, "APT::Architectures::": architecture}
    chosen |= {"Dir::State::lists": str(state / "lists"), "Dir::Cache": str(state / "cache")}
    options += [part for name, value in chosen.items() for part in ("-o", f"{name}={value}")]
    if not any(state.glob("lists/*Packages*")):
        for name in ("lists/partial", "cache/archives/partial"):
            (state / name).mkdir(parents=True, exist_ok=True)
        command = ["apt-get", *options, "--quiet", "update"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            shutil.rmtree(state)
            raise PackageError(f"apt-get update for {architecture} failed:\n{done.stderr[-500:]}")
    return options


def main() -> int:
    """Write the lock with the versions that apt would install now."""
    found: list[DebianPackage] = []
    for architecture in ARCHITECTURES:
        with tempfile.TemporaryDirectory(prefix="rescheduler-debian-") as name:
            files = _download(architecture, _NAMES, Path(name))
            found += [_described(architecture, package, files[package]) for package in _NAMES]
    LOCK.write_text(_HEADER + _lines(found))
    print(f"{LOCK.name}: {len(found)} packages")
    return 0


def _described(architecture: str, name: str, file: Path) -> DebianPackage:
    command = ["dpkg-deb", "-f", str(file), "Version"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    return DebianPackage(architecture, name, version, hashlib.sha256(file.read_bytes()).hexdigest())


def _lines(packages: Iterable[DebianPackage]) -> str:
    return "".join(
        f"{each.architecture} {each.name} {each.version} {each.sha256}\n" for each in sorted(packages)
    )


if __name__ == "__main__":
    sys.exit(main())
