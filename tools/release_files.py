"""Write all files of a release into one folder: `make release`.

    wheel, sdist                            Python packages
    rescheduler-image-VERSION-ARCH.tar      the image as an OCI archive
    rescheduler-VERSION.tgz                 the Helm chart
    kubectl-rescheduler-VERSION-ARCH.tar.gz, rescheduler.yaml    the kubectl plugin, and its manifest for krew
    sbom.json, provenance.json, SHA256SUMS  what is in it, what it was made of, and checksums

The same commit gives the same bytes.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tools.container_image import ImageBuildError, build_archive, build_root, project_version
from tools.debian_packages import ARCHITECTURES, DebianPackage, PackageError, locked_packages
from tools.oci_archive import layer_of_tree

__all__ = ["krew_manifest", "main", "provenance", "with_debian_packages"]

REPOSITORY = Path(__file__).resolve().parents[1]
_LOCKS = ("runtime.txt", "debian.txt", "build.txt")
_EPOCH = "315532800"  # the earliest time that zip files can represent
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_LAUNCHER = """\
#!/bin/sh
# Runs the program with the Python and the libraries beside it, wherever that is.
here=$(dirname "$(readlink -f "$0")")
export PYTHONHOME="$here/usr" PYTHONDONTWRITEBYTECODE=1
export SSL_CERT_FILE="${{SSL_CERT_FILE:-$here/etc/ssl/certs/ca-certificates.crt}}"
libraries="$here/lib/{machine}-linux-gnu:$here/usr/lib/{machine}-linux-gnu"
exec "$here"/lib/{machine}-linux-gnu/ld-linux-{loader} --library-path "$libraries" \\
  "$here/usr/bin/python3.11" "$here/usr/bin/kubectl-rescheduler" "$@"
"""
_LOADERS = {"amd64": "x86-64.so.2", "arm64": "aarch64.so.1"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.release_files", description=__doc__)
    parser.add_argument("--to", type=Path, default=REPOSITORY / "dist" / "release")
    parser.add_argument("--url", required=True, help="where the files will be downloaded from, for krew")
    parser.add_argument("--sbom", type=Path, required=True, help="the SBOM of the Python packages")
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES, help="default: all")
    chosen = parser.parse_args(arguments)
    chosen.to.mkdir(parents=True, exist_ok=True)
    for old in chosen.to.iterdir():
        old.unlink()
    try:
        _write(chosen.to, chosen.url, json.loads(chosen.sbom.read_text()), chosen.arch or ARCHITECTURES)
    except (ImageBuildError, PackageError, subprocess.CalledProcessError) as failure:
        print(f"The release was not written: {failure}", file=sys.stderr)
        return 1
    return 0


def _write(to: Path, url: str, sbom: dict[str, Any], architectures: Sequence[str]) -> None:
    version = project_version()
    _write_python_packages(to)
    digests = {}
    for arch in architectures:
        archive = to / f"rescheduler-image-{version}-{arch}.tar"
        digests[archive.name] = build_archive(archive, f"rescheduler:{version}", arch)
        _write_plugin(to / f"kubectl-rescheduler-{version}-{arch}.tar.gz", arch)
    _write_chart(to)
    plugins = {arch: to / f"kubectl-rescheduler-{version}-{arch}.tar.gz" for arch in architectures}
    sums = {arch: sha256(path) for arch, path in plugins.items()}
    _yaml(to / "rescheduler.yaml", krew_manifest(version, url, sums))
    packages = [package for arch in architectures for package in locked_packages(arch)]
    _json(to / "sbom.json", with_debian_packages(sbom, packages))
    files = {path.name: sha256(path) for path in sorted(to.iterdir())}
    locks = {f"requirements/{name}": sha256(REPOSITORY / "requirements" / name) for name in _LOCKS}
    _json(to / "provenance.json", provenance(version, _commit(), files, digests, locks))
    files["provenance.json"] = sha256(to / "provenance.json")
    (to / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(files.items())))


def krew_manifest(version: str, url: str, sums: Mapping[str, str]) -> dict[str, Any]:
    """Return the manifest of the kubectl plugin. There are archives for Linux only: they contain a Python."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": "linux", "arch": arch}},
            "uri": f"{url.rstrip('/')}/v{version}/kubectl-rescheduler-{version}-{arch}.tar.gz",
            "sha256": digest,
            "bin": "kubectl-rescheduler",
        }
        for arch, digest in sums.items()
    ]
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "rescheduler"},
        "spec": {
            "version": "v" + re.sub(r"[.](dev[0-9]+)$", r"-\1", version),
            "shortDescription": "Move pods to other nodes, make-before-break",
            "description": "Plans and executes moves of pods: drains nodes, moves single pods, explains why "
            "pods stay. A copy is ready before a pod is evicted.",
            "platforms": platforms,
        },
    }


def with_debian_packages(sbom: dict[str, Any], packages: Iterable[DebianPackage]) -> dict[str, Any]:
    """Return the SBOM (CycloneDX) with the image's Debian packages besides the Python packages."""
    added = [
        {
            "type": "library",
            "bom-ref": f"deb-{each.name}-{each.architecture}",
            "name": each.name,
            "version": each.version,
            "purl": f"pkg:deb/debian/{each.name.replace('+', '%2B')}@{each.version.replace('+', '%2B')}"
            f"?arch={each.architecture}&distro=debian-12",
            "hashes": [{"alg": "SHA-256", "content": each.sha256}],
        }
        for each in sorted(packages)
    ]
    return {**sbom, "components": [*sbom.get("components", ()), *added]}


def provenance(
    version: str,
    commit: str,
    files: Mapping[str, str],
    digests: Mapping[str, str],
    locks: Mapping[str, str],
) -> dict[str, Any]:
    """Return an unsigned in-toto statement (SLSA provenance v1): what was made, of which commit and locks."""
    subjects = [{"name": name, "digest": {"sha256": digest}} for name, digest in files.items()]
    subjects += [
        {"name": f"{name}#image", "digest": {"sha256": digest.removeprefix("sha256:")}}
        for name, digest in digests.items()
    ]
    dependencies: list[dict[str, Any]] = [{"name": "rescheduler", "digest": {"gitCommit": commit}}]
    dependencies += [{"name": name, "digest": {"sha256": digest}} for name, digest in locks.items()]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://rescheduler.dev/make-release/v1",
                "externalParameters": {"version": version},
                "resolvedDependencies": dependencies,
            },
            "runDetails": {"builder": {"id": "https://rescheduler.dev/make-release"}},
        },
    }


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_python_packages(to: Path) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": _EPOCH}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(to)]
    subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, capture_output=True)  # noqa: S603


def _write_plugin(to: Path, architecture: str) -> None:
    """Pack the image's file system with a launcher, so that it runs on any Linux with any Python or none."""
    with tempfile.TemporaryDirectory(prefix="rescheduler-plugin-") as name:
        root = Path(name) / "root"
        build_root(root, architecture)
        text = _LAUNCHER.format(machine=_MACHINES[architecture], loader=_LOADERS[architecture])
        (root / "kubectl-rescheduler").write_text(text)
        (root / "kubectl-rescheduler").chmod(0o755)
        (root / "LICENSE").write_bytes((REPOSITORY / "LICENSE").read_bytes())
        to.write_bytes(gzip.compress(layer_of_tree(root), compresslevel=9, mtime=0))


def _write_chart(to: Path) -> None:
    """Pack the chart as `helm package` does, but always with the same bytes."""
    chart = REPOSITORY / "deploy" / "helm"
    version = yaml.safe_load((chart / "Chart.yaml").read_text())["version"]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(path for path in chart.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(f"rescheduler/{path.relative_to(chart).as_posix()}")
            entry.size = path.stat().st_size
            with path.open("rb") as content:
                archive.addfile(entry, content)
    (to / f"rescheduler-{version}.tgz").write_bytes(gzip.compress(buffer.getvalue(), mtime=0))


def _commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.strip()


def _json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")


def _yaml(path: Path, value: Any) -> None:
    path.write_text(yaml.safe_dump(value, sort_keys=False))


if __name__ == "__main__":
    sys.exit(main())
