"""Processes, ports and run folders, tested with programs that need no build."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.testbed import ports
from tests.testbed.leftovers import leftovers, marks, running
from tests.testbed.parts import Part
from tests.testbed.processes import ProcessId, end, send, spawn, wait_gone
from tests.testbed.readiness import until
from tests.testbed.run_dir import ForeignFolderError, PartRecord, RunDir, down

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the testbed needs Linux")

_SLEEP = ["sleep", "600"]
_STUBBORN = ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"]


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[RunDir]:
    made = RunDir(tmp_path / "testbed")
    with made.locked():
        made.prepare()
    yield made
    down(made.path)


def start(run_dir: RunDir, command: list[str] = _SLEEP, owner: ProcessId | None = None) -> ProcessId:
    owner = owner or ProcessId.ours()
    return spawn(command, run_dir.log(Part.ETCD), marks(run_dir.path, Part.ETCD, owner), dies_with_us=True)


def found(run_dir: RunDir) -> list[ProcessId]:
    return [leftover.process for leftover in leftovers() if leftover.run_dir == run_dir.path]


def test_a_part_has_a_process_group_of_its_own(run_dir: RunDir) -> None:
    process = start(run_dir)
    assert os.getpgid(process.pid) == process.pid != os.getpgid(0)


def test_down_ends_what_the_state_file_names_and_may_be_repeated(run_dir: RunDir) -> None:
    process = start(run_dir)
    run_dir.remember({Part.ETCD: PartRecord(process, (1, 2))})
    assert down(run_dir.path) == [Part.ETCD]
    assert not process.alive()
    assert down(run_dir.path) == []
    assert run_dir.logs.is_dir()
    assert not run_dir.data.exists()


def test_down_ends_what_was_never_written_down(run_dir: RunDir) -> None:
    process = start(run_dir)
    run_dir.state.unlink(missing_ok=True)
    assert down(run_dir.path) == [Part.ETCD]
    assert not process.alive()


def test_down_spares_an_unrelated_process_that_got_the_pid(run_dir: RunDir) -> None:
    with subprocess.Popen(_SLEEP) as stranger:
        theirs = ProcessId.of(stranger.pid)
        assert theirs is not None
        mistaken = {
            Part.ETCD: PartRecord(replace(theirs, start_ticks=theirs.start_ticks - 1), (1,)),
            Part.SCHEDULER: PartRecord(replace(theirs, boot="an earlier boot"), (2,)),
        }
        run_dir.remember(mistaken)
        assert down(run_dir.path) == []
        assert theirs.alive()
        stranger.kill()


def test_a_process_that_ignores_sigterm_is_killed(run_dir: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.testbed.processes._TERM_PATIENCE_S", 0.3)
    process = start(run_dir, _STUBBORN)
    assert until(lambda: "deaf" in run_dir.log(Part.ETCD).read_text(), 5)
    end(process)
    assert not process.alive()


def test_leftovers_names_what_we_own_and_what_lost_its_owner(run_dir: RunDir) -> None:
    ours = start(run_dir)
    assert found(run_dir) == [ours]
    end(ours)
    assert found(run_dir) == []
    orphan = start(run_dir, owner=replace(ProcessId.ours(), start_ticks=1))
    assert found(run_dir) == [orphan]


def test_leftovers_leaves_out_what_others_use(run_dir: RunDir) -> None:
    parent = ProcessId.of(os.getppid())
    assert parent is not None
    process = start(run_dir, owner=parent)
    assert found(run_dir) == []
    assert process in [leftover.process for leftover in running()]


def test_parts_outlive_the_thread_that_asked_for_them(run_dir: RunDir) -> None:
    started: list[ProcessId] = []
    thread = threading.Thread(target=lambda: started.append(start(run_dir)))
    thread.start()
    thread.join()
    assert not wait_gone(started[0], 0.3)


def test_parts_die_with_an_owner_that_is_killed(run_dir: RunDir) -> None:
    script = (
        "import sys, time; from pathlib import Path; from tests.testbed.processes import spawn;"
        "print(spawn(['sleep', '600'], Path(sys.argv[1]), {}, dies_with_us=True).pid, flush=True);"
        "time.sleep(600)"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", script, str(run_dir.logs / "owned.log")]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        child = ProcessId.of(int(owner.stdout.readline()))
        assert child is not None
        owner.kill()
        assert wait_gone(child, 5)


def test_a_zombie_counts_as_gone(run_dir: RunDir) -> None:
    process = start(run_dir)
    send(process, signal.SIGKILL)
    assert until(lambda: not process.alive(), 5)
    assert Path(f"/proc/{process.pid}").exists()  # not reaped yet
    assert wait_gone(process, 0)
    assert not Path(f"/proc/{process.pid}").exists()


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "data" / "precious"
    precious.parent.mkdir()
    precious.write_text("mine")
    assert down(tmp_path) == []
    with pytest.raises(ForeignFolderError, match="not a testbed's"):
        RunDir(tmp_path).prepare()
    assert precious.read_text() == "mine"


def test_the_state_file_is_read_back_as_written(run_dir: RunDir) -> None:
    record = PartRecord(ProcessId(1, 2, "boot"), (3, 4))
    run_dir.remember({Part.API_SERVER: record})
    assert run_dir.remembered() == {Part.API_SERVER: record}
    assert json.loads(run_dir.state.read_text())["kube-apiserver"]["process"] == asdict(record.process)


def test_free_ports_are_distinct_and_free() -> None:
    chosen = ports.free_ports(5)
    assert len(set(chosen)) == 5
    assert all(ports.is_free(port) for port in chosen)


def test_a_port_is_known_by_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not ports.is_free(port)
        assert ports.listens(os.getpid(), port)
        assert not ports.listens(os.getppid(), port)
        with pytest.raises(TimeoutError, match=f"port {port}"):
            ports.wait_free(port, 0.1)
    began = time.monotonic()
    ports.wait_free(port, 5)
    assert time.monotonic() - began < 1


def test_setpriv_is_there() -> None:
    assert shutil.which("setpriv"), "apt-get install util-linux"
