"""The cluster that a command reads, its configuration, and how errors end the command.

Slow imports are inside the functions, because `--help` imports this module too.
"""

import asyncio
import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rescheduler.cli.terminal import echo_lines, terminal_of, wrapped

if TYPE_CHECKING:
    from rescheduler.cluster.pod_record import PodRecord
    from rescheduler.cluster.snapshot import Snapshot
    from rescheduler.cluster.sources.cluster_kinds import ClusterReading, WebhookProbeResult
    from rescheduler.config.config_loader import LoadedConfiguration
    from rescheduler.config.policy import Configuration, Policy
    from rescheduler.install.cluster_installation import InstalledConfiguration
    from rescheduler.kube.client import Client
    from rescheduler.kube.codecs.codec import ListPage

__all__ = [
    "EXIT_ERROR",
    "EXIT_USAGE_ERROR",
    "ClusterSource",
    "exit_with_error",
    "print_note",
    "print_words",
    "read_input_file",
    "saved_reading",
]

EXIT_ERROR, EXIT_USAGE_ERROR = 1, 2


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """A live or saved cluster and the configuration file, as given on the command line."""

    saved: str | None
    kubeconfig: str | None
    context: str | None
    config: str | None
    now: datetime | None
    content: bytes | None = None
    """The content of the saved cluster, if it was read already."""
    defaults: bool = False
    """Whether to ignore the configuration of the installed daemon."""

    def configuration(self) -> "Configuration":
        """Return the configuration of the file, or the defaults; exit if it is invalid."""
        if self.config is None:
            from rescheduler.config.policy import Configuration  # noqa: PLC0415 - not the loader

            return Configuration()
        from rescheduler.config.config_loader import load_file  # noqa: PLC0415

        return _loaded(lambda strategies: load_file(Path(self.config or ""), strategies), self.config)

    def effective_configuration(self) -> "Configuration":
        """Return the configuration of the installed daemon, unless the user chose another; print which.

        A plan with settings that the daemon does not use would be misleading.
        """
        if self.config is not None:
            print_words(f"Using the configuration in {self.config}.")
        if self.config is not None or self.saved is not None or self.defaults:
            return self.configuration()
        found: tuple[InstalledConfiguration | None, str] = self.with_client(None, _installed_configuration)
        return self._configuration_of(*found)

    def _configuration_of(self, found: "InstalledConfiguration | None", why_not: str) -> "Configuration":
        """Return the configuration of the installed daemon, or the defaults, and print which is used."""
        if found is None:
            print_words(f"Using the default configuration: {why_not}.")
            return self.configuration()
        from rescheduler.config.config_loader import load_content  # noqa: PLC0415

        loaded = _loaded(
            lambda strategies: load_content(found.content, strategies, source=found.source),
            found.source,
            "To use another one, specify --config or --defaults.",
        )
        print_words(f"Using the configuration of the installed daemon ({found.source}).")
        election = loaded.leader_election
        return replace(
            loaded,
            # A path of a kubeconfig is valid only in the daemon's container.
            client_connection=replace(loaded.client_connection, kubeconfig=None),
            leader_election=replace(
                election, resource_namespace=election.resource_namespace or found.namespace
            ),
        )

    def read_configured(
        self,
        configure: "Callable[[Configuration], Configuration]",
        *,
        meanwhile: Sequence[str] = (),
    ) -> "tuple[Configuration, Snapshot, WebhookProbeResult]":
        """Return the effective configuration, changed by `configure`, and the results of `read_snapshot`.

        Pods are requested first, because the server needs longest for them. While it answers, the
        configuration is looked up and modules are imported.
        """
        if self.saved is not None or self.config is not None or self.defaults:
            configuration = configure(self.effective_configuration())
            return configuration, *self.read_snapshot(configuration, meanwhile=meanwhile)

        async def read(client: "Client") -> "tuple[Configuration, ClusterReading]":
            from rescheduler.cluster.codecs.record_resources import PODS  # noqa: PLC0415

            pods = asyncio.ensure_future(client.list(PODS, version="0"))
            try:
                await asyncio.to_thread(lambda: [*map(import_module, _READING_MODULES)])
                configuration = configure(self._configuration_of(*await _installed_configuration(client)))
                return configuration, await _read_cluster(client, configuration, meanwhile, pods)
            finally:
                pods.cancel()
                await asyncio.gather(pods, return_exceptions=True)

        with _without_garbage_collection():
            configuration, reading = self.with_client(None, read)
            return configuration, *self._snapshot_of(reading, configuration)

    def read_snapshot(
        self,
        configuration: "Configuration",
        *,
        meanwhile: Sequence[str] = (),
        more_pods: "Sequence[PodRecord]" = (),
    ) -> "tuple[Snapshot, WebhookProbeResult]":
        """Return a snapshot of the cluster and the result of the webhook probe; exit if reading fails.

        `meanwhile` names modules to import while the server answers; `more_pods` are added to the cluster.
        """
        with _without_garbage_collection():
            if self.saved is not None:
                raw, source = (
                    (self.content, self.saved) if self.content is not None else read_input_file(self.saved)
                )
                reading = saved_reading(raw, source, configuration.policy)
            else:
                reading = self.with_client(
                    configuration, lambda client: _read_cluster(client, configuration, meanwhile)
                )
            return self._snapshot_of(reading, configuration, more_pods)

    def _snapshot_of(
        self, reading: "ClusterReading", configuration: "Configuration", more_pods: "Sequence[PodRecord]" = ()
    ) -> "tuple[Snapshot, WebhookProbeResult]":
        from rescheduler.cluster.sources.cluster_kinds import snapshot_of  # noqa: PLC0415

        if self.now is not None:
            reading.now_s = self.now.timestamp()
        for note in reading.notes:
            print_note(note)
        for pod in more_pods:
            reading.state.apply_pod(pod)
        webhook = reading.webhook
        if configuration.policy.scheduler_extender:
            webhook = webhook._replace(steers=True)
        return snapshot_of(reading, configuration.policy), webhook

    def anonymized(self, configuration: "Configuration") -> "ClusterSource":
        """Return the same cluster, saved and without its names; exit if it can't be read."""
        from rescheduler.cluster.sources.cluster_export import (  # noqa: PLC0415
            encode_export,
            export_of_file,
            export_of_live,
        )

        policy = configuration.policy
        if self.saved is not None:
            raw, source = read_input_file(self.saved)
            saved_reading(raw, source, policy)  # exits if the file is invalid
            export = export_of_file(raw, source=source)
        else:
            export = self.with_client(configuration, lambda client: export_of_live(client, policy))
        # These names are kept, because the plan finds the values of metrics by name.
        metrics = [each.name for each in policy.custom_metrics]
        content = encode_export(export.without_names(metrics), "anonymized.json")
        return replace(self, saved="anonymized", content=content)

    def default_namespace(self) -> str:
        """Return the namespace of the context, as kubectl does."""
        if self.saved is not None:
            return "default"
        from rescheduler.kube.access import cluster_config  # noqa: PLC0415

        with _exit_on_cluster_error():
            return cluster_config.load_cluster_access(self.kubeconfig, self.context).namespace

    def address(self) -> str:
        """Return the address of the live cluster's API server, and the source of the address."""
        from rescheduler.kube.access import cluster_config  # noqa: PLC0415

        with _exit_on_cluster_error():
            access = cluster_config.load_cluster_access(self.kubeconfig, self.context)
        return f"{access.server}, {access.source}"

    def with_client(self, configuration: "Configuration | None", use: Callable[["Client"], Any]) -> Any:
        """Await `use` with a client, close the client, and return the result."""
        # Half of the import time is OpenSSL, which releases the GIL.
        threading.Thread(target=import_module, args=("aiohttp",)).start()
        named = self.kubeconfig or (configuration and configuration.client_connection.kubeconfig)

        async def used() -> Any:
            async with contextlib.AsyncExitStack() as stack:
                from rescheduler.kube.access import cluster_config  # noqa: PLC0415
                from rescheduler.kube.client import Client  # noqa: PLC0415
                from rescheduler.kube.errors import Unreachable  # noqa: PLC0415
                from rescheduler.kube.http_transport import HttpTransport  # noqa: PLC0415

                access = cluster_config.load_cluster_access(named or None, self.context)
                network = HttpTransport(access)
                stack.push_async_callback(network.close)
                try:
                    return await use(Client(network))
                except Unreachable as error:
                    if error.may_have_happened:
                        raise
                    # Don't name the request: which of many failed first is chance if the server is down.
                    why = error.why.removeprefix(f"{access.server}: ")
                    advice = f"can't reach the API server {access.server}: {why}. {error.advice()}"
                    exit_with_error(f"{advice} The address is from {access.source}.", EXIT_ERROR)

        with _exit_on_cluster_error():
            return asyncio.run(used())


_READING_MODULES = (
    "rescheduler.install.cluster_installation",
    "rescheduler.cluster.sources.usage_sources",
    "rescheduler.cluster.sources.live_source",
)
"""Modules that are needed to read a cluster after the first request is sent."""


async def _installed_configuration(client: "Client") -> "tuple[InstalledConfiguration | None, str]":
    """Return the daemon's configuration, or None and why there is none."""
    from rescheduler.config.policy import LeaderElection  # noqa: PLC0415
    from rescheduler.install.cluster_installation import (  # noqa: PLC0415
        AmbiguousInstallation,
        read_installed_configuration,
    )
    from rescheduler.kube.errors import Forbidden, NotFound  # noqa: PLC0415

    try:
        found = await read_installed_configuration(client, LeaderElection().resource_name)
    except (AmbiguousInstallation, Forbidden, NotFound) as error:
        return None, str(error).rstrip(".")
    return found, "rescheduler is not installed in this cluster"


async def _read_cluster(
    client: "Client",
    configuration: "Configuration",
    meanwhile: Sequence[str],
    pods: "asyncio.Future[ListPage[PodRecord]] | None" = None,
) -> "ClusterReading":
    """Read the cluster; `pods` is the list of its pods, if it was requested already."""
    from rescheduler.cluster.sources.live_source import (  # noqa: PLC0415
        gather_all,
        probe_webhook_if_registered,
        read_live,
    )
    from rescheduler.cluster.sources.usage_sources import usage_reader  # noqa: PLC0415

    async with contextlib.AsyncExitStack() as stack:
        usage = usage_reader(configuration.policy, client)
        stack.push_async_callback(usage.close)
        work: list[Coroutine[Any, Any, Any]] = [
            read_live(client, usage, meanwhile=meanwhile, pods=pods),
            probe_webhook_if_registered(client),
        ]
        reading: ClusterReading
        reading, reading.webhook = await gather_all(work)
        return reading


def _loaded(
    load: "Callable[[Collection[str]], LoadedConfiguration]", source: str, remedy: str = ""
) -> "Configuration":
    """Return the configuration and print its notes; exit if it is invalid."""
    from rescheduler.config.config_validation import ConfigurationError, known_strategies  # noqa: PLC0415

    try:
        loaded = load(known_strategies())
    except ConfigurationError as error:
        exit_with_error(f"{error}\n{remedy}".rstrip(), EXIT_USAGE_ERROR)
    for note in loaded.notes:
        print_note(f"{source}: {note}")
    return loaded.configuration


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
    """Return the saved cluster in the content of a file; exit if it can't be read."""
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
    """Disable garbage collection: reading creates very many objects and releases none of them.

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
    try:
        yield
    except Exception as error:
        # Imported only now: these modules take longer than everything else before the first request.
        from rescheduler.cluster.sources.live_source import EmptyCluster  # noqa: PLC0415
        from rescheduler.install.cluster_installation import AmbiguousInstallation  # noqa: PLC0415
        from rescheduler.kube.access.cluster_access import BadClusterConfig  # noqa: PLC0415
        from rescheduler.kube.errors import KubeError  # noqa: PLC0415

        if not isinstance(error, (BadClusterConfig, KubeError, EmptyCluster, AmbiguousInstallation)):
            raise
        exit_with_error(str(error), EXIT_ERROR)


def print_note(message: str) -> None:
    print_words(f"note: {message}")


def print_words(text: str, *, err: bool = True) -> None:
    """Print lines, wrapped between words, because a terminal would break them within a name."""
    terminal = terminal_of(sys.stderr if err else sys.stdout)
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        echo_lines(wrapped(terminal, line.strip(), indent=indent) if line.strip() else [""], err=err)


def exit_with_error(message: str, code: int) -> NoReturn:
    print_words(message)
    sys.exit(code)
