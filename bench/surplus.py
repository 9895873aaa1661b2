"""How many surplus pods moves cause, with the guard and without.

    python -m bench.surplus [--moves 100] [--nodes 50] [--gate]

Between the eviction of a pod and the adoption of its copy, a ReplicaSet creates one pod more than it needs,
and deletes it again. The real controller moves pods by Adopt on simulated nodes, in virtual time; an observer
counts the pods that ReplicaSets create meanwhile, and how many of those are bound to a node and started. Then
the same with the webhook's guard. With --gate the exit code is 1 if there is any with the guard.
"""

import argparse
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from bench.migrations import migrated
from bench.moving_cluster import Cluster
from kubesim.admission.webhook_admission import WebhookEndpoint
from kubesim.virtual_time import run_virtual
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import VALIDATING_WEBHOOKS, Object
from rescheduler.kube.informer import Informer
from rescheduler.steering.steering_service import SteeringService
from rescheduler.steering.webhook.webhook_configurations import UrlAddress, webhook_configurations


@dataclass
class Surplus:
    """Pods of ReplicaSets that came while pods were moved, by name."""

    created: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)

    def changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        name = new["metadata"]["name"]
        owners = new["metadata"].get("ownerReferences") or ()
        if old is None and any(each["kind"] == "ReplicaSet" and each.get("controller") for each in owners):
            self.created.add(name)
        if name in self.created and new["spec"].get("nodeName"):
            self.bound.add(name)
        if name in self.created and (new.get("status") or {}).get("phase") == "Running":
            self.started.add(name)

    def forget(self) -> None:
        """Forget the pods that were there before the first move: they are no surplus."""
        for each in (self.created, self.bound, self.started):
            each.clear()


class Guard:
    """Calls the webhook without a network in between."""

    def __init__(self, service: SteeringService) -> None:
        self._service = service

    async def call(self, _endpoint: WebhookEndpoint, body: bytes, _timeout_s: float) -> bytes:
        return self._service.guard(body)


@contextlib.asynccontextmanager
async def guarding(cluster: Cluster) -> AsyncIterator[None]:
    client, _ = cluster.connect()
    await client.create(VALIDATING_WEBHOOKS, webhook_configurations(UrlAddress("https://webhook.invalid"))[1])
    service = SteeringService(client, cluster.server.clock.now)
    cluster.server.cluster.admission.webhooks.caller = Guard(service)
    async with service.running():
        await service.synced()
        yield


async def measured(nodes: int, moves: int, *, guarded: bool) -> tuple[int, Surplus]:
    """Return how many pods were moved, and the surplus pods."""
    surplus = Surplus()

    @contextlib.asynccontextmanager
    async def beside(cluster: Cluster) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            pods = Informer(cluster.connect()[0], PODS.as_json)
            await stack.enter_async_context(pods.running())
            await pods.synced()
            if guarded:
                await stack.enter_async_context(guarding(cluster))
            pods.subscribe(surplus.changed)
            surplus.forget()
            yield

    return (await migrated(nodes, moves, moves // 4, beside=beside)).moved, surplus


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.surplus", description=__doc__.splitlines()[0])
    parser.add_argument("--moves", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--gate", action="store_true", help="exit 1 if there are surplus pods with the guard")
    options = parser.parse_args(arguments)
    print("surplus pods per 100 moves   created    bound  started   (moved)")
    is_clean = True
    for guarded in (False, True):
        moved, found = run_virtual(measured(options.nodes, options.moves, guarded=guarded))
        shares = [100 * len(each) / options.moves for each in (found.created, found.bound, found.started)]
        name = "with the guard" if guarded else "without"
        print(
            f"{name:<28} {shares[0]:7.1f}  {shares[1]:7.1f}  {shares[2]:7.1f}   ({moved} of {options.moves})"
        )
        is_clean = is_clean and (not guarded or not found.created)
    return 1 if options.gate and not is_clean else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
