"""How commands that move pods do it: take the lease and execute, or leave that to whoever has it; and follow.

Ctrl-C once begins nothing more and waits for what is under way; twice leaves at once. Even then nothing is
lost: whoever executes next goes on from what the cluster holds, or rolls back.
"""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rescheduler.cli.logs import set_up_log
from rescheduler.cli.looking import DATA_ERROR, Looking, complain, give_up

if TYPE_CHECKING:
    from rescheduler.cli.progress import Progress
    from rescheduler.config.policy import Configuration
    from rescheduler.controller.plan_run import PlanRun
    from rescheduler.daemon import Rescheduler
    from rescheduler.kube.client import Client
    from rescheduler.model.plan import Plan

__all__ = [
    "INTERRUPTED",
    "Acting",
    "acting_options",
    "carry_out",
    "interrupts",
    "say_who_executes",
    "verbose_option",
]

INTERRUPTED = 130
"""As shells have it for Ctrl-C."""

_ONE_WISH_S = 0.5
"""Some send a signal to a process and to its group: that is one wish, not two."""

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Acting:
    """In which cluster, and with what."""

    looking: Looking
    configuration: "Configuration"
    install: bool = False
    """Whether PodMigration may be defined, if it isn't."""

    def prepare(self) -> None:
        """Ends the program if moves can't be recorded in this cluster."""

        async def prepared(client: "Client") -> None:
            from rescheduler.controller.known_cluster import must_be_defined  # noqa: PLC0415

            if self.install:
                from rescheduler.install.definition import install_definition  # noqa: PLC0415

                await install_definition(client)
            await must_be_defined(client)

        self.ask(prepared)

    def run(self, use: Callable[["Rescheduler"], Awaitable[T]], *, namespace: str = "") -> T:
        """What `use` returns, with the cluster followed. Ends the program if that can't be.

        `namespace` is that of the Lease; by default it is looked for.
        """

        async def used(client: "Client") -> T:
            from rescheduler.controller.webhook_presence import WebhookPresence  # noqa: PLC0415
            from rescheduler.daemon import Rescheduler, lease_key, own_namespace  # noqa: PLC0415

            at = await lease_key(client, self.configuration, namespace or own_namespace(client))
            policy = self.configuration.policy
            webhook = WebhookPresence(client, is_extended=lambda: policy.scheduler_extender)
            rescheduler = Rescheduler(client, self.configuration, lease_at=at, webhook=webhook)
            async with webhook.running(), rescheduler.looking():
                return await use(rescheduler)

        return self.ask(used)

    def ask(self, use: Callable[["Client"], Awaitable[T]]) -> T:
        """What `use` returns. Ends the program if the cluster can't be asked."""
        from rescheduler.controller.known_cluster import MissingDefinition  # noqa: PLC0415

        try:
            found: T = self.looking.with_client(self.configuration, use)
        except MissingDefinition as error:
            give_up(str(error), DATA_ERROR)
        except TimeoutError:
            give_up("the server does not establish the definition of PodMigration", DATA_ERROR)
        return found


def _log(_ctx: click.Context, _option: click.Parameter, verbose: bool) -> None:
    set_up_log("info" if verbose else "error", "text")


verbose_option = click.option(
    "-v", "--verbose", is_flag=True, expose_value=False, callback=_log, help="Log every step."
)


def acting_options(command: F) -> F:
    """`install`; and `verbose`, which has taken effect already."""
    install = click.option("--install", is_flag=True, help="Define PodMigration in the cluster, if need be.")
    return install(verbose_option(command))


async def say_who_executes(rescheduler: "Rescheduler", *, by_hand: bool) -> None:
    """If it is somebody else; and if that one begins nothing now. `by_hand`: some halts are not for those."""
    from rescheduler.controller.state import read_state  # noqa: PLC0415
    from rescheduler.kube import errors  # noqa: PLC0415
    from rescheduler.model.status import UnreadableState  # noqa: PLC0415

    lease = rescheduler.lease
    if not lease.is_held_by_another:
        return
    complain(f"{lease.holder} holds the lease {lease.key}, so the moves are made there")
    try:
        _, status = await read_state(rescheduler.client, lease.key.partition("/")[0])
    except (errors.KubeError, UnreadableState):
        return  # Who may not know it is not told.
    for halt in status.halts if status is not None else ():
        if halt.reason.holds_up_people or not by_hand:
            what = f"nothing of namespace {halt.namespace}" if halt.namespace else "nothing"
            complain(f"{what} is begun there now: {halt.words}. How that ends: {halt.ends}.")


async def carry_out(rescheduler: "Rescheduler", plan: "Plan", progress: "Progress") -> "PlanRun":
    """Until all moves are over, or Ctrl-C was pressed twice."""
    from rescheduler.controller.plan_run import PlanRun  # noqa: PLC0415
    from rescheduler.model.migrations import MANUAL  # noqa: PLC0415

    run = PlanRun(rescheduler.client, rescheduler.followed, plan, progress.tell, record=rescheduler.record)
    async with rescheduler.executing():
        await say_who_executes(rescheduler, by_hand=all(each.strategy == MANUAL for each in plan.moves))
        running = asyncio.create_task(run.run())
        with progress.showing(run.errands), interrupts(run.stop, running.cancel, progress):
            await asyncio.wait([running])
        if not running.cancelled():
            running.result()
    return run


@contextlib.contextmanager
def interrupts(
    first: Callable[[], object], second: Callable[[], object], progress: "Progress"
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
        elif loop.time() - asked_s > _ONE_WISH_S:
            second()

    for number in numbers:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
