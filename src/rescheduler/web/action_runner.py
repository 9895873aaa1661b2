"""Perform confirmed actions in the background, with the viewer's own client.

An action returns its result as soon as its first requests are made. A plan of several waves continues while
this process runs; moves that are not requested by then are left to the next check of the daemon.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from rescheduler.daemon.components import Rescheduler
from rescheduler.daemon.node_drain import NodeDrain, wait_for_labels
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.migrations.controller.plan_execution import MoveProgress, PlanExecution
from rescheduler.planner.plan import Plan
from rescheduler.web.plan_api_types import ActionKind, ActionResult
from rescheduler.web.web_viewer import ActionImpossible

__all__ = ["ActionRunner", "Answer", "Perform"]

Answer = Callable[[ActionResult], None]
Perform = Callable[[Client, Answer], Awaitable[None]]
"""Makes the requests of an action, and calls the answer when the first of them are made."""

_MOST_RUNNING: Final = 20
_FIRST_WAVE_S: Final = 5.0


class ActionRunner:
    def __init__(self, rescheduler: Rescheduler, *, executes: bool) -> None:
        """Create the runner; with `executes`, migrations run here while actions run, unless another process
        leads."""
        self._rescheduler = rescheduler
        self._executes = executes
        self._executing = 0
        self._released = asyncio.Event()
        self._execution: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        for task in tuple(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._execution is not None:
            await asyncio.gather(self._execution, return_exceptions=True)

    async def run(self, connect: AbstractAsyncContextManager[Client], perform: Perform) -> ActionResult:
        """Perform an action; return its answer. Raises `ActionImpossible` and `KubeError`."""
        if len(self._running) >= _MOST_RUNNING:
            raise ActionImpossible("too many actions are running: wait until some have finished")
        answered: asyncio.Future[ActionResult] = asyncio.get_running_loop().create_future()

        def answer(result: ActionResult) -> None:
            if not answered.done():
                answered.set_result(result)

        async def performed() -> None:
            try:
                async with connect as client:
                    await perform(client, answer)
            except (errors.KubeError, ActionImpossible) as error:
                if not answered.done():
                    answered.set_exception(error)

        task = asyncio.create_task(performed(), name="action of the page")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        either: set[asyncio.Future[Any]] = {task, answered}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():
            answered.cancel()
            task.result()  # a bug: raise it where it is logged
            raise ActionImpossible("the action ended without a result")
        return answered.result()

    async def execute(
        self, kind: ActionKind, client: Client, plan: Plan, answer: Answer, annotations: Mapping[str, str]
    ) -> None:
        """Create the PodMigrations of a plan with these annotations, wave by wave."""
        first_wave_created = asyncio.Event()

        def on_progress(_: MoveProgress) -> None:
            if all(each.key or each.cancelled_because for each in first):
                first_wave_created.set()

        run = PlanExecution(client, self._rescheduler.watched, plan, on_progress, annotations=annotations)
        first = [each for each in run.moves if each.move.wave == run.moves[0].move.wave]
        async with self._executing_here():
            running = asyncio.create_task(run.run(), name="plan from the page")
            try:
                waiting = asyncio.create_task(first_wave_created.wait())
                await asyncio.wait(
                    {running, waiting}, timeout=_FIRST_WAVE_S, return_when=asyncio.FIRST_COMPLETED
                )
                waiting.cancel()
                if running.done():
                    running.result()
                answer(_result(kind, first))
                await running
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    async def drain(self, client: Client, node: str, requested_by: str) -> None:
        """Empty a node, as `rescheduler drain` does."""
        rescheduler = self._rescheduler
        async with self._executing_here():
            draining = NodeDrain(
                client,
                rescheduler.cluster,
                [node],
                runtime=rescheduler.runtime,
                requested_by=requested_by,
            )
            await wait_for_labels(rescheduler.watched, [node])
            async for _ in draining.states(wait=False):
                await asyncio.sleep(0)  # let the informers receive the last writes

    @contextlib.asynccontextmanager
    async def _executing_here(self) -> AsyncIterator[None]:
        """Execute migrations while any action runs. Raises `KubeError` if the Lease can't be requested."""
        if not self._executes:
            yield
            return
        self._executing += 1
        try:
            if self._execution is None or self._execution.done():
                self._released = asyncio.Event()
                entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._execution = asyncio.create_task(self._execute(entered, self._released))
                await entered
            yield
        finally:
            self._executing -= 1
            if not self._executing:
                self._released.set()

    async def _execute(self, entered: asyncio.Future[None], released: asyncio.Event) -> None:
        try:
            async with self._rescheduler.executing():
                entered.set_result(None)
                await released.wait()
        except errors.KubeError as error:
            if not entered.done():
                entered.set_exception(error)


def _result(kind: ActionKind, first: list[MoveProgress]) -> ActionResult:
    """Return the result; raise `ActionImpossible` if no migration was created."""
    keys = [each.key for each in first if each.key]
    cancelled = [each for each in first if each.cancelled_because]
    if first and not keys:
        raise ActionImpossible(
            cancelled[0].cancelled_because if cancelled else "the API server did not answer in time"
        )
    count = len(keys)
    message = f"{count} {'migration' if count == 1 else 'migrations'} created."
    if cancelled:
        message += f" {len(cancelled)} not created: {cancelled[0].cancelled_because}"
    return ActionResult(kind, message, keys)
