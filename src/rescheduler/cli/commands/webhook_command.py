"""`rescheduler webhook`, which runs in the cluster: it steers replacements and guards moves and evictions."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from rescheduler.cli.cluster_source import EXIT_ERROR, ClusterSource, exit_with_error
from rescheduler.cli.command_options import live_cluster_options
from rescheduler.cli.execution import short_collections, stop_event_on_signals
from rescheduler.cli.log_setup import log_options, set_up_log

if TYPE_CHECKING:
    from rescheduler.config.config_loader import LoadedConfiguration
    from rescheduler.kube.client import Client
    from rescheduler.steering.webhook.eviction_guard import EvictionSettings
    from rescheduler.steering.webhook.webhook_configurations import WebhookAddress

__all__ = ["webhook"]

_SERVICE = "rescheduler-webhook"
_HTTPS = 443


def _https(_ctx: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        parts = urlsplit(value)
        is_usable = parts.scheme == "https" and parts.hostname and parts.path in {"", "/"} and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise click.BadParameter(f'"{value}" does not have the form https://HOST[:PORT]')
    return value


def _service(_ctx: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    name, colon, port = value.partition(":")
    number = _HTTPS if not colon else int(port) if port.isdecimal() else 0
    if not name or not 0 < number < 1 << 16:
        raise click.BadParameter(f'"{value}" does not have the form NAME[:PORT]')
    return name, number


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=9443, show_default=True, help="Port for API servers."
)
@click.option(
    "--extender-port",
    type=click.IntRange(0, 65535),
    default=9444,
    show_default=True,
    help="Port for schedulers, which need a client certificate from the webhook's Secret.",
)
@click.option("--host", metavar="ADDRESS", help="Address to listen on; defaults to all.")
@click.option(
    "--namespace",
    metavar="NAME",
    help="Namespace of the Service and the certificate Secret; defaults to the context's or the pod's.",
)
@click.option(
    "--service",
    metavar="NAME[:PORT]",
    callback=_service,
    help=f"Service through which API servers reach the webhook.  [default: {_SERVICE}:{_HTTPS}]",
)
@click.option(
    "--url", metavar="URL", callback=_https, help="URL to use instead of a Service: https://HOST[:PORT]."
)
@click.option(
    "--extender-only", is_flag=True, help="Serve only schedulers; don't register the admission webhook."
)
@live_cluster_options
@log_options
@short_collections()
def webhook(  # noqa: PLR0913 - one per option
    *,
    port: int,
    extender_port: int,
    host: str | None,
    namespace: str | None,
    service: tuple[str, int] | None,
    url: str | None,
    extender_only: bool,
    cluster: ClusterSource,
    log_level: str,
    log_format: str,
) -> None:
    """The webhook serves HTTPS until Ctrl-C, and creates and renews its certificates. Several can run.

    It rejects no pods except surplus pods: see docs/webhook.md. A second port serves schedulers as an
    extender (`rescheduler manifests --extender`): see docs/extender.md.
    """
    if service is not None and url is not None:
        raise click.UsageError("--service and --url can't be combined")
    set_up_log(log_level, log_format)
    home = namespace or cluster.default_namespace()
    configuration = cluster.configuration()

    async def serve(client: "Client") -> None:
        from rescheduler.kube.work_queue import background_task  # noqa: PLC0415
        from rescheduler.steering.steering_server import SteeringServer, SteeringServerOptions  # noqa: PLC0415
        from rescheduler.steering.webhook.eviction_guard import EvictionSettings  # noqa: PLC0415

        terms = configuration.leader_election
        evictions = EvictionSettings(
            configuration.policy, terms.resource_namespace or home, terms.resource_name, home
        )
        address = _address(home, service, url)
        options = SteeringServerOptions(
            home,
            address,
            host=host,
            port=port,
            extender_port=extender_port,
            registers=not extender_only,
            evictions=evictions,
        )
        try:
            async with contextlib.AsyncExitStack() as stack:
                if cluster.config is not None:
                    follow = _follow_policy(Path(cluster.config), evictions)
                    await stack.enter_async_context(background_task(follow, "configuration file"))
                await SteeringServer(client, options).run_until(stop_event_on_signals())
        except OSError as error:
            where = ", ".join(filter(None, (host, error.filename)))
            why = error.strerror or str(error)
            remedy = "Choose another one with --port, --extender-port or --host."
            exit_with_error(f"the webhook can't listen on {where}: {why}. {remedy}", EXIT_ERROR)

    cluster.with_client(None, serve)


async def _follow_policy(file: Path, evictions: "EvictionSettings") -> None:
    """Use every valid change of the configuration file; the daemon reports invalid ones."""
    from rescheduler.config.config_validation import known_strategies  # noqa: PLC0415
    from rescheduler.daemon.daemon_process import WatchedConfigurationFile  # noqa: PLC0415

    def use(loaded: "LoadedConfiguration") -> None:
        evictions.policy = loaded.configuration.policy

    await WatchedConfigurationFile(file, frozenset(known_strategies())).follow(use, lambda _: None)


def _address(namespace: str, service: tuple[str, int] | None, url: str | None) -> "WebhookAddress":
    from rescheduler.steering.webhook.webhook_configurations import ServiceAddress, UrlAddress  # noqa: PLC0415

    if url is not None:
        return UrlAddress(url)
    return ServiceAddress(namespace, *(service or (_SERVICE, _HTTPS)))
