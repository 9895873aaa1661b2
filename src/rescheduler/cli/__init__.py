"""The command line: one file per command."""

import click

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kube-rescheduler")
def main() -> None:
    """Moves Kubernetes pods to better nodes, safely."""
