"""`rescheduler run`, which runs in the cluster, and `pause`, `resume` and `version`."""

import contextlib
import functools
import logging
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescheduler.cli.cluster_source import EXIT_ERROR, ClusterSource, exit_with_error, print_note, print_words
from rescheduler.cli.command_options import live_cluster_options
from rescheduler.cli.commands.web_command import DaemonPage, daemon_page_options
from rescheduler.cli.execution import Execution, requesting_user, short_collections, stop_event_on_signals
from rescheduler.cli.log_setup import log_options, set_up_log
from rescheduler.cli.output_formats import output_option, print_document
from rescheduler.cli.terminal import echo

if TYPE_CHECKING:
    from rescheduler.config.policy import Configuration, Policy
    from rescheduler.daemon.listeners import DaemonListener
    from rescheduler.kube.client import Client, RequestObserver

__all__ = [
    "installation_namespace",
    "installation_namespace_option",
    "pause",
    "resume",
    "run",
    "version",
]

log = logging.getLogger("rescheduler.daemon")


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
@short_collections()
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
        from rescheduler.daemon.own_objects import lease_key, new_identity, own_namespace  # noqa: PLC0415
        from rescheduler.http.http_server import (  # noqa: PLC0415
            health_application,
            serve_http,
        )

        metrics = Metrics(lags=lambda: daemon.lags, depth=lambda: daemon.queue_depth)
        at = await lease_key(client, configuration, namespace or own_namespace(client))
        me = new_identity()
        async with contextlib.AsyncExitStack() as stack:
            options = DaemonOptions(
                lease_at=at,
                file=Path(cluster.config) if cluster.config is not None else None,
                overridden=overridden,
                read_only=dry_run,
                listeners=[metrics, *await _trace_listeners(stack, me, at.partition("/")[0])],
                me=me,
            )
            ended = stop_event_on_signals()
            daemon = Daemon(
                lambda observer: _rate_limited_client(client, configuration, observer), configuration, options
            )
            app = health_application(lambda: daemon.not_ready, metrics.text)
            try:
                await stack.enter_async_context(serve_http(app, host, port))
            except OSError as error:
                exit_with_error(f"can't serve metrics on port {port}: {error.strerror}", EXIT_ERROR)
            if page is not None:
                await stack.enter_async_context(page.serving(daemon, client))
            await daemon.run_until(ended)

    Execution(cluster, configuration).ask(serve)


async def _trace_listeners(
    stack: contextlib.AsyncExitStack, me: str, namespace: str
) -> "list[DaemonListener]":
    """Return the listener that sends traces; none if no receiver is set."""
    from rescheduler.daemon.listeners import TRACE_RECEIVERS  # noqa: PLC0415

    if not any(map(os.environ.get, TRACE_RECEIVERS)) or os.environ.get("OTEL_SDK_DISABLED") == "true":
        return []
    from rescheduler.kube.event_recorder import log_event  # noqa: PLC0415

    try:
        from rescheduler.daemon.tracing import tracing_to_receiver  # noqa: PLC0415
    except ImportError as error:
        words = f"no traces are sent: {error}. Install the extra: pip install 'kube-rescheduler[otel]'"
        log_event(log, logging.ERROR, "TracingNotInstalled", words)
        return []
    now = functools.partial(datetime.now, UTC)
    return [await stack.enter_async_context(tracing_to_receiver(me, namespace, now))]


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
    at = _set_pause(cluster, namespace, paused=True, why=why)
    where = f" in namespace {namespace}" if namespace else ""
    words = f"Paused ({at}): the daemon{where} starts no more moves and finishes the running ones."
    print_words(words, err=False)


@click.command()
@live_cluster_options
@installation_namespace_option
def resume(cluster: ClusterSource, namespace: str | None) -> None:
    """The next check can move pods again. Past failures no longer halt the daemon."""
    at = _set_pause(cluster, namespace, paused=False)
    words = f"Resumed ({at}): the next check can move pods." if at else "not paused: nothing to resume"
    print_words(words, err=False)


async def installation_namespace(
    client: "Client", configuration: "Configuration", namespace: str | None
) -> str:
    """Return the namespace of the Lease and the state: the given one, or the installation's."""
    from rescheduler.daemon.own_objects import state_namespace  # noqa: PLC0415

    return namespace or await state_namespace(client, configuration)


def _set_pause(cluster: ClusterSource, namespace: str | None, *, paused: bool, why: str = "") -> str:
    """Write the pause and return the name of its ConfigMap; empty if there is no pause or halt to end."""
    configuration = cluster.configuration()

    async def switch(client: "Client") -> str:
        from rescheduler.api.daemon_status import Pause  # noqa: PLC0415
        from rescheduler.daemon.own_objects import (  # noqa: PLC0415
            STATE_CONFIG_MAP,
            NoDaemonError,
            may_have_daemon,
            require_daemon,
            write_pause,
        )

        home = await installation_namespace(client, configuration, namespace)
        if not namespace:
            try:
                await require_daemon(client, configuration, home)
            except NoDaemonError as error:
                exit_with_error(str(error), EXIT_ERROR)
        if not paused and not await _is_paused_or_halted(client, home):
            return ""
        by = await requesting_user(client)
        await write_pause(client, home, Pause(paused=paused, by=by, at=datetime.now(UTC), why=why))
        if paused and namespace and not await may_have_daemon(client, configuration, namespace):
            print_note(f"no daemon is installed or runs in namespace {namespace}; one that starts is paused")
        return f"ConfigMap {home}/{STATE_CONFIG_MAP}"

    written: str = cluster.with_client(configuration, switch)
    return written


async def _is_paused_or_halted(client: "Client", home: str) -> bool:
    """Return whether there is a pause or a halt by failures, both of which `resume` ends; True if unknown."""
    from rescheduler.api.daemon_status import HaltReason, UnreadableState  # noqa: PLC0415
    from rescheduler.daemon.own_objects import read_state  # noqa: PLC0415
    from rescheduler.kube.errors import Forbidden  # noqa: PLC0415

    try:
        pause, status = await read_state(client, home)
    except (Forbidden, UnreadableState):
        return True
    ended = {HaltReason.PAUSED, HaltReason.FAILURE_RATIO, HaltReason.NAMESPACE_FAILING}
    return pause.paused or any(halt.reason in ended for halt in (status.halts if status is not None else ()))


@click.command()
@live_cluster_options
@click.option("--client", is_flag=True, help="Print only the version of this program; ask no server.")
@output_option
def version(cluster: ClusterSource, client: bool, output: str) -> None:
    """As with kubectl, an unreachable server is an error unless you specify --client."""
    from importlib.metadata import version as installed_version  # noqa: PLC0415

    own = installed_version("kube-rescheduler")
    if output != "table":
        others = {} if client else cluster.with_client(None, _server_versions)
        print_document({"clientVersion": own} | others, output)
        return
    # Printed first, because it is known even if no server answers.
    echo(f"Client Version: {own}")
    if not client:
        found = cluster.with_client(None, _server_versions)
        echo(f"Daemon Version: {found['daemonVersion']}")
        echo(f"Server Version: {found['serverVersion']}")


async def _server_versions(client: "Client") -> dict[str, str]:
    from rescheduler.api.daemon_status import UnreadableState  # noqa: PLC0415
    from rescheduler.config.policy import Configuration  # noqa: PLC0415
    from rescheduler.daemon.own_objects import read_state, state_namespace  # noqa: PLC0415
    from rescheduler.install.cluster_installation import AmbiguousInstallation  # noqa: PLC0415
    from rescheduler.kube import errors  # noqa: PLC0415

    server = str((await client.server_version()).get("gitVersion", "unknown"))
    try:
        status = (await read_state(client, await state_namespace(client, Configuration())))[1]
        daemon = status.version if status is not None else "none has reported yet"
    except (AmbiguousInstallation, UnreadableState, errors.Forbidden) as error:
        daemon = f"unknown: {error}"
    return {"daemonVersion": daemon, "serverVersion": server}
