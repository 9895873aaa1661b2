"""One real node: kubelet, containerd, runc, CNI and kube-proxy in namespaces and a control group of its own.

It can be lost in every way in which nodes are lost: killed, frozen, cut off, full or slow.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.testbed.cache import NodeBinaries
from tests.testbed.nodes.node_cgroups import Group
from tests.testbed.nodes.node_config import BRIDGE, NodeSettings
from tests.testbed.processes import ProcessId, send, spawn, wait_gone
from tests.testbed.readiness import until

__all__ = ["NodeError", "NodeShape", "RealNode"]

_GONE_WITHIN_S = 15.0
_STARTS_WITHIN_S = 90.0
_FILLER = "filler"


class NodeError(Exception):
    """A node failed; the message says where its logs are."""


@dataclass(frozen=True)
class NodeShape:
    """What a node has. CPU can't be more than the machine's; the rest of it is reserved for the system."""

    memory_bytes: int = 3 << 30
    disk_bytes: int = 4 << 30
    reserved_cpu_millis: int = 200
    zone: str = ""
    pool: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def all_labels(self) -> dict[str, str]:
        named = {"topology.kubernetes.io/zone": self.zone, "pool": self.pool}
        return {**{name: value for name, value in named.items() if value}, **self.labels}


class RealNode:
    """Made by `Nodes`, which knows the others and the network between them."""

    def __init__(
        self, settings: NodeSettings, shape: NodeShape, parent: Group, binaries: NodeBinaries
    ) -> None:
        self.name = settings.name
        self.address = settings.address
        self.settings = settings
        self._shape = shape
        self._group = Group(f"{parent.name}/{settings.name}")
        self._binaries = binaries
        self._folder = Path(settings.folder)
        self._outer: ProcessId | None = None
        self._init: ProcessId | None = None
        self.is_reachable = False

    def __repr__(self) -> str:
        return f"RealNode({self.name})"

    @property
    def logs(self) -> Path:
        return self._folder

    @property
    def cable(self) -> str:
        """The name of our end of its network cable."""
        return f"veth-{self.settings.number}"

    def alive(self) -> bool:
        return self._init is not None and self._init.alive()

    def memory_used_bytes(self) -> int:
        return self._group.memory_used_bytes()

    def disk_used_bytes(self) -> int:
        return Path(self.settings.disk).stat().st_blocks * 512

    # -- start and end

    def begin_start(self) -> None:
        """Boot, with the disk as it was if there was one; `wait_started` says when it is done."""
        if self.alive():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "started").unlink(missing_ok=True)
        if not Path(self.settings.disk).exists():
            self._make_disk()
        self.settings.write(self._folder / "node.json")
        self._group.remove()
        self._group.create()
        self._group.limit_memory(self._shape.memory_bytes)
        groups = " ".join(str(path / "cgroup.procs") for path in self._group.paths())
        own = "--cgroup --mount --propagation private --net --uts --ipc --pid --fork --kill-child"
        enter = 'for file in $1; do echo $$ > "$file"; done; shift; exec "$@"'
        python = ["python3", "-m", "tests.testbed.nodes.node_init", str(self._folder / "node.json")]
        command = ["sh", "-ec", enter, "node", groups, "unshare", *own.split(), *python]
        # The standard library is all that runs inside, so any python3 will do: ours may be below /opt.
        path = Path(__file__).resolve().parents[3]
        marks = {"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
        self._outer = spawn(command, self._folder / "init.log", marks, dies_with_us=True)
        if (
            not until(lambda: self._find_init() or not self._outer_alive(), _STARTS_WITHIN_S)
            or not self._init
        ):
            raise self._failure("did not start")
        self._plug_in()

    def wait_started(self) -> None:
        """Return when its programs run. Whether it is Ready, the API server knows."""
        started = self._folder / "started"
        if not until(lambda: started.exists() or not self.alive(), _STARTS_WITHIN_S) or not self.alive():
            raise self._failure("did not start")

    def start(self) -> None:
        self.begin_start()
        self.wait_started()

    def kill(self) -> None:
        """Lose it, as by a power cut: every process ends at once, without notice. The disk stays."""
        if self._init:
            send(self._init, signal.SIGKILL)
        if self._group.path("freezer").exists():
            self._group.freeze(frozen=False)  # a frozen process would not notice
        for process in (self._init, self._outer):
            if process and not wait_gone(process, _GONE_WITHIN_S):
                raise self._failure("is still there after SIGKILL")
        self._init = self._outer = None
        self.is_reachable = False
        self._group.remove()
        # The namespace takes its end of the cable, and with it ours, but in its own time.
        subprocess.run(["ip", "link", "del", self.cable], capture_output=True, check=False)

    def remove(self) -> None:
        """Kill it and forget its disk."""
        self.kill()
        Path(self.settings.disk).unlink(missing_ok=True)

    # -- what can go wrong

    def pause(self) -> None:
        """Freeze every process on it, as a hypervisor may; connections stay open without answers."""
        self._group.freeze(frozen=True)

    def resume(self) -> None:
        self._group.freeze(frozen=False)

    def partition(self) -> None:
        """Disconnect it: its pods go on running, and it has no network."""
        self._run("ip", "link", "set", self.cable, "down")
        self.is_reachable = False

    def repair(self) -> None:
        self._run("ip", "link", "set", self.cable, "up")
        self.is_reachable = True

    def fill_disk(self, left_bytes: int = 64 << 20) -> None:
        """Fill its disk until only this much is left: the kubelet reports DiskPressure and evicts pods."""
        file = f"/var/lib/kubelet/{_FILLER}"
        script = (
            "left=$(df --output=avail -B1 /var/lib/kubelet | tail -1); fallocate -l $((left - $1)) " + file
        )
        self.run("sh", "-ec", script, "fill", str(left_bytes))

    def free_disk(self) -> None:
        self.run("rm", "-f", f"/var/lib/kubelet/{_FILLER}")

    def slow_down(self, *, cores: float | None = None, kilobits_per_s: int | None = None) -> None:
        """Limit what all of it together computes, or what it receives from others."""
        if cores is not None:
            self._group.limit_cpu(cores)
        if kilobits_per_s is not None:
            rate = ["rate", f"{kilobits_per_s}kbit", "burst", "2kb", "latency", "2s"]
            self._run("tc", "qdisc", "replace", "dev", self.cable, "root", "tbf", *rate)

    def speed_up(self) -> None:
        self._group.limit_cpu(None)
        subprocess.run(["tc", "qdisc", "del", "dev", self.cable, "root"], capture_output=True, check=False)

    # -- inside

    def command(self, *arguments: str) -> list[str]:
        """The command line that runs a command on it."""
        if self._init is None:
            raise NodeError(f"{self.name} does not run")
        return ["nsenter", "--target", str(self._init.pid), "--all", *arguments]

    def run(self, *arguments: str) -> str:
        return self._run(*self.command(*arguments))

    def import_image(self, archive: Path) -> None:
        """Make an image of an OCI archive known to containerd."""
        self.run("ctr", "--namespace=k8s.io", "images", "import", "--digests=false", str(archive))

    def forget_connections(self, address: str) -> None:
        """Drop the tracked connections to an address: one that reuses a port would meet what is left of it.

        Others stay: without its entry, a pod's connection to the API server's Service would break.
        """
        with contextlib.suppress(NodeError):  # there was none
            self.run("conntrack", "--delete", "--orig-dst", address)

    def _find_init(self) -> bool:
        """Whether `unshare` has made the process that is the first one inside."""
        assert self._outer is not None
        try:
            children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            return False
        if children:
            self._init = ProcessId.of(int(children[0]))
        return bool(children)

    def _outer_alive(self) -> bool:
        return self._outer is not None and self._outer.alive()

    def _plug_in(self) -> None:
        assert self._init is not None
        pid = str(self._init.pid)
        self._run("ip", "link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", pid)
        self._run("ip", "link", "set", self.cable, "master", BRIDGE, "up")
        self.is_reachable = True

    def _make_disk(self) -> None:
        path = Path(self.settings.disk)
        with path.open("wb") as disk:
            disk.truncate(self._shape.disk_bytes)  # a sparse file: it takes room as it is written to
        options = ["-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard", "-m", "0"]
        self._run("mkfs.ext4", "-q", "-F", *options, str(path))

    def _run(self, *command: str) -> str:
        environment = {**os.environ, **self._binaries.environment}
        program = shutil.which(command[0], path=self._binaries.environment["PATH"]) or command[0]
        done = subprocess.run(
            [program, *command[1:]], capture_output=True, text=True, check=False, env=environment
        )
        if done.returncode != 0:
            shown = " ".join(command)
            raise NodeError(
                f"{self.name}: `{shown}` ended with {done.returncode}: {(done.stderr or done.stdout).strip()}"
            )
        return done.stdout

    def _failure(self, what: str) -> NodeError:
        log = self._folder / "init.log"
        last = log.read_text(errors="replace").strip().splitlines()[-5:] if log.exists() else []
        return NodeError(f"{self.name} {what}; logs in {self._folder}. init.log ends:\n" + "\n".join(last))
