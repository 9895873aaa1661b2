"""The command line: one file per command."""

import importlib

import click

__all__ = ["main"]

COMMANDS = {
    "config": "rescheduler.cli.config:config",
    "demo": "rescheduler.cli.demo:demo",
}
"""Each is imported when it is asked for, so that none has to wait for what another needs."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kube-rescheduler")
def main() -> None:
    """Moves Kubernetes pods to better nodes, safely."""
