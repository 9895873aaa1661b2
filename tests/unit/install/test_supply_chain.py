"""What goes into the image is named by its content."""

import re
from pathlib import Path

import pytest

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
    assert re.fullmatch(r"docker\.io/library/python:3\.13-slim@sha256:[0-9a-f]{64}", base)
    assert set(re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE)) == {"${BASE}"}


def test_nothing_is_installed_in_the_image_without_its_hash():
    commands = re.findall(r"pip [^&\n]*?\b(?:install|wheel)\b[^&\n]*", CONTAINERFILE)
    assert len(commands) == 4
    for command in commands:
        assert "--require-hashes" in command or "--no-index" in command, command


def test_the_build_backend_of_the_image_is_the_locked_one():
    assert any(line.startswith("hatchling==") for line in requirements("build"))
    assert "--no-build-isolation" in CONTAINERFILE
