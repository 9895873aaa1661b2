"""The command line: one file per command."""

import importlib
from typing import NamedTuple

import click

__all__ = ["main"]


class _Command(NamedTuple):
    target: str
    """`module:name`"""
    summary: str
    """As its own help begins; here so that the list of commands need not import them."""


COMMANDS = {
    "apply": _Command(
        "rescheduler.cli.commands.plan_commands:apply",
        "Moves pods as planned, and tells how far it is until all moves are made.",
    ),
    "config": _Command(
        "rescheduler.cli.commands.setup_commands:config", "Checks a configuration, or shows the defaults."
    ),
    "demo": _Command(
        "rescheduler.cli.demo.demo_command:demo",
        "Shows what it does: two minutes in a simulated cluster, live.",
    ),
    "drain": _Command(
        "rescheduler.cli.commands.drain_commands:drain",
        "Empties nodes: pods run elsewhere before they go, also single replicas and under full budgets.",
    ),
    "explain": _Command(
        "rescheduler.cli.commands.explain_command:explain",
        "Says whether a pod may move, why not, and what forbids each node; and the like of a node.",
    ),
    "manifests": _Command(
        "rescheduler.cli.commands.setup_commands:manifests",
        "Prints all that is to be installed, for kubectl.",
    ),
    "migrations": _Command(
        "rescheduler.cli.commands.migrations_command:migrations",
        "Shows moves that are under way or finished, or one with its story; cancels one.",
    ),
    "move": _Command(
        "rescheduler.cli.commands.move_command:move",
        "Moves one pod to another node, and tells how far it is until it is there.",
    ),
    "pause": _Command(
        "rescheduler.cli.commands.daemon_commands:pause",
        "Lets the daemon begin no more moves, until `rescheduler resume`.",
    ),
    "plan": _Command(
        "rescheduler.cli.commands.plan_commands:plan",
        "Shows which pods should move where, and why; moves nothing.",
    ),
    "resume": _Command(
        "rescheduler.cli.commands.daemon_commands:resume", "Ends a pause, and forgives failures of the past."
    ),
    "run": _Command(
        "rescheduler.cli.commands.daemon_commands:run",
        "Watches the cluster and moves pods, until SIGTERM or Ctrl-C.",
    ),
    "simulate": _Command(
        "rescheduler.cli.commands.simulate_command:simulate",
        "Runs checks in a saved cluster, simulated and at once: which pods move, and what comes of it.",
    ),
    "simulator": _Command(
        "rescheduler.cli.commands.simulator_command:simulator",
        "Runs a simulated cluster until Ctrl-C, and writes a kubeconfig for it.",
    ),
    "snapshot": _Command(
        "rescheduler.cli.commands.snapshot_command:snapshot",
        "Saves the cluster to FILE, or to standard output for -.",
    ),
    "undrain": _Command(
        "rescheduler.cli.commands.drain_commands:undrain",
        "Takes nodes back into service: no longer in maintenance, and uncordoned if we had cordoned them.",
    ),
    "uninstall": _Command(
        "rescheduler.cli.commands.uninstall_command:uninstall",
        "Removes everything of rescheduler from the cluster.",
    ),
    "status": _Command(
        "rescheduler.cli.commands.daemon_commands:status",
        "Shows who leads, the last check, halts, balance, moves, and what is wrong.",
    ),
    "webhook": _Command(
        "rescheduler.cli.commands.webhook_command:webhook",
        "Steers replacements of evicted pods to where they should go.",
    ),
}
"""Each is imported when it is asked for, so that none has to wait for what another needs."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = COMMANDS[cmd_name].target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(ctx)])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kube-rescheduler")
def main() -> None:
    """Moves Kubernetes pods to better nodes, safely.

    To begin with: `plan` reads the cluster of the current kubectl context and touches nothing; `demo` needs
    no cluster at all. `kubectl rescheduler` has the same commands.

    Exit codes: 0 if all is well, 1 if the cluster or a file is not as it should be, 2 for wrong options or a
    wrong configuration; `plan` ends with 3 if something is to be moved.
    """
