"""`rescheduler status`: how things are, from what the cluster itself holds."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from rescheduler.cli.looking import DATA_ERROR, Looking, give_up, live_options
from rescheduler.cli.pause import chosen_home, namespace_option
from rescheduler.cli.printing import output_option, print_document
from rescheduler.cli.safe_output import echo_lines

if TYPE_CHECKING:
    from rescheduler.cli.status_view import Found
    from rescheduler.kube.client import Client

__all__ = ["status"]


@click.command()
@live_options
@namespace_option
@output_option
def status(looking: Looking, namespace: str | None, output: str) -> None:
    """Shows who leads, the last check, halts, balance, moves, and what is wrong.

    What is wrong: failing pods, suspect nodes, nodes that can't be emptied. Asks the cluster alone, so it
    works from any machine; what only the daemon knows is what it wrote down at its last check.
    """
    configuration = looking.configuration()

    async def look(client: "Client") -> "Found":
        return await _found(client, namespace, configuration)

    from rescheduler.model.status import UnreadableState  # noqa: PLC0415

    try:
        found = looking.with_client(configuration, look)
    except UnreadableState as error:
        give_up(f"ConfigMap rescheduler-state: {error}", DATA_ERROR)
    now = datetime.now(UTC)
    if output == "table":
        from rescheduler.cli.status_view import lines  # noqa: PLC0415
        from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415

        terminal = terminal_of(sys.stdout)
        echo_lines(lines(found, terminal, now), color=terminal.colour)
    else:
        from rescheduler.cli.status_view import form_of  # noqa: PLC0415

        print_document(form_of(found, now), output)


async def _found(client: "Client", namespace: str | None, configuration: Any) -> "Found":
    from rescheduler.cli.status_view import Found  # noqa: PLC0415
    from rescheduler.controller.followed import POD_MIGRATIONS  # noqa: PLC0415
    from rescheduler.controller.leadership import record_of  # noqa: PLC0415
    from rescheduler.controller.state import read_state  # noqa: PLC0415
    from rescheduler.kube import errors  # noqa: PLC0415
    from rescheduler.kube.resources import LEASES, NODES  # noqa: PLC0415
    from rescheduler.model.node_marks import in_maintenance  # noqa: PLC0415

    home = await chosen_home(client, configuration, namespace)
    pause, written = await read_state(client, home)
    try:
        lease = await client.get(LEASES, f"{home}/{configuration.leader_election.resource_name}")
    except errors.NotFound:
        lease = {}
    try:
        migrations = (await client.list(POD_MIGRATIONS)).items
    except errors.NotFound:
        migrations = None
    nodes = (await client.list(NODES)).items
    return Found(
        home,
        pause,
        written,
        record_of(lease.get("spec") or {}),
        migrations,
        tuple(sorted(node.name for node in nodes if in_maintenance(node))),
        len(nodes),
        sum(not node.is_ready for node in nodes),
    )
