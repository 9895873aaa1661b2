"""How commands that move pods do it: take the lease and execute, or leave that to whoever has it; and follow.

Ctrl-C once begins nothing more and waits for what is under way; twice leaves at once. Even then nothing is
lost: whoever executes next goes on from what the cluster holds, or rolls back.

How a command that runs for ever is asked to end: Ctrl-C, or SIGTERM.
"""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rescheduler.cli.cluster_source import EXIT_ERROR, ClusterSource, exit_with_error, print_note
from rescheduler.cli.log_setup import set_up_log

if TYPE_CHECKING:
    from rescheduler.cli.progress_display import ProgressDisplay
    from rescheduler.config.policy import Configuration
    from rescheduler.daemon.components import Rescheduler
    from rescheduler.kube.client import Client
    from rescheduler.migrations.controller.plan_execution import PlanExecution
    from rescheduler.planner.plan import Plan
__all__ = [
    "EXIT_INTERRUPTED",
    "Execution",
    "execute_plan",
    "execution_options",
    "interrupt_handlers",
    "report_other_executor",
    "sigterm_as_keyboard_interrupt",
    "stop_event_on_signals",
    "verbose_option",
]

EXIT_INTERRUPTED = 130
"""As shells have it for Ctrl-C."""

_REPEATED_SIGNAL_S = 0.5
"""Some send a signal to a process and to its group: that is one wish, not two."""

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Execution:
    """In which cluster, and with what."""

    cluster: ClusterSource
    configuration: "Configuration"
    install: bool = False
    """Whether PodMigration may be defined, if it isn't."""

    def prepare(self) -> None:
        """Ends the program if moves can't be recorded in this cluster."""

        async def prepared(client: "Client") -> None:
            from rescheduler.cluster.sources.watched_cluster import require_podmigration_crd  # noqa: PLC0415

            if self.install:
                from rescheduler.install.cluster_installation import install_definition  # noqa: PLC0415

                await install_definition(client)
            await require_podmigration_crd(client)

        self.ask(prepared)

    def run(self, use: Callable[["Rescheduler"], Awaitable[T]], *, namespace: str = "") -> T:
        """What `use` returns, with the cluster followed. Ends the program if that can't be.

        `namespace` is that of the Lease; by default it is looked for.
        """

        async def used(client: "Client") -> T:
            from rescheduler.daemon.components import Rescheduler, lease_key, own_namespace  # noqa: PLC0415
            from rescheduler.steering.webhook.webhook_presence import WebhookPresence  # noqa: PLC0415

            at = await lease_key(client, self.configuration, namespace or own_namespace(client))
            policy = self.configuration.policy
            webhook = WebhookPresence(client, is_extended=lambda: policy.scheduler_extender)
            rescheduler = Rescheduler(client, self.configuration, lease_at=at, webhook=webhook)
            async with webhook.running(), rescheduler.looking():
                return await use(rescheduler)

        return self.ask(used)

    def ask(self, use: Callable[["Client"], Awaitable[T]]) -> T:
        """What `use` returns. Ends the program if the cluster can't be asked."""
        from rescheduler.cluster.sources.watched_cluster import MissingPodMigrationCRD  # noqa: PLC0415

        try:
            found: T = self.cluster.with_client(self.configuration, use)
        except MissingPodMigrationCRD as error:
            exit_with_error(str(error), EXIT_ERROR)
        except TimeoutError:
            exit_with_error("the server does not establish the definition of PodMigration", EXIT_ERROR)
        return found


def _enable_log(_ctx: click.Context, _option: click.Parameter, verbose: bool) -> None:
    set_up_log("info" if verbose else "error", "text")


verbose_option = click.option(
    "-v", "--verbose", is_flag=True, expose_value=False, callback=_enable_log, help="Log every step."
)


def execution_options(command: F) -> F:
    """`install`; and `verbose`, which has taken effect already."""
    install = click.option("--install", is_flag=True, help="Define PodMigration in the cluster, if need be.")
    return install(verbose_option(command))


async def report_other_executor(rescheduler: "Rescheduler", *, by_hand: bool) -> None:
    """If it is somebody else; and if that one begins nothing now. `by_hand`: some halts are not for those."""
    from rescheduler.api.daemon_status import UnreadableState  # noqa: PLC0415
    from rescheduler.daemon.own_objects import read_state  # noqa: PLC0415
    from rescheduler.kube import errors  # noqa: PLC0415

    lease = rescheduler.lease
    if not lease.is_held_by_another:
        return
    print_note(f"{lease.holder} holds the lease {lease.key}, so the moves are made there")
    try:
        _, status = await read_state(rescheduler.client, lease.key.partition("/")[0])
    except (errors.KubeError, UnreadableState):
        return  # Who may not know it is not told.
    for halt in status.halts if status is not None else ():
        if halt.reason.blocks_manual_moves or not by_hand:
            what = f"nothing of namespace {halt.namespace}" if halt.namespace else "nothing"
            print_note(f"{what} is begun there now: {halt.words}. How that ends: {halt.ends}.")


async def execute_plan(
    rescheduler: "Rescheduler", plan: "Plan", progress: "ProgressDisplay"
) -> "PlanExecution":
    """Until all moves are over, or Ctrl-C was pressed twice."""
    from rescheduler.api.podmigration import MANUAL  # noqa: PLC0415
    from rescheduler.migrations.controller.plan_execution import PlanExecution  # noqa: PLC0415

    run = PlanExecution(
        rescheduler.client, rescheduler.followed, plan, progress.tell, record=rescheduler.record
    )
    async with rescheduler.executing():
        await report_other_executor(rescheduler, by_hand=all(each.strategy == MANUAL for each in plan.moves))
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
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    asked_s = 0.0

    def on_signal() -> None:
        nonlocal asked_s
        if not progress.is_interrupted:
            asked_s = loop.time()
            progress.interrupted()
            first()
        elif loop.time() - asked_s > _REPEATED_SIGNAL_S:
            second()

    for number in numbers:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def stop_event_on_signals() -> asyncio.Event:
    """Set when either arrives; from now on they do nothing else."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    return ended


@contextlib.contextmanager
def sigterm_as_keyboard_interrupt() -> Iterator[None]:
    """Where no event loop runs yet: SIGTERM raises KeyboardInterrupt, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
