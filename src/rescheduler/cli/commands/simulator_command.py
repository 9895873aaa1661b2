"""`rescheduler simulator`: run a simulated cluster for kubectl and any other client."""

import sys
from pathlib import Path

import click

from kubesim.standalone_cluster import StandaloneError, StandaloneOptions, run_standalone
from rescheduler.cli.terminal import echo

__all__ = ["simulator"]


@click.command()
@click.option("--scenario", metavar="FILE", help="A scenario (docs/scenarios.md); - is standard input.")
@click.option(
    "--from", "saved", metavar="FILE", help="A saved cluster: a v1 List in JSON or YAML, gzipped or not; -."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback; a free one if not given."
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
    try:
        run_standalone(StandaloneOptions(scenario, saved, port, token, kubeconfig, speed))
    except StandaloneError as error:
        echo(str(error), err=True)
        sys.exit(error.exit_code)
