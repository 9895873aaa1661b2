"""Run a simulated cluster as a process of its own, for kubectl and any other client."""

import asyncio
import contextlib
import json
import signal
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import yaml

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.api_server import ApiServer
from kubesim.apiserver.simulated_cluster import (
    UnreadableCluster,
    definitions_first,
    faults_of,
    parse_saved_cluster,
)
from kubesim.running_cluster import start_cluster
from kubesim.scenario import (
    Scenario,
    ScenarioError,
    ScenarioNotSettled,
    TimelineEntry,
    initial_objects,
    parse_scenario,
    read_scenario,
)
from kubesim.scenario.scenario_file import lopsided_shop
from kubesim.sockets.loopback_server import serve
from kubesim.sockets.outbound_calls import HttpExtenderCaller, HttpsWebhookCaller
from kubesim.virtual_time import LoopClock
from kubevalues.bounded_yaml import load_yaml
from kubevalues.duration import short_duration

__all__ = ["StandaloneError", "StandaloneOptions", "print_safely", "run_standalone"]

_EXIT_ERROR, _EXIT_USAGE_ERROR = 1, 2
_MAX_FAULTS_SHOWN = 20
_TERMINAL_CONTROLS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of characters that a terminal may act on."""


class StandaloneOptions(NamedTuple):
    """Options of `python -m kubesim` and `rescheduler simulator`; `-` as a file is standard input."""

    scenario: str | None = None
    saved: str | None = None
    port: int = 0
    token: str | None = None
    kubeconfig: Path | None = None
    speed: float = 1.0


class StandaloneError(Exception):
    """The cluster can't be started; the message and the exit code are for the command line."""

    def __init__(self, message: str, exit_code: int = _EXIT_ERROR) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class _Contents(NamedTuple):
    title: str
    scenario: Scenario
    objects: list[Object]


def run_standalone(options: StandaloneOptions) -> None:
    """Serve a simulated cluster on loopback until SIGINT or SIGTERM, and write a kubeconfig for it.

    Without a scenario and a saved cluster, it runs the scenario that comes with kubesim. Raises
    `StandaloneError` if the cluster can't be started.
    """
    if options.scenario is not None and options.saved is not None:
        raise StandaloneError("--scenario and --from can't be used together", _EXIT_USAGE_ERROR)
    _check_kubeconfig_path(options.kubeconfig)
    start = datetime.now(UTC)
    try:
        with _sigterm_as_keyboard_interrupt():
            contents = (
                _from_saved_cluster(options.saved)
                if options.saved is not None
                else _from_scenario(options.scenario, start)
            )
        asyncio.run(_serve(contents, start, options))
    except KeyboardInterrupt:
        pass  # interrupted before the server started: there is nothing to stop
    except OSError as error:
        raise StandaloneError(
            f"the simulated API server can't listen on port {options.port}: {error.strerror}. "
            "Choose another one with --port, or omit it to use a free one."
        ) from error


# -- the contents of the cluster


def _from_scenario(file: str | None, start: datetime) -> _Contents:
    try:
        if file is None:
            scenario = lopsided_shop()
        elif file == "-":
            scenario = parse_scenario(sys.stdin.buffer.read(), source="standard input")
        else:
            scenario = read_scenario(Path(file))
        return _Contents(scenario.name or file or "", scenario, initial_objects(scenario, start))
    except ScenarioError as error:
        raise StandaloneError(str(error), _EXIT_USAGE_ERROR) from error
    except ScenarioNotSettled as error:
        source = "standard input" if file == "-" else file or "the built-in scenario"
        raise StandaloneError(f"{source}: 1 error\n  {error}", _EXIT_USAGE_ERROR) from error


def _from_saved_cluster(file: str) -> _Contents:
    source = "standard input" if file == "-" else file
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        objects = definitions_first(parse_saved_cluster(raw, source=source))
    except UnreadableCluster as error:
        raise StandaloneError(str(error)) from error
    except (OSError, ValueError) as error:
        raise StandaloneError(f"{source}: {getattr(error, 'strerror', None) or error}") from error
    if faults := faults_of(objects):
        more = f"\n  and {len(faults) - _MAX_FAULTS_SHOWN} more" if len(faults) > _MAX_FAULTS_SHOWN else ""
        listed = "\n  ".join(faults[:_MAX_FAULTS_SHOWN])
        raise StandaloneError(f"{source}: {len(faults)} objects can't be used\n  {listed}{more}")
    return _Contents(source, Scenario(), objects)


# -- serving it


async def _serve(contents: _Contents, start: datetime, options: StandaloneOptions) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = ApiServer(clock=LoopClock(start, speed=options.speed), seed=contents.scenario.seed)
    if unknown := server.load(contents.objects):
        kinds = ", ".join(sorted({content["kind"] for content in unknown}))
        print_safely(f"note: skipped {len(unknown)} objects of unknown kinds: {kinds}", err=True)
    async with HttpsWebhookCaller() as webhooks, HttpExtenderCaller() as extenders:
        server.cluster.admission.webhooks.caller = webhooks
        async with await serve(server, port=options.port, token=options.token) as running:
            with _kubeconfig_file(running.kubeconfig, options.kubeconfig) as path:
                _print_introduction(contents, running.url, path)
                start_cluster(server, contents.scenario, on_event=_print_event, reach_extender=extenders.at)
                await stopped.wait()
    print_safely("The simulated cluster has stopped.")


def _print_introduction(contents: _Contents, url: str, kubeconfig: Path) -> None:
    print_safely(f"A simulated Kubernetes cluster ({contents.title}) runs at {url} until Ctrl-C.")
    if contents.scenario.description:
        print_safely(contents.scenario.description)
    print_safely(f"\n  export KUBECONFIG={kubeconfig.absolute()}\n  kubectl get pods -A -o wide\n")


def _print_event(entry: TimelineEntry) -> None:
    moment = timedelta(seconds=round(entry.at.total_seconds()))
    print_safely(f"{short_duration(moment):>8}  {entry.what}")
    for refusal in entry.refusals:
        print_safely(f"{'':>8}  refused: {refusal}")


def print_safely(text: str, *, err: bool = False) -> None:
    """Print text with all terminal control characters escaped: names and messages are untrusted text."""
    safe = "".join(
        json.dumps(each)[1:-1]
        if each not in "\n\t" and unicodedata.category(each) in _TERMINAL_CONTROLS
        else each
        for each in text
    )
    print(safe, file=sys.stderr if err else sys.stdout, flush=True)


# -- the kubeconfig file and signals


def _check_kubeconfig_path(path: Path | None) -> None:
    if path is None:
        return
    if not _may_overwrite(path):
        raise StandaloneError(f"{path} exists and is not a simulator's kubeconfig: choose another file")
    if not path.parent.is_dir():
        raise StandaloneError(f"{path}: there is no directory {path.parent}")


def _may_overwrite(path: Path) -> bool:
    """Return whether the file is absent, empty, or a kubeconfig of a simulated cluster."""
    if not path.exists():
        return True
    try:
        content = load_yaml(path.read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return False
    names = [cluster.get("name") for cluster in (content or {}).get("clusters") or [{}]]
    return content is None or names == ["simulator"]


@contextlib.contextmanager
def _kubeconfig_file(content: str, wanted: Path | None) -> Iterator[Path]:
    """Write the kubeconfig to the wanted file, or to a temporary one that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="kubesim-") as folder:
        path = wanted or Path(folder, "kubeconfig")
        path.touch(mode=0o600)
        path.write_text(content)
        yield path


@contextlib.contextmanager
def _sigterm_as_keyboard_interrupt() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, as Ctrl-C does, while no event loop runs."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
