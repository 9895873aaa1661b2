"""`rescheduler migrations`: list, show, watch and cancel migrations."""

import asyncio
import contextlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from rescheduler.cli.cluster_source import (
    EXIT_ERROR,
    ClusterSource,
    exit_with_error,
    live_cluster_options,
    namespace_option,
    object_key,
)
from rescheduler.cli.execution import Execution, stop_event_on_signals, verbose_option
from rescheduler.cli.terminal import echo, echo_lines, output_option, print_document

if TYPE_CHECKING:
    from rescheduler.daemon.components import Rescheduler
    from rescheduler.kube.api_resources import Object
    from rescheduler.kube.client import Client

__all__ = ["migrations"]


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@namespace_option
@click.option("-w", "--watch", is_flag=True, help="Print every change until Ctrl-C.")
@click.option(
    "--cancel",
    is_flag=True,
    help="Cancel the migration NAME: roll it back, or finish it if its pod is already evicted.",
)
@live_cluster_options
@verbose_option
@output_option
def migrations(
    name: str | None, namespace: str | None, watch: bool, cancel: bool, cluster: ClusterSource, output: str
) -> None:
    """Without NAME, the command lists all migrations, or those in the namespace given with -n."""
    if cancel and name is None:
        raise click.UsageError("--cancel needs the NAME of a migration")
    if watch and (cancel or output != "table"):
        raise click.UsageError("--watch can't be combined with --cancel, -o json or -o yaml")
    execution = Execution(cluster, cluster.configuration())
    execution.prepare()
    if cancel:
        assert name is not None
        _cancel(execution, object_key(name, namespace, cluster))
        return
    key = object_key(name, namespace, cluster) if name is not None else ""
    found = execution.ask(lambda client: _read_migrations(client, namespace or "", key))
    if key and not found:
        exit_with_error(_not_found_message(key), EXIT_ERROR)
    if key:
        _print_details(found[0], execution.ask(lambda client: _events(client, found[0])), output)
    else:
        _print_list(found, output)
    if watch:
        is_selected = _filter(namespace or "", key)
        execution.run(lambda rescheduler: _watch(rescheduler, found, is_selected))


# -- reading


async def _read_migrations(client: "Client", namespace: str, key: str) -> "list[Object]":
    from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS  # noqa: PLC0415
    from rescheduler.kube import errors  # noqa: PLC0415

    if key:
        try:
            return [await client.get(POD_MIGRATIONS, key)]
        except errors.NotFound:
            return []
    items = (await client.list(POD_MIGRATIONS, namespace=namespace)).items
    return sorted(items, key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]))


def _not_found_message(key: str) -> str:
    namespace = key.partition("/")[0]
    return f"migration {key} not found. To list them, run: rescheduler migrations -n {namespace}"


def _filter(namespace: str, key: str) -> Callable[[Any], bool]:
    """Return a function that selects the migrations of the namespace, or the one with the key."""

    def is_selected(item: "Object") -> bool:
        at, name = item["metadata"]["namespace"], item["metadata"]["name"]
        return f"{at}/{name}" == key if key else namespace in {"", at}

    return is_selected


async def _events(client: "Client", item: "Object") -> "list[Object]":
    """Return the Events about its pods that rescheduler wrote for it, oldest first."""
    from rescheduler.kube import errors  # noqa: PLC0415
    from rescheduler.kube.api_resources import EVENTS  # noqa: PLC0415

    name, namespace = item["metadata"]["name"], item["metadata"]["namespace"]
    try:
        found = (await client.list(EVENTS, namespace=namespace)).items
    except errors.Forbidden:
        return []
    ours = [
        each
        for each in found
        if each.get("involvedObject", {}).get("kind") == "Pod"
        and (each.get("source") or {}).get("component") == "rescheduler"
        and each.get("message", "").startswith(f"{name} ")
    ]
    return sorted(ours, key=lambda each: each.get("firstTimestamp") or "")


# -- showing


def _print_list(items: "list[Object]", output: str) -> None:
    if output != "table":
        print_document({"apiVersion": "v1", "kind": "List", "items": items}, output)
        return
    from rescheduler.cli.migrations_view import migration_list_lines  # noqa: PLC0415

    _print(lambda terminal, now: migration_list_lines(items, terminal, now))


def _print_details(item: "Object", events: "list[Object]", output: str) -> None:
    if output != "table":
        print_document({**item, "events": events}, output)
        return
    from rescheduler.cli.migrations_view import migration_detail_lines  # noqa: PLC0415

    _print(lambda terminal, _now: migration_detail_lines(item, events, terminal))


def _print(lines: Callable[[Any, Any], Any]) -> None:
    from datetime import UTC, datetime  # noqa: PLC0415

    from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415

    terminal = terminal_of(sys.stdout)
    echo_lines(lines(terminal, datetime.now(UTC)), color=terminal.colour)


async def _watch(
    rescheduler: "Rescheduler", shown: "list[Object]", is_selected: Callable[[Any], bool]
) -> None:
    """Print what has changed since `shown`, and every change from now on."""
    from rescheduler.cli.migrations_view import migration_change_line  # noqa: PLC0415
    from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415
    from rescheduler.cluster.sources.watched_objects import object_key  # noqa: PLC0415

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
    end = rescheduler.watched.migrations.informer.subscribe(on_change)
    for gone in tuple(before.values()):
        on_change(gone, None)
    await ended.wait()
    end()


# -- cancelling


def _cancel(execution: Execution, key: str) -> None:
    async def cancelled(rescheduler: "Rescheduler") -> str:
        from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS  # noqa: PLC0415
        from rescheduler.migrations.controller.observation_builder import migration_at  # noqa: PLC0415

        before = migration_at(key, rescheduler.watched)
        if before is None:
            return _not_found_message(key)
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
                await rescheduler.client.delete(POD_MIGRATIONS, key, uid=before.uid)
                await gone.wait()
        echo(f"{key}: {last[0].status.message or 'cancelled'}")
        return ""

    execution.prepare()
    if fault := execution.run(cancelled):
        exit_with_error(fault, EXIT_ERROR)
