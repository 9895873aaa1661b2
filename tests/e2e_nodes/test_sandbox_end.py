"""However a testbed with real nodes ends, it leaves nothing behind on the machine."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e_nodes.conftest import Eventually
from tests.testbed.nodes.node_cgroups import group_of_owner, stale_groups
from tests.testbed.processes import ProcessId
from tests.testbed.readiness import until

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = """
import sys
from pathlib import Path
from tests.testbed import ControlPlane
from tests.testbed.nodes import Nodes, with_nodes
from tests.testbed.options import QUICK
folder = Path(sys.argv[1])
with ControlPlane(folder / "run", with_nodes(QUICK, 1)) as cluster, Nodes(cluster, dns=False) as nodes:
    (folder / "ready").touch()
    sys.stdin.read()
"""


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A cluster with one node in a sandbox of its own, by the process that answers for it."""
    command = [sys.executable, "-m", "tests.testbed.nodes", sys.executable, "-c", CLUSTER, str(tmp_path)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=log, stderr=log)
    try:
        until(lambda: (tmp_path / "ready").exists() or process.poll() is not None, 120)
        assert process.poll() is None, (tmp_path / "log").read_text()
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
        assert process.stdin
        process.stdin.close()


def loop_devices(folder: Path) -> list[str]:
    shown = subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True).stdout
    return [line for line in shown.splitlines() if str(folder) in line]


def mounts(folder: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]


@pytest.mark.parametrize("ended", ["its work is done", "asked to end", "command killed", "sandbox killed"])
def test_a_testbed_leaves_nothing_behind_when(
    ended: str, sandbox: subprocess.Popen[bytes], tmp_path: Path, eventually: Eventually
) -> None:
    """No process, no control group, no mount, no loop device."""
    owner = ProcessId.of(sandbox.pid)
    assert owner is not None
    group = group_of_owner(owner)
    inside = group.processes()
    assert len(inside) > 5, "control plane and node run in the group"
    assert loop_devices(tmp_path), "the node's disk is a loop device"
    match ended:
        case "its work is done":
            assert sandbox.stdin
            sandbox.stdin.close()
        case "asked to end":
            sandbox.terminate()
        case "command killed":
            (command,) = Path(f"/proc/{sandbox.pid}/task/{sandbox.pid}/children").read_text().split()
            os.kill(int(command), signal.SIGKILL)
        case "sandbox killed":
            sandbox.kill()
    sandbox.wait(timeout=60)
    eventually(lambda: not group.processes(), timeout_s=30)
    if ended == "sandbox killed":
        # No process was there to remove the group; the next start finds and removes it.
        assert group in stale_groups()
        group.remove()
    assert not any(path.exists() for path in group.paths())
    eventually(lambda: not loop_devices(tmp_path))
    assert mounts(tmp_path) == []
    assert not [
        pid for pid in inside if (found := ProcessId.of(pid)) and found.start_ticks > owner.start_ticks
    ]
