"""How a command gets to see a cluster: the options that say which one, and what becomes of failures.

What stands here is imported by `--help` too; everything that takes time is imported when it is needed.
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
    from rescheduler.config.policy import Configuration, Policy
    from rescheduler.kube.client import Client
    from rescheduler.model.webhook_registration import WebhookAnswers
    from rescheduler.snapshot.snapshot import Snapshot
    from rescheduler.sources.reading import Reading

__all__ = [
    "DATA_ERROR",
    "USAGE_ERROR",
    "Looking",
    "complain",
    "file_bytes",
    "give_up",
    "live_options",
    "looking_options",
    "saved_options",
    "which_cluster",
]

DATA_ERROR, USAGE_ERROR = 1, 2

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Looking:
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
        from rescheduler.config.faults import ConfigurationError  # noqa: PLC0415
        from rescheduler.config.loading import load_file  # noqa: PLC0415
        from rescheduler.config.strategies import known_strategies  # noqa: PLC0415

        try:
            loaded = load_file(Path(self.config), known_strategies())
        except ConfigurationError as error:
            give_up(str(error), USAGE_ERROR)
        for note in loaded.notes:
            complain(f"{self.config}: {note}")
        return loaded.configuration

    def seen(
        self, configuration: "Configuration", *, meanwhile: Sequence[str] = ()
    ) -> "tuple[Snapshot, WebhookAnswers]":
        """The cluster, and what the webhook was seen to do there.

        Ends the program if there is no cluster to be seen. `meanwhile` names modules that will be needed, to
        be imported while a server answers.
        """
        with _without_garbage_collection():
            if self.saved is not None:
                reading = self._read_file(self.saved, configuration.policy)
            else:
                reading = self._read_cluster(configuration, meanwhile)
            from rescheduler.sources.reading import snapshot_of  # noqa: PLC0415

            if self.now is not None:
                reading.now_s = self.now.timestamp()
            for note in reading.notes:
                complain(note)
            webhook = reading.webhook
            if configuration.policy.scheduler_extender:
                webhook = webhook._replace(steers=True)
            return snapshot_of(reading, configuration.policy), webhook

    def default_namespace(self) -> str:
        """As kubectl has it: the context's."""
        if self.saved is not None:
            return "default"
        from rescheduler.kube import cluster_config  # noqa: PLC0415

        with _told():
            return cluster_config.load(self.kubeconfig, self.context).namespace

    def with_client(self, configuration: "Configuration | None", use: Callable[["Client"], Any]) -> Any:
        """What `use` returns, awaited, with a client that is closed afterwards."""
        # Half of what it takes to import is OpenSSL, which lets others go on meanwhile.
        threading.Thread(target=import_module, args=("aiohttp",)).start()
        named = self.kubeconfig or (configuration and configuration.client_connection.kubeconfig)

        async def used() -> Any:
            async with contextlib.AsyncExitStack() as stack:
                from rescheduler.kube import Client, Network, cluster_config  # noqa: PLC0415

                network = Network(cluster_config.load(named or None, self.context))
                stack.push_async_callback(network.close)
                return await use(Client(network))

        with _told():
            return asyncio.run(used())

    def _read_file(self, file: str, policy: "Policy") -> "Reading":
        from rescheduler.model.saved_cluster import UnreadableCluster  # noqa: PLC0415
        from rescheduler.sources.saved import read_saved, saved_usage  # noqa: PLC0415

        raw, source = file_bytes(file)
        try:
            reading = read_saved(raw, source=source)
        except UnreadableCluster as error:
            give_up(str(error), DATA_ERROR)
        reading.usage = saved_usage(reading, policy)
        return reading

    def _read_cluster(self, configuration: "Configuration", meanwhile: Sequence[str]) -> "Reading":
        async def read(client: "Client") -> "Reading":
            from rescheduler.sources.live import read_live  # noqa: PLC0415
            from rescheduler.sources.together import together  # noqa: PLC0415
            from rescheduler.sources.webhook_probe import webhook_answers  # noqa: PLC0415
            from rescheduler.usage.reading import usage_reader  # noqa: PLC0415

            async with contextlib.AsyncExitStack() as stack:
                usage = usage_reader(configuration.policy, client)
                stack.push_async_callback(usage.close)
                work: list[Coroutine[Any, Any, Any]] = [
                    read_live(client, usage, meanwhile=meanwhile),
                    webhook_answers(client),
                ]
                reading: Reading
                reading, reading.webhook = await together(work)
                return reading

        found: Reading = self.with_client(configuration, read)
        return found


def _moment(_ctx: click.Context, _option: click.Parameter, value: str | None) -> datetime | None:
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


_WHICH = (
    click.option("--from", "saved", metavar="FILE", help="A saved cluster (-: standard input)."),
    click.option("--kubeconfig", metavar="FILE", help="Kubeconfig to use; by default as for kubectl."),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig; by default its current one."),
)
_HOW = (
    click.option(
        "--config", metavar="FILE", help="The configuration (docs/configuration.md); by default all defaults."
    ),
    click.option(
        "--now",
        metavar="TIME",
        callback=_moment,
        help="What the time is, for ages and windows, such as 2026-03-02T12:00:00Z.",
    ),
)


def which_cluster(command: F) -> F:
    """Options for the cluster; they arrive as `looking`."""
    return _passing(command, _WHICH)


def looking_options(command: F) -> F:
    """Options for the cluster and the configuration; they arrive as `looking`."""
    return _passing(command, (*_WHICH, *_HOW))


def live_options(command: F) -> F:
    """For commands that change a cluster: no file will do, and the time is what it is. As `looking`."""
    return _passing(command, (*_WHICH[1:], _HOW[0]))


def saved_options(command: F) -> F:
    """For commands that need a file, and no cluster. As `looking`."""
    required = click.option(
        "--from", "saved", metavar="FILE", required=True, help="A saved cluster (-: standard input)."
    )
    return _passing(command, (required, *_HOW))


def _passing(command: F, options: tuple[Callable[[F], F], ...]) -> F:
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
        return command(*args, looking=Looking(saved, kubeconfig, context, config, now), **more)

    decorated: Any = passing
    for option in reversed(options):
        decorated = option(decorated)
    found: F = decorated
    return found


def file_bytes(file: str) -> tuple[bytes, str]:
    """What is in it, and how messages name it. Ends the program if it can't be read."""
    from rescheduler.model.saved_cluster import LARGEST_BYTES, read_bounded  # noqa: PLC0415

    name = "standard input" if file == "-" else file
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as opened:
            content = read_bounded(opened, LARGEST_BYTES)
    except (OSError, ValueError) as error:
        give_up(f"{name}: {getattr(error, 'strerror', None) or error}", DATA_ERROR)
    if content is None:
        give_up(f"{name}: more than {LARGEST_BYTES} bytes, which no saved cluster has", DATA_ERROR)
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
def _told() -> Iterator[None]:
    """What goes wrong with a cluster is told in a sentence."""
    from rescheduler.install.installations import AmbiguousInstallation  # noqa: PLC0415
    from rescheduler.kube import BadClusterConfig, KubeError  # noqa: PLC0415
    from rescheduler.sources.live import EmptyCluster  # noqa: PLC0415

    try:
        yield
    except (BadClusterConfig, KubeError, EmptyCluster, AmbiguousInstallation) as error:
        give_up(str(error), DATA_ERROR)


def complain(message: str) -> None:
    echo(f"note: {message}", err=True)


def give_up(message: str, code: int) -> NoReturn:
    echo(message, err=True)
    sys.exit(code)
