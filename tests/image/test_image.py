"""The image that `make image` wrote."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "dist" / "rescheduler-image.tar"
TARGET_MIB = 40


def test_a_second_build_gives_the_same_bytes(tmp_path: Path) -> None:
    again = tmp_path / "again.tar"
    command = [sys.executable, "-m", "tools.container_image", "--to", str(again)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert again.read_bytes() == IMAGE.read_bytes()


def test_it_is_small() -> None:
    assert IMAGE.stat().st_size <= TARGET_MIB << 20
