"""`rescheduler snapshot`, `simulate` and `simulator`: save a cluster, simulate checks in a saved one, and run
a simulated cluster for kubectl and any other client."""

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rescheduler.cli.cluster_source import (
    EXIT_ERROR,
    ClusterSource,
    exit_with_error,
    print_note,
    print_words,
    read_input_file,
    saved_reading,
)
from rescheduler.cli.command_options import cluster_options, saved_cluster_options
from rescheduler.cli.commands.plan_commands import with_overrides
from rescheduler.cli.execution import verbose_option
from rescheduler.cli.output_formats import output_option, print_document
from rescheduler.cli.terminal import echo_lines

if TYPE_CHECKING:
    from rescheduler.cluster.sources.cluster_export import ClusterExport

__all__ = ["simulate", "simulator", "snapshot"]


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--anonymize", is_flag=True, help="Replace all names, labels and annotations.")
@click.option("--anonymise", is_flag=True, hidden=True, help="The spelling of version 0.1.")
@click.option(
    "--keep",
    multiple=True,
    metavar="WORD",
    help="A name, or a label key with its values, that --anonymize keeps; can be repeated.",
)
@cluster_options
def snapshot(
    *, file: str, anonymize: bool, anonymise: bool, keep: tuple[str, ...], cluster: ClusterSource
) -> None:
    """FILE is JSON, or YAML if its name ends in .yaml; gzipped if it ends in .gz; - is standard output.

    It contains everything that planning with the configuration needs, such as usage and custom metrics, and
    the time, but no environment variables, arguments, Secrets or ConfigMaps.
    """
    without_names = anonymize or anonymise
    if keep and not without_names:
        raise click.UsageError("--keep needs --anonymize: without it, all names are kept")
    export = _read_cluster(cluster)
    if without_names:
        export = export.without_names(keep)
    _write(export, file)
    for note in export.notes:
        print_note(note)
    found = Counter(each["kind"] for each in export.objects)
    listed = ", ".join(f"{count} {kind}" for kind, count in found.items())
    print_words(f"saved {listed or 'nothing'}")


def _read_cluster(cluster: ClusterSource) -> "ClusterExport":
    from kubevalues.saved_cluster import UnreadableCluster  # noqa: PLC0415
    from rescheduler.cluster.sources.cluster_export import export_of_file, export_of_live  # noqa: PLC0415

    if cluster.saved is None:
        configuration = cluster.effective_configuration()
        policy = configuration.policy
        read: ClusterExport = cluster.with_client(
            configuration, lambda client: export_of_live(client, policy)
        )
        return read
    raw, source = read_input_file(cluster.saved)
    try:
        return export_of_file(raw, source=source)
    except UnreadableCluster as error:
        exit_with_error(str(error), EXIT_ERROR)


def _write(export: "ClusterExport", file: str) -> None:
    from rescheduler.cluster.sources.cluster_export import encode_export  # noqa: PLC0415

    if file == "-":
        sys.stdout.buffer.write(encode_export(export, "-"))
        sys.stdout.flush()
        return
    try:
        _write_atomically(Path(file), encode_export(export, file))
    except (OSError, ValueError) as error:
        exit_with_error(f"{file}: {getattr(error, 'strerror', None) or error}", EXIT_ERROR)


def _write_atomically(path: Path, content: bytes) -> None:
    """Replace the file only when the new one is complete; only its owner can read it."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a pipe or a device
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


_MAX_FAULTS_SHOWN = 20
_KINDS_WITH_TEMPLATE = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")


@click.command()
@saved_cluster_options
@click.option("--checks", type=click.IntRange(min=1), default=3, show_default=True, help="Number of checks.")
@click.option(
    "--strategy", "strategies", multiple=True, metavar="NAME", help="Use only this strategy; can be repeated."
)
@verbose_option
@output_option
def simulate(cluster: ClusterSource, checks: int, strategies: tuple[str, ...], output: str) -> None:
    """The real planner and controller execute every step of every move.

    Only the cluster is simulated: no live cluster is read or changed. Owners that the file lacks are added.
    """
    configuration = with_overrides(cluster.configuration(), strategies, None)
    assert cluster.saved is not None
    raw, source = read_input_file(cluster.saved)
    reading = saved_reading(raw, source, configuration.policy)
    start = cluster.now or datetime.fromtimestamp(reading.now_s, UTC)
    objects = _objects(raw, source)
    from rescheduler.cli.plan_view import simulated_check_lines, simulation_summary_lines  # noqa: PLC0415
    from rescheduler.cli.simulated_checks import SimulatedCheck, simulation_document  # noqa: PLC0415
    from rescheduler.cli.simulated_checks import simulate as simulated  # noqa: PLC0415
    from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415

    terminal = terminal_of(sys.stdout)

    def report(check: SimulatedCheck) -> None:
        if output == "table":
            echo_lines(simulated_check_lines(check, terminal), color=terminal.colour)

    # A dry run would move nothing, so there would be nothing to show.
    configuration = replace(configuration, policy=replace(configuration.policy, dry_run=False))
    for assumption in reading.assumptions:
        print_note(assumption)
    simulated_checks = simulated(
        objects,
        configuration,
        start=start,
        checks=checks,
        usage=reading.usage,
        guarded=bool(reading.webhook.guards),
        report=report,
    )
    if output == "table":
        echo_lines(simulation_summary_lines(simulated_checks, terminal), color=terminal.colour)
    else:
        print_document(simulation_document(simulated_checks, reading.assumptions), output)


def _objects(raw: bytes, source: str) -> list[dict[str, Any]]:
    from kubesim.apiserver.simulated_cluster import (  # noqa: PLC0415
        definitions_first,
        faults_of,
        parse_saved_cluster,
    )

    objects = definitions_first(parse_saved_cluster(raw, source=source))
    if faults := [*faults_of(objects), *_without_templates(objects)]:
        more = f"\n  and {len(faults) - _MAX_FAULTS_SHOWN} more" if len(faults) > _MAX_FAULTS_SHOWN else ""
        listed = "\n  ".join(faults[:_MAX_FAULTS_SHOWN])
        exit_with_error(f"{source}: {len(faults)} objects can't be used\n  {listed}{more}", EXIT_ERROR)
    return objects


def _without_templates(objects: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the workloads without a pod template, which could not replace the pods that are moved."""
    for item in objects:
        if item["kind"] in _KINDS_WITH_TEMPLATE and not (item.get("spec") or {}).get("template"):
            metadata = item["metadata"]
            name = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
            yield f"{item['kind']} {name}: spec.template is missing"


@click.command()
@click.option("--scenario", metavar="FILE", help="A scenario (docs/scenarios.md); - for standard input.")
@click.option(
    "--from",
    "saved",
    metavar="FILE",
    help="A saved cluster: a v1 List in JSON or YAML, gzipped or not; - for standard input.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback; by default a free one."
)
@click.option("--token", help="Reject requests without this bearer token; the kubeconfig contains it.")
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Write the kubeconfig to this file and keep it."
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, max=1000, min_open=True),
    default=1.0,
    show_default=True,
    help="Cluster seconds per real second.",
)
def simulator(
    scenario: str | None,
    saved: str | None,
    port: int,
    token: str | None,
    kubeconfig: Path | None,
    speed: float,
) -> None:
    """Run a simulated cluster until Ctrl-C, and write a kubeconfig for it.

    Without --scenario and --from, it runs the cluster of the demo.
    """
    from kubesim.standalone_cluster import (  # noqa: PLC0415
        StandaloneError,
        StandaloneOptions,
        run_standalone,
    )

    try:
        run_standalone(StandaloneOptions(scenario, saved, port, token, kubeconfig, speed))
    except StandaloneError as error:
        exit_with_error(str(error), error.exit_code)
