"""A simulated API server behind a real port, for commands that run a loop of their own."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kubesim.admission.webhook_admission import WebhookCaller
from kubesim.apiserver.api_messages import ServerResponse, object_response
from kubesim.apiserver.api_server import ApiServer
from kubesim.running_cluster import start_cluster
from kubesim.scenario import Scenario
from kubesim.sockets.loopback_server import serve

__all__ = ["answering_who", "forbidding", "served"]

Handle = Callable[[str, str, Mapping[str, str], bytes], Awaitable[ServerResponse]]


class _Wrapped:
    """A server of which some answers are another's."""

    def __init__(self, server: ApiServer, wrap: Callable[[Handle], Handle]) -> None:
        self.handle = wrap(server.handle)


@contextlib.contextmanager
def served(
    objects: list[dict],
    kubeconfig: Path,
    wrap: Callable[[Handle], Handle] = lambda handle: handle,
    *,
    alive: bool = False,
    webhooks: WebhookCaller | None = None,
    scenario: Scenario | None = None,
) -> Iterator[Path]:
    """In a thread of its own, until the end of the block; `alive` with controllers, scheduler, kubelets.
    `webhooks` answers for all that are registered; without, they are down. `scenario` has the behaviour."""
    ready, end = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        server = ApiServer(seed=1)
        server.load(objects)
        if webhooks is not None:
            server.cluster.admission.webhooks.caller = webhooks
        if alive:
            start_cluster(server, scenario)
        async with await serve(_Wrapped(server, wrap)) as running:  # type: ignore[arg-type]
            kubeconfig.write_text(running.kubeconfig)  # noqa: ASYNC240 - no other task runs yet
            ready.set()
            await end.wait()

    def in_thread() -> None:
        with contextlib.closing(loop):
            loop.run_until_complete(run())

    thread = threading.Thread(target=in_thread)
    thread.start()
    try:
        assert ready.wait(30), "the simulated server did not start"
        yield kubeconfig
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()


def forbidding(*resources: str) -> Callable[[Handle], Handle]:
    """Answers 403 for these, as RBAC would."""

    def wrap(handle: Handle) -> Handle:
        async def answer(method: str, target: str, headers: Mapping[str, str], body: bytes) -> ServerResponse:
            path = target.partition("?")[0]
            if any(path.endswith(f"/{resource}") for resource in resources):
                return _refusal(path.rpartition("/")[2])
            return await handle(method, target, headers, body)

        return answer

    return wrap


def answering_who(name: str) -> Callable[[Handle], Handle]:
    """Answers SelfSubjectReviews with this user, as the API server does since 1.28."""

    def wrap(handle: Handle) -> Handle:
        async def answer(method: str, target: str, headers: Mapping[str, str], body: bytes) -> ServerResponse:
            if target.partition("?")[0].endswith("/selfsubjectreviews"):
                status = {"userInfo": {"username": name}}
                return object_response(201, {**json.loads(body), "status": status}, {})
            return await handle(method, target, headers, body)

        return answer

    return wrap


def _refusal(resource: str) -> Any:
    message = f'{resource} is forbidden: User "dev" cannot list resource "{resource}" at the cluster scope'
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}
    return object_response(403, {**status, "message": message}, {})
