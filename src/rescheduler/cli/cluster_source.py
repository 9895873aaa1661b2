"""How a command gets to see a cluster: the options that say which one, and what becomes of failures.

What stands here is imported by `--help` too; everything that takes time is imported when it is needed.

Objects are named as for kubectl: with -n NAMESPACE, or as NAMESPACE/NAME.
"""

import asyncio
import contextlib
import functools
import gc
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from rescheduler.cli.safe_output import echo

if TYPE_CHECKING:
    from rescheduler.cluster.snapshot import Snapshot
    from rescheduler.cluster.sources.cluster_reading import ClusterReading, WebhookProbeResult
    from rescheduler.config.policy import Configuration, Policy
    from rescheduler.kube.client import Client
__all__ = [
    "EXIT_ERROR",
    "EXIT_USAGE_ERROR",
    "ClusterSource",
    "cluster_and_config_options",
    "cluster_options",
    "exit_with_error",
    "live_cluster_options",
    "namespace_option",
    "object_key",
    "print_note",
    "read_input_file",
    "saved_cluster_options",
]

EXIT_ERROR, EXIT_USAGE_ERROR = 1, 2

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """Which cluster, and with which configuration."""

    saved: str | None
    kubeconfig: str | None
    context: str | None
    config: str | None
    now: datetime | None

    def configuration(self) -> "Configuration":
        """Ends the program if the configuration can't be used."""
        if self.config is None:
            from rescheduler.config.policy import Configuration  # noqa: PLC0415 - without what reads files

            return Configuration()
        from rescheduler.config.config_loader import load_file  # noqa: PLC0415
        from rescheduler.config.config_validation import (  # noqa: PLC0415
            ConfigurationError,
            known_strategies,
        )

        try:
            loaded = load_file(Path(self.config), known_strategies())
        except ConfigurationError as error:
            exit_with_error(str(error), EXIT_USAGE_ERROR)
        for note in loaded.notes:
            print_note(f"{self.config}: {note}")
        return loaded.configuration

    def read_snapshot(
        self, configuration: "Configuration", *, meanwhile: Sequence[str] = ()
    ) -> "tuple[Snapshot, WebhookProbeResult]":
        """The cluster, and what the webhook was seen to do there.

        Ends the program if there is no cluster to be seen. `meanwhile` names modules that will be needed, to
        be imported while a server answers.
        """
        with _without_garbage_collection():
            if self.saved is not None:
                reading = self._read_file(self.saved, configuration.policy)
            else:
                reading = self._read_cluster(configuration, meanwhile)
            from rescheduler.cluster.sources.cluster_reading import snapshot_of  # noqa: PLC0415

            if self.now is not None:
                reading.now_s = self.now.timestamp()
            for note in reading.notes:
                print_note(note)
            webhook = reading.webhook
            if configuration.policy.scheduler_extender:
                webhook = webhook._replace(steers=True)
            return snapshot_of(reading, configuration.policy), webhook

    def default_namespace(self) -> str:
        """As kubectl has it: the context's."""
        if self.saved is not None:
            return "default"
        from rescheduler.kube.access import cluster_config  # noqa: PLC0415

        with _exit_on_cluster_error():
            return cluster_config.load_cluster_access(self.kubeconfig, self.context).namespace

    def with_client(self, configuration: "Configuration | None", use: Callable[["Client"], Any]) -> Any:
        """What `use` returns, awaited, with a client that is closed afterwards."""
        # Half of what it takes to import is OpenSSL, which lets others go on meanwhile.
        threading.Thread(target=import_module, args=("aiohttp",)).start()
        named = self.kubeconfig or (configuration and configuration.client_connection.kubeconfig)

        async def used() -> Any:
            async with contextlib.AsyncExitStack() as stack:
                from rescheduler.kube.access import cluster_config  # noqa: PLC0415
                from rescheduler.kube.client import Client  # noqa: PLC0415
                from rescheduler.kube.http_transport import HttpTransport  # noqa: PLC0415

                network = HttpTransport(cluster_config.load_cluster_access(named or None, self.context))
                stack.push_async_callback(network.close)
                return await use(Client(network))

        with _exit_on_cluster_error():
            return asyncio.run(used())

    def _read_file(self, file: str, policy: "Policy") -> "ClusterReading":
        from kubevalues.saved_cluster import UnreadableCluster  # noqa: PLC0415
        from rescheduler.cluster.sources.saved_source import read_saved, saved_usage  # noqa: PLC0415

        raw, source = read_input_file(file)
        try:
            reading = read_saved(raw, source=source)
        except UnreadableCluster as error:
            exit_with_error(str(error), EXIT_ERROR)
        reading.usage = saved_usage(reading, policy)
        return reading

    def _read_cluster(self, configuration: "Configuration", meanwhile: Sequence[str]) -> "ClusterReading":
        async def read(client: "Client") -> "ClusterReading":
            from rescheduler.cluster.sources.live_source import (  # noqa: PLC0415
                gather_all,
                read_live,
            )
            from rescheduler.cluster.sources.usage_sources import usage_reader  # noqa: PLC0415
            from rescheduler.cluster.sources.webhook_probe import probe_webhook_if_registered  # noqa: PLC0415

            async with contextlib.AsyncExitStack() as stack:
                usage = usage_reader(configuration.policy, client)
                stack.push_async_callback(usage.close)
                work: list[Coroutine[Any, Any, Any]] = [
                    read_live(client, usage, meanwhile=meanwhile),
                    probe_webhook_if_registered(client),
                ]
                reading: ClusterReading
                reading, reading.webhook = await gather_all(work)
                return reading

        found: ClusterReading = self.with_client(configuration, read)
        return found


def _parse_time(_ctx: click.Context, _option: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
        found = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        found = datetime.min.replace(tzinfo=UTC)
    if not MINYEAR < found.year < MAXYEAR:  # nor is it one where there are zones in which it is beyond them
        raise click.BadParameter(f'"{value}" is no time such as 2026-03-02T12:00:00Z')
    return found


_CLUSTER_OPTIONS = (
    click.option("--from", "saved", metavar="FILE", help="A saved cluster (-: standard input)."),
    click.option("--kubeconfig", metavar="FILE", help="Kubeconfig to use; by default as for kubectl."),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig; by default its current one."),
)
_CONFIG_OPTIONS = (
    click.option(
        "--config", metavar="FILE", help="The configuration (docs/configuration.md); by default all defaults."
    ),
    click.option(
        "--now",
        metavar="TIME",
        callback=_parse_time,
        help="What the time is, for ages and windows, such as 2026-03-02T12:00:00Z.",
    ),
)


def cluster_options(command: F) -> F:
    """Options for the cluster; they arrive as `cluster`."""
    return _with_cluster_source(command, _CLUSTER_OPTIONS)


def cluster_and_config_options(command: F) -> F:
    """Options for the cluster and the configuration; they arrive as `cluster`."""
    return _with_cluster_source(command, (*_CLUSTER_OPTIONS, *_CONFIG_OPTIONS))


def live_cluster_options(command: F) -> F:
    """For commands that change a cluster: no file will do, and the time is what it is. As `cluster`."""
    return _with_cluster_source(command, (*_CLUSTER_OPTIONS[1:], _CONFIG_OPTIONS[0]))


def saved_cluster_options(command: F) -> F:
    """For commands that need a file, and no cluster. As `cluster`."""
    required = click.option(
        "--from", "saved", metavar="FILE", required=True, help="A saved cluster (-: standard input)."
    )
    return _with_cluster_source(command, (required, *_CONFIG_OPTIONS))


def _with_cluster_source(command: F, options: tuple[Callable[[F], F], ...]) -> F:
    @functools.wraps(command)
    def passing(
        *args: Any,
        kubeconfig: str | None = None,
        context: str | None = None,
        saved: str | None = None,
        config: str | None = None,
        now: datetime | None = None,
        **more: Any,
    ) -> Any:
        if saved is not None and (kubeconfig or context):
            raise click.UsageError("--from names a file: it excludes --kubeconfig and --context")
        return command(*args, cluster=ClusterSource(saved, kubeconfig, context, config, now), **more)

    decorated: Any = passing
    for option in reversed(options):
        decorated = option(decorated)
    found: F = decorated
    return found


def read_input_file(file: str) -> tuple[bytes, str]:
    """What is in it, and how messages name it. Ends the program if it can't be read."""
    from kubevalues.saved_cluster import MAX_SAVED_BYTES, read_bounded  # noqa: PLC0415

    name = "standard input" if file == "-" else file
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as opened:
            content = read_bounded(opened, MAX_SAVED_BYTES)
    except (OSError, ValueError) as error:
        exit_with_error(f"{name}: {getattr(error, 'strerror', None) or error}", EXIT_ERROR)
    if content is None:
        exit_with_error(f"{name}: more than {MAX_SAVED_BYTES} bytes, which no saved cluster has", EXIT_ERROR)
    return content, name


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Very many objects are made, and all of them stay: looking for garbage among them is in vain.

    Later as well, above all when the program ends: that alone would take some tenths of a second.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()


@contextlib.contextmanager
def _exit_on_cluster_error() -> Iterator[None]:
    """What goes wrong with a cluster is told in a sentence."""
    from rescheduler.cluster.sources.live_source import EmptyCluster  # noqa: PLC0415
    from rescheduler.install.cluster_installation import AmbiguousInstallation  # noqa: PLC0415
    from rescheduler.kube.access.cluster_access import BadClusterConfig  # noqa: PLC0415
    from rescheduler.kube.errors import KubeError  # noqa: PLC0415

    try:
        yield
    except (BadClusterConfig, KubeError, EmptyCluster, AmbiguousInstallation) as error:
        exit_with_error(str(error), EXIT_ERROR)


def print_note(message: str) -> None:
    echo(f"note: {message}", err=True)


def exit_with_error(message: str, code: int) -> NoReturn:
    echo(message, err=True)
    sys.exit(code)


namespace_option = click.option(
    "-n", "--namespace", metavar="NAME", help="Namespace; the context's if not given."
)


def object_key(name: str, namespace: str | None, cluster: ClusterSource) -> str:
    """`namespace/name`."""
    if "/" not in name:
        return f"{namespace or cluster.default_namespace()}/{name}"
    if namespace is not None and not name.startswith(f"{namespace}/"):
        raise click.UsageError(f"{name} and -n {namespace} name two namespaces")
    return name
