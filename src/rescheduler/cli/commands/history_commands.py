"""`rescheduler history` and `undo`."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from rescheduler.cli.cluster_source import EXIT_ERROR, ClusterSource, exit_with_error, print_note
from rescheduler.cli.command_options import (
    effective_config_options,
    existing_key,
    live_cluster_options,
    near_names,
    object_key,
)
from rescheduler.cli.commands.plan_commands import (
    confirm_plan,
    make_moves_and_exit,
    print_plan,
    show_plan,
)
from rescheduler.cli.execution import Execution, execution_options
from rescheduler.cli.output_formats import output_option, print_document, wide_output_option
from rescheduler.cli.terminal import echo, echo_lines

if TYPE_CHECKING:
    from rescheduler.api.migration_journal import JournalEntry
    from rescheduler.config.policy import Configuration
    from rescheduler.daemon.components import Rescheduler
    from rescheduler.kube.client import Client
    from rescheduler.planner.plan import Plan

__all__ = ["history", "undo"]


def _parse_since(_ctx: click.Context, _option: click.Parameter, value: str | None) -> timedelta | None:
    if value is None:
        return None
    from kubevalues.duration import DurationError, parse_duration  # noqa: PLC0415

    days, is_days = value.removesuffix("d"), value.endswith("d")
    try:
        found = timedelta(days=int(days)) if is_days and days.isdecimal() else parse_duration(value)
    except (DurationError, OverflowError) as error:
        raise click.BadParameter(f"{error}; or days, such as 7d") from error
    except ValueError as error:  # more digits than Python converts
        raise click.BadParameter("it has too many digits") from error
    if found <= timedelta():
        raise click.BadParameter(f'"{value}" must be longer than 0s')
    return found


_namespace_option = click.option(
    "-n", "--namespace", metavar="NAME", help="Only moves in this namespace; by default, in all namespaces."
)


@click.command()
@_namespace_option
@click.option(
    "--since", metavar="DURATION", callback=_parse_since, help="Only moves since then, such as 2h or 7d."
)
@click.option("--plan", "plan_id", metavar="ID", help="Only moves of this plan.")
@live_cluster_options
@wide_output_option
def history(
    namespace: str | None,
    since: timedelta | None,
    plan_id: str | None,
    cluster: ClusterSource,
    output: str,
) -> None:
    """The command also shows the balance before and after each plan, and how long no pod was ready.

    Finished PodMigrations are deleted after migrationTTL (24h). Before that, the daemon records them in the
    ConfigMap rescheduler-history, which keeps the last 2,000. Moves without a daemon are only known while
    their PodMigrations exist.
    """
    configuration = cluster.configuration()
    now = datetime.now(UTC)
    is_selected = _selection(since, plan_id, "", now)
    found = [each for each in _read_history(cluster, configuration, now, namespace) if is_selected(each)]
    if output not in {"table", "wide"}:
        import msgspec  # noqa: PLC0415

        print_document({"moves": msgspec.to_builtins(found)}, output)
        return
    from rescheduler.cli.history_view import history_lines  # noqa: PLC0415
    from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415

    terminal = terminal_of(sys.stdout)
    echo_lines(history_lines(found, terminal, is_wide=output == "wide"), color=terminal.colour)


def _selection(
    since: timedelta | None, plan_id: str | None, migration: str, now: datetime
) -> "Callable[[JournalEntry], bool]":
    def is_selected(entry: "JournalEntry") -> bool:
        return (
            (since is None or entry.finished_at >= now - since)
            and (plan_id is None or (bool(entry.plan) and entry.plan == plan_id))
            and migration in {"", entry.migration}
        )

    return is_selected


def _read_history(
    cluster: ClusterSource, configuration: "Configuration", now: datetime, namespace: str | None
) -> "list[JournalEntry]":
    """Return the history, newest first; exit if the cluster can't be read."""

    async def read(client: "Client") -> "tuple[list[JournalEntry], str]":
        from rescheduler.daemon.journal_writer import read_history  # noqa: PLC0415
        from rescheduler.daemon.own_objects import state_namespace  # noqa: PLC0415
        from rescheduler.install.cluster_installation import AmbiguousInstallation  # noqa: PLC0415

        home, unknown = "", ""
        try:
            home = await state_namespace(client, configuration)
        except AmbiguousInstallation as error:
            unknown = f"the journal can't be read, only PodMigrations are shown: {error}"
        entries, note = await read_history(client, home, now, namespace or "")
        return entries, unknown or note

    entries: list[JournalEntry]
    entries, note = cluster.with_client(configuration, read)
    if note:
        print_note(note)
    return entries


@click.command()
@click.argument("migration", metavar="[MIGRATION]", required=False)
@_namespace_option
@click.option(
    "--since", metavar="DURATION", callback=_parse_since, help="Undo all moves since then, such as 2h."
)
@click.option("--plan", "plan_id", metavar="ID", help="Undo the moves of this plan.")
@effective_config_options
@click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show the plan, and change nothing.")
@execution_options
@output_option
def undo(  # noqa: PLR0913 - one per option
    *,
    migration: str | None,
    namespace: str | None,
    since: timedelta | None,
    plan_id: str | None,
    cluster: ClusterSource,
    yes: bool,
    dry_run: bool,
    install: bool,
    output: str,
) -> None:
    """Name one MIGRATION, or select moves with --plan or --since; `rescheduler history` lists them.

    A pod goes back to the node where it was before the first of these moves. The plan is shown first. Pods
    that are gone or that no longer fit are listed with the reason. Limits that prevent frequent moves
    (minPodAge, podCooldown, windows) don't apply. If the cause of the moves is still there, the daemon plans
    them again after podCooldown: pause it, or change its configuration.

    Exit codes: 0 if all moves were made, 1 if one was not made or there is nothing to undo, 2 for invalid
    options or an invalid configuration, 130 after Ctrl-C.
    """
    if sum(each is not None for each in (migration, since, plan_id)) != 1:
        raise click.UsageError("name one MIGRATION, or use --plan ID or --since DURATION")
    configuration = cluster.effective_configuration()
    key = object_key(migration, namespace, cluster) if migration is not None else ""
    now = datetime.now(UTC)
    entries = _read_history(cluster, configuration, now, key.partition("/")[0] or namespace)
    known = {entry.migration for entry in entries}
    key = existing_key(key, known) if key else ""
    is_selected = _selection(since, plan_id, key, now)
    from rescheduler.daemon.manual_plans import moves_to_undo  # noqa: PLC0415

    if not any(map(is_selected, entries)):
        what = f"plan {plan_id}" if plan_id else f"migration {key}" if key else "move in this time"
        hint = (near_names(key, known) if key else "") or "."
        exit_with_error(f"{what} not found{hint} To list moves, run: rescheduler history", EXIT_ERROR)
    returns = moves_to_undo(entries, is_selected)
    if not returns:
        exit_with_error("nothing to undo: none of these moves was completed", EXIT_ERROR)
    execution = Execution(cluster, configuration, install and not dry_run)
    execution.prepare()

    async def planned(rescheduler: "Rescheduler") -> "Plan":
        from rescheduler.daemon.manual_plans import build_undo_plan  # noqa: PLC0415
        from rescheduler.migrations.controller.revalidation import policy_for_manual_move  # noqa: PLC0415

        state = rescheduler.runtime.current
        return build_undo_plan(
            rescheduler.cluster.snapshot(),
            policy_for_manual_move(state.policy),
            returns,
            steered=state.steers,
            guarded=state.guards,
        )

    plan = execution.run(planned)
    if dry_run:
        print_plan(plan, output)
        if output == "table":
            echo("\nDry run: nothing was changed.")
        return
    show_plan(plan, output)
    if not plan.moves:
        exit_with_error("nothing was moved: no pod can go back", EXIT_ERROR)
    if not yes:
        confirm_plan(output)
    make_moves_and_exit(execution, plan, output)
