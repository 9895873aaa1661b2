"""Read a live cluster once, all kinds concurrently."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from rescheduler.api.podmigration import UnreadableMigration
from rescheduler.cluster.sources.cluster_kinds import CLUSTER_KINDS, ClusterKind, pod_dependencies
from rescheduler.cluster.trusted_usage import UsageReader
from rescheduler.cluster.usage_readings import UsageOutcome
from rescheduler.kube import errors
from rescheduler.kube.client import Client

if TYPE_CHECKING:
    from rescheduler.cluster.sources.cluster_kinds import ClusterReading
__all__ = ["EmptyCluster", "UnavailableKind", "gather_all", "list_kind", "read_live"]

T = TypeVar("T")


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Gather the results; if one fails, cancel the others and wait for them before the error is raised.

    Otherwise they would still use connections that are being closed.
    """
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_CONCURRENT_LISTS = 4
"""Lists. The pods take longest and come first; meanwhile three connections serve for all the rest, most of
which is short. One for each would be more work for both sides than the lists themselves."""


class EmptyCluster(Exception):  # noqa: N818 - says what was found
    """There is nothing to plan with."""


class UnavailableKind(str):
    """Why a kind could not be read."""

    __slots__ = ()


async def read_live(client: Client, usage: UsageReader, *, meanwhile: Sequence[str] = ()) -> "ClusterReading":
    """Read all kinds, several at once. Raises `KubeError` for required kinds, and `EmptyCluster`.

    `meanwhile` names modules to import while the server responds, because planning needs many.
    """
    kinds = [each for each in CLUSTER_KINDS if each.decides]
    gate = asyncio.Semaphore(_CONCURRENT_LISTS)
    work: list[Coroutine[Any, Any, Any]] = [_in_turn(gate, client, each) for each in kinds]
    work.append(usage.read())
    work.append(asyncio.to_thread(_import, (*meanwhile, "rescheduler.cluster.sources.cluster_kinds")))
    *lists, measured, _ = await gather_all(work)
    return _reading(kinds, lists, measured)


async def _in_turn(gate: asyncio.Semaphore, client: Client, kind: ClusterKind) -> list[Any] | UnavailableKind:
    async with gate:
        return await list_kind(client, kind)


def _import(modules: Iterable[str]) -> None:
    for module in modules:
        import_module(module)


def _reading(kinds: list[ClusterKind], lists: list[Any], measured: UsageOutcome) -> "ClusterReading":
    from rescheduler.cluster.sources.cluster_kinds import ClusterReading  # noqa: PLC0415

    reading = ClusterReading(datetime.now(UTC).timestamp(), usage=measured)
    by_kind = dict(zip([each.kind for each in kinds], lists, strict=True))
    reading.pods = by_kind["Pod"]
    reading.node_uids = {node.name: node.uid for node in by_kind["Node"]}
    if not reading.node_uids:
        raise EmptyCluster("the cluster has no nodes, so there is nothing to plan")
    needs = pod_dependencies(reading.pods)
    for kind, found in zip(kinds, lists, strict=True):
        if not isinstance(found, UnavailableKind):
            apply = kind.applier(reading.state)
            for item in found:
                try:
                    apply(item)
                except UnreadableMigration as error:
                    # Only memory of a move: a plan can do without it, and without it is better than none.
                    reading.assumptions.append(f"{error}: ignored")
        elif kind.without and kind.matters(needs):
            reading.assumptions.append(f"{kind.without}: {found}")
    return reading


async def list_kind(client: Client, kind: ClusterKind) -> list[Any] | UnavailableKind:
    """Return a list from the server's cache: a moment old at most, and much cheaper than the newest one."""
    try:
        return (await client.list(kind.resource, version="0")).items
    except (errors.NotFound, errors.Forbidden) as error:
        if kind.required:
            raise
        return UnavailableKind(error)
