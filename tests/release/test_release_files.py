"""The files of `make release` can be installed, and match their records."""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.testbed.helm import helm
from tools.container_image import project_version

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "dist" / "release"
VERSION = project_version()
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
UV = Path(sys.executable).with_name("uv")


def run(*command: str | Path, **more: Any) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


def only(pattern: str) -> Path:
    (found,) = RELEASE.glob(pattern)
    return found


def installed(tmp_path: Path, package: Path) -> Path:
    """A new environment with the package and the locked dependencies; its folder of programs."""
    run(UV, "venv", "--quiet", tmp_path / "venv")
    into = [UV, "pip", "install", "--quiet", "--python", tmp_path / "venv" / "bin" / "python"]
    run(*into, "--require-hashes", "-r", ROOT / "requirements" / "runtime.txt")
    run(*into, "--no-deps", package)
    return tmp_path / "venv" / "bin"


def test_checksums() -> None:
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=RELEASE)
    named = {line.split()[1] for line in (RELEASE / "SHA256SUMS").read_text().splitlines()}
    assert named == {path.name for path in RELEASE.iterdir()} - {"SHA256SUMS"}


def test_the_wheel_runs(tmp_path: Path) -> None:
    programs = installed(tmp_path, only("*.whl"))
    for name in ("rescheduler", "kubectl-rescheduler"):
        assert VERSION in run(programs / name, "--version")


def test_the_sdist_builds_the_same_wheel(tmp_path: Path) -> None:
    with tarfile.open(only("kube_rescheduler-*.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "315532800"}
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "built"]
    run(*build, cwd=source, env=environment)
    (wheel,) = (tmp_path / "built").glob("*.whl")
    assert wheel.read_bytes() == only("*.whl").read_bytes()


def test_helm_renders_the_packed_chart_like_the_folder() -> None:
    render = [helm(), "template", "rescheduler", "--namespace", "rescheduler", "--kube-version", "1.30"]
    assert run(*render, only("rescheduler-*.tgz")) == run(*render, ROOT / "deploy" / "helm")


def test_the_kubectl_plugin_runs_where_krew_would_put_it(tmp_path: Path) -> None:
    """By a link, without any environment, and without a Python on the machine."""
    manifest = yaml.safe_load((RELEASE / "rescheduler.yaml").read_text())
    (ours,) = (
        each
        for each in manifest["spec"]["platforms"]
        if each["selector"]["matchLabels"] == {"os": "linux", "arch": ARCHITECTURE}
    )
    archive = RELEASE / Path(ours["uri"]).name
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == ours["sha256"]
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "store", filter="tar")
    link = tmp_path / "kubectl-rescheduler"
    link.symlink_to(tmp_path / "store" / ours["bin"])
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("dirname", "readlink"):
        found = shutil.which(tool)
        assert found
        (folder / tool).symlink_to(found)
    alone = {"PATH": str(folder), "HOME": str(tmp_path)}
    assert VERSION in run(link, "--version", env=alone)
    assert "LoadBalancing" in run(link, "config", "show", env=alone)


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_each_image_is_for_its_architecture(architecture: str, tmp_path: Path) -> None:
    """The one that can't run here has the same files of ours, and programs of its own architecture."""
    machine = {"amd64": 62, "arm64": 183}[architecture]
    with tarfile.open(only(f"rescheduler-image-*-{architecture}.tar")) as archive:
        index = _json(archive, "index.json")["manifests"][0]
        manifest = _json(archive, _blob(index["digest"]))
        config = _json(archive, _blob(manifest["config"]["digest"]))
        (layer,) = manifest["layers"]
        with tarfile.open(fileobj=archive.extractfile(_blob(layer["digest"])), mode="r:gz") as files:
            names = set(files.getnames())
            for name in ("usr/bin/python3.11", *(each for each in names if each.endswith(".so"))):
                content = files.extractfile(name)
                assert content is not None
                header = content.read(20)
                assert header[:4] == b"\x7fELF", name
                assert int.from_bytes(header[18:20], "little") == machine, name
    assert (config["architecture"], config["config"]["User"]) == (architecture, "65532:65532")
    assert {"usr/bin/rescheduler", "usr/lib/python3/dist-packages/rescheduler/cli/__init__.py"} <= names


def test_the_records_name_what_is_there() -> None:
    """The SBOM has every locked package; the provenance has every file, the commit and the image's digest."""
    sbom = json.loads((RELEASE / "sbom.json").read_text())
    found = {each["purl"].partition("@")[0] for each in sbom["components"]}
    assert {"pkg:pypi/numpy", "pkg:pypi/aiohttp", "pkg:deb/debian/libssl3", "pkg:deb/debian/libc6"} <= found
    statement = json.loads((RELEASE / "provenance.json").read_text())
    subjects = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    files = {path.name for path in RELEASE.iterdir()} - {"provenance.json", "SHA256SUMS"}
    assert files == {name for name in subjects if not name.endswith("#image")}
    archive = only(f"rescheduler-image-*-{ARCHITECTURE}.tar")
    with tarfile.open(archive) as opened:
        digest = _json(opened, "index.json")["manifests"][0]["digest"]
    assert subjects[f"{archive.name}#image"] == digest.removeprefix("sha256:")
    commit = run("git", "rev-parse", "HEAD", cwd=ROOT).strip()
    dependencies = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert dependencies[0]["digest"] == {"gitCommit": commit}


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(archive: tarfile.TarFile, name: str) -> Any:
    content = archive.extractfile(name)
    assert content is not None
    return json.load(content)
