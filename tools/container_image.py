"""Builds rescheduler's image without a container engine or a registry: `python -m tools.container_image`.

The root file system consists of Debian's packages of Python and the libraries it needs, unpacked, and of the
wheels that requirements/runtime.txt names by their hashes. There is no shell, no package manager and no
pip. The same inputs give the same digest. `--root` only writes the file system, for the Containerfile.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.oci_archive import ImageSettings, layer_of_tree, write_oci_archive

__all__ = ["build_root", "main", "settings_for"]

REPOSITORY = Path(__file__).resolve().parents[1]
PYTHON = "3.11"
SITE = Path("usr/lib/python3/dist-packages")  # where Debian's Python looks by itself
_WHEEL_PLATFORMS = {"amd64": "x86_64", "arm64": "aarch64"}
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
# Python and the libraries that its modules and the wheels are linked with.
_PACKAGES = (
    f"python{PYTHON}-minimal",
    f"libpython{PYTHON}-minimal",
    f"libpython{PYTHON}-stdlib",
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
# What no command of ours imports: build tools, tests, other user interfaces, databases.
_UNUSED_IN_PYTHON = (
    "config-*", "ctypes/test", "dbm", "distutils", "curses", "ensurepip", "idlelib", "lib2to3", "pydoc_data",
    "sqlite3", "tkinter", "turtledemo", "turtle.py", "test", "unittest", "venv", "xmlrpc",
    "lib-dynload/_test*", "lib-dynload/_curses*", "lib-dynload/_dbm*", "lib-dynload/_sqlite3*",
    "lib-dynload/_tkinter*", "lib-dynload/readline*", "lib-dynload/nis*", "lib-dynload/ossaudiodev*",
    "lib-dynload/_crypt*", "lib-dynload/_codecs_*", "lib-dynload/_xxtestfuzz*", "lib-dynload/audioop*",
)  # fmt: skip
_UNUSED_IN_SITE = (
    "bin", "numpy/tests", "numpy/*/tests", "numpy/*/*/tests", "numpy/f2py", "numpy/distutils",
    "numpy/_pyinstaller", "numpy/doc", "numpy/_core/include", "numpy/_core/lib", "numpy/random/lib",
    "numpy/random/_examples", "numpy/testing", "numpy/_core/_simd*", "numpy/_core/_*_tests*", "numpy/fft",
    "numpy/polynomial", "pycparser", "pygments/lexers/[!_p]*.py",
    "pygments/lexers/p[!y]*.py", "pygments/lexers/_*_builtins.py", "pygments/formatters/[!_t]*.py",
)  # fmt: skip
_UNUSED_ANYWHERE = ("*.pyi", "*.a", "*.h", "*.pxd", "*.pyx", "*.c", "*.exe", "py.typed")
_UNUSED_IN_ROOT = (
    "usr/share/doc", "usr/share/man", "usr/share/lintian", "usr/share/binfmts", "usr/share/applications",
    "usr/share/pixmaps", "usr/share/bug", "usr/share/menu", "usr/share/gcc", "usr/share/gdb",
    "usr/share/doc-base", "usr/share/zoneinfo/right", "usr/share/zoneinfo/posix", "usr/lib/*/gconv",
    "usr/lib/*/audit", "usr/lib/*/engines-3", "usr/sbin", "etc", "sbin", "usr/share/python3",
    "usr/bin/*[!1]", "usr/share/locale",
)  # fmt: skip
_ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n",
    "etc/group": "root:x:0:\nnonroot:x:65532:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
_CREATED = "1970-01-01T00:00:00Z"  # any, as long as it is always the same
_OURS = ("kubesim", "kubevalues", "rescheduler")
_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",
    "PATH": "/usr/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
}
# The kernel starts the interpreter of a script by itself: this needs no shell.
_LAUNCHER = f"#!/usr/bin/python{PYTHON}\nfrom rescheduler.cli import main\nmain()\n"


class ImageBuildError(Exception):
    """A step of the build failed; the message has the tool's own words."""


@dataclass(frozen=True)
class Package:
    """A Debian package that went into the image."""

    name: str
    version: str
    sha256: str


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.container_image", description=__doc__)
    parser.add_argument("--to", type=Path, default=REPOSITORY / "dist" / "rescheduler-image.tar")
    parser.add_argument("--reference", default="", help="name and tag (rescheduler:VERSION)")
    parser.add_argument("--root", type=Path, help="only write the root file system, into this new folder")
    parser.add_argument("--arch", choices=sorted(_WHEEL_PLATFORMS), default=_MACHINES.get(platform.machine()))
    chosen = parser.parse_args(arguments)
    try:
        if chosen.root:
            build_root(chosen.root, chosen.arch)
        else:
            _build_archive(chosen.to, chosen.reference or f"rescheduler:{_version()}", chosen.arch)
    except ImageBuildError as failure:
        print(f"The image was not built: {failure}", file=sys.stderr)
        return 1
    return 0


def _build_archive(to: Path, reference: str, architecture: str) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    # A reference without a host is completed by every client in the same way; containerd wants it whole.
    host, slash, _ = reference.partition("/")
    full = reference if slash and "." in host else f"docker.io/library/{reference}"
    with tempfile.TemporaryDirectory(prefix="rescheduler-image-") as folder:
        root = Path(folder) / "root"
        packages = build_root(root, architecture)
        layer = layer_of_tree(root, mtime=0)
        digest = write_oci_archive(
            to, full, [layer], settings_for(architecture), created="1970-01-01T00:00:00Z"
        )
    size = to.stat().st_size / (1 << 20)
    unpacked = len(layer) / (1 << 20)
    print(f"{to}: {full}, {size:.1f} MiB ({unpacked:.0f} MiB unpacked), {len(packages)} Debian packages")
    print(digest)


def settings_for(architecture: str) -> ImageSettings:
    """Return what a container of the image runs, and as whom."""
    name = "org.opencontainers.image"
    return ImageSettings(
        entrypoint=["rescheduler"],
        command=["run"],
        environment=_ENVIRONMENT,
        labels={f"{name}.title": "rescheduler", f"{name}.version": _version()},
        architecture=architecture,
    )


def build_root(root: Path, architecture: str) -> list[Package]:
    """Write the root file system into a new folder and return the Debian packages that are in it."""
    root.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="rescheduler-debian-") as folder:
        packages = [_unpack(name, architecture, Path(folder), root) for name in _PACKAGES]
    certificates = _certificates(root)
    for pattern in _UNUSED_IN_ROOT:
        _remove(root, pattern)
    for name, content in {**_ACCOUNTS, "etc/ssl/certs/ca-certificates.crt": certificates}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    _install_wheels(root / SITE, architecture)
    _prune(root)
    for name in ("rescheduler", "kubectl-rescheduler"):
        (root / "usr" / "bin" / name).write_text(_LAUNCHER)
        (root / "usr" / "bin" / name).chmod(0o755)
    _strip(root)
    _compile(root)
    if architecture == _MACHINES.get(platform.machine()):
        _import_everything(root)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    described = {"debian": [each.__dict__ for each in sorted(packages, key=lambda each: each.name)]}
    _write(root / "usr" / "share" / "rescheduler" / "packages.json", json.dumps(described, indent=1) + "\n")
    _uniform_modes(root)
    return packages


def _unpack(name: str, architecture: str, folder: Path, root: Path) -> Package:
    # As root apt would drop to a user that may not write here, and warn about it.
    wanted = f"{name}:{architecture}" if architecture != _MACHINES.get(platform.machine()) else name
    _run(["apt-get", "download", "--quiet", "-o", "APT::Sandbox::User=root", wanted], folder)
    (package,) = folder.glob(f"{name}_*.deb")
    _run(["dpkg-deb", "-x", str(package), str(root)], folder)
    version = _run(["dpkg-deb", "-f", str(package), "Version"], folder).strip()
    return Package(name, version, hashlib.sha256(package.read_bytes()).hexdigest())


def _certificates(root: Path) -> str:
    """What `update-ca-certificates` would write: every certificate in one file."""
    found = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    text = "".join(path.read_text() for path in found)
    shutil.rmtree(root / "usr/share/ca-certificates")
    return text


def _install_wheels(site: Path, architecture: str) -> None:
    """Install the locked wheels and our own, for the image's Python and not for the one that runs this."""
    shutil.rmtree(site, ignore_errors=True)
    lock = REPOSITORY / "requirements" / "runtime.txt"
    uv = str(Path(sys.executable).with_name("uv"))
    target = [
        f"--python-platform={_WHEEL_PLATFORMS[architecture]}-manylinux_2_28",
        f"--python-version={PYTHON}",
    ]
    into = [uv, "pip", "install", "--quiet", "--no-deps", "--link-mode=copy", "--target", str(site), *target]
    _run([*into, "--only-binary=:all:", "--require-hashes", "-r", str(lock)], REPOSITORY)
    with tempfile.TemporaryDirectory(prefix="rescheduler-wheel-") as folder:
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "315532800"}
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        _run(build, REPOSITORY, environment)
        (wheel,) = Path(folder).glob("*.whl")
        _run([*into, str(wheel)], REPOSITORY)
    for name in ("direct_url.json", "uv_cache.json", "INSTALLER", "REQUESTED", "RECORD"):
        _remove(
            site, f"*.dist-info/{name}"
        )  # how and when it was installed; RECORD lists what is removed below
    _remove(site, ".lock")


def _prune(root: Path) -> None:
    for pattern in _UNUSED_IN_PYTHON:
        _remove(root / f"usr/lib/python{PYTHON}", pattern)
    for pattern in _UNUSED_IN_SITE:
        _remove(root / SITE, pattern)
    for pattern in _UNUSED_ANYWHERE:
        _remove(root, f"**/{pattern}")
    _remove(root, "**/__pycache__")


def _strip(root: Path) -> None:
    """Remove the symbols that only debuggers read; many wheels ship them."""
    for path in sorted((root / SITE).rglob("*.so")):
        # auditwheel has moved the parts of these libraries about, and strip would damage them.
        if "numpy.libs" not in path.parts:
            _run(["strip", "--strip-unneeded", str(path)], root)


def _compile(root: Path) -> None:
    """Compile all modules: the file system is read-only at run time, so nobody could do it later.

    Of others' code only the compiled form stays, which is half the size; ours keeps its sources, so that a
    traceback shows them.
    """
    hashed = ["--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/"]
    command = ["-m", "compileall", "-q", *hashed]
    ours = [root / SITE / name for name in _OURS]
    _python(root, *command, *(str(path) for path in ours))
    standard = root / f"usr/lib/python{PYTHON}"
    others = [standard, *(path for path in sorted((root / SITE).iterdir()) if path not in ours)]
    _python(root, *command, "-b", *(str(path) for path in others))
    for source in (path for folder in others for path in _sources(folder)):
        if source.with_suffix(".pyc").exists():
            source.unlink()


def _import_everything(root: Path) -> None:
    """Import each of our modules with what is in the image, so that nothing that is needed was removed."""
    site = str(root / SITE)
    script = f"""
import importlib, pkgutil, sys
sys.path.insert(0, {site!r})
for name in {_OURS!r}:
    for module in pkgutil.walk_packages([{site!r} + "/" + name], name + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
"""
    _python(root, "-c", script)


def _python(root: Path, *arguments: str) -> None:
    """Run the image's own interpreter, with its own libraries, from outside of it."""
    libraries = ":".join(str(path) for path in sorted(root.glob("**/*-linux-gnu")))
    command = [str(_loader(root)), "--library-path", libraries, str(root / f"usr/bin/python{PYTHON}")]
    environment = {"PYTHONHOME": str(root / "usr"), "PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin"}
    _run([*command, *arguments], root, environment)


def _sources(path: Path) -> list[Path]:
    return [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))


def _loader(root: Path) -> Path:
    """Return the dynamic loader itself: the link to it is absolute, and leads out of the root."""
    return next(root.glob("lib/*-linux-gnu*/ld-linux-*.so.*"))


def _uniform_modes(root: Path) -> None:
    """Modes must not depend on the umask of whoever builds."""
    for path in root.rglob("*"):
        if not path.is_symlink() and path != root / "tmp":
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)


def _remove(root: Path, pattern: str) -> None:
    for path in sorted(root.glob(pattern)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def _version() -> str:
    project: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def _run(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(  # noqa: S603 - only commands of this file
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise ImageBuildError(f"`{' '.join(command[:6])} …` ended with {done.returncode}:\n{said}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
