"""Daemons as processes, and other commands."""

import asyncio
import json
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, podmigration_crd
from tests.testbed import ControlPlane, Part

__all__ = ["INTERVAL_S", "Cluster", "Replica", "define_podmigrations", "write_config"]

INTERVAL_S = 1
_PATIENCE_S = 60.0
_ARGS = {
    "settleTime": "100ms",
    "minPodAge": "0s",
    "usageSource": "requests",
    "reschedulingInterval": f"{INTERVAL_S}s",
    "maxConcurrentPerWorkload": 2,
    "enabledStrategies": ["LoadBalancing"],
}
_ELECTION = {"leaseDuration": "5s", "renewDeadline": "4s", "retryPeriod": "1s"}


def define_podmigrations(control_plane: ControlPlane) -> None:
    """Create the CRD, and make sure that the controllers know it."""
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(podmigration_crd()))
    control_plane.wait_until_served(PODMIGRATION_CRD_NAME)
    # It asks which kinds there are only every half a minute, or when it starts.
    control_plane.restart(Part.CONTROLLER_MANAGER)


def write_config(path: Path, **args: Any) -> Path:
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": _ELECTION,
        "profiles": [{"pluginConfig": [{"name": "Rescheduler", "args": {**_ARGS, **args}}]}],
    }
    # At once: a daemon that follows the file would refuse one that is half written.
    written = path.with_suffix(".new")
    written.write_text(json.dumps(content))
    return written.replace(path)


@dataclass
class Replica:
    process: asyncio.subprocess.Process
    log: list[dict[str, Any]] = field(default_factory=list)
    """What it has logged; a line that is no JSON as the event `NotJson`."""
    _reading: asyncio.Task[None] | None = None
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    def listen(self) -> None:
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.log.append({"event": "NotJson", "message": line.decode()})
            self._more.set()
        self._more.set()

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.log if line["event"] == event]

    async def until_said(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        async with asyncio.timeout(_PATIENCE_S):
            while len(self.said(event)) < count:
                assert self._reading is not None
                assert not self._reading.done(), self.log
                self._more.clear()
                await self._more.wait()
        return self.said(event)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)

    async def end(self) -> None:
        """End it as the kubelet ends a pod."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(self.process.wait(), 30)
        if self._reading is not None:
            await self._reading


@dataclass
class Cluster:
    """A cluster in which our processes are started."""

    kubeconfig: Path
    """Of the service account that the daemon has."""
    admin: Path
    """Of the person who gives the other commands."""
    config: Path
    namespace: str

    async def start(self, kubeconfig: Path, command: str, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("rescheduler"),
            *(command, "--namespace", self.namespace, *arguments),
            env={"KUBECONFIG": str(kubeconfig), "PATH": "/usr/bin"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def replica(self, *arguments: str) -> Replica:
        options = ("--config", str(self.config), "--log-level", "debug", "--host", "127.0.0.1", "--port", "0")
        made = Replica(await self.start(self.kubeconfig, "run", *options, *arguments))
        made.listen()
        return made

    async def run(self, command: str, *arguments: str) -> str:
        process = await self.start(self.admin, command, *arguments)
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.run("status", "-o", "json"))
        return found
