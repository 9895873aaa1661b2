"""`rescheduler migrations`: list, show, watch, cancel and resume migrations."""

import asyncio
import contextlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from rescheduler.cli.cluster_source import EXIT_ERROR, ClusterSource, exit_with_error, print_note
from rescheduler.cli.command_options import (
    label_selector,
    live_cluster_options,
    near_names,
    object_key,
)
from rescheduler.cli.commands.plan_commands import report_moves_and_exit
from rescheduler.cli.commands.status_command import installed_settle_time, read_copies
from rescheduler.cli.execution import Execution, execute_plan, stop_event_on_signals, verbose_option
from rescheduler.cli.output_formats import list_output_option, print_document
from rescheduler.cli.terminal import counted, echo, echo_lines

if TYPE_CHECKING:
    from rescheduler.cli.migrations_view import LiveSteps
    from rescheduler.daemon.components import Rescheduler
    from rescheduler.kube.api_resources import Object
    from rescheduler.kube.client import Client
    from rescheduler.migrations.controller.plan_execution import PlanExecution

_RESOURCE: Final = "podmigration.rescheduler.dev"

__all__ = ["migrations"]


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="Only this namespace; for one NAME, the context's is the default.",
)
@click.option(
    "-A", "--all-namespaces", is_flag=True, help="List the migrations of all namespaces; this is the default."
)
@click.option(
    "-l", "--selector", "labels", metavar="SELECTOR", default="", help="List those with these labels."
)
@click.option(
    "--field-selector",
    metavar="SELECTOR",
    default="",
    help="List those with these fields, such as status.phase=Failed,spec.sourceNode=node-1.",
)
@click.option("-w", "--watch", is_flag=True, help="Print every change until Ctrl-C.")
@click.option(
    "--cancel",
    is_flag=True,
    help="Cancel the migration NAME: roll it back, or finish it if its pod is already evicted.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Finish the migrations that an interrupted command left, or only NAME; needed if no daemon runs.",
)
@live_cluster_options
@verbose_option
@list_output_option
def migrations(  # noqa: PLR0913 - one per option
    *,
    name: str | None,
    namespace: str | None,
    all_namespaces: bool,
    watch: bool,
    cancel: bool,
    resume: bool,
    labels: str,
    field_selector: str,
    cluster: ClusterSource,
    output: str,
) -> None:
    """Without NAME, the command lists all migrations, or those in the namespace given with -n."""
    if all_namespaces and (namespace is not None or name is not None):
        raise click.UsageError("-A can't be combined with -n or NAME")
    if cancel and name is None:
        raise click.UsageError("--cancel needs the NAME of a migration")
    if (cancel or resume) and output in {"wide", "name"}:
        raise click.UsageError(f"-o {output} is for the list of migrations")
    if watch + cancel + resume > 1:
        raise click.UsageError("--watch, --cancel and --resume can't be combined")
    if watch and output not in {"table", "wide"}:
        raise click.UsageError(f"--watch can't be combined with -o {output.partition('=')[0]}")
    key = object_key(name, namespace, cluster) if name is not None else ""
    if (key or resume) and (labels or field_selector):
        raise click.UsageError("-l and --field-selector are for the list of migrations")
    if resume:
        _resume(cluster, namespace or "", key, output)
    is_in_fields = _parse_fields(field_selector)
    execution = Execution(cluster, cluster.configuration())
    where = key.partition("/")[0] or namespace or ""
    execution.prepare(where)
    if cancel:
        _cancel(execution, key)
        return
    found, is_selected = _selected(execution, namespace or "", key, labels, is_in_fields)
    _show(execution, cluster, found, key, output)
    if watch:
        execution.ask(lambda client: _watch(client, where, found, is_selected))


def _selected(
    execution: Execution,
    namespace: str,
    key: str,
    labels: str,
    is_in_fields: Callable[[Any], bool],
) -> "tuple[list[Object], Callable[[Any], bool]]":
    """Return the migrations that the user selected, and a function that selects later changes of them."""
    selector = label_selector(labels)
    has_key = _filter(namespace, key)

    def is_selected(item: "Object") -> bool:
        has_labels = selector.matches(item["metadata"].get("labels") or {})
        return has_key(item) and has_labels and is_in_fields(item)

    found = execution.ask(lambda client: _read_migrations(client, namespace, key, labels))
    if key and not found:
        exit_with_error(execution.ask(lambda client: _not_found_message(client, key)), EXIT_ERROR)
    return [item for item in found if is_selected(item)], is_selected


def _show(
    execution: Execution, cluster: ClusterSource, migrations: "list[Object]", key: str, output: str
) -> None:
    """Print the list of migrations, or the one that the user named."""
    if not migrations and output in {"table", "wide", "name"}:
        # On standard error, as in kubectl: a script that reads the names gets none.
        echo("No migrations found.", err=True)
        return
    if output == "name":
        echo_lines(f"{_RESOURCE}/{item['metadata']['name']}" for item in migrations)
        return
    from rescheduler.cli.migrations_view import LiveSteps  # noqa: PLC0415

    namespaces = {item["metadata"]["namespace"] for item in migrations}
    where = next(iter(namespaces)) if len(namespaces) == 1 else ""
    copies = execution.ask(lambda client: read_copies(client, where, migrations))
    settle_time = execution.configuration.policy.settle_time
    if copies and cluster.config is None:
        settle_time = execution.ask(lambda client: installed_settle_time(client, settle_time))
    live = LiveSteps(copies, settle_time)
    if not key:
        _print_list(migrations, live, output)
    else:
        _print_details(
            migrations[0], execution.ask(lambda client: _events(client, migrations[0])), live, output
        )


# -- reading


async def _read_migrations(client: "Client", namespace: str, key: str, labels: str) -> "list[Object]":
    from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS  # noqa: PLC0415
    from rescheduler.kube import errors  # noqa: PLC0415

    if key:
        try:
            return [await client.get(POD_MIGRATIONS, key)]
        except errors.NotFound:
            return []
    items = (await client.list(POD_MIGRATIONS, namespace=namespace, labels=labels)).items
    return sorted(items, key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]))


_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "spec.pod.name",
    "spec.sourceNode",
    "spec.targetNode",
    "spec.strategy",
    "spec.handover",
    "status.phase",
    "status.step",
    "status.handover",
    "status.failure",
)
"""The fields to select by. An API server can select custom objects only by name and namespace."""


def _parse_fields(text: str) -> Callable[[Any], bool]:
    from kubevalues.label_selectors import SelectorError  # noqa: PLC0415
    from kubevalues.selector_parsers import parse_field_selector  # noqa: PLC0415

    try:
        selector = parse_field_selector(text)
    except SelectorError as error:
        raise click.BadParameter(str(error), param_hint="--field-selector") from None
    for term in selector.terms:
        if term.field not in _FIELDS:
            allowed = ", ".join(_FIELDS)
            raise click.BadParameter(
                f'unknown field "{term.field}" (allowed: {allowed})', param_hint="--field-selector"
            )
    return lambda item: selector.matches({field: _field_of(item, field) for field in _FIELDS})


def _field_of(item: Any, path: str) -> str:
    for name in path.split("."):
        item = (item or {}).get(name)
    return str(item or "")


async def _not_found_message(client: "Client", key: str) -> str:
    """Return a message with similar names in all namespaces: users often copy a name without one."""
    from rescheduler.kube import errors  # noqa: PLC0415

    try:
        items = await _read_migrations(client, "", "", "")
    except errors.Forbidden:
        items = []
    known = [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in items]
    hint = near_names(key, known) or "."
    return f"migration {key} not found{hint} To list all, run: rescheduler migrations"


def _filter(namespace: str, key: str) -> Callable[[Any], bool]:
    """Return a function that selects the migrations of the namespace, or the one with the key."""

    def is_selected(item: "Object") -> bool:
        at, name = item["metadata"]["namespace"], item["metadata"]["name"]
        return f"{at}/{name}" == key if key else namespace in {"", at}

    return is_selected


async def _events(client: "Client", item: "Object") -> "list[Object]":
    """Return the Events of the migration, oldest first."""
    from rescheduler.kube import errors  # noqa: PLC0415
    from rescheduler.kube.api_resources import EVENTS  # noqa: PLC0415

    metadata = item["metadata"]
    try:
        found = await client.list(
            EVENTS, namespace=metadata["namespace"], fields=f"involvedObject.uid={metadata['uid']}"
        )
    except errors.Forbidden:
        return []
    return sorted(found.items, key=lambda each: each.get("firstTimestamp") or "")


# -- showing


def _print_list(items: "list[Object]", live: "LiveSteps", output: str) -> None:
    if output not in {"table", "wide"}:
        print_document({"apiVersion": "v1", "kind": "List", "items": items}, output)
        return
    from rescheduler.cli.migrations_view import migration_list_lines  # noqa: PLC0415

    is_wide = output == "wide"
    _print(lambda terminal, now: migration_list_lines(items, terminal, now, live, is_wide=is_wide))


def _print_details(item: "Object", events: "list[Object]", live: "LiveSteps", output: str) -> None:
    if output not in {"table", "wide"}:
        print_document({**item, "events": events}, output)
        return
    from rescheduler.cli.migrations_view import migration_detail_lines  # noqa: PLC0415

    _print(lambda terminal, now: migration_detail_lines(item, events, terminal, now, live))


def _print(lines: Callable[[Any, Any], Any]) -> None:
    from datetime import UTC, datetime  # noqa: PLC0415

    from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415

    terminal = terminal_of(sys.stdout)
    echo_lines(lines(terminal, datetime.now(UTC)), color=terminal.colour)


async def _watch(
    client: "Client", namespace: str, shown: "list[Object]", is_selected: Callable[[Any], bool]
) -> None:
    """Print what has changed since `shown`, and every change from now on."""
    from rescheduler.cli.migrations_view import migration_change_line  # noqa: PLC0415
    from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415
    from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, object_key  # noqa: PLC0415
    from rescheduler.kube.informer import Informer, ListOptions  # noqa: PLC0415

    terminal = terminal_of(sys.stdout)
    before = {object_key(item): item for item in shown}

    def on_change(old: "Object | None", new: "Object | None") -> None:
        item = old if new is None else new
        if item is None or not is_selected(item):
            return
        old = before.pop(object_key(item), None) if old is None else old
        if line := migration_change_line(old, new, terminal):
            echo(line, color=terminal.colour)

    ended = stop_event_on_signals()
    echo("Watching. Press Ctrl-C to stop.", err=True)
    informer = Informer(client, POD_MIGRATIONS, ListOptions(namespace=namespace))
    async with informer.running():
        await informer.synced()
        informer.subscribe(on_change)
        for gone in tuple(before.values()):
            on_change(gone, None)
        await ended.wait()


# -- cancelling


def _cancel(execution: Execution, key: str) -> None:
    async def cancelled(rescheduler: "Rescheduler") -> str:
        from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS  # noqa: PLC0415
        from rescheduler.migrations.controller.observation_builder import migration_at  # noqa: PLC0415

        before = migration_at(key, rescheduler.watched)
        if before is None:
            return await _not_found_message(rescheduler.client, key)
        if before.is_finished:
            return f"{key} can't be cancelled: it is already {before.status.phase}"
        gone = asyncio.Event()
        last = [before]

        def remember(_old: "Object | None", _new: "Object | None") -> None:
            found = migration_at(key, rescheduler.watched)
            if found is None or found.uid != before.uid:
                gone.set()
            else:
                last[0] = found

        with contextlib.ExitStack() as stack:
            stack.callback(rescheduler.watched.migrations.informer.subscribe(remember))
            async with rescheduler.executing():
                found = map(rescheduler.watched.records.migration, rescheduler.watched.migrations.informer)
                others = sum(each is not None and not each.is_finished for each in found) - 1
                if others and not rescheduler.lease.is_held_by_another:
                    print_note(f"this command also continues {counted(others, 'other migration')}")
                await rescheduler.client.delete(POD_MIGRATIONS, key, uid=before.uid)
                await gone.wait()
        echo(f"{key}: {last[0].status.message or 'cancelled'}")
        return ""

    if fault := execution.run(cancelled):
        exit_with_error(fault, EXIT_ERROR)


# -- resuming


def _resume(cluster: ClusterSource, namespace: str, key: str, output: str) -> None:
    """Execute unfinished migrations until all are finished, and exit."""
    from rescheduler.cli.progress_display import progress_display_for  # noqa: PLC0415

    configuration = cluster.effective_configuration()
    progress = progress_display_for(output, configuration.policy.settle_time)
    is_selected = _filter(namespace, key)

    async def resumed(rescheduler: "Rescheduler") -> "PlanExecution | None":
        from rescheduler.planner.plan import Move, Plan  # noqa: PLC0415

        records = rescheduler.watched.records
        items = [item for item in rescheduler.watched.migrations.informer if is_selected(item)]
        found = [each for item in items if (each := records.migration(item)) and not each.is_finished]
        moves = tuple(
            Move(
                pod=each.pod_key,
                uid=each.spec.pod.uid,
                source=each.spec.source_node,
                target=each.target_node or None,
                strategy=each.spec.strategy,
                handover=each.status.handover or each.spec.handover,
                reason=each.spec.reason,
                gain=0.0,
            )
            for each in found
        )
        if not moves:
            return None
        plan = Plan(taken_at_s=rescheduler.now().timestamp(), moves=moves)
        return await execute_plan(rescheduler, plan, progress, [each.key for each in found])

    execution = Execution(cluster, configuration)
    execution.prepare()
    run = execution.run(resumed)
    if run is None and output == "table":
        echo(f"Migration {key} is not running." if key else "No migrations to resume.")
    report_moves_and_exit(run, output, interrupted=progress.is_interrupted)
