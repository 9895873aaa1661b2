"""`rescheduler simulate`: what the program would do in a saved cluster, and what would come of it."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from rescheduler.cli.cluster_source import (
    EXIT_ERROR,
    ClusterSource,
    exit_with_error,
    print_note,
    read_input_file,
    saved_cluster_options,
)
from rescheduler.cli.commands.plan_commands import with_overrides
from rescheduler.cli.execution import verbose_option
from rescheduler.cli.safe_output import echo_lines, output_option, print_document

if TYPE_CHECKING:
    from rescheduler.cluster.sources.cluster_reading import ClusterReading
    from rescheduler.config.policy import Policy

__all__ = ["simulate"]

_MAX_FAULTS_SHOWN = 20
_KINDS_WITH_TEMPLATE = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")


@click.command()
@saved_cluster_options
@click.option("--checks", type=click.IntRange(min=1), default=3, show_default=True, help="How many.")
@click.option("--strategy", "strategies", multiple=True, metavar="NAME", help="Only this; may be repeated.")
@verbose_option
@output_option
def simulate(cluster: ClusterSource, checks: int, strategies: tuple[str, ...], output: str) -> None:
    """Runs checks in a saved cluster, simulated and at once: which pods move, and what comes of it.

    Planner and controller are the real ones, and so is every step of every move; only the cluster is
    simulated. Owners that the file does not have are made up. No cluster is asked or touched.
    """
    configuration = with_overrides(cluster.configuration(), strategies, None)
    assert cluster.saved is not None
    raw, source = read_input_file(cluster.saved)
    reading = _read(raw, source, configuration.policy)
    start = cluster.now or datetime.fromtimestamp(reading.now_s, UTC)
    objects = _objects(raw, source)
    from rescheduler.cli.simulated_checks import SimulatedCheck  # noqa: PLC0415
    from rescheduler.cli.simulated_checks import simulate as simulated  # noqa: PLC0415
    from rescheduler.cli.simulation_view import (  # noqa: PLC0415
        simulated_check_lines,
        simulation_document,
        simulation_summary_lines,
    )
    from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415

    terminal = terminal_of(sys.stdout)

    def tell(check: SimulatedCheck) -> None:
        if output == "table":
            echo_lines(simulated_check_lines(check, terminal), color=terminal.colour)

    # Of whoever moves nothing, nothing would be learnt.
    configuration = replace(configuration, policy=replace(configuration.policy, dry_run=False))
    for assumption in reading.assumptions:
        print_note(assumption)
    course = simulated(
        objects,
        configuration,
        start=start,
        checks=checks,
        usage=reading.usage,
        guarded=bool(reading.webhook.guards),
        tell=tell,
    )
    if output == "table":
        echo_lines(simulation_summary_lines(course, terminal), color=terminal.colour)
    else:
        print_document(simulation_document(course, reading.assumptions), output)


def _read(raw: bytes, source: str, policy: "Policy") -> "ClusterReading":
    from kubevalues.saved_cluster import UnreadableCluster  # noqa: PLC0415
    from rescheduler.cluster.sources.saved_source import read_saved, saved_usage  # noqa: PLC0415

    try:
        reading = read_saved(raw, source=source)
    except UnreadableCluster as error:
        exit_with_error(str(error), EXIT_ERROR)
    reading.usage = saved_usage(reading, policy)
    return reading


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
    """A controller that can't make pods could not replace those that are moved."""
    for item in objects:
        if item["kind"] in _KINDS_WITH_TEMPLATE and not (item.get("spec") or {}).get("template"):
            metadata = item["metadata"]
            name = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
            yield f"{item['kind']} {name}: spec.template: its pods are made from it"
