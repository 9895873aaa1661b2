"""`rescheduler plan`: what should move where, and why; nothing is touched."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rescheduler.cli.looking import DATA_ERROR, Looking, give_up, looking_options
from rescheduler.cli.planned import overridden, planned
from rescheduler.cli.printing import print_document
from rescheduler.cli.safe_output import echo, echo_lines

if TYPE_CHECKING:
    from rescheduler.model.plan import Plan

__all__ = ["plan", "print_plan"]

_PROPOSES_MOVES = 3


@click.command()
@looking_options
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
    looking: Looking, strategies: tuple[str, ...], max_moves: int | None, output: str, save: str | None
) -> None:
    """Shows which pods should move where, and why; moves nothing.

    Reads the cluster of the current kubectl context, or a saved one with --from. Exit codes: 0 if there is
    nothing to do, 3 if something is, 1 if the cluster or the file can't be read, 2 for wrong options or a
    wrong configuration.
    """
    configuration = overridden(looking.configuration(), strategies, max_moves)
    made = planned(looking, configuration)
    if save is not None:
        _save(made, save)
    print_plan(made, output)
    sys.stdout.flush()
    sys.exit(_PROPOSES_MOVES if made.moves or made.changes else 0)


def _save(made: "Plan", file: str) -> None:
    try:
        Path(file).write_text(_as_json(made), encoding="utf-8")
    except (OSError, ValueError) as error:
        give_up(f"{file}: {getattr(error, 'strerror', None) or error}", DATA_ERROR)


def _as_json(made: "Plan") -> str:
    import msgspec  # noqa: PLC0415

    # Python's own encoder takes ten times as long as soon as it is to indent.
    return msgspec.json.format(msgspec.json.encode(_content(made)), indent=2).decode() + "\n"


def _content(made: "Plan") -> dict[str, Any]:
    from rescheduler.model.plan_json import plan_to_json  # noqa: PLC0415

    return plan_to_json(made)


def print_plan(made: "Plan", output: str) -> None:
    if output == "json":
        echo(_as_json(made), nl=False)
    elif output == "yaml":
        print_document(_content(made), output)
    else:
        from rescheduler.cli.plan_view import Remedy, plan_lines  # noqa: PLC0415
        from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415
        from rescheduler.planner.reasons import REMEDIES  # noqa: PLC0415

        remedies = {str(reason): Remedy(*words) for reason, words in REMEDIES.items()}
        terminal = terminal_of(sys.stdout)
        echo_lines(plan_lines(made, terminal, remedies), color=terminal.colour)
