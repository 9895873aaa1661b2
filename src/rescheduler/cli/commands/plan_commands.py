"""`rescheduler plan` and `apply`."""

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rescheduler.cli.cluster_source import (
    EXIT_ERROR,
    EXIT_USAGE_ERROR,
    ClusterSource,
    exit_with_error,
    print_note,
    print_words,
    read_input_file,
)
from rescheduler.cli.command_options import (
    cluster_and_config_options,
    confirmed,
    effective_config_options,
    existing_key,
    exit_if_missing,
    object_key,
)
from rescheduler.cli.execution import (
    CONTINUE_HINT,
    EXIT_INTERRUPTED,
    Execution,
    execute_plan,
    execution_options,
)
from rescheduler.cli.output_formats import output_option, plan_output_option, print_document
from rescheduler.cli.terminal import echo, echo_lines, terminal_of

if TYPE_CHECKING:
    from rescheduler.cluster.snapshot import Snapshot
    from rescheduler.cluster.sources.cluster_kinds import WebhookProbeResult
    from rescheduler.config.policy import Configuration, Policy
    from rescheduler.daemon.components import Rescheduler
    from rescheduler.migrations.controller.plan_execution import PlanExecution
    from rescheduler.planner.plan import Plan
    from rescheduler.strategies.strategy import Strategy

__all__ = [
    "PRELOADED_MODULES",
    "apply",
    "confirm_plan",
    "make_moves_and_exit",
    "make_plan",
    "plan",
    "print_plan",
    "report_moves_and_exit",
    "show_plan",
    "with_overrides",
]

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
    from rescheduler.config.profiles import replace_settings  # noqa: PLC0415

    policy = configuration.policy
    if max_moves is not None:
        policy = replace_settings(policy, max_reschedule_pods=max_moves)
    if strategies:
        policy = replace_settings(policy, enabled_strategies=tuple(dict.fromkeys(strategies)))
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


def make_plan(
    cluster: ClusterSource, configuration: "Configuration", pending_pod: str | None = None
) -> "Plan":
    """Read the cluster and return a plan; exit if that fails.

    With `pending_pod`, the plan only makes room for this pod.
    """
    snapshot, webhook = cluster.read_snapshot(configuration, meanwhile=PRELOADED_MODULES)
    return _plan_of(snapshot, webhook, configuration, pending_pod)


def _plan_of(
    snapshot: "Snapshot",
    webhook: "WebhookProbeResult",
    configuration: "Configuration",
    pending_pod: str | None,
) -> "Plan":
    from rescheduler.planner.plan_builder import build_plan  # noqa: PLC0415
    from rescheduler.strategies.strategy_registry import (  # noqa: PLC0415
        DuplicateStrategy,
        UnknownStrategy,
        strategies_of,
        strategies_of_others,
    )

    try:
        strategies = strategies_of(configuration.policy)
        others: list[list[Strategy]] | None = strategies_of_others(configuration.policy)
    except (DuplicateStrategy, UnknownStrategy) as error:
        exit_with_error(str(error), EXIT_USAGE_ERROR)
    if pending_pod is not None:
        strategies, others = [_room_for(snapshot, existing_key(pending_pod, snapshot.pods.row))], None
    steered, guarded = webhook.steers, bool(webhook.guards)
    return build_plan(
        snapshot, configuration.policy, strategies, steered=steered, guarded=guarded, others=others
    )


def _room_for(snapshot: "Snapshot", key: str) -> "Strategy":
    """Return the strategy that makes room for this pod; exit if it needs none."""
    from rescheduler.strategies.make_room import MakeRoom  # noqa: PLC0415

    exit_if_missing("pod", key, snapshot)
    if node := snapshot.pods.records[snapshot.pods.row[key]].node:
        exit_with_error(f"pod {key} needs no room: it is on {node}", EXIT_ERROR)
    return MakeRoom(only=[key])


_EXIT_MOVES_PROPOSED = 3


@click.command()
@cluster_and_config_options
@click.option(
    "--strategy", "strategies", multiple=True, metavar="NAME", help="Use only this strategy; can be repeated."
)
@click.option("--max-moves", type=click.IntRange(min=1), help="Maximum number of moves.")
@click.option("--for", "pending_pod", metavar="POD", help="Only make room for this pending pod.")
@click.option(
    "-n", "--namespace", metavar="NAME", help="Namespace of that pod; defaults to the one of the context."
)
@plan_output_option
@click.option("--save", metavar="FILE", help="Also save the plan to FILE as JSON, for `rescheduler apply`.")
@click.option(
    "--html", metavar="FILE", help="Also write the plan to FILE as a web page that needs no server."
)
@click.option("--diff", metavar="FILE", help="Show the differences from the plan that was saved to FILE.")
@click.option("--anonymize", is_flag=True, help="Replace all names, for a page that you give to others.")
def plan(  # noqa: PLR0913 - one per option
    *,
    cluster: ClusterSource,
    strategies: tuple[str, ...],
    max_moves: int | None,
    pending_pod: str | None,
    namespace: str | None,
    output: str,
    save: str | None,
    html: str | None,
    diff: str | None,
    anonymize: bool,
) -> None:
    """The command reads the cluster of the current kubectl context, or a saved one with --from.

    Exit codes: 0 if there is nothing to do, 3 if there are moves or node changes, 1 if the cluster or the
    file can't be read, 2 for invalid options or an invalid configuration.
    """
    old = None if diff is None else _read_plan(diff)
    if anonymize and (html is None or save is not None):
        raise click.UsageError("--anonymize needs --html, and can't be combined with --save")
    if pending_pod is not None and (strategies or html is not None):
        raise click.UsageError("--for can't be combined with --strategy or --html")

    def configure(configuration: "Configuration") -> "Configuration":
        return with_overrides(configuration, strategies, max_moves)

    if html is None:
        key = _pending_key(pending_pod, namespace, cluster)
        configuration, snapshot, webhook = cluster.read_configured(configure, meanwhile=PRELOADED_MODULES)
        made = _plan_of(snapshot, webhook, configuration, key)
    else:
        configuration = configure(cluster.effective_configuration())
        made = _plan_page(cluster.anonymized(configuration) if anonymize else cluster, configuration, html)
    if save is not None:
        _save_plan(made, save)
    if old is None:
        print_plan(made, output)
        is_live = cluster.saved is None and (pending_pod is None or save is not None)
        if made.moves and is_live and output == "table" and sys.stdout.isatty():
            hint, command = (
                "Nothing was moved. To move pods, run:",
                f"rescheduler apply {save or ''}".rstrip(),
            )
            is_narrow = terminal_of(sys.stdout).is_narrower_than(len(f"{hint} {command}"))
            echo(f"\n{hint}" + ("\n  " if is_narrow else " ") + command)
    else:
        _print_diff(old, made, output)
    sys.stdout.flush()
    sys.exit(_EXIT_MOVES_PROPOSED if made.moves or made.changes else 0)


def _pending_key(pod: str | None, namespace: str | None, cluster: ClusterSource) -> str | None:
    if pod is None and namespace is not None:
        raise click.UsageError("-n is for the pod of --for")
    return None if pod is None else object_key(pod, namespace, cluster)


def _save_plan(made: "Plan", file: str) -> None:
    _write(file, _plan_json(made))


def _plan_page(cluster: ClusterSource, configuration: "Configuration", file: str) -> "Plan":
    """Write the plan to `file` as a web page, and return it."""
    from rescheduler.web.page_model import SavedPage  # noqa: PLC0415
    from rescheduler.web.static_page import plan_html  # noqa: PLC0415

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
    """Print the plan in the output format."""
    if output == "json":
        echo(_plan_json(made), nl=False)
    elif output not in {"table", "wide"}:
        print_document(_plan_document(made), output)
    else:
        from rescheduler.cli.plan_view import plan_lines  # noqa: PLC0415

        terminal = terminal_of(sys.stdout)
        if output == "wide":
            terminal = replace(terminal, width=None)
        echo_lines(plan_lines(made, terminal), color=terminal.colour)


def _print_diff(old: "Plan", new: "Plan", output: str) -> None:
    from rescheduler.cli.history_view import plan_diff_document, plan_diff_lines  # noqa: PLC0415

    if output not in {"table", "wide"}:
        print_document(plan_diff_document(old, new), output)
        return
    terminal = terminal_of(sys.stdout)
    echo_lines(plan_diff_lines(old, new, terminal), color=terminal.colour)


@click.command()
@click.argument("file", metavar="[PLAN]", required=False)
@effective_config_options
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
    configuration = with_overrides(cluster.effective_configuration(), strategies, max_moves)
    if cluster.config is not None and configuration.policy.dry_run:  # the installed dryRun is for the daemon
        exit_with_error("nothing was moved: the configuration sets dryRun", EXIT_USAGE_ERROR)
    saved = None if file is None else _read_plan(file)
    if saved is not None:
        _print_age(saved)
    execution = Execution(cluster, configuration, install)
    execution.prepare()
    plan = saved or make_plan(cluster, configuration)
    show_plan(plan, output)
    if not plan.moves and not plan.changes:
        report_moves_and_exit(None, output, interrupted=False)
    if not yes:
        confirm_plan(output)
    make_moves_and_exit(execution, plan, output)


def _print_age(saved: "Plan") -> None:
    """Print the age of the plan, because the cluster may have changed since."""
    from kubevalues.duration import short_duration  # noqa: PLC0415

    age = timedelta(seconds=max(0, round(datetime.now(UTC).timestamp() - saved.taken_at_s)))
    age -= age % timedelta(minutes=1) if age > timedelta(minutes=1) else timedelta()
    print_note(f"the plan was made {short_duration(age)} ago: moves are checked again against the cluster")


def _read_plan(file: str) -> "Plan":
    from rescheduler.planner.plan_json import UnreadablePlan, plan_from_json  # noqa: PLC0415

    raw, source = read_input_file(file)
    try:
        return plan_from_json(raw, source=source)
    except UnreadablePlan as error:
        exit_with_error(str(error), EXIT_ERROR)


def show_plan(plan: "Plan", output: str) -> None:
    if output == "table":
        print_plan(plan, "table")
        echo()


def confirm_plan(output: str) -> None:
    """Ask for confirmation; exit if the answer is no or there is no terminal to ask on."""
    if not sys.stdin.isatty() and output != "table":
        raise click.UsageError("-o json and -o yaml need --yes when there is no terminal")
    if not confirmed("Make these moves?", err=output != "table"):
        exit_with_error("nothing was moved", EXIT_ERROR)


def make_moves_and_exit(execution: Execution, plan: "Plan", output: str) -> None:
    """Make the moves of the plan and show the progress; then print the results and exit."""
    from rescheduler.cli.progress_display import progress_display_for  # noqa: PLC0415

    progress = progress_display_for(output, execution.configuration.policy.settle_time)

    async def execute(rescheduler: "Rescheduler") -> "PlanExecution":
        return await execute_plan(rescheduler, plan, progress)

    run = execution.run(execute)
    report_moves_and_exit(run, output, interrupted=progress.is_interrupted)


def report_moves_and_exit(run: "PlanExecution | None", output: str, *, interrupted: bool) -> None:
    """Print the results of the moves and exit; None means that there was nothing to move."""
    moves = run.moves if run is not None else []
    if output != "table":
        from rescheduler.cli.move_status import move_results  # noqa: PLC0415

        print_document({"moves": move_results(moves)}, output)
    elif run is not None:
        from rescheduler.cli.move_status import failure_lines, moves_summary  # noqa: PLC0415

        echo("\n".join([moves_summary(moves), *failure_lines(moves)]))
    if any(progress.is_under_way for progress in moves):
        print_words(CONTINUE_HINT)
    sys.stdout.flush()
    if interrupted:
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(0 if all(progress.is_completed for progress in moves) else EXIT_ERROR)
