"""`rescheduler plan`: what should move where, and why; nothing is touched.

A plan of the cluster that a command looks at, with what its options say in place of the configuration.

`rescheduler apply`: a plan, made now or saved before, is carried out.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from rescheduler.cli.cluster_source import EXIT_USAGE_ERROR, ClusterSource, exit_with_error

if TYPE_CHECKING:
    from rescheduler.config.policy import Configuration, Policy
    from rescheduler.planner.plan import Plan
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rescheduler.cli.cluster_source import EXIT_ERROR, cluster_and_config_options
from rescheduler.cli.safe_output import echo, echo_lines, print_document

if TYPE_CHECKING:
    from rescheduler.planner.plan import Plan
from rescheduler.cli.cluster_source import live_cluster_options, read_input_file
from rescheduler.cli.execution import EXIT_INTERRUPTED, Execution, execute_plan, execution_options
from rescheduler.cli.safe_output import output_option

if TYPE_CHECKING:
    from rescheduler.daemon.components import Rescheduler
    from rescheduler.migrations.controller.plan_execution import PlanExecution
    from rescheduler.planner.plan import Plan
__all__ = ["apply", "make_plan", "plan", "print_plan", "with_overrides"]

_PRELOADED_MODULES = (
    "rescheduler.planner.plan_builder",
    "rescheduler.strategies.strategy_registry",
    "rescheduler.strategies.load_balancing",
    "rescheduler.strategies.resource_optimization",
    "rescheduler.cli.plan_view",
)


def with_overrides(
    configuration: "Configuration", strategies: tuple[str, ...], max_moves: int | None
) -> "Configuration":
    """With what the command line says in place of the file."""
    policy = configuration.policy
    if max_moves is not None:
        policy = replace(policy, max_reschedule_pods=max_moves)
    if strategies:
        policy = replace(policy, enabled_strategies=tuple(dict.fromkeys(strategies)))
        _validate_strategies(policy)
    return replace(configuration, policy=policy)


def _validate_strategies(policy: "Policy") -> None:
    from rescheduler.config.config_validation import (  # noqa: PLC0415
        contradictions,
        did_you_mean,
        known_strategies,
    )

    known = known_strategies()
    for name in policy.enabled_strategies:
        if name not in known:
            there_are = ", ".join(sorted(known))
            raise click.UsageError(f"no strategy is called {name}{did_you_mean(name, known)} ({there_are})")
    if faults := list(contradictions(policy, set())):
        raise click.UsageError("; ".join(map(str, faults)))


def make_plan(cluster: ClusterSource, configuration: "Configuration") -> "Plan":
    """Ends the program if there is no plan."""
    snapshot, webhook = cluster.read_snapshot(configuration, meanwhile=_PRELOADED_MODULES)
    from rescheduler.planner.plan_builder import build_plan  # noqa: PLC0415
    from rescheduler.strategies.strategy_registry import (  # noqa: PLC0415
        BrokenStrategy,
        DuplicateStrategy,
        UnknownStrategy,
        strategies_of,
    )

    try:
        strategies = strategies_of(configuration.policy)
    except (BrokenStrategy, DuplicateStrategy, UnknownStrategy) as error:
        exit_with_error(str(error), EXIT_USAGE_ERROR)
    steered, guarded = webhook.steers, bool(webhook.guards)
    return build_plan(snapshot, configuration.policy, strategies, steered=steered, guarded=guarded)


_EXIT_MOVES_PROPOSED = 3


@click.command()
@cluster_and_config_options
@click.option("--strategy", "strategies", multiple=True, metavar="NAME", help="Only this; may be repeated.")
@click.option("--max-moves", type=click.IntRange(min=1), help="At most so many moves.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="For people, or for programs (docs/plan.schema.json).",
)
@click.option("--save", metavar="FILE", help="Also write the plan there, as JSON.")
def plan(
    cluster: ClusterSource, strategies: tuple[str, ...], max_moves: int | None, output: str, save: str | None
) -> None:
    """Shows which pods should move where, and why; moves nothing.

    Reads the cluster of the current kubectl context, or a saved one with --from. Exit codes: 0 if there is
    nothing to do, 3 if something is, 1 if the cluster or the file can't be read, 2 for wrong options or a
    wrong configuration.
    """
    configuration = with_overrides(cluster.configuration(), strategies, max_moves)
    made = make_plan(cluster, configuration)
    if save is not None:
        _save_plan(made, save)
    print_plan(made, output)
    sys.stdout.flush()
    sys.exit(_EXIT_MOVES_PROPOSED if made.moves or made.changes else 0)


def _save_plan(made: "Plan", file: str) -> None:
    try:
        Path(file).write_text(_plan_json(made), encoding="utf-8")
    except (OSError, ValueError) as error:
        exit_with_error(f"{file}: {getattr(error, 'strerror', None) or error}", EXIT_ERROR)


def _plan_json(made: "Plan") -> str:
    import msgspec  # noqa: PLC0415

    # Python's own encoder takes ten times as long as soon as it is to indent.
    return msgspec.json.format(msgspec.json.encode(_plan_document(made)), indent=2).decode() + "\n"


def _plan_document(made: "Plan") -> dict[str, Any]:
    from rescheduler.planner.plan_json import plan_to_json  # noqa: PLC0415

    return plan_to_json(made)


def print_plan(made: "Plan", output: str) -> None:
    if output == "json":
        echo(_plan_json(made), nl=False)
    elif output == "yaml":
        print_document(_plan_document(made), output)
    else:
        from rescheduler.cli.plan_view import Remedy, plan_lines  # noqa: PLC0415
        from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415
        from rescheduler.planner.reasons import REMEDIES  # noqa: PLC0415

        remedies = {str(reason): Remedy(*words) for reason, words in REMEDIES.items()}
        terminal = terminal_of(sys.stdout)
        echo_lines(plan_lines(made, terminal, remedies), color=terminal.colour)


@click.command()
@click.argument("file", metavar="[PLAN]", required=False)
@live_cluster_options
@click.option("--strategy", "strategies", multiple=True, metavar="NAME", help="Only this; may be repeated.")
@click.option("--max-moves", type=click.IntRange(min=1), help="At most so many moves.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@execution_options
@output_option
def apply(
    file: str | None,
    cluster: ClusterSource,
    strategies: tuple[str, ...],
    max_moves: int | None,
    yes: bool,
    install: bool,
    output: str,
) -> None:
    """Moves pods as planned, and tells how far it is until all moves are made.

    PLAN is a file that `plan --save` has written; without it, a plan is made now. Every move is checked once
    more against the cluster as it is when its turn comes. Ctrl-C begins no more moves and waits for those
    that are under way; once more leaves at once. Exit codes: 0 if all moves were made, 1 if one was not, or
    the cluster or the plan can't be read, 2 for wrong options or a wrong configuration, 130 after Ctrl-C.
    """
    if file is not None and (strategies or max_moves):
        raise click.UsageError("--strategy and --max-moves are for plans that are made now, not for PLAN")
    configuration = with_overrides(cluster.configuration(), strategies, max_moves)
    if configuration.policy.dry_run:
        exit_with_error("the configuration says dryRun: nothing is moved", EXIT_USAGE_ERROR)
    saved = None if file is None else _read_plan(file)
    execution = Execution(cluster, configuration, install)
    execution.prepare()
    plan = saved or make_plan(cluster, configuration)
    _show_plan(plan, output)
    if not plan.moves and not plan.changes:
        _report_and_exit(None, output, interrupted=False)
    if not yes:
        _confirm(output)
    from rescheduler.cli.progress_display import progress_display_for  # noqa: PLC0415

    to_stderr = output != "table"
    progress = progress_display_for(sys.stderr if to_stderr else sys.stdout, to_stderr=to_stderr)

    async def carried_out(rescheduler: "Rescheduler") -> "PlanExecution":
        return await execute_plan(rescheduler, plan, progress)

    run = execution.run(carried_out)
    _report_and_exit(run, output, interrupted=progress.is_interrupted)


def _read_plan(file: str) -> "Plan":
    from rescheduler.planner.plan_json import UnreadablePlan, plan_from_json  # noqa: PLC0415

    raw, source = read_input_file(file)
    try:
        return plan_from_json(raw, source=source)
    except UnreadablePlan as error:
        exit_with_error(str(error), EXIT_ERROR)


def _show_plan(plan: "Plan", output: str) -> None:
    if output == "table":
        print_plan(plan, "table")
        echo()


def _confirm(output: str) -> None:
    """Only where somebody can answer: a program that forgets --yes is told so."""
    if not sys.stdin.isatty() and output != "table":
        raise click.UsageError("with -o json or yaml nobody is asked: say --yes")
    try:
        agreed = click.confirm("Make these moves?", default=False, err=output != "table")
    except click.Abort:
        agreed = False
    if not agreed:
        exit_with_error("nothing was moved", EXIT_ERROR)


def _report_and_exit(run: "PlanExecution | None", output: str, *, interrupted: bool) -> None:
    moves = run.moves if run is not None else []
    if output != "table":
        from rescheduler.cli.move_status import move_results  # noqa: PLC0415

        print_document({"moves": move_results(moves)}, output)
    elif run is not None:
        from rescheduler.cli.move_status import failure_lines, moves_summary  # noqa: PLC0415

        echo("\n".join([moves_summary(moves), *failure_lines(moves)]))
        if any(errand.is_under_way for errand in moves):
            echo("Whoever executes next goes on with them: rescheduler migrations, or the daemon.")
    sys.stdout.flush()
    if interrupted:
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(0 if all(errand.is_completed for errand in moves) else EXIT_ERROR)
