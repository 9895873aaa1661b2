"""Recovery stories on a real control plane run at the same time: one daemon serves all of them.

One after the other they would take many minutes, most of it spent waiting. Each story has a namespace and
nodes of its own. They run in a thread whose event loop lives as long as the daemon; each test waits for its
story to end.
"""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from kubesim.behaviour import load_behaviour
from rescheduler.config.policy import FailedPodsPolicy
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import NAMESPACES
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.permissions import DAEMON, kubeconfig_as
from tests.stories.real_cluster import BEAT_EVERY_S
from tests.stories.recovery.program import Pace, recovering
from tests.stories.recovery.recovery_sandbox import MakeRecovery, RecoverySandbox
from tests.stories.sandbox import AT_ONCE, Sandbox, until_usable
from tests.stories.waiting import wall_clock
from tests.testbed import ControlPlane
from tests.testbed.fake_kubelet import FakeKubelet, node_shapes

__all__ = ["PACE", "ConcurrentStories", "Connect", "Story", "connecting", "one_daemon"]

SHORT = timedelta(seconds=2)
PACE = Pace(
    FailedPodsPolicy(
        recovery_window=3 * SHORT, restart_threshold=1, stuck_after=SHORT, node_lost_after=SHORT
    ),
    check_every=timedelta(seconds=1),
    timeout_s=180.0,
)
TIMEOUT_S = 300.0
"""As long as a story takes on a machine that is busy with other tests; usually it takes a tenth of that."""
CONCURRENT_STORIES = 6

Connect = Callable[..., Client]
"""connect(): as administrator; connect(DAEMON): as the service account of that program."""
Story = Callable[[MakeRecovery], Awaitable[None]]


@dataclass
class ConcurrentStories:
    """The stories by name, all of which begin at once; at most six run at the same time."""

    stories: Mapping[str, Story]
    results: dict[str, "Future[None]"] = field(default_factory=dict)

    async def ended(self, name: str) -> None:
        """Wait for the end of a story, and raise what it raised."""
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.wrap_future(self.results[name])

    @contextlib.contextmanager
    def running(self, program: Callable[[], AbstractAsyncContextManager[MakeRecovery]]) -> Iterator[None]:
        """Run them beside the program while the body runs."""
        self.results = {name: Future() for name in self.stories}
        begun: Future[Callable[[], object]] = Future()
        thread = threading.Thread(target=asyncio.run, args=(self._run(program, begun),))
        thread.start()
        try:
            end = begun.result(TIMEOUT_S)
            yield
            end()
        finally:
            thread.join(TIMEOUT_S)
        assert not thread.is_alive(), "the program does not end"

    async def _run(
        self,
        program: Callable[[], AbstractAsyncContextManager[MakeRecovery]],
        begun: "Future[Callable[[], object]]",
    ) -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with program() as make_recovery:
                places = asyncio.Semaphore(CONCURRENT_STORIES)
                tasks = [
                    asyncio.create_task(self._play(name, make_recovery, places)) for name in self.stories
                ]
                begun.set_result(lambda: loop.call_soon_threadsafe(over.set))
                await over.wait()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        except Exception as error:
            if begun.done():
                raise
            begun.set_exception(error)

    async def _play(self, name: str, make_recovery: MakeRecovery, places: asyncio.Semaphore) -> None:
        async with places:
            try:
                await self.stories[name](make_recovery)
            except Exception as error:  # noqa: BLE001 - the test raises it
                self.results[name].set_exception(error)
            else:
                self.results[name].set_result(None)


@contextlib.asynccontextmanager
async def connecting(control_plane: ControlPlane, home: str, folder: Path) -> AsyncIterator[Connect]:
    """Our programs' objects are in the namespace `home`."""
    clients: list[Client] = []

    def made(account: str = "") -> Client:
        kubeconfig = control_plane.kubeconfig
        if account:
            kubeconfig = kubeconfig_as(control_plane, account, home, folder)
        clients.append(Client(HttpTransport(load_cluster_access(kubeconfig))))
        return clients[-1]

    try:
        yield made
    finally:
        for client in clients:
            await client.close()


@contextlib.asynccontextmanager
async def one_daemon(
    connect: Connect, home: str, *, by_extender: bool = False
) -> AsyncIterator[MakeRecovery]:
    """A daemon that serves all sandboxes; `await make_recovery(nodes=4)` makes another one.

    `by_extender`: replacements are steered by the extender, and by no webhook.
    """
    policy = PACE.policy(
        failed_pods=replace(PACE.terms, force_on_lost_nodes=True),
        max_concurrent_migrations=100,
        max_reschedule_pods=100,
        scheduler_extender=by_extender,
    )
    client, numbers = connect(), itertools.count(1)
    async with contextlib.AsyncExitStack() as stack:

        async def make_recovery(nodes: int = 4) -> Any:
            name = f"recovery-{next(numbers)}"
            metadata = {"name": name}
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
            behaviour = load_behaviour({"pods": [AT_ONCE]})
            kubelet = FakeKubelet(client, behaviour, name=name, beat_every_s=BEAT_EVERY_S)
            await stack.enter_async_context(kubelet.running())
            await kubelet.register(node_shapes(nodes, name))
            sandbox = Sandbox(client, name, kubelet, await until_usable(client, kubelet, nodes))
            shared = RecoverySandbox(sandbox, wall_clock, PACE, connect, policy, is_shared=True)
            return replace(shared, leaves_marks=not by_extender)

        await stack.enter_async_context(recovering(connect(DAEMON), policy, home, wall_clock))
        yield make_recovery
