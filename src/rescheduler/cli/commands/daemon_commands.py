"""`rescheduler run`, which runs in the cluster, and `pause`, `resume` and `status`."""

import contextlib
import getpass
import socket
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rescheduler.cli.cluster_source import (
    EXIT_ERROR,
    ClusterSource,
    exit_with_error,
    live_cluster_options,
    print_note,
)
from rescheduler.cli.commands.web_command import DaemonPage, daemon_page_options
from rescheduler.cli.execution import Execution, stop_event_on_signals
from rescheduler.cli.log_setup import log_options, set_up_log
from rescheduler.cli.terminal import echo, echo_lines, output_option, print_document

if TYPE_CHECKING:
    from rescheduler.api.daemon_status import Pause
    from rescheduler.cli.status_view import ObservedStatus
    from rescheduler.config.policy import Configuration, Policy
    from rescheduler.kube.client import Client, RequestObserver

__all__ = [
    "installation_namespace",
    "installation_namespace_option",
    "pause",
    "resume",
    "run",
    "status",
]


@click.command()
@live_cluster_options
@click.option(
    "--namespace",
    "-n",
    metavar="NAME",
    help="Namespace of the Lease and the state; defaults to the pod's, or to the installation's.",
)
@click.option("--dry-run", is_flag=True, help="Make plans and log them, but write nothing to the cluster.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port for metrics and health checks.",
)
@click.option("--host", metavar="ADDRESS", help="Address to listen on; defaults to all.")
@daemon_page_options
@log_options
def run(  # noqa: PLR0913 - one per option
    *,
    cluster: ClusterSource,
    namespace: str | None,
    dry_run: bool,
    port: int,
    host: str | None,
    page: DaemonPage | None,
    log_level: str,
    log_format: str,
) -> None:
    """The daemon runs until SIGTERM or Ctrl-C. If several run, one is the leader and the others stand by.

    A valid change of the configuration file takes effect at the next check. On exit, the daemon starts no
    more moves and leaves the running ones to the next leader. See docs/operating.md.
    """
    set_up_log(log_level, log_format)
    configuration = cluster.configuration()

    def overridden(policy: "Policy") -> "Policy":
        return replace(policy, dry_run=True) if dry_run else policy

    configuration = replace(configuration, policy=overridden(configuration.policy))

    async def serve(client: "Client") -> None:
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
                exit_with_error(f"can't serve metrics on port {port}: {error.strerror}", EXIT_ERROR)
            if page is not None:
                await stack.enter_async_context(page.serving(daemon, client))
            await daemon.run_until(ended)

    Execution(cluster, configuration).ask(serve)


def _rate_limited_client(
    client: "Client", configuration: "Configuration", observer: "RequestObserver"
) -> "Client":
    """Return a client with the configured rate limit that uses the same connections."""
    from rescheduler.kube.client import Client  # noqa: PLC0415
    from rescheduler.kube.request_sender import RateLimiter  # noqa: PLC0415

    connection = configuration.client_connection
    limit = RateLimiter(connection.qps, connection.burst) if connection.is_limited else RateLimiter()
    return Client(client.transport, rate_limit=limit, observer=observer)


installation_namespace_option = click.option(
    "--namespace", "-n", metavar="NAME", help="Namespace of the daemon; defaults to the installation's."
)


@click.command()
@live_cluster_options
@installation_namespace_option
@click.option("--why", metavar="TEXT", default="", help="Reason, shown by `rescheduler status`.")
def pause(cluster: ClusterSource, namespace: str | None, why: str) -> None:
    """The pause ends when you run `rescheduler resume`. Running moves are finished.

    It applies to all replicas and survives restarts. Moves that you request with `rescheduler move` are still
    made.
    """
    from rescheduler.api.daemon_status import Pause  # noqa: PLC0415

    at = _set_pause(cluster, namespace, Pause(paused=True, by=_current_user(), at=datetime.now(UTC), why=why))
    echo(f"Paused ({at}): the daemon starts no more moves and finishes the running ones.")


@click.command()
@live_cluster_options
@installation_namespace_option
def resume(cluster: ClusterSource, namespace: str | None) -> None:
    """The next check can move pods again."""
    from rescheduler.api.daemon_status import Pause  # noqa: PLC0415

    at = _set_pause(cluster, namespace, Pause(by=_current_user(), at=datetime.now(UTC)))
    echo(f"Resumed ({at}): the next check can move pods.")


async def installation_namespace(
    client: "Client", configuration: "Configuration", namespace: str | None
) -> str:
    """Return the namespace of the Lease and the state: the given one, or the installation's."""
    from rescheduler.daemon.own_objects import UNINSTALLED_NAMESPACE, state_namespace  # noqa: PLC0415

    if namespace:
        return namespace
    home = await state_namespace(client, configuration)
    if home == UNINSTALLED_NAMESPACE:
        print_note(
            f"rescheduler is not installed in this cluster; using namespace {home}, as a daemon outside the "
            "cluster does. To use another one, specify -n"
        )
    return home


def _set_pause(cluster: ClusterSource, namespace: str | None, wanted: "Pause") -> str:
    """Write the pause and return the name of the ConfigMap that holds it."""
    configuration = cluster.configuration()

    async def switch(client: "Client") -> str:
        from rescheduler.daemon.own_objects import STATE_CONFIG_MAP, write_pause  # noqa: PLC0415

        home = await installation_namespace(client, configuration, namespace)
        await write_pause(client, home, wanted)
        return f"ConfigMap {home}/{STATE_CONFIG_MAP}"

    written: str = cluster.with_client(configuration, switch)
    return written


def _current_user() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # many containers have no entry for the user
        return socket.gethostname()


@click.command()
@live_cluster_options
@installation_namespace_option
@output_option
def status(cluster: ClusterSource, namespace: str | None, output: str) -> None:
    """Problems are failing pods, suspect nodes and nodes that can't be drained.

    The command reads only the cluster, so it works from any machine. The rest is what the daemon wrote at
    its last check.
    """
    configuration = cluster.configuration()

    async def observe(client: "Client") -> "ObservedStatus":
        return await _observe_status(client, namespace, configuration)

    from rescheduler.api.daemon_status import UnreadableState  # noqa: PLC0415

    try:
        found = cluster.with_client(configuration, observe)
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
    from rescheduler.kube.leader_election import lease_record_of  # noqa: PLC0415

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
