"""`rescheduler run`: the daemon.

`rescheduler pause` and `resume`: the switch in the ConfigMap `rescheduler-state`.

`rescheduler status`: how things are, from what the cluster itself holds.
"""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescheduler.cli.cluster_source import EXIT_ERROR, ClusterSource, exit_with_error, live_cluster_options
from rescheduler.cli.execution import Execution
from rescheduler.cli.log_setup import log_options, set_up_log

if TYPE_CHECKING:
    from rescheduler.config.policy import Configuration, Policy
    from rescheduler.kube.client import Client, RequestObserver
import getpass
import socket
from datetime import UTC, datetime

from rescheduler.cli.cluster_source import print_note
from rescheduler.cli.safe_output import echo

if TYPE_CHECKING:
    from rescheduler.api.daemon_status import Pause
    from rescheduler.config.policy import Configuration
    from rescheduler.kube.client import Client
import sys
from typing import TYPE_CHECKING, Any

from rescheduler.cli.safe_output import echo_lines, output_option, print_document

if TYPE_CHECKING:
    from rescheduler.cli.status_view import ObservedStatus
    from rescheduler.kube.client import Client
__all__ = ["installation_namespace", "installation_namespace_option", "pause", "resume", "run", "status"]


@click.command()
@live_cluster_options
@click.option(
    "--namespace",
    "-n",
    metavar="NAME",
    help="Of our Lease and state; by default our own, or where we are installed.",
)
@click.option("--dry-run", is_flag=True, help="Plan and tell, but write nothing at all.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="For metrics.")
@click.option("--host", metavar="ADDRESS", help="Address of that port; all of them if not given.")
@log_options
def run(
    cluster: ClusterSource,
    namespace: str | None,
    dry_run: bool,
    port: int,
    host: str | None,
    log_level: str,
    log_format: str,
) -> None:
    """Watches the cluster and moves pods, until SIGTERM or Ctrl-C.

    Of several that run at once, one acts and the others stand by. The configuration file is followed: a
    change of it that is valid is used at the next check. At the end nothing new is begun, and what is being
    done is left so that the next one goes on with it. See docs/operating.md.
    """
    set_up_log(log_level, log_format)
    configuration = cluster.configuration()

    def overridden(policy: "Policy") -> "Policy":
        return replace(policy, dry_run=True) if dry_run else policy

    configuration = replace(configuration, policy=overridden(configuration.policy))

    async def serve(client: "Client") -> None:
        from rescheduler.cli.execution import stop_event_on_signals  # noqa: PLC0415
        from rescheduler.daemon.daemon_process import Daemon, DaemonOptions  # noqa: PLC0415
        from rescheduler.daemon.metrics import Metrics  # noqa: PLC0415
        from rescheduler.daemon.own_objects import lease_key, own_namespace  # noqa: PLC0415
        from rescheduler.http.http_server import (  # noqa: PLC0415
            health_application,
            serve_http,
        )

        meters = Metrics(lags=lambda: daemon.lags, depth=lambda: daemon.queue_depth)
        at = await lease_key(client, configuration, namespace or own_namespace(client))
        options = DaemonOptions(
            lease_at=at,
            file=Path(cluster.config) if cluster.config is not None else None,
            overridden=overridden,
            listeners=[meters],
        )
        ended = stop_event_on_signals()
        daemon = Daemon(
            lambda observer: _rate_limited_client(client, configuration, observer), configuration, options
        )
        app = health_application(lambda: daemon.not_ready, meters.text)
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(serve_http(app, host, port))
            except OSError as error:
                exit_with_error(f"metrics can't be served on port {port}: {error.strerror}", EXIT_ERROR)
            await daemon.run_until(ended)

    Execution(cluster, configuration).ask(serve)


def _rate_limited_client(
    client: "Client", configuration: "Configuration", observer: "RequestObserver"
) -> "Client":
    """Over the same connections, at the pace that is configured."""
    from rescheduler.kube.client import Client  # noqa: PLC0415
    from rescheduler.kube.flow_control import RateLimiter  # noqa: PLC0415

    pace = configuration.client_connection
    limit = RateLimiter(pace.qps, pace.burst) if pace.is_limited else RateLimiter()
    return Client(client.transport, rate_limit=limit, observer=observer)


installation_namespace_option = click.option(
    "--namespace", "-n", metavar="NAME", help="Where the daemon runs; by default where it is installed."
)


@click.command()
@live_cluster_options
@installation_namespace_option
@click.option("--why", metavar="WORDS", default="", help="For whoever wonders.")
def pause(cluster: ClusterSource, namespace: str | None, why: str) -> None:
    """Lets the daemon begin no more moves, until `rescheduler resume`.

    Moves that are under way come to their end. It holds for all replicas and survives restarts. Moves that
    people ask for (`rescheduler move`) are made all the same.
    """
    from rescheduler.api.daemon_status import Pause  # noqa: PLC0415

    at = _set_pause(cluster, namespace, Pause(paused=True, by=_current_user(), at=datetime.now(UTC), why=why))
    echo(f"Paused ({at}): no more moves are begun; those under way come to their end.")


@click.command()
@live_cluster_options
@installation_namespace_option
def resume(cluster: ClusterSource, namespace: str | None) -> None:
    """Ends a pause, and forgives failures of the past.

    The daemon no longer halts because of them.
    """
    from rescheduler.api.daemon_status import Pause  # noqa: PLC0415

    at = _set_pause(cluster, namespace, Pause(by=_current_user(), at=datetime.now(UTC)))
    echo(f"Resumed ({at}): the next check may move pods.")


async def installation_namespace(
    client: "Client", configuration: "Configuration", namespace: str | None
) -> str:
    """Return the namespace of our Lease and state: the one that is named, or where we are installed."""
    from rescheduler.daemon.own_objects import UNINSTALLED_NAMESPACE, state_namespace  # noqa: PLC0415

    if namespace:
        return namespace
    home = await state_namespace(client, configuration)
    if home == UNINSTALLED_NAMESPACE:
        print_note(
            f"rescheduler is not installed in this cluster, so namespace {home} is used, as by a daemon that "
            "runs outside of it; -n names another"
        )
    return home


def _set_pause(cluster: ClusterSource, namespace: str | None, wanted: "Pause") -> str:
    """Says where."""
    configuration = cluster.configuration()

    async def switch(client: "Client") -> str:
        from rescheduler.daemon.own_objects import STATE_CONFIG_MAP, write_pause  # noqa: PLC0415

        home = await installation_namespace(client, configuration, namespace)
        await write_pause(client, home, wanted)
        return f"ConfigMap {home}/{STATE_CONFIG_MAP}"

    found: str = cluster.with_client(configuration, switch)
    return found


def _current_user() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # no such user, as in many containers
        return socket.gethostname()


@click.command()
@live_cluster_options
@installation_namespace_option
@output_option
def status(cluster: ClusterSource, namespace: str | None, output: str) -> None:
    """Shows who leads, the last check, halts, balance, moves, and what is wrong.

    What is wrong: failing pods, suspect nodes, nodes that can't be emptied. Asks the cluster alone, so it
    works from any machine; what only the daemon knows is what it wrote down at its last check.
    """
    configuration = cluster.configuration()

    async def look(client: "Client") -> "ObservedStatus":
        return await _observe_status(client, namespace, configuration)

    from rescheduler.api.daemon_status import UnreadableState  # noqa: PLC0415

    try:
        found = cluster.with_client(configuration, look)
    except UnreadableState as error:
        exit_with_error(f"ConfigMap rescheduler-state: {error}", EXIT_ERROR)
    now = datetime.now(UTC)
    if output == "table":
        from rescheduler.cli.status_view import status_lines  # noqa: PLC0415
        from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415

        terminal = terminal_of(sys.stdout)
        echo_lines(status_lines(found, terminal, now), color=terminal.colour)
    else:
        from rescheduler.cli.status_view import status_document  # noqa: PLC0415

        print_document(status_document(found, now), output)


async def _observe_status(client: "Client", namespace: str | None, configuration: Any) -> "ObservedStatus":
    from rescheduler.cli.status_view import ObservedStatus  # noqa: PLC0415
    from rescheduler.cluster.codecs.record_resources import NODES  # noqa: PLC0415
    from rescheduler.cluster.node_record import in_maintenance  # noqa: PLC0415
    from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS  # noqa: PLC0415
    from rescheduler.daemon.own_objects import read_state  # noqa: PLC0415
    from rescheduler.kube import errors  # noqa: PLC0415
    from rescheduler.kube.api_resources import LEASES  # noqa: PLC0415
    from rescheduler.kube.lease_records import lease_record_of  # noqa: PLC0415

    home = await installation_namespace(client, configuration, namespace)
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
    return ObservedStatus(
        home,
        pause,
        written,
        lease_record_of(lease.get("spec") or {}),
        migrations,
        tuple(sorted(node.name for node in nodes if in_maintenance(node))),
        len(nodes),
        sum(not node.is_ready for node in nodes),
    )
