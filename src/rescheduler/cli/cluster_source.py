"""The cluster that a command works with: its options, how it is read, and how errors end the command.

Slow imports are inside the functions, because `--help` imports this module too.
"""

import asyncio
import contextlib
import functools
import gc
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from rescheduler.cli.terminal import echo

if TYPE_CHECKING:
    from rescheduler.cluster.snapshot import Snapshot
    from rescheduler.cluster.sources.cluster_kinds import ClusterReading, WebhookProbeResult
    from rescheduler.config.policy import Configuration, Policy
    from rescheduler.kube.client import Client
__all__ = [
    "EXIT_ERROR",
    "EXIT_USAGE_ERROR",
    "ClusterSource",
    "cluster_and_config_options",
    "cluster_connection_options",
    "cluster_options",
    "exit_with_error",
    "live_cluster_options",
    "namespace_option",
    "object_key",
    "print_note",
    "read_input_file",
    "saved_cluster_options",
    "saved_reading",
]

EXIT_ERROR, EXIT_USAGE_ERROR = 1, 2

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """A live or saved cluster and the configuration file, as given on the command line."""

    saved: str | None
    kubeconfig: str | None
    context: str | None
    config: str | None
    now: datetime | None
    content: bytes | None = None
    """Of the saved cluster, if it was read already."""

    def configuration(self) -> "Configuration":
        """Return the configuration; exit if it is invalid."""
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
        """Return a snapshot of the cluster and the result of the webhook probe; exit if it can't be read.

        `meanwhile` names modules to import while the server answers.
        """
        with _without_garbage_collection():
            if self.saved is not None:
                raw, source = (
                    (self.content, self.saved) if self.content is not None else read_input_file(self.saved)
                )
                reading = saved_reading(raw, source, configuration.policy)
            else:
                reading = self._read_cluster(configuration, meanwhile)
            from rescheduler.cluster.sources.cluster_kinds import snapshot_of  # noqa: PLC0415

            if self.now is not None:
                reading.now_s = self.now.timestamp()
            for note in reading.notes:
                print_note(note)
            webhook = reading.webhook
            if configuration.policy.scheduler_extender:
                webhook = webhook._replace(steers=True)
            return snapshot_of(reading, configuration.policy), webhook

    def anonymized(self, configuration: "Configuration") -> "ClusterSource":
        """Return the same cluster without its names, as a saved one; exit if it can't be read."""
        from rescheduler.cluster.sources.cluster_export import (  # noqa: PLC0415
            encode_export,
            export_of_file,
            export_of_live,
        )

        if self.saved is not None:
            raw, source = read_input_file(self.saved)
            saved_reading(raw, source, configuration.policy)  # which exits if the file is invalid
            export = export_of_file(raw, source=source)
        else:
            export = self.with_client(configuration, export_of_live)
        content = encode_export(export.without_names(), "anonymized.json")
        return replace(self, saved="anonymized", content=content)

    def default_namespace(self) -> str:
        """Return the namespace of the context, as kubectl does."""
        if self.saved is not None:
            return "default"
        from rescheduler.kube.access import cluster_config  # noqa: PLC0415

        with _exit_on_cluster_error():
            return cluster_config.load_cluster_access(self.kubeconfig, self.context).namespace

    def with_client(self, configuration: "Configuration | None", use: Callable[["Client"], Any]) -> Any:
        """Await `use` with a client, close the client, and return the result."""
        # Half of the import time is OpenSSL, which releases the GIL.
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

        reading: ClusterReading = self.with_client(configuration, read)
        return reading


def _parse_time(_ctx: click.Context, _option: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
        found = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        found = datetime.min.replace(tzinfo=UTC)
    if not MINYEAR < found.year < MAXYEAR:  # in some time zone, the first and the last year overflow
        raise click.BadParameter(f'"{value}" is not a time such as 2026-03-02T12:00:00Z')
    return found


_CLUSTER_OPTIONS = (
    click.option(
        "--from", "saved", metavar="FILE", help="Read a saved cluster from FILE (- for standard input)."
    ),
    click.option("--kubeconfig", metavar="FILE", help="Kubeconfig file; defaults to the one kubectl uses."),
    click.option("--context", metavar="NAME", help="Kubeconfig context; defaults to the current one."),
)
_CONFIG_OPTIONS = (
    click.option(
        "--config",
        metavar="FILE",
        help="Configuration file (docs/configuration.md); without it, all settings have their defaults.",
    ),
    click.option(
        "--now",
        metavar="TIME",
        callback=_parse_time,
        help="Time to assume for ages and windows, such as 2026-03-02T12:00:00Z.",
    ),
)


def cluster_options(command: F) -> F:
    """Add the options for a live or saved cluster, passed as `cluster`."""
    return _with_cluster_source(command, _CLUSTER_OPTIONS)


def cluster_and_config_options(command: F) -> F:
    """Add the options for a live or saved cluster and the configuration, passed as `cluster`."""
    return _with_cluster_source(command, (*_CLUSTER_OPTIONS, *_CONFIG_OPTIONS))


def cluster_connection_options(command: F) -> F:
    """Add the options for a live cluster, passed as `cluster`."""
    return _with_cluster_source(command, _CLUSTER_OPTIONS[1:])


def live_cluster_options(command: F) -> F:
    """Add the options for a live cluster and the configuration, passed as `cluster`."""
    return _with_cluster_source(command, (*_CLUSTER_OPTIONS[1:], _CONFIG_OPTIONS[0]))


def saved_cluster_options(command: F) -> F:
    """Add the options for a saved cluster and the configuration, passed as `cluster`."""
    required = click.option(
        "--from",
        "saved",
        metavar="FILE",
        required=True,
        help="Read a saved cluster from FILE (- for standard input).",
    )
    return _with_cluster_source(command, (required, *_CONFIG_OPTIONS))


def _with_cluster_source(command: F, options: tuple[Callable[[F], F], ...]) -> F:
    @functools.wraps(command)
    def with_cluster(
        *args: Any,
        kubeconfig: str | None = None,
        context: str | None = None,
        saved: str | None = None,
        config: str | None = None,
        now: datetime | None = None,
        **more: Any,
    ) -> Any:
        if saved is not None and (kubeconfig or context):
            raise click.UsageError("--from can't be combined with --kubeconfig or --context")
        return command(*args, cluster=ClusterSource(saved, kubeconfig, context, config, now), **more)

    decorated: Any = with_cluster
    for option in reversed(options):
        decorated = option(decorated)
    found: F = decorated
    return found


def read_input_file(file: str) -> tuple[bytes, str]:
    """Return the content of a file and its name for messages; exit if it can't be read."""
    from kubevalues.saved_cluster import MAX_SAVED_BYTES, read_bounded  # noqa: PLC0415

    name = "standard input" if file == "-" else file
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as opened:
            content = read_bounded(opened, MAX_SAVED_BYTES)
    except (OSError, ValueError) as error:
        exit_with_error(f"{name}: {getattr(error, 'strerror', None) or error}", EXIT_ERROR)
    if content is None:
        exit_with_error(f"{name}: larger than {MAX_SAVED_BYTES} bytes", EXIT_ERROR)
    return content, name


def saved_reading(raw: bytes, source: str, policy: "Policy") -> "ClusterReading":
    """Return the cluster that was saved in a file with this content; exit if it can't be read."""
    from kubevalues.saved_cluster import UnreadableCluster  # noqa: PLC0415
    from rescheduler.cluster.sources.saved_source import read_saved, saved_usage  # noqa: PLC0415

    try:
        reading = read_saved(raw, source=source)
    except UnreadableCluster as error:
        exit_with_error(str(error), EXIT_ERROR)
    reading.usage = saved_usage(reading, policy)
    return reading


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection: reading creates very many objects, and all of them stay.

    Freezing them afterwards saves some tenths of a second when the program exits.
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
    """Turn errors of the cluster into a message and an exit code."""
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
    "-n", "--namespace", metavar="NAME", help="Namespace; defaults to the one of the context."
)


def object_key(name: str, namespace: str | None, cluster: ClusterSource) -> str:
    """Return `namespace/name` for an object that is named as for kubectl, or as NAMESPACE/NAME."""
    if "/" not in name:
        return f"{namespace or cluster.default_namespace()}/{name}"
    if namespace is not None and not name.startswith(f"{namespace}/"):
        raise click.UsageError(f"{name} and -n {namespace} name different namespaces")
    return name
