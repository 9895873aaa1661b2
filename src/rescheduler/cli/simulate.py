"""`rescheduler simulate`: what the program would do in a saved cluster, and what would come of it."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from rescheduler.cli.acting import verbose_option
from rescheduler.cli.looking import DATA_ERROR, Looking, complain, file_bytes, give_up, saved_options
from rescheduler.cli.planned import overridden
from rescheduler.cli.printing import output_option, print_document
from rescheduler.cli.safe_output import echo_lines

if TYPE_CHECKING:
    from rescheduler.config.policy import Policy
    from rescheduler.sources.reading import Reading

__all__ = ["simulate"]

_MOST_FAULTS = 20
_MAKE_PODS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")


@click.command()
@saved_options
@click.option("--checks", type=click.IntRange(min=1), default=3, show_default=True, help="How many.")
@click.option("--strategy", "strategies", multiple=True, metavar="NAME", help="Only this; may be repeated.")
@verbose_option
@output_option
def simulate(looking: Looking, checks: int, strategies: tuple[str, ...], output: str) -> None:
    """Runs checks in a saved cluster, simulated and at once: which pods move, and what comes of it.

    Planner and controller are the real ones, and so is every step of every move; only the cluster is
    simulated. Owners that the file does not have are made up. No cluster is asked or touched.
    """
    configuration = overridden(looking.configuration(), strategies, None)
    assert looking.saved is not None
    raw, source = file_bytes(looking.saved)
    reading = _read(raw, source, configuration.policy)
    start = looking.now or datetime.fromtimestamp(reading.now_s, UTC)
    objects = _objects(raw, source)
    from rescheduler.cli.simulate_view import check_lines, form_of, summary_lines  # noqa: PLC0415
    from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415
    from rescheduler.simulation import SimulatedCheck  # noqa: PLC0415
    from rescheduler.simulation import simulate as simulated  # noqa: PLC0415

    terminal = terminal_of(sys.stdout)

    def tell(check: SimulatedCheck) -> None:
        if output == "table":
            echo_lines(check_lines(check, terminal), color=terminal.colour)

    # Of whoever moves nothing, nothing would be learnt.
    configuration = replace(configuration, policy=replace(configuration.policy, dry_run=False))
    for assumption in reading.assumptions:
        complain(assumption)
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
        echo_lines(summary_lines(course, terminal), color=terminal.colour)
    else:
        print_document(form_of(course, reading.assumptions), output)


def _read(raw: bytes, source: str, policy: "Policy") -> "Reading":
    from rescheduler.model.saved_cluster import UnreadableCluster  # noqa: PLC0415
    from rescheduler.sources.saved import read_saved, saved_usage  # noqa: PLC0415

    try:
        reading = read_saved(raw, source=source)
    except UnreadableCluster as error:
        give_up(str(error), DATA_ERROR)
    reading.usage = saved_usage(reading, policy)
    return reading


def _objects(raw: bytes, source: str) -> list[dict[str, Any]]:
    from rescheduler.simulator.contents import parse_saved_cluster  # noqa: PLC0415
    from rescheduler.simulator.soundness import definitions_first, faults_of  # noqa: PLC0415

    objects = definitions_first(parse_saved_cluster(raw, source=source))
    if faults := [*faults_of(objects), *_without_templates(objects)]:
        more = f"\n  and {len(faults) - _MOST_FAULTS} more" if len(faults) > _MOST_FAULTS else ""
        listed = "\n  ".join(faults[:_MOST_FAULTS])
        give_up(f"{source}: {len(faults)} objects can't be used\n  {listed}{more}", DATA_ERROR)
    return objects


def _without_templates(objects: list[dict[str, Any]]) -> Iterator[str]:
    """A controller that can't make pods could not replace those that are moved."""
    for item in objects:
        if item["kind"] in _MAKE_PODS and not (item.get("spec") or {}).get("template"):
            metadata = item["metadata"]
            name = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
            yield f"{item['kind']} {name}: spec.template: its pods are made from it"
