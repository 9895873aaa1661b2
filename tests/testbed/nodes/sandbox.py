"""Run a command with real nodes as its child processes: `python -m tests.testbed.nodes COMMAND…`.

The command gets a network namespace and a control group of its own, with a limit of memory. This process
stays outside and answers for the end: when the command has ended, however it ended, it kills whatever is
still in the group and removes the group. If it is killed itself, the kernel ends the command and its nodes,
and the next sandbox removes the empty groups.
"""

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.testbed.nodes.kernel_features import missing_features
from tests.testbed.nodes.node_cgroups import Group, group_of_owner, stale_groups
from tests.testbed.nodes.node_config import BRIDGE, CONTROL_PLANE_ADDRESS
from tests.testbed.processes import ProcessId

__all__ = ["GROUP", "LISTENER", "Sandbox", "main", "require_sandbox"]

GROUP = "RESCHEDULER_TESTBED_GROUP"
"""The environment variable with the name of the control group that nodes are to be made in."""
LISTENER = "RESCHEDULER_TESTBED_LISTENER"
"""The descriptor of a socket outside, whose connections are meant for the API server inside."""
REQUIRED = "RESCHEDULER_TESTBED_REQUIRED"
"""Set in CI: where real nodes can't run, that is a failure."""

_MEMORY_BYTES = 8 << 30
_ENDS_WITHIN_S = 60.0


class NotInSandboxError(Exception):
    """Real nodes were asked for outside of a sandbox: they would use the machine's own network."""


def require_sandbox() -> Group:
    name = os.environ.get(GROUP)
    if not name:
        raise NotInSandboxError(
            "real nodes run in a sandbox: use `make e2e-nodes` or `python -m tests.testbed.nodes COMMAND`"
        )
    return Group(name)


class Sandbox:
    """A command, its namespace and its group."""

    def __init__(self, command: Sequence[str], listener: socket.socket | None = None) -> None:
        self._command = command
        self._listener = listener
        self.group = group_of_owner(ProcessId.ours())

    def run(self) -> int:
        """Return the command's exit code, after everything is gone."""
        for stale in stale_groups():
            stale.remove()
        self.group.create()
        try:
            self.group.limit_memory(_MEMORY_BYTES)
            return self._run()
        finally:
            self.group.remove()

    def _run(self) -> int:
        environment = {**os.environ, GROUP: self.group.name}
        descriptors: tuple[int, ...] = ()
        if self._listener:
            descriptors = (self._listener.fileno(),)
            environment[LISTENER] = str(self._listener.fileno())
        # The kernel kills the command when we are killed; its nodes end with it in the same way.
        prefix = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-ec", _ENTER, "sandbox"]
        joined = [str(path / "cgroup.procs") for path in self._leaves()]
        with (
            subprocess.Popen(
                [*prefix, " ".join(joined), *self._command],
                env=environment,
                pass_fds=descriptors,
            ) as process,
            _passed_on(process),
        ):
            return process.wait()

    def _leaves(self) -> list[Path]:
        """Give the command a group of its own: in version 2, only groups without children have processes."""
        return [_leaf(path) for path in self.group.paths()]


# The network is there before the command starts: loopback, and the bridge that joins control plane and nodes.
# Where the machine filters bridged packets, those between nodes would pass the sandbox's rules too.
_ENTER = f"""
for file in $1; do echo $$ > "$file"; done; shift
ip link set lo up
ip link add {BRIDGE} type bridge
ip addr add {CONTROL_PLANE_ADDRESS}/24 dev {BRIDGE}
ip link set {BRIDGE} up
filtered=/proc/sys/net/bridge/bridge-nf-call-iptables
if [ -e $filtered ]; then echo 0 > $filtered; fi
exec "$@"
"""


def _leaf(path: Path) -> Path:
    leaf = path / "control-plane"
    leaf.mkdir(exist_ok=True)
    for each in ("cpuset.cpus", "cpuset.mems"):
        if (path / each).exists() and not (leaf / each).read_text().strip():
            (leaf / each).write_text((path / each).read_text())
    return leaf


@contextlib.contextmanager
def _passed_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ctrl-C reaches the command by itself, as it is in our process group; SIGTERM is passed on."""

    def terminate(*_: object) -> None:
        process.send_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, terminate), signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.testbed.nodes", description=__doc__)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    command = parser.parse_args(arguments).command
    if not command:
        parser.error("no command")
    if lacking := missing_features(Path(tempfile.gettempdir())):
        return _skipped(lacking)
    return Sandbox(command).run()


def _skipped(lacking: Sequence[str]) -> int:
    """Say so loudly: a skipped test proves nothing."""
    required = os.environ.get(REQUIRED, "") not in ("", "0")
    line = "=" * 78
    print(line, "REAL NODES CAN'T RUN HERE. Missing:", sep="\n", file=sys.stderr)
    for each in lacking:
        print(f"  - {each}", file=sys.stderr)
    verdict = f"FAILED, because {REQUIRED} is set" if required else "SKIPPED: nothing was tested"
    print(verdict, line, sep="\n", file=sys.stderr)
    return int(required)
