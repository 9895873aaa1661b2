"""A control plane: starts its parts, knows when they are ready, restarts and stops them.

    with ControlPlane(folder, Options(scheduler=False)) as cluster:
        cluster.kubectl("get", "nodes")

Calls block until what they say is so. Ports are chosen at the first start and kept over restarts, so
clients find the API server where it was.
"""

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.testbed import etcd
from tests.testbed.cache import Binaries, located
from tests.testbed.commands import PORTS_NEEDED, Commands, audit_policy, scheduler_configuration
from tests.testbed.credentials import Tokens, write_service_account_keys, write_tokens
from tests.testbed.kubeconfig import certificate_authority, kubeconfig
from tests.testbed.leftovers import marks
from tests.testbed.options import Options
from tests.testbed.parts import Part
from tests.testbed.ports import free_ports, listens, wait_free
from tests.testbed.processes import ProcessId, end, send, spawn, wait_gone
from tests.testbed.readiness import get, until
from tests.testbed.run_dir import PartRecord, RunDir, down

__all__ = ["ControlPlane", "PartError"]

_READY_WITHIN_S = 120.0
_GONE_WITHIN_S = 20.0
_TRIES = 5
_SHOWN_LOG_LINES = 20
_CLASH = "address already in use"


class PartError(Exception):
    """A part ended or did not become ready; the message has the end of its log."""


class _PortTakenError(PartError):
    """Another process was quicker to take the port: another one will do."""


class ControlPlane:
    def __init__(
        self, folder: Path, options: Options | None = None, binaries: Binaries | None = None
    ) -> None:
        self.options = options or Options()
        self.binaries = binaries or located()
        self.run_dir = RunDir(folder.absolute())
        self._parts: dict[Part, PartRecord] = {}
        self._ports: dict[Part, tuple[int, ...]] = {}
        self._tokens: Tokens = {}
        self._streaming_lists = True

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- what tests need to know

    @property
    def server(self) -> str:
        """The API server's URL; valid from the start on, also while the API server is down."""
        return f"https://{self.options.address}:{self._ports[Part.API_SERVER][0]}"

    @property
    def etcd_url(self) -> str:
        return f"http://127.0.0.1:{self._ports[Part.ETCD][0]}"

    @property
    def kubeconfig(self) -> Path:
        return self.run_dir.kubeconfig

    @property
    def ca_certificate(self) -> Path:
        return self.run_dir.ca_certificate

    @property
    def admin_token(self) -> str:
        return self._tokens[None]

    def node_token(self, name: str) -> str:
        """The token of a real node, or of kube-proxy."""
        return self._tokens[name]

    @property
    def audit_log(self) -> Path:
        return self.run_dir.audit_log

    def process(self, part: Part) -> ProcessId:
        return self._parts[part].process

    def port(self, part: Part) -> int:
        """The port on which a part answers /healthz and /metrics."""
        return self._ports[part][0]

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Runs the kubectl that belongs to this cluster, as administrator; its output."""
        command = [str(self.binaries.kubectl), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            shown = " ".join(arguments)
            raise RuntimeError(f"`kubectl {shown}` ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def wait_until_served(self, *definitions: str) -> None:
        """Waits for CRDs that were just created. `kubectl wait` fails while one has no conditions yet."""
        for name in definitions:
            if not until(lambda: self._is_established(name), _READY_WITHIN_S):  # noqa: B023 - called at once
                raise RuntimeError(f"the CRD {name} is not established after {_READY_WITHIN_S} s")

    def _is_established(self, definition: str) -> bool:
        found = json.loads(self.kubectl("get", "crd", definition, "-o", "json"))
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    def audited(self) -> list[dict[str, Any]]:
        """The audit log: an event per finished request, in the order they finished."""
        return list(self.run_dir.audited())

    def write_kubeconfig(self, path: Path, *, user: str, token: str) -> None:
        """A kubeconfig for another client, such as a service account with its own token."""
        text = kubeconfig(server=self.server, ca_certificate=self.ca_certificate, user=user, token=token)
        path.touch(mode=0o600)
        path.write_text(text)

    # -- start and stop

    def start(self) -> None:
        """A new, empty cluster. Nothing is left running when it fails."""
        with self.run_dir.locked():
            if in_use := self.run_dir.in_use():
                raise PartError(f"{in_use[0]} is in use: take it down first, or choose another folder")
            self.run_dir.end_all()
            self._parts.clear()
            self.run_dir.prepare()
            self._write_files()
            try:
                for part in self.options.wanted():
                    self._start_somewhere(part)
            except BaseException:
                self._end(self._parts)
                raise

    def stop(self) -> None:
        """Ends all parts and removes the data; the logs stay. Does nothing if that was done before."""
        down(self.run_dir.path)
        self._parts.clear()

    def stop_part(self, part: Part, *, kill: bool = False) -> None:
        """Ends one part, or lets it crash (`kill`); returns when its ports are free again."""
        with self.run_dir.locked():
            if kill and part in self._parts:
                send(self._parts[part].process, signal.SIGKILL)
                wait_gone(self._parts[part].process, _GONE_WITHIN_S)
            self._end([part])
            for port in self._ports.get(part, ()):
                wait_free(port, _GONE_WITHIN_S)

    def start_part(self, part: Part) -> None:
        """Starts a part that was stopped, on the ports it had, or one that was not wanted at first."""
        with self.run_dir.locked():
            if part in self._parts and self._parts[part].process.alive():
                return
            if part is Part.SCHEDULER:
                self._write_scheduler_configuration()
            if part in self._ports:
                self._start(part)
            else:
                self._start_somewhere(part)
            if part is Part.ETCD and Part.API_SERVER in self._parts:
                self._wait_ready(Part.API_SERVER)

    def restart(self, part: Part, options: Options | None = None, *, kill: bool = False) -> None:
        """Stops and starts a part, with other options if given (a scheduler with another extender)."""
        self.stop_part(part, kill=kill)
        if options:
            self.options = options
        self.start_part(part)

    def compact_etcd(self) -> int:
        """Drops etcd's history; the revision up to which it is gone.

        The API server goes on answering for old versions that its own cache remembers. To see 410
        from lists, pages and watches of old versions, restart it as well.
        """
        return etcd.compact(self.etcd_url)

    # -- inside

    def _write_files(self) -> None:
        run_dir = self.run_dir
        self._tokens = write_tokens(run_dir, self.options.real_nodes)
        write_service_account_keys(run_dir)
        run_dir.audit_policy.write_text(audit_policy())
        self._write_scheduler_configuration()

    def _write_scheduler_configuration(self) -> None:
        self.run_dir.scheduler_configuration.write_text(scheduler_configuration(self.run_dir, self.options))

    def _write_kubeconfigs(self) -> None:
        certificate = (self.run_dir.certificates / "apiserver.crt").read_text()
        self.ca_certificate.write_text(certificate_authority(certificate))
        self.write_kubeconfig(self.kubeconfig, user="admin", token=self.admin_token)
        for part in (Part.CONTROLLER_MANAGER, Part.SCHEDULER):
            self.write_kubeconfig(self.run_dir.kubeconfig_of(part), user=part, token=self._tokens[part])

    def _start_somewhere(self, part: Part, tries: int = _TRIES) -> None:
        """Starts a part on free ports, on others if these are taken meanwhile."""
        self._ports[part] = free_ports(PORTS_NEEDED[part])
        try:
            self._start(part)
        except _PortTakenError:
            if tries == 1:
                raise
            self._start_somewhere(part, tries - 1)

    def _start(self, part: Part) -> None:
        log = self.run_dir.log(part)
        log_start = log.stat().st_size if log.exists() else 0
        owner = None if self.options.kept else ProcessId.ours()
        commands = Commands(self.binaries, self.run_dir, self.options, streaming_lists=self._streaming_lists)
        command = commands.of(part, self._ports)
        process = spawn(
            command, log, marks(self.run_dir.path, part, owner), dies_with_us=not self.options.kept
        )
        self._parts[part] = PartRecord(process, self._ports[part])
        self.run_dir.remember(self._parts)
        try:
            self._wait_ready(part, log_start)
            if part is Part.ETCD:
                self._streaming_lists = etcd.reports_watch_progress(etcd.version(self.etcd_url))
        except BaseException:
            self._end([part])
            raise

    def _wait_ready(self, part: Part, log_start: int = 0) -> None:
        process = self._parts[part].process
        in_time = until(lambda: self._ready(part) or not process.alive(), _READY_WITHIN_S)
        if in_time and process.alive():
            return
        text = self._log_since(part, log_start)
        kind = _PortTakenError if _CLASH in text else PartError
        what = (
            f"was not ready after {_READY_WITHIN_S:.0f} s" if process.alive() else "ended before it was ready"
        )
        raise kind(f"{part} {what}; the end of {self.run_dir.log(part)}:\n{_tail(text)}")

    def _ready(self, part: Part) -> bool:
        # The process that answers must be ours: another testbed may listen on a port we wanted.
        if not listens(self._parts[part].process.pid, self.port(part)):
            return False
        if part is Part.ETCD:
            return etcd.healthy(self.etcd_url)
        if part is Part.API_SERVER:
            return self._api_server_ready()
        return get(f"https://127.0.0.1:{self.port(part)}/healthz") is not None

    def _api_server_ready(self) -> bool:
        """Ready, and the namespace that nearly every test uses is there: it comes a moment later."""
        if not self.kubeconfig.exists():
            self._write_kubeconfigs()  # it listens, so it has made its certificate
        return all(
            get(f"{self.server}{path}", token=self.admin_token, ca_certificate=self.ca_certificate)
            is not None
            for path in ("/readyz", "/api/v1/namespaces/default")
        )

    def _end(self, parts: Iterable[Part]) -> None:
        ended = [part for part in parts if part in self._parts]
        end(*(self._parts[part].process for part in reversed(ended)))
        for part in ended:
            del self._parts[part]
        self.run_dir.remember(self._parts)

    def _log_since(self, part: Part, start: int) -> str:
        with contextlib.suppress(FileNotFoundError), self.run_dir.log(part).open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")
        return ""


def _tail(text: str) -> str:
    return "\n".join(text.splitlines()[-_SHOWN_LOG_LINES:])
