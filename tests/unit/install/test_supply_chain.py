"""What goes into the image is named by its content."""

import json
import re
from pathlib import Path

import pytest

from tools import container_image

ROOT = Path(__file__).parents[3]
CONTAINERFILE = (ROOT / "Containerfile").read_text()
LOCKED = ["audit", "bootstrap", "build", "dev", "runtime"]


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
    assert sorted(path.stem for path in (ROOT / "requirements").iterdir()) == LOCKED
    assert all(f"requirements/{name}.txt" in script for name in LOCKED)


def test_the_base_image_is_named_by_its_digest():
    (base,) = re.findall(r"^ARG BASE=(\S+)$", CONTAINERFILE, re.MULTILINE)
    assert re.fullmatch(r"docker\.io/library/debian:bookworm-slim@sha256:[0-9a-f]{64}", base)
    # Nothing of the base is in the image itself.
    assert re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE) == ["${BASE}", "scratch"]


def test_nothing_is_installed_in_the_image_without_its_hash(monkeypatch, tmp_path):
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
    container_image._install_wheels(tmp_path / "site", "amd64")
    locked, ours = installed
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
