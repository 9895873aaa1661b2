"""`rescheduler simulator`: a simulated cluster by itself, for kubectl and any other client."""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, NoReturn

import click
import yaml

from kubesim import ApiServer
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.simulated_cluster import (
    UnreadableCluster,
    definitions_first,
    faults_of,
    parse_saved_cluster,
)
from kubesim.running_cluster import start_cluster
from kubesim.scenario import (
    CannotSettle,
    Scenario,
    ScenarioError,
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
from rescheduler.cli.execution import sigterm_as_keyboard_interrupt, stop_event_on_signals
from rescheduler.cli.safe_output import echo

__all__ = ["simulator"]

_EXIT_ERROR, _EXIT_USAGE_ERROR = 1, 2
_MAX_FAULTS_SHOWN = 20


class SimulatorContents(NamedTuple):
    title: str
    scenario: Scenario
    objects: list[Object]


@click.command()
@click.option("--scenario", metavar="FILE", help="A scenario (docs/scenarios.md); - is standard input.")
@click.option(
    "--from", "saved", metavar="FILE", help="A saved cluster: a v1 List in JSON or YAML, gzipped or not; -."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback; a free one if not given."
)
@click.option("--token", help="Answer only requests that carry it; the kubeconfig does.")
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Where to write the kubeconfig; it stays there."
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, max=1000, min_open=True),
    default=1.0,
    show_default=True,
    help="How many of the cluster's seconds pass in a second.",
)
def simulator(
    scenario: str | None,
    saved: str | None,
    port: int,
    token: str | None,
    kubeconfig: Path | None,
    speed: float,
) -> None:
    """Runs a simulated cluster until Ctrl-C, and writes a kubeconfig for it.

    Without --scenario and --from it is the demo's cluster.
    """
    if scenario is not None and saved is not None:
        raise click.UsageError("--scenario and --from exclude each other: a cluster has one beginning")
    if kubeconfig is not None and not _may_overwrite(kubeconfig):
        _exit_with_error(
            f"{kubeconfig} is there already and not a simulator's kubeconfig: name another file", _EXIT_ERROR
        )
    if kubeconfig is not None and not kubeconfig.parent.is_dir():
        _exit_with_error(f"{kubeconfig}: there is no directory {kubeconfig.parent}", _EXIT_ERROR)
    start = datetime.now(UTC)
    try:
        with sigterm_as_keyboard_interrupt():
            contents = _from_saved(saved) if saved is not None else _from_scenario(scenario, start)
        asyncio.run(_run(contents, start, port=port, token=token, kubeconfig=kubeconfig, speed=speed))
    except KeyboardInterrupt:
        pass  # while it was still being made: nothing is there that would have to go
    except OSError as error:
        _exit_with_error(
            f"the simulated API server can't listen on port {port}: {error.strerror}", _EXIT_ERROR
        )


# -- what is in the cluster


def _from_scenario(file: str | None, start: datetime) -> SimulatorContents:
    try:
        if file is None:
            scenario = lopsided_shop()
        elif file == "-":
            scenario = parse_scenario(sys.stdin.buffer.read(), source="standard input")
        else:
            scenario = read_scenario(Path(file))
        return SimulatorContents(scenario.name or file or "", scenario, initial_objects(scenario, start))
    except ScenarioError as error:
        _exit_with_error(str(error), _EXIT_USAGE_ERROR)
    except CannotSettle as error:
        _exit_with_error(f"{file}: 1 error\n  {error}", _EXIT_USAGE_ERROR)


def _from_saved(file: str) -> SimulatorContents:
    source = "standard input" if file == "-" else file
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        objects = definitions_first(parse_saved_cluster(raw, source=source))
    except (OSError, ValueError) as error:
        why = str(error) if isinstance(error, UnreadableCluster) else f"{source}: {_reason(error)}"
        _exit_with_error(why, _EXIT_ERROR)
    if faults := faults_of(objects):
        more = f"\n  and {len(faults) - _MAX_FAULTS_SHOWN} more" if len(faults) > _MAX_FAULTS_SHOWN else ""
        listed = "\n  ".join(faults[:_MAX_FAULTS_SHOWN])
        _exit_with_error(f"{source}: {len(faults)} objects can't be used\n  {listed}{more}", _EXIT_ERROR)
    return SimulatorContents(source, Scenario(), objects)


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


# -- running


async def _run(
    contents: SimulatorContents,
    start: datetime,
    *,
    port: int,
    token: str | None,
    kubeconfig: Path | None,
    speed: float,
) -> None:
    ended = stop_event_on_signals()
    server = ApiServer(clock=LoopClock(start, speed=speed), seed=contents.scenario.seed)
    if unknown := server.load(contents.objects):
        kinds = ", ".join(sorted({content["kind"] for content in unknown}))
        echo(f"note: {len(unknown)} objects of kinds that nobody defined are left out: {kinds}", err=True)
    async with HttpsWebhookCaller() as webhooks, HttpExtenderCaller() as extenders:
        server.cluster.admission.webhooks.caller = webhooks
        async with await serve(server, port=port, token=token) as running:
            with _kubeconfig_file(running.kubeconfig, kubeconfig) as path:
                _print_introduction(contents, running.url, path)
                start_cluster(server, contents.scenario, tell=_print_event, reach_extender=extenders.at)
                await ended.wait()
    echo("The simulated cluster is gone.")


def _print_introduction(contents: SimulatorContents, url: str, kubeconfig: Path) -> None:
    echo(f"A simulated Kubernetes cluster ({contents.title}) runs at {url} until Ctrl-C.")
    if contents.scenario.description:
        echo(contents.scenario.description)
    echo(f"\n  export KUBECONFIG={kubeconfig.absolute()}\n  kubectl get pods -A -o wide\n")


def _print_event(happening: TimelineEntry) -> None:
    moment = timedelta(seconds=round(happening.at.total_seconds()))
    echo(f"{short_duration(moment):>8}  {happening.what}")
    for refusal in happening.refusals:
        echo(f"{'':>8}  refused: {refusal}")


@contextlib.contextmanager
def _kubeconfig_file(content: str, wanted: Path | None) -> Iterator[Path]:
    """In a file of the caller's choice that stays, or in one of our own that goes with us."""
    with tempfile.TemporaryDirectory(prefix="rescheduler-simulator-") as folder:
        path = wanted or Path(folder, "kubeconfig")
        path.touch(mode=0o600)
        path.write_text(content)
        yield path


def _may_overwrite(path: Path) -> bool:
    """Somebody's real kubeconfig is not overwritten."""
    if not path.exists():
        return True
    try:
        content = load_yaml(path.read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return False
    names = [cluster.get("name") for cluster in (content or {}).get("clusters") or [{}]]
    return content is None or names == ["simulator"]


def _exit_with_error(message: str, code: int) -> NoReturn:
    echo(message, err=True)
    sys.exit(code)
