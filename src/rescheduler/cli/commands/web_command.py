"""`rescheduler web`, which serves the web page on your machine, and the options of the daemon's page."""

import asyncio
import contextlib
import functools
import getpass
import logging
import webbrowser
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from rescheduler.cli.cluster_source import EXIT_ERROR, ClusterSource, exit_with_error, print_note
from rescheduler.cli.command_options import cluster_and_config_options
from rescheduler.cli.execution import Execution, short_collections, stop_event_on_signals
from rescheduler.cli.terminal import echo
from rescheduler.config.policy_blocks import is_loopback

if TYPE_CHECKING:
    from rescheduler.config.policy import Configuration
    from rescheduler.daemon.daemon_process import Daemon
    from rescheduler.kube.client import Client
    from rescheduler.web.page_model import LivePage
    from rescheduler.web.web_authorization import LinkAuthorizer

__all__ = ["DaemonPage", "daemon_page_options", "live_page", "login_link", "web"]

log: Final = logging.getLogger(__name__)

_HOST: Final = "127.0.0.1"

F = TypeVar("F", bound=Callable[..., Any])


@click.command()
@cluster_and_config_options
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback; by default a free one."
)
@click.option("--no-browser", is_flag=True, help="Only print the link; don't open a browser.")
@click.option(
    "--allow-actions", is_flag=True, help="Let the page move pods, drain nodes and pause, as you may."
)
@short_collections()
def web(cluster: ClusterSource, port: int, no_browser: bool, allow_actions: bool) -> None:
    """The page runs until Ctrl-C, on loopback and with the permissions of your kubeconfig.

    Without --allow-actions it changes nothing. Anyone who has the link sees what you see: don't share it.
    With --from, the page shows a saved cluster and asks no server.
    """
    configuration = cluster.effective_configuration()
    launcher = _PageLauncher(port, opens_browser=not no_browser)
    if cluster.saved is None:
        _show_live(cluster, configuration, launcher, allow_actions=allow_actions)
    elif allow_actions:
        raise click.UsageError("--allow-actions can't be combined with --from")
    else:
        _show_saved(cluster, configuration, launcher)


class _PageLauncher:
    def __init__(self, port: int, *, opens_browser: bool) -> None:
        self.port = port
        self._opens_browser = opens_browser

    def announce(self, link: str) -> None:
        echo(f"The page is at {link}")
        echo("Press Ctrl-C to stop it.")
        if self._opens_browser and not webbrowser.open(link):
            print_note("no browser could be opened: open the link yourself")


def login_link(port: int, authorizer: "LinkAuthorizer") -> str:
    """Return the link with which a browser logs in. Browsers never send the part after # to a server."""
    return f"http://{_HOST}:{port}/#login={authorizer.secret}"


def _show_saved(cluster: ClusterSource, configuration: "Configuration", launcher: _PageLauncher) -> None:
    from rescheduler.web.page_model import SavedPage  # noqa: PLC0415
    from rescheduler.web.web_authorization import LinkAuthorizer  # noqa: PLC0415
    from rescheduler.web.web_server import PageOptions, serve_page  # noqa: PLC0415

    snapshot, webhook = cluster.read_snapshot(configuration)

    async def serve() -> None:
        ended = stop_event_on_signals()
        page = SavedPage(snapshot, configuration.policy, webhook, Path(cluster.saved or "").name)
        authorizer = LinkAuthorizer(page, read_only=True, user=_user())
        options = PageOptions(port=launcher.port, cookie=authorizer.cookie)
        async with serve_page(page, authorizer, options) as port:
            launcher.announce(login_link(port, authorizer))
            await ended.wait()

    try:
        asyncio.run(serve())
    except OSError as error:
        _exit_without_port(launcher.port, error)


def _exit_without_port(port: int, error: OSError) -> NoReturn:
    exit_with_error(
        f"can't listen on port {port}: {error.strerror}. Choose another one with --port.", EXIT_ERROR
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _show_live(
    cluster: ClusterSource, configuration: "Configuration", launcher: _PageLauncher, *, allow_actions: bool
) -> None:
    async def serve(client: "Client") -> None:
        from rescheduler.web.web_authorization import LinkAuthorizer  # noqa: PLC0415
        from rescheduler.web.web_server import PageOptions, serve_page  # noqa: PLC0415

        ended = stop_event_on_signals()
        async with live_page(client, configuration, _context_name(cluster), acts=allow_actions) as page:
            authorizer = LinkAuthorizer(page, read_only=not allow_actions, client=client, user=_user())
            options = PageOptions(port=launcher.port, cookie=authorizer.cookie, executes_actions=True)
            try:
                async with serve_page(page, authorizer, options) as port:
                    launcher.announce(login_link(port, authorizer))
                    await ended.wait()
            except OSError as error:
                _exit_without_port(launcher.port, error)

    Execution(cluster, configuration).ask(serve)


def _context_name(cluster: ClusterSource) -> str:
    from rescheduler.kube.access import cluster_config  # noqa: PLC0415

    return cluster.context or cluster_config.load_cluster_access(cluster.kubeconfig, cluster.context).source


@contextlib.asynccontextmanager
async def live_page(
    client: "Client", configuration: "Configuration", name: str, *, acts: bool
) -> "AsyncIterator[LivePage]":
    """Watch the cluster while the body runs; yield a page that moves pods only on request."""
    from rescheduler.daemon.components import Rescheduler, lease_key, own_namespace  # noqa: PLC0415
    from rescheduler.daemon.own_objects import WatchedState  # noqa: PLC0415
    from rescheduler.kube.errors import KubeError  # noqa: PLC0415
    from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder  # noqa: PLC0415
    from rescheduler.steering.webhook.webhook_presence import WebhookPresence  # noqa: PLC0415
    from rescheduler.web.page_model import LivePage  # noqa: PLC0415

    at = await lease_key(client, configuration, own_namespace(client))
    # dryRun is for the daemon: here, pods are only moved on request.
    runtime = RuntimeStateHolder(RuntimeState(replace(configuration.policy, dry_run=False)))
    webhook = WebhookPresence(client, runtime)
    rescheduler = Rescheduler(client, configuration, lease_at=at, runtime=runtime, webhook=webhook)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(webhook.running())
        await stack.enter_async_context(rescheduler.watching(only=not acts))
        state: WatchedState | None = WatchedState(client, at.partition("/")[0])
        try:
            assert state is not None
            await stack.enter_async_context(state.running())
        except KubeError as error:
            print_note(f"the daemon's status can't be read: {error}")
            state = None
        page = LivePage("cluster", name, rescheduler, state)
        stack.push_async_callback(page.close)
        yield page


# --- the daemon's page


@dataclass(frozen=True, slots=True)
class DaemonPage:
    """The settings with which the daemon serves the page, where users log in with a token of the cluster."""

    host: str
    port: int
    certificate: tuple[str, str] | None
    allowed_hosts: tuple[str, ...]
    allow_actions: bool

    @contextlib.asynccontextmanager
    async def serving(self, daemon: "Daemon", client: "Client") -> AsyncIterator[None]:
        """Serve the page while the body runs; exit if the port is taken or the certificate is unusable."""
        from rescheduler.kube.event_recorder import log_event  # noqa: PLC0415
        from rescheduler.web.page_model import LivePage  # noqa: PLC0415
        from rescheduler.web.web_authorization import TokenAuthorizer  # noqa: PLC0415
        from rescheduler.web.web_server import PageCertificate, PageOptions, serve_page  # noqa: PLC0415

        page = LivePage("cluster", "", daemon.rescheduler, daemon.state)
        daemon.listener.listeners.append(page.listener)
        authorizer = TokenAuthorizer(page, client, read_only=not self.allow_actions)
        options = PageOptions(host=self.host, port=self.port, is_secure=self.certificate is not None)
        if not is_loopback(f"//{self.host}"):
            options = replace(options, allowed_hosts=frozenset(self.allowed_hosts) or None)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(page.close)
            try:
                if self.certificate is not None:
                    options = replace(options, tls=PageCertificate(*self.certificate).context)
                port = await stack.enter_async_context(serve_page(page, authorizer, options))
            except OSError as error:
                why = error.strerror or str(error)
                exit_with_error(f"can't serve the web page on port {self.port}: {why}", EXIT_ERROR)
            log_event(log, logging.INFO, "PageServed", "the web page is served", host=self.host, port=port)
            yield


def daemon_page_options(command: F) -> F:
    """Add the options of the daemon's page, passed as `page`, which is None without --web."""

    @functools.wraps(command)
    def with_page(
        *args: Any,
        web: bool,
        web_host: str,
        web_port: int,
        web_certificate: tuple[str, str] | None,
        web_allowed_hosts: tuple[str, ...],
        web_allow_actions: bool,
        **more: Any,
    ) -> Any:
        if web and not is_loopback(f"//{web_host}") and web_certificate is None:
            raise click.UsageError(
                "--web-host needs --web-certificate: viewers send their tokens to the page"
            )
        hosts = tuple(name for each in web_allowed_hosts for name in each.split(",") if name)
        page = DaemonPage(web_host, web_port, web_certificate, hosts, web_allow_actions)
        return command(*args, page=page if web else None, **more)

    decorated: Any = with_page
    for option in reversed(_DAEMON_PAGE_OPTIONS):
        decorated = option(decorated)
    found: F = decorated
    return found


_DAEMON_PAGE_OPTIONS: Final = (
    click.option("--web", is_flag=True, help="Serve the web page (docs/web.md)."),
    click.option(
        "--web-port",
        type=click.IntRange(0, 65535),
        default=8081,
        show_default=True,
        help="Port of the web page; 0 for a free one, which the log names.",
    ),
    click.option(
        "--web-host",
        metavar="ADDRESS",
        default=_HOST,
        show_default=True,
        help="Address of the web page, empty for all; others than loopback need --web-certificate.",
    ),
    click.option(
        "--web-certificate",
        nargs=2,
        metavar="CERT KEY",
        help="Certificate and key of the web page, as PEM files; they are read again when they change.",
    ),
    click.option(
        "--web-allowed-host",
        "web_allowed_hosts",
        multiple=True,
        metavar="NAME[,NAME]",
        help="Host names of the web page, with --web-host; can be repeated. Without it, all are allowed.",
    ),
    click.option(
        "--web-allow-actions",
        is_flag=True,
        help="Let viewers move pods, drain nodes and pause, as far as their own permissions go.",
    ),
)
