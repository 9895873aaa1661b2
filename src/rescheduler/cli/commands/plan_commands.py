"""`rescheduler plan`, `explain` and `apply`."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rescheduler.cli.cluster_source import (
    EXIT_ERROR,
    EXIT_USAGE_ERROR,
    ClusterSource,
    cluster_and_config_options,
    exit_with_error,
    live_cluster_options,
    object_key,
    read_input_file,
)
from rescheduler.cli.execution import EXIT_INTERRUPTED, Execution, execute_plan, execution_options
from rescheduler.cli.terminal import echo, echo_lines, output_option, print_document

if TYPE_CHECKING:
    from rescheduler.cluster.snapshot import Snapshot
    from rescheduler.config.policy import Configuration, Policy
    from rescheduler.daemon.components import Rescheduler
    from rescheduler.migrations.controller.plan_execution import PlanExecution
    from rescheduler.planner.plan import Plan

__all__ = ["PRELOADED_MODULES", "apply", "explain", "make_plan", "plan", "print_plan", "with_overrides"]

PRELOADED_MODULES = (
    "rescheduler.planner.plan_builder",
    "rescheduler.strategies.strategy_registry",
    "rescheduler.strategies.load_balancing",
    "rescheduler.strategies.resource_optimization",
    "rescheduler.cli.plan_view",
)


def with_overrides(
    configuration: "Configuration", strategies: tuple[str, ...], max_moves: int | None
) -> "Configuration":
    """Return the configuration with the settings that the command line overrides."""
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
            available = ", ".join(sorted(known))
            raise click.UsageError(
                f"unknown strategy {name}{did_you_mean(name, known)} (available: {available})"
            )
    if faults := list(contradictions(policy, set())):
        raise click.UsageError("; ".join(map(str, faults)))


def make_plan(cluster: ClusterSource, configuration: "Configuration") -> "Plan":
    """Read the cluster and return a plan; exit if that fails."""
    snapshot, webhook = cluster.read_snapshot(configuration, meanwhile=PRELOADED_MODULES)
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
@click.option(
    "--strategy", "strategies", multiple=True, metavar="NAME", help="Use only this strategy; can be repeated."
)
@click.option("--max-moves", type=click.IntRange(min=1), help="Maximum number of moves.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Output format; docs/plan.schema.json describes JSON and YAML.",
)
@click.option("--save", metavar="FILE", help="Also save the plan to FILE as JSON, for `rescheduler apply`.")
@click.option(
    "--html", metavar="FILE", help="Also write the plan to FILE as a web page that needs no server."
)
@click.option("--anonymize", is_flag=True, help="Replace all names, for a page that you give to others.")
def plan(
    *,
    cluster: ClusterSource,
    strategies: tuple[str, ...],
    max_moves: int | None,
    output: str,
    save: str | None,
    html: str | None,
    anonymize: bool,
) -> None:
    """Reads the cluster of the current kubectl context, or a saved one with --from.

    Exit codes: 0 if there is nothing to do, 3 if there are moves or node changes, 1 if the cluster or the
    file can't be read, 2 for invalid options or an invalid configuration.
    """
    configuration = with_overrides(cluster.configuration(), strategies, max_moves)
    if anonymize:
        if html is None or save is not None:
            raise click.UsageError("--anonymize needs --html, and can't be combined with --save")
        cluster = cluster.anonymized(configuration)
    made = make_plan(cluster, configuration) if html is None else _plan_page(cluster, configuration, html)
    if save is not None:
        _save_plan(made, save)
    print_plan(made, output)
    sys.stdout.flush()
    sys.exit(_EXIT_MOVES_PROPOSED if made.moves or made.changes else 0)


def _save_plan(made: "Plan", file: str) -> None:
    _write(file, _plan_json(made))


def _plan_page(cluster: ClusterSource, configuration: "Configuration", file: str) -> "Plan":
    """Write the page, and return its plan."""
    from rescheduler.web.page_model import SavedPage  # noqa: PLC0415
    from rescheduler.web.plan_html import plan_html  # noqa: PLC0415

    snapshot, webhook = cluster.read_snapshot(configuration)
    name = Path(cluster.saved).name if cluster.saved else cluster.context or ""
    page = SavedPage(snapshot, configuration.policy, webhook, name)
    _write(file, plan_html(page))
    assert page.latest is not None
    return page.latest.plan


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        exit_with_error(f"{file}: {getattr(error, 'strerror', None) or error}", EXIT_ERROR)


def _plan_json(made: "Plan") -> str:
    import msgspec  # noqa: PLC0415

    # Python's own encoder takes ten times as long with indentation.
    return msgspec.json.format(msgspec.json.encode(_plan_document(made)), indent=2).decode() + "\n"


def _plan_document(made: "Plan") -> dict[str, Any]:
    from rescheduler.planner.plan_json import plan_to_json  # noqa: PLC0415

    return plan_to_json(made)


def print_plan(made: "Plan", output: str) -> None:
    """Print the plan as a table, JSON or YAML."""
    if output == "json":
        echo(_plan_json(made), nl=False)
    elif output == "yaml":
        print_document(_plan_document(made), output)
    else:
        from rescheduler.cli.plan_view import plan_lines  # noqa: PLC0415
        from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415

        terminal = terminal_of(sys.stdout)
        echo_lines(plan_lines(made, terminal), color=terminal.colour)


@click.command()
@click.argument("file", metavar="[PLAN]", required=False)
@live_cluster_options
@click.option(
    "--strategy", "strategies", multiple=True, metavar="NAME", help="Use only this strategy; can be repeated."
)
@click.option("--max-moves", type=click.IntRange(min=1), help="Maximum number of moves.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation.")
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
    """PLAN is a file written by `plan --save`; without it, a new plan is made.

    Every move is checked again against the current cluster before it starts. Press Ctrl-C to start no more
    moves and wait for the running ones; press it again to exit immediately.

    Exit codes: 0 if all moves were made, 1 if a move was not made or the cluster or the plan can't be read,
    2 for invalid options or an invalid configuration, 130 after Ctrl-C.
    """
    if file is not None and (strategies or max_moves):
        raise click.UsageError("--strategy and --max-moves can't be used with PLAN")
    configuration = with_overrides(cluster.configuration(), strategies, max_moves)
    if configuration.policy.dry_run:
        exit_with_error("nothing was moved: the configuration sets dryRun", EXIT_USAGE_ERROR)
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

    async def execute(rescheduler: "Rescheduler") -> "PlanExecution":
        return await execute_plan(rescheduler, plan, progress)

    run = execution.run(execute)
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
    """Ask for confirmation; exit if the answer is no or there is no terminal to ask on."""
    if not sys.stdin.isatty() and output != "table":
        raise click.UsageError("-o json and -o yaml need --yes when there is no terminal")
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
        if any(progress.is_under_way for progress in moves):
            echo("The daemon or the next command continues them. To follow them, run: rescheduler migrations")
    sys.stdout.flush()
    if interrupted:
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(0 if all(progress.is_completed for progress in moves) else EXIT_ERROR)


_KINDS = {"pod": "pod", "pods": "pod", "po": "pod", "node": "node", "nodes": "node", "no": "node"}
"""The names that kubectl accepts."""


def _kind(_ctx: click.Context, _argument: click.Parameter, value: str) -> str:
    if value not in _KINDS:
        raise click.BadParameter(f'"{value}" is not pod or node')
    return _KINDS[value]


@click.command()
@click.argument("kind", callback=_kind, metavar="pod|node")
@click.argument("name", metavar="NAME")
@click.option(
    "-n", "--namespace", metavar="NAME", help="Namespace of the pod; defaults to the one of the context."
)
@cluster_and_config_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def explain(kind: str, name: str, namespace: str | None, cluster: ClusterSource, output: str) -> None:
    """For a pod: whether it can move, the reasons if not, and why each other node can't take it.

    Name a pod as for kubectl, with -n NAMESPACE, or as NAMESPACE/NAME.
    """
    configuration = cluster.configuration()
    key = object_key(name, namespace, cluster) if kind == "pod" else name
    snapshot, webhook = cluster.read_snapshot(configuration, meanwhile=["rescheduler.planner.explanation"])
    _exit_if_missing(kind, key, snapshot)
    from rescheduler.planner.explanation import explain_node, explain_pod  # noqa: PLC0415

    explained = explain_pod if kind == "pod" else explain_node
    steered, guarded = webhook.steers, bool(webhook.guards)
    explanation = explained(snapshot, configuration.policy, key, steered=steered, guarded=guarded)
    assumptions = (*snapshot.assumptions, *explanation.assumptions)
    if output == "text":
        from rescheduler.cli.explain_view import explanation_lines  # noqa: PLC0415
        from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415

        terminal = terminal_of(sys.stdout)
        lines = explanation_lines(explanation, assumptions, terminal)
        echo_lines(lines, color=terminal.colour)
    else:
        from rescheduler.cli.explain_view import explanation_document  # noqa: PLC0415

        print_document(explanation_document(explanation, assumptions), output)


def _exit_if_missing(kind: str, key: str, snapshot: "Snapshot") -> None:
    known: Mapping[str, int] = snapshot.pods.row if kind == "pod" else snapshot.nodes.row
    if key in known:
        return
    from rescheduler.config.config_validation import did_you_mean  # noqa: PLC0415

    near = did_you_mean(key, known)
    elsewhere = [each for each in known if kind == "pod" and each.endswith(f"/{key.partition('/')[2]}")]
    hint = f"; did you mean {', '.join(sorted(elsewhere)[:3])}?" if elsewhere else near
    exit_with_error(f"{kind} {key} not found{hint}", EXIT_ERROR)
