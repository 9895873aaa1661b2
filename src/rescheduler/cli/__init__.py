"""The command line. Each command is imported only when it is used, so that `--help` is fast."""

import difflib
import importlib
import inspect
import sys
from typing import NamedTuple

import click

__all__ = ["main"]


class _Command(NamedTuple):
    target: str
    """`module:name`"""
    summary: str
    """First sentence of the help, kept here so that listing the commands does not import them all."""


COMMANDS = {
    "apply": _Command(
        "rescheduler.cli.commands.plan_commands:apply",
        "Move pods as planned and show the progress.",
    ),
    "completion": _Command(
        "rescheduler.cli.commands.setup_commands:completion",
        "Print a script that completes commands in your shell.",
    ),
    "config": _Command(
        "rescheduler.cli.commands.setup_commands:config", "Check a configuration file or show the defaults."
    ),
    "demo": _Command(
        "rescheduler.cli.demo.demo_command:demo",
        "Show rescheduler at work for two minutes in a simulated cluster.",
    ),
    "drain": _Command(
        "rescheduler.cli.commands.drain_commands:drain",
        "Drain nodes: each pod's copy is ready before the pod is evicted.",
    ),
    "explain": _Command(
        "rescheduler.cli.commands.placement_commands:explain",
        "Explain why a pod can't move, or what can leave or enter a node.",
    ),
    "fit": _Command(
        "rescheduler.cli.commands.placement_commands:fit",
        "Show whether a pod would fit, and what would have to move.",
    ),
    "history": _Command(
        "rescheduler.cli.commands.history_commands:history",
        "Show which pods moved, why, and who decided it.",
    ),
    "manifests": _Command(
        "rescheduler.cli.commands.setup_commands:manifests",
        "Print the manifests to install with kubectl.",
    ),
    "migrations": _Command(
        "rescheduler.cli.commands.migrations_command:migrations",
        "List migrations, show, cancel or resume them.",
    ),
    "move": _Command(
        "rescheduler.cli.commands.move_commands:move",
        "Move one pod to another node and show the progress.",
    ),
    "pause": _Command(
        "rescheduler.cli.commands.daemon_commands:pause",
        "Stop the daemon from starting moves.",
    ),
    "plan": _Command(
        "rescheduler.cli.commands.plan_commands:plan",
        "Show which pods should move where and why, without moving any.",
    ),
    "resume": _Command(
        "rescheduler.cli.commands.daemon_commands:resume",
        "End a pause and clear halts caused by past failures.",
    ),
    "run": _Command(
        "rescheduler.cli.commands.daemon_commands:run",
        "Run the daemon: watch the cluster and move pods.",
    ),
    "simulate": _Command(
        "rescheduler.cli.commands.saved_cluster_commands:simulate",
        "Simulate checks in a saved cluster and show the moves.",
    ),
    "simulator": _Command(
        "rescheduler.cli.commands.saved_cluster_commands:simulator",
        "Run a simulated cluster until Ctrl-C, and write a kubeconfig for it.",
    ),
    "snapshot": _Command(
        "rescheduler.cli.commands.saved_cluster_commands:snapshot",
        "Save the cluster to a file.",
    ),
    "top": _Command(
        "rescheduler.cli.commands.top_command:top",
        "Show nodes, moves and halts live in the terminal.",
    ),
    "undrain": _Command(
        "rescheduler.cli.commands.drain_commands:undrain",
        "Return nodes to service: end maintenance and uncordon them.",
    ),
    "undo": _Command(
        "rescheduler.cli.commands.history_commands:undo",
        "Move pods back to where they were before a move, a plan or a time.",
    ),
    "uninstall": _Command(
        "rescheduler.cli.commands.uninstall_command:uninstall",
        "Remove rescheduler from the cluster.",
    ),
    "status": _Command(
        "rescheduler.cli.commands.status_command:status",
        "Show the leader, the last check, halts, balance and problems.",
    ),
    "version": _Command(
        "rescheduler.cli.commands.daemon_commands:version",
        "Print the versions of program, daemon and API server.",
    ),
    "web": _Command(
        "rescheduler.cli.commands.web_command:web",
        "Show the cluster, the plan and the moves in your browser.",
    ),
    "webhook": _Command(
        "rescheduler.cli.commands.webhook_command:webhook",
        "Run the webhook that steers replacements of evicted pods.",
    ),
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = COMMANDS[cmd_name].target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        summary, details = COMMANDS[cmd_name].summary, inspect.cleandoc(command.help or "")
        if not details.startswith(summary):
            command.help = f"{summary}\n\n{details}".rstrip()
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; wrap messages about wrong options between words, as all other errors."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            from rescheduler.cli.terminal import terminal_of, wrapped  # noqa: PLC0415

            terminal = terminal_of(sys.stderr)
            lines = f"Error: {error.format_message()}".split("\n")
            text = "\n".join(part for line in lines for part in wrapped(terminal, line, indent=""))
            raise click.UsageError(text.removeprefix("Error: "), error.ctx) from error
        except KeyboardInterrupt:  # before a command handles the signal, and in commands that only read
            from rescheduler.cli.execution import EXIT_INTERRUPTED  # noqa: PLC0415
            from rescheduler.cli.terminal import echo  # noqa: PLC0415

            echo(err=True)  # ends the line with ^C
            ctx.exit(EXIT_INTERRUPTED)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            ctx.fail(f"no such option {error.option_name}. Options of a command follow its name.")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command, or fail and suggest commands with similar names."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=2)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f'unknown command "{name}".{hint}')
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(ctx)])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kube-rescheduler")
def main() -> None:
    """Move Kubernetes pods to better nodes, safely.

    Start with `plan`, which reads the cluster of the current kubectl context and changes nothing, or with
    `demo`, which needs no cluster. `kubectl rescheduler` has the same commands.

    Exit codes: 0 for success, 1 for an error in the cluster or a file, 2 for invalid options or an invalid
    configuration, 130 after Ctrl-C. `plan` exits with 3 if it proposes moves.
    """
