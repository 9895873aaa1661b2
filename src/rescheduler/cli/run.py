"""`rescheduler run`: the daemon."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescheduler.cli.acting import Acting
from rescheduler.cli.logs import log_options, set_up_log
from rescheduler.cli.looking import DATA_ERROR, Looking, give_up, live_options

if TYPE_CHECKING:
    from rescheduler.config.policy import Configuration, Policy
    from rescheduler.kube.client import Client, Observer

__all__ = ["run"]


@click.command()
@live_options
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
    looking: Looking,
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
    configuration = looking.configuration()

    def overridden(policy: "Policy") -> "Policy":
        return replace(policy, dry_run=True) if dry_run else policy

    configuration = replace(configuration, policy=overridden(configuration.policy))

    async def serve(client: "Client") -> None:
        from rescheduler.cli.signals import ended_by_signals  # noqa: PLC0415
        from rescheduler.daemon.meters import Meters  # noqa: PLC0415
        from rescheduler.daemon.running import Daemon, DaemonOptions  # noqa: PLC0415
        from rescheduler.daemon.whereabouts import lease_key, own_namespace  # noqa: PLC0415
        from rescheduler.serving.health import application  # noqa: PLC0415
        from rescheduler.serving.http_server import serve_http  # noqa: PLC0415

        meters = Meters(lags=lambda: daemon.lags, depth=lambda: daemon.queue_depth)
        at = await lease_key(client, configuration, namespace or own_namespace(client))
        options = DaemonOptions(
            lease_at=at,
            file=Path(looking.config) if looking.config is not None else None,
            overridden=overridden,
            listeners=[meters],
        )
        ended = ended_by_signals()
        daemon = Daemon(lambda observer: _limited(client, configuration, observer), configuration, options)
        app = application(lambda: daemon.not_ready, meters.text)
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(serve_http(app, host, port))
            except OSError as error:
                give_up(f"metrics can't be served on port {port}: {error.strerror}", DATA_ERROR)
            await daemon.run_until(ended)

    Acting(looking, configuration).ask(serve)


def _limited(client: "Client", configuration: "Configuration", observer: "Observer") -> "Client":
    """Over the same connections, at the pace that is configured."""
    from rescheduler.kube.client import Client  # noqa: PLC0415
    from rescheduler.kube.rate_limit import RateLimit  # noqa: PLC0415

    pace = configuration.client_connection
    limit = RateLimit(pace.qps, pace.burst) if pace.is_limited else RateLimit()
    return Client(client.transport, rate_limit=limit, observer=observer)
