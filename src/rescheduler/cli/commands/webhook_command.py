"""`rescheduler webhook`: the process that steers replacements, as webhook and as scheduler extender."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from rescheduler.cli.cluster_source import EXIT_ERROR, ClusterSource, exit_with_error
from rescheduler.cli.log_setup import log_options, set_up_log

if TYPE_CHECKING:
    from rescheduler.kube.client import Client
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
        raise click.BadParameter(f'"{value}" is not of the form https://HOST[:PORT]')
    return value


def _service(_ctx: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    name, colon, port = value.partition(":")
    number = _HTTPS if not colon else int(port) if port.isdecimal() else 0
    if not name or not 0 < number < 1 << 16:
        raise click.BadParameter(f'"{value}" is not of the form NAME[:PORT]')
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
    help="Port for schedulers, which have to show a certificate of ours.",
)
@click.option("--host", metavar="ADDRESS", help="Address to serve on; all of them if not given.")
@click.option(
    "--namespace",
    metavar="NAME",
    help="Of the Service, and of the Secret with the certificates; by default the context's, or the pod's.",
)
@click.option(
    "--service",
    metavar="NAME[:PORT]",
    callback=_service,
    help=f"The Service by which API servers reach us.  [default: {_SERVICE}:{_HTTPS}]",
)
@click.option(
    "--url", metavar="URL", callback=_https, help="In place of a Service: https://HOST[:PORT], from outside."
)
@click.option(
    "--extender-only", is_flag=True, help="Don't register as an admission webhook: only schedulers ask us."
)
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig to use; by default as for kubectl.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; by default its current one.")
@log_options
def webhook(  # noqa: PLR0913 - one per option
    *,
    port: int,
    extender_port: int,
    host: str | None,
    namespace: str | None,
    service: tuple[str, int] | None,
    url: str | None,
    extender_only: bool,
    kubeconfig: str | None,
    context: str | None,
    log_level: str,
    log_format: str,
) -> None:
    """Steers replacements of evicted pods to where they should go.

    Serves an admission webhook over HTTPS and registers it, with certificates that it makes and renews by
    itself; until Ctrl-C. Several may run at once. It never refuses a pod: see docs/webhook.md. A port of its
    own answers schedulers that are told of it (`rescheduler manifests --extender`): see docs/extender.md.
    """
    if service is not None and url is not None:
        raise click.UsageError("--service and --url exclude each other: API servers need one way")
    set_up_log(log_level, log_format)
    cluster = ClusterSource(None, kubeconfig, context, None, None)
    home = namespace or cluster.default_namespace()

    async def serve(client: "Client") -> None:
        from rescheduler.cli.execution import stop_event_on_signals  # noqa: PLC0415
        from rescheduler.steering.steering_server import SteeringServer, SteeringServerOptions  # noqa: PLC0415

        address = _address(home, service, url)
        options = SteeringServerOptions(
            home, address, host=host, port=port, extender_port=extender_port, registers=not extender_only
        )
        try:
            await SteeringServer(client, options).run_until(stop_event_on_signals())
        except OSError as error:
            where = ", ".join(filter(None, (host, error.filename)))
            why = error.strerror or str(error)
            remedy = "Choose another with --port, --extender-port or --host."
            exit_with_error(f"the webhook can't listen on {where}: {why}. {remedy}", EXIT_ERROR)

    cluster.with_client(None, serve)


def _address(namespace: str, service: tuple[str, int] | None, url: str | None) -> "WebhookAddress":
    from rescheduler.steering.webhook.webhook_configurations import ServiceAddress, UrlAddress  # noqa: PLC0415

    if url is not None:
        return UrlAddress(url)
    return ServiceAddress(namespace, *(service or (_SERVICE, _HTTPS)))
