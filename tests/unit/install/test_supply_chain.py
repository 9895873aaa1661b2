"""Every part of the image is pinned by its content."""

import json
import re
from pathlib import Path

import pytest

from tools import container_image, debian_packages
from tools.debian_packages import ARCHITECTURES, PackageError, download, locked_packages

ROOT = Path(__file__).parents[3]
CONTAINERFILE = (ROOT / "Containerfile").read_text()
LOCKED = ["audit", "bootstrap", "build", "dev", "docs", "otel", "runtime"]


def requirements(name: str) -> list[str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", "")
    return [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]


@pytest.mark.parametrize("name", LOCKED)
def test_every_requirement_has_one_version_and_a_hash(name):
    for line in requirements(name):
        assert re.match(r"[a-z0-9._-]+==\S+ ", line), line
        assert "--hash=sha256:" in line, line


def test_every_file_of_requirements_is_made_by_the_lock_script():
    script = (ROOT / "scripts" / "lock.sh").read_text()
    assert sorted(path.stem for path in (ROOT / "requirements").iterdir()) == sorted([*LOCKED, "debian"])
    assert all(f"requirements/{name}.txt" in script for name in LOCKED)
    assert "tools.debian_packages" in script


def test_what_is_in_both_images_has_the_same_version():
    """Requirements of the image with OpenTelemetry are those of the usual one, and some more."""
    assert set(requirements("runtime")) < set(requirements("otel"))


def test_each_architecture_has_the_same_debian_packages_with_version_and_checksum():
    """Versions may differ: Debian rebuilds packages for one architecture only."""
    locked = {each: locked_packages(each) for each in ARCHITECTURES}
    names = {each: [package.name for package in packages] for each, packages in locked.items()}
    assert names["amd64"] == names["arm64"]
    assert "python3.11-minimal" in names["amd64"]
    for package in (*locked["amd64"], *locked["arm64"]):
        assert re.fullmatch(r"[0-9a-f]{64}", package.sha256), package
        assert re.match(r"[0-9]", package.version), package


def test_a_package_that_is_not_the_locked_one_is_refused(monkeypatch, tmp_path):
    (package, *_) = locked_packages("amd64")
    other = tmp_path / "other.deb"
    other.write_bytes(b"something else")
    monkeypatch.setattr(debian_packages, "_download", lambda *_: {package.name: other})
    with pytest.raises(PackageError, match=f"{package.name} .* has the checksum"):
        download([package], tmp_path)


def test_the_base_image_is_named_by_its_digest():
    (base,) = re.findall(r"^ARG BASE=(\S+)$", CONTAINERFILE, re.MULTILINE)
    assert re.fullmatch(r"docker\.io/library/debian:bookworm-slim@sha256:[0-9a-f]{64}", base)
    # Nothing of the base is in the image itself.
    assert re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE) == ["${BASE}", "scratch"]


@pytest.mark.parametrize("lock", ["runtime", "otel"])
def test_nothing_is_installed_in_the_image_without_its_hash(monkeypatch, tmp_path, lock):
    """What comes from outside is locked; the only other wheel is built from the work tree."""
    commands = re.findall(r"pip [^&\n]*?\b(?:install|wheel)\b[^&\n]*", CONTAINERFILE)
    assert len(commands) == 1
    assert all("--require-hashes" in command for command in commands)
    installed = []

    def record(command, _folder, _environment=None):
        if "install" in command:
            installed.append(command)
        elif "hatchling" in command:
            (Path(command[-1]) / "ours.whl").touch()
        return ""

    monkeypatch.setattr(container_image, "_run", record)
    container_image._install_wheels(tmp_path / "site", "amd64", lock)
    locked, ours = installed
    assert locked[-1].endswith(f"/requirements/{lock}.txt")
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(locked)
    assert "--no-deps" in ours
    assert ours[-1].endswith("/ours.whl")


def test_the_build_backend_of_the_image_is_the_locked_one():
    """It runs as it is installed; nothing is fetched for the build."""
    assert any(line.startswith("hatchling==") for line in requirements("build"))
    assert "requirements/build.txt" in CONTAINERFILE


def test_the_containerfile_runs_the_image_as_the_archive_does():
    settings = container_image.settings_for("amd64")
    (environment,) = re.findall(r"^ENV (.+)$", CONTAINERFILE, re.MULTILINE)
    assert dict(pair.split("=", 1) for pair in environment.split()) == settings.environment
    assert re.findall(r"^USER (.+)$", CONTAINERFILE, re.MULTILINE) == [settings.user]
    assert json.loads(re.findall(r"^ENTRYPOINT (.+)$", CONTAINERFILE, re.MULTILINE)[0]) == settings.entrypoint
    assert json.loads(re.findall(r"^CMD (.+)$", CONTAINERFILE, re.MULTILINE)[0]) == settings.command
