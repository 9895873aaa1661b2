"""`rescheduler apply`: a plan, made now or saved before, is carried out."""

import sys
from typing import TYPE_CHECKING

import click

from rescheduler.cli.acting import INTERRUPTED, Acting, acting_options, carry_out
from rescheduler.cli.looking import DATA_ERROR, USAGE_ERROR, Looking, file_bytes, give_up, live_options
from rescheduler.cli.planned import overridden, planned
from rescheduler.cli.printing import output_option, print_document
from rescheduler.cli.safe_output import echo

if TYPE_CHECKING:
    from rescheduler.controller.plan_run import PlanRun
    from rescheduler.daemon import Rescheduler
    from rescheduler.model.plan import Plan

__all__ = ["apply"]


@click.command()
@click.argument("file", metavar="[PLAN]", required=False)
@live_options
@click.option("--strategy", "strategies", multiple=True, metavar="NAME", help="Only this; may be repeated.")
@click.option("--max-moves", type=click.IntRange(min=1), help="At most so many moves.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@acting_options
@output_option
def apply(
    file: str | None,
    looking: Looking,
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
    configuration = overridden(looking.configuration(), strategies, max_moves)
    if configuration.policy.dry_run:
        give_up("the configuration says dryRun: nothing is moved", USAGE_ERROR)
    saved = None if file is None else _read(file)
    acting = Acting(looking, configuration, install)
    acting.prepare()
    plan = saved or planned(looking, configuration)
    _show(plan, output)
    if not plan.moves and not plan.changes:
        _end(None, output, interrupted=False)
    if not yes:
        _ask(output)
    from rescheduler.cli.live_progress import progress_on  # noqa: PLC0415

    to_stderr = output != "table"
    progress = progress_on(sys.stderr if to_stderr else sys.stdout, to_stderr=to_stderr)

    async def carried_out(rescheduler: "Rescheduler") -> "PlanRun":
        return await carry_out(rescheduler, plan, progress)

    run = acting.run(carried_out)
    _end(run, output, interrupted=progress.is_interrupted)


def _read(file: str) -> "Plan":
    from rescheduler.model.plan_json import UnreadablePlan, plan_from_json  # noqa: PLC0415

    raw, source = file_bytes(file)
    try:
        return plan_from_json(raw, source=source)
    except UnreadablePlan as error:
        give_up(str(error), DATA_ERROR)


def _show(plan: "Plan", output: str) -> None:
    if output == "table":
        from rescheduler.cli.plan import print_plan  # noqa: PLC0415

        print_plan(plan, "table")
        echo()


def _ask(output: str) -> None:
    """Only where somebody can answer: a program that forgets --yes is told so."""
    if not sys.stdin.isatty() and output != "table":
        raise click.UsageError("with -o json or yaml nobody is asked: say --yes")
    try:
        agreed = click.confirm("Make these moves?", default=False, err=output != "table")
    except click.Abort:
        agreed = False
    if not agreed:
        give_up("nothing was moved", DATA_ERROR)


def _end(run: "PlanRun | None", output: str, *, interrupted: bool) -> None:
    errands = run.errands if run is not None else []
    if output != "table":
        from rescheduler.cli.course import results  # noqa: PLC0415

        print_document({"moves": results(errands)}, output)
    elif run is not None:
        from rescheduler.cli.course import failures, summary  # noqa: PLC0415

        echo("\n".join([summary(errands), *failures(errands)]))
        if any(errand.is_under_way for errand in errands):
            echo("Whoever executes next goes on with them: rescheduler migrations, or the daemon.")
    sys.stdout.flush()
    if interrupted:
        sys.exit(INTERRUPTED)
    sys.exit(0 if all(errand.is_completed for errand in errands) else DATA_ERROR)
