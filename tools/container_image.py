"""Build rescheduler's image without a container engine or a registry: `python -m tools.container_image`.

The root file system consists of Debian's packages of Python and the libraries it needs, unpacked, and of the
wheels that requirements/runtime.txt names by their hashes. There is no shell, no package manager and no
pip. The same inputs give the same digest. `--root` only writes the file system, for the Containerfile.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.debian_packages import (
    ARCHITECTURES,
    MACHINES,
    DebianPackage,
    PackageError,
    download,
    locked_packages,
)
from tools.oci_archive import ImageSettings, layer_of_tree, write_oci_archive

__all__ = ["ImageBuildError", "build_archive", "build_root", "main", "project_version", "settings_for"]

REPOSITORY = Path(__file__).resolve().parents[1]
PYTHON = "3.11"
SITE = Path("usr/lib/python3/dist-packages")  # where Debian's Python looks by itself
_WHEEL_PLATFORMS = {"amd64": "x86_64", "arm64": "aarch64"}
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
    # The licenses stay: usr/share/doc/NAME/copyright.
    "usr/share/doc/*/[!c]*", "usr/share/doc/*/c[!o]*",
    "usr/share/man", "usr/share/lintian", "usr/share/binfmts", "usr/share/applications",
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
_MODULES_OF_EXTRAS = {"otel": "rescheduler.daemon.tracing", "top": "rescheduler.cli.top_screen"}
"""Modules that need an extra of the package. `rescheduler top` runs on your own machine, not in the image."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.container_image", description=__doc__)
    parser.add_argument("--to", type=Path, default=REPOSITORY / "dist" / "rescheduler-image.tar")
    parser.add_argument("--reference", default="", help="name and tag (rescheduler:VERSION)")
    parser.add_argument("--root", type=Path, help="only write the root file system, into this new folder")
    parser.add_argument("--arch", choices=ARCHITECTURES, default=MACHINES.get(platform.machine()))
    parser.add_argument("--otel", action="store_true", help="with OpenTelemetry (docs/tracing.md)")
    chosen = parser.parse_args(arguments)
    lock = "otel" if chosen.otel else "runtime"
    reference = chosen.reference or f"rescheduler:{project_version()}"
    try:
        if chosen.root:
            build_root(chosen.root, chosen.arch, lock)
        else:
            build_archive(chosen.to, reference, chosen.arch, lock)
    except (ImageBuildError, PackageError) as failure:
        print(f"The image was not built: {failure}", file=sys.stderr)
        return 1
    return 0


def build_archive(to: Path, reference: str, architecture: str, lock: str = "runtime") -> str:
    """Write the OCI archive with the wheels of requirements/LOCK.txt; return the digest of the image."""
    to.parent.mkdir(parents=True, exist_ok=True)
    # A reference without a host is completed by every client in the same way; containerd wants it whole.
    host, slash, _ = reference.partition("/")
    full = reference if slash and "." in host else f"docker.io/library/{reference}"
    with tempfile.TemporaryDirectory(prefix="rescheduler-image-") as folder:
        root = Path(folder) / "root"
        packages = build_root(root, architecture, lock)
        layer = layer_of_tree(root, mtime=0)
        digest = write_oci_archive(to, full, [layer], settings_for(architecture), created=_CREATED)
    size = to.stat().st_size / (1 << 20)
    unpacked = len(layer) / (1 << 20)
    print(f"{to}: {full}, {size:.1f} MiB ({unpacked:.0f} MiB unpacked), {len(packages)} Debian packages")
    print(digest)
    return digest


def settings_for(architecture: str) -> ImageSettings:
    """Return the command, environment and user of a container of the image."""
    name = "org.opencontainers.image"
    return ImageSettings(
        entrypoint=["rescheduler"],
        command=["run"],
        environment=_ENVIRONMENT,
        labels={f"{name}.title": "rescheduler", f"{name}.version": project_version()},
        architecture=architecture,
    )


def build_root(root: Path, architecture: str, lock: str = "runtime") -> list[DebianPackage]:
    """Write the root file system into a new folder and return the Debian packages that are in it."""
    root.mkdir(parents=True)
    packages = locked_packages(architecture)
    with tempfile.TemporaryDirectory(prefix="rescheduler-debian-") as folder:
        for file in download(packages, Path(folder)):
            _run(["dpkg-deb", "-x", str(file), str(root)], root)
    certificates = _certificates(root)
    for pattern in _UNUSED_IN_ROOT:
        _remove(root, pattern)
    for name, content in {**_ACCOUNTS, "etc/ssl/certs/ca-certificates.crt": certificates}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    _install_wheels(root / SITE, architecture, lock)
    _prune(root)
    for name in ("rescheduler", "kubectl-rescheduler"):
        (root / "usr" / "bin" / name).write_text(_LAUNCHER)
        (root / "usr" / "bin" / name).chmod(0o755)
    is_ours = architecture == MACHINES.get(platform.machine())
    if is_ours:
        _strip(root)
    _compile(root, is_ours=is_ours)
    if is_ours:
        _import_everything(root, lock)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    described = {"debian": [asdict(each) for each in sorted(packages)]}
    _write(root / "usr" / "share" / "rescheduler" / "packages.json", json.dumps(described, indent=1) + "\n")
    _uniform_modes(root)
    return packages


def _certificates(root: Path) -> str:
    """Return every certificate in one text, as `update-ca-certificates` writes it."""
    found = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    text = "".join(path.read_text() for path in found)
    shutil.rmtree(root / "usr/share/ca-certificates")
    return text


def _install_wheels(site: Path, architecture: str, lock: str) -> None:
    """Install the locked wheels and our own, for the image's Python and not for the one that runs this."""
    shutil.rmtree(site, ignore_errors=True)
    requirements = REPOSITORY / "requirements" / f"{lock}.txt"
    uv = str(Path(sys.executable).with_name("uv"))
    target = [
        f"--python-platform={_WHEEL_PLATFORMS[architecture]}-manylinux_2_28",
        f"--python-version={PYTHON}",
    ]
    into = [uv, "pip", "install", "--quiet", "--no-deps", "--link-mode=copy", "--target", str(site), *target]
    _run([*into, "--only-binary=:all:", "--require-hashes", "-r", str(requirements)], REPOSITORY)
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
        # auditwheel has rearranged these libraries, and strip would damage them.
        if "numpy.libs" not in path.parts:
            _run(["strip", "--strip-unneeded", str(path)], root)


def _compile(root: Path, *, is_ours: bool) -> None:
    """Compile all modules: the file system is read-only at run time, so it is impossible later.

    Of others' code only the compiled form stays, which is half the size; ours keeps its sources, so that a
    traceback shows them.
    """
    hashed = ["--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/"]
    command = ["-m", "compileall", "-q", *hashed]
    ours = [root / SITE / name for name in _OURS]
    # The compiled form is the same on every machine, so another one's is made with our interpreter.
    run = _python if is_ours else _same_python
    run(root, *command, *(str(path) for path in ours))
    standard = root / f"usr/lib/python{PYTHON}"
    others = [standard, *(path for path in sorted((root / SITE).iterdir()) if path not in ours)]
    run(root, *command, "-b", *(str(path) for path in others))
    for source in (path for folder in others for path in _sources(folder)):
        if source.with_suffix(".pyc").exists():
            source.unlink()


def _import_everything(root: Path, lock: str) -> None:
    """Import each of our modules with what is in the image, so that nothing that is needed was removed."""
    site = str(root / SITE)
    absent = [module for extra, module in _MODULES_OF_EXTRAS.items() if extra != lock]
    script = f"""
import importlib, pkgutil, sys
sys.path.insert(0, {site!r})
for name in {_OURS!r}:
    for module in pkgutil.walk_packages([{site!r} + "/" + name], name + "."):
        if not module.name.endswith("__main__") and module.name not in {absent!r}:
            importlib.import_module(module.name)
"""
    _python(root, "-c", script)


def _python(root: Path, *arguments: str) -> None:
    """Run the image's own interpreter, with its own libraries, from outside of it."""
    libraries = ":".join(str(path) for path in sorted(root.glob("**/*-linux-gnu")))
    command = [str(_loader(root)), "--library-path", libraries, str(root / f"usr/bin/python{PYTHON}")]
    environment = {"PYTHONHOME": str(root / "usr"), "PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin"}
    _run([*command, *arguments], root, environment)


def _same_python(root: Path, *arguments: str) -> None:
    """Run an interpreter of the same version on this machine."""
    found = shutil.which(f"python{PYTHON}")
    if found is None:
        raise ImageBuildError(f"an image for another architecture needs python{PYTHON} on this machine")
    _run([found, *arguments], root, {"PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin"})


def _sources(path: Path) -> list[Path]:
    return [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))


def _loader(root: Path) -> Path:
    """Return the dynamic loader itself: the link to it is absolute, and leads out of the root."""
    return next(root.glob("lib/*-linux-gnu*/ld-linux-*.so.*"))


def _uniform_modes(root: Path) -> None:
    """Set modes that do not depend on the umask of the build."""
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


def project_version() -> str:
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
