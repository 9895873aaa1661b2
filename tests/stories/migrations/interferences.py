"""What other clients may do to a workload while one of its pods is moved."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import DEPLOYMENTS, Object, merge_patch
from tests.stories.migrations.moves import Moves

__all__ = ["INTERFERENCES", "Interference"]

Act = Callable[[Moves, str, Object], Awaitable[None]]


@dataclass(frozen=True)
class Interference:
    """`act(moves, migration key, source pod)`; then so many pods are wanted of the three there were."""

    act: Act
    wanted: int = 3
    takes_pods: bool = False
    """Whether it takes pods away itself, so that fewer may be ready for a while."""

    @property
    def name(self) -> str:
        return self.act.__name__.replace("_", " ")


async def cancelled(moves: Moves, key: str, source: Object) -> None:
    await _unless_gone(moves.client.delete(POD_MIGRATIONS, key))


async def cancelled_in_the_foreground(moves: Moves, key: str, source: Object) -> None:
    await _unless_gone(moves.client.delete(POD_MIGRATIONS, key, propagation="Foreground"))


async def scaled_up(moves: Moves, key: str, source: Object) -> None:
    await _change(moves, {"spec": {"replicas": 4}})


async def scaled_down(moves: Moves, key: str, source: Object) -> None:
    await _change(moves, {"spec": {"replicas": 2}})


async def scaled_to_zero(moves: Moves, key: str, source: Object) -> None:
    await _change(moves, {"spec": {"replicas": 0}})


async def rolled_out(moves: Moves, key: str, source: Object) -> None:
    await _change(moves, {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}})


async def paused_and_changed(moves: Moves, key: str, source: Object) -> None:
    labels = {"metadata": {"labels": {"version": "2"}}}
    await _change(moves, {"spec": {"paused": True, "template": labels}})


async def deleted(moves: Moves, key: str, source: Object) -> None:
    await moves.client.delete(DEPLOYMENTS, moves.sandbox.key("web"), propagation="Background")


async def deleted_in_the_foreground(moves: Moves, key: str, source: Object) -> None:
    await moves.client.delete(DEPLOYMENTS, moves.sandbox.key("web"), propagation="Foreground")


async def source_deleted(moves: Moves, key: str, source: Object) -> None:
    await _unless_gone(moves.client.delete(PODS, moves.sandbox.key(source["metadata"]["name"])))


async def source_evicted(moves: Moves, key: str, source: Object) -> None:
    await _unless_gone(moves.client.evict(moves.sandbox.key(source["metadata"]["name"])))


async def siblings_evicted(moves: Moves, key: str, source: Object) -> None:
    for pod in await moves.sandbox.pods():
        if pod["metadata"]["uid"] != source["metadata"]["uid"]:
            await _unless_gone(moves.client.evict(moves.sandbox.key(pod["metadata"]["name"])))


async def unmarked_by_hand(moves: Moves, key: str, source: Object) -> None:
    labels = {"scheduler.alpha.kubernetes.io/migration-id": None}
    patch = merge_patch({"metadata": {"labels": labels}})
    await _unless_gone(moves.client.patch(PODS, moves.sandbox.key(source["metadata"]["name"]), patch))


async def copy_unmarked_by_hand(moves: Moves, key: str, source: Object) -> None:
    """Its annotations stay: who takes over before it is recorded finds it by its name and by them."""
    patch = merge_patch({"metadata": {"labels": {"scheduler.alpha.kubernetes.io/migration-id": None}}})
    for pod in await moves.sandbox.pods():
        if pod["metadata"]["uid"] != source["metadata"]["uid"]:
            await _unless_gone(moves.client.patch(PODS, moves.sandbox.key(pod["metadata"]["name"]), patch))


INTERFERENCES = (
    Interference(cancelled),
    Interference(cancelled_in_the_foreground),
    Interference(scaled_up, wanted=4),
    Interference(scaled_down, wanted=2, takes_pods=True),
    Interference(scaled_to_zero, wanted=0, takes_pods=True),
    Interference(rolled_out),
    Interference(paused_and_changed),
    Interference(deleted, wanted=0, takes_pods=True),
    Interference(deleted_in_the_foreground, wanted=0, takes_pods=True),
    Interference(source_deleted, takes_pods=True),
    Interference(source_evicted),
    Interference(siblings_evicted),
    Interference(unmarked_by_hand),
    Interference(copy_unmarked_by_hand),
)


async def _change(moves: Moves, change: Object) -> None:
    await moves.client.patch(DEPLOYMENTS, moves.sandbox.key("web"), merge_patch(change))


async def _unless_gone(request: Awaitable[object]) -> None:
    try:
        await request
    except (errors.NotFound, errors.BudgetRefused, errors.Conflict):
        return
