"""Execution of moves by commands: acquire the Lease, or leave the moves to its holder, and show the progress.

After the first Ctrl-C, no more moves start and the command waits for the running ones; the second exits
immediately. Nothing is lost: the next process that holds the Lease continues the moves or rolls them back.
"""

import asyncio
import contextlib
import gc
import getpass
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rescheduler.cli.cluster_source import EXIT_ERROR, ClusterSource, exit_with_error, print_note
from rescheduler.cli.log_setup import set_up_log

if TYPE_CHECKING:
    from rescheduler.cli.move_status import ProgressDisplay
    from rescheduler.config.policy import Configuration
    from rescheduler.daemon.components import Rescheduler
    from rescheduler.kube.client import Client
    from rescheduler.migrations.controller.plan_execution import PlanExecution
    from rescheduler.planner.plan import Plan
__all__ = [
    "CONTINUE_HINT",
    "EXIT_INTERRUPTED",
    "Execution",
    "current_user",
    "execute_plan",
    "execution_options",
    "interrupt_handlers",
    "report_other_executor",
    "requesting_user",
    "short_collections",
    "stop_event_on_signals",
    "verbose_option",
]

EXIT_INTERRUPTED = 130
"""The exit code of shells after Ctrl-C."""

CONTINUE_HINT = (
    "The daemon continues what is still running. If no daemon runs, run: rescheduler migrations --resume"
)

_REPEATED_SIGNAL_S = 0.5
"""Time in which a second signal is ignored: one sent to a process and to its group arrives twice."""

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Execution:
    """Runs functions against a cluster, and exits with a message if an error of the cluster ends them."""

    cluster: ClusterSource
    configuration: "Configuration"
    install: bool = False
    """Install the PodMigration CRD if it is missing."""

    def prepare(self, namespace: str = "") -> None:
        """Install the PodMigration CRD if that is requested; exit if the cluster doesn't have it.

        With a namespace, the user need not be allowed to list PodMigrations elsewhere.
        """
        self.ask(lambda client: self.require_crd(client, namespace))

    async def require_crd(self, client: "Client", namespace: str = "") -> None:
        """Install the PodMigration CRD if that is requested; raise `MissingPodMigrationCRD` without one."""
        from rescheduler.cluster.sources.watched_cluster import require_podmigration_crd  # noqa: PLC0415

        if self.install:
            from rescheduler.install.cluster_installation import install_definition  # noqa: PLC0415

            await install_definition(client)
        await require_podmigration_crd(client, namespace)

    def run(self, use: Callable[["Rescheduler"], Awaitable[T]], *, namespace: str = "") -> T:
        """Await `use` with a `Rescheduler` that watches the cluster, and return the result.

        `namespace` is the namespace of the Lease; by default, it is looked up in the cluster.
        """

        async def used(client: "Client") -> T:
            async with self.watching(client, namespace=namespace) as rescheduler:
                async with rescheduler.checking() as checker:
                    await checker.measure()
                return await use(rescheduler)

        return self.ask(used)

    @contextlib.asynccontextmanager
    async def watching(
        self, client: "Client", *, namespace: str = "", only: bool = False
    ) -> AsyncIterator["Rescheduler"]:
        """Yield a `Rescheduler` that has read the cluster, and watch the cluster while the body runs.

        With `only`, nothing is executed, and the cluster needs no PodMigration CRD.
        """
        from rescheduler.daemon.components import Rescheduler, lease_key, own_namespace  # noqa: PLC0415
        from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder  # noqa: PLC0415
        from rescheduler.steering.webhook.webhook_presence import WebhookPresence  # noqa: PLC0415

        at = await lease_key(client, self.configuration, namespace or own_namespace(client))
        # dryRun is for the daemon: this command is run in order to move pods.
        runtime = RuntimeStateHolder(RuntimeState(replace(self.configuration.policy, dry_run=False)))
        webhook = WebhookPresence(client, runtime)
        rescheduler = Rescheduler(client, self.configuration, lease_at=at, runtime=runtime, webhook=webhook)
        async with webhook.running(), rescheduler.watching(only=only):
            yield rescheduler

    def ask(self, use: Callable[["Client"], Awaitable[T]]) -> T:
        """Await `use` with a client and return the result."""
        from rescheduler.cluster.sources.watched_cluster import MissingPodMigrationCRD  # noqa: PLC0415

        try:
            found: T = self.cluster.with_client(self.configuration, use)
        except MissingPodMigrationCRD as error:
            exit_with_error(str(error), EXIT_ERROR)
        except TimeoutError:
            exit_with_error("the API server did not establish the PodMigration CRD in time", EXIT_ERROR)
        return found


def _enable_log(_ctx: click.Context, _option: click.Parameter, verbose: bool) -> None:
    set_up_log("info" if verbose else "error", "text")


verbose_option = click.option(
    "-v", "--verbose", is_flag=True, expose_value=False, callback=_enable_log, help="Log every step."
)


def execution_options(command: F) -> F:
    """Add --install, passed as `install`, and --verbose, which sets up the log."""
    install = click.option("--install", is_flag=True, help="Install the PodMigration CRD if it is missing.")
    return install(verbose_option(command))


def current_user() -> str:
    """Return `USER@HOST` of the process that runs this command, as a hint for other users."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # many containers have no entry for the user
        return socket.gethostname()


async def requesting_user(client: "Client") -> str:
    """Return the user who requests the moves of this command, as the API server knows them, and `USER@HOST`.

    Both are needed: many people share a name like `kubernetes-admin`, and `USER@HOST` is not verified.
    """
    from rescheduler.web.web_authorization import review_own_name  # noqa: PLC0415

    name, local = await review_own_name(client), current_user()
    return f"{name} ({local})" if name else local


async def report_other_executor(rescheduler: "Rescheduler", *, is_manual: bool) -> None:
    """Print a note if another process makes the moves, and a note for each of its halts that blocks them."""
    from rescheduler.api.daemon_status import UnreadableState  # noqa: PLC0415
    from rescheduler.daemon.own_objects import read_state  # noqa: PLC0415
    from rescheduler.kube import errors  # noqa: PLC0415

    lease = rescheduler.lease
    if not lease.is_held_by_another:
        return
    print_note(f"{lease.holder} holds the Lease {lease.key} and makes the moves")
    try:
        _, status = await read_state(rescheduler.client, lease.key.partition("/")[0])
    except (errors.KubeError, UnreadableState):
        return  # without permission to read the state, its halts are unknown
    for halt in status.halts if status is not None else ():
        if halt.reason.blocks_manual_moves or not is_manual:
            where = f" in namespace {halt.namespace}" if halt.namespace else ""
            print_note(f"{lease.holder} starts no moves{where} now: {halt.words}. Ends: {halt.ends}.")


async def execute_plan(
    rescheduler: "Rescheduler",
    plan: "Plan",
    progress: "ProgressDisplay",
    migrations: Sequence[str] = (),
    requested_by: str = "",
) -> "PlanExecution":
    """Execute the plan until all moves are finished or Ctrl-C was pressed twice.

    `migrations` are the keys of its migrations if all of them exist already. `requested_by` is the user if it
    is known already.
    """
    from rescheduler.api.podmigration import MANUAL  # noqa: PLC0415
    from rescheduler.api.well_known_names import REQUESTED_BY_ANNOTATION  # noqa: PLC0415
    from rescheduler.migrations.controller.plan_execution import PlanExecution  # noqa: PLC0415

    run = PlanExecution(
        rescheduler.client,
        rescheduler.watched,
        plan,
        progress.on_progress,
        record=rescheduler.record,
        annotations={REQUESTED_BY_ANNOTATION: requested_by or await requesting_user(rescheduler.client)},
    )
    for move, key in zip(run.moves, migrations, strict=False):
        move.key = key
    async with rescheduler.executing():
        await report_other_executor(
            rescheduler, is_manual=all(each.strategy == MANUAL for each in plan.moves)
        )
        running = asyncio.create_task(run.run())
        with progress.showing(run.moves), interrupt_handlers(run.stop, running.cancel, progress):
            await asyncio.wait([running])
        if not running.cancelled():
            running.result()
    return run


@contextlib.contextmanager
def interrupt_handlers(
    first: Callable[[], object], second: Callable[[], object], progress: "ProgressDisplay"
) -> Iterator[None]:
    """Call `first` on the first Ctrl-C or SIGTERM and `second` on the next."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    interrupted_s = 0.0

    def on_signal() -> None:
        nonlocal interrupted_s
        if not progress.is_interrupted:
            interrupted_s = loop.time()
            progress.interrupted()
            first()
        elif loop.time() - interrupted_s > _REPEATED_SIGNAL_S:
            second()

    for number in numbers:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def stop_event_on_signals() -> asyncio.Event:
    """Return an event that Ctrl-C or SIGTERM sets."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    return ended


_LONG_COLLECTION_S = 0.01


@contextlib.contextmanager
def short_collections() -> Iterator[None]:
    """Exempt objects that survive a long garbage collection from all later ones.

    A collection stops the event loop. With 150,000 pods in caches, it takes 50 ms and frees nothing, because
    records have no reference cycles.
    """
    began_s = time.perf_counter()

    def on_collection(phase: str, info: dict[str, int]) -> None:
        nonlocal began_s
        if phase == "start":
            began_s = time.perf_counter()
        elif info["generation"] == 2 and time.perf_counter() - began_s > _LONG_COLLECTION_S:
            gc.freeze()

    gc.callbacks.append(on_collection)
    try:
        yield
    finally:
        gc.callbacks.remove(on_collection)
