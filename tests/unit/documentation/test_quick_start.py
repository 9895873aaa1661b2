"""The quick start works as it is written: its commands run on the simulator and print what it shows.

The Chinese page has the same commands and outputs: see `test_chinese`.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/quick-start.md"
EXIT_CODES = {"rescheduler plan": 3}


def steps() -> list[tuple[str, list[str]]]:
    """Return the commands of the first part with the lines that they should print."""
    first_part = PAGE.read_text().split("\n## ")[1]
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```$", first_part, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def shape(line: str) -> str:
    """Return the line without what differs from run to run: times, loads, names, users, nodes."""
    line = re.sub(r"Plan \w+", "Plan ID", line)
    line = re.sub(r"requested by \S+", "requested by USER", line)
    line = re.sub(r"\b(\w+-)[a-z0-9]{9,10}(-[a-z0-9]{5})?(-[a-z0-9]{8})?\b", r"\1NAME", line)
    line = re.sub(r"worker-\d", "NODE", line)
    return re.sub(r"[\d.,:%/]+|\s+", " ", line).strip()


@pytest.mark.size
def test_the_five_minutes_with_a_simulated_cluster(tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(tmp_path / "shop")}
    simulator = None
    ran = []
    try:
        for command, shown in steps():
            words = command.replace("/tmp/shop", str(tmp_path / "shop"))
            if words.endswith(" &"):
                simulator = subprocess.Popen(words.removesuffix(" &").split(), cwd=ROOT, env=environment)
                deadline = time.monotonic() + 60
                while not (tmp_path / "shop").exists():
                    assert time.monotonic() < deadline, "the simulator wrote no kubeconfig"
                    time.sleep(0.1)
            elif words.startswith("rescheduler "):
                done = subprocess.run(
                    words.split(),
                    cwd=ROOT,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=180,
                    check=False,
                )
                printed = done.stdout + done.stderr
                assert done.returncode == EXIT_CODES.get(words, 0), printed
                present = {shape(line) for line in printed.splitlines()}
                # Which pods a plan chooses depends on the load at that time.
                fixed = [
                    line for line in shown if line != "…" and not re.search(r"shop/|reports/|worker-", line)
                ]
                assert [line for line in fixed if shape(line) not in present] == [], printed
                ran.append(words.split()[1])
    finally:
        if simulator is not None:
            simulator.terminate()
            simulator.wait(30)
    assert ran == ["plan", "apply", "drain", "history", "undrain"]
