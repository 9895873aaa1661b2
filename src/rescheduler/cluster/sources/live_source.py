"""Read a live cluster once, all kinds concurrently."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from rescheduler.api.podmigration import UnreadableMigration
from rescheduler.cluster.node_autoscalers import (
    AUTOSCALER_STATUS_CONFIG_MAP,
    NO_SIGNS,
    AutoscalerSigns,
    Consolidation,
    consolidation_of,
    parse_status_time,
)
from rescheduler.cluster.sources.cluster_kinds import CLUSTER_KINDS, ClusterKind, pod_dependencies
from rescheduler.cluster.trusted_usage import UsageReader
from rescheduler.cluster.usage_readings import UsageOutcome
from rescheduler.kube import errors
from rescheduler.kube.api_resources import CONFIG_MAPS, NODE_POOLS
from rescheduler.kube.client import Client

if TYPE_CHECKING:
    from rescheduler.cluster.sources.cluster_kinds import ClusterReading
__all__ = ["EmptyCluster", "UnavailableKind", "gather_all", "list_kind", "read_autoscaler_signs", "read_live"]

log = logging.getLogger(__name__)

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
    """The cluster has nothing to plan with."""


class UnavailableKind(str):
    """The reason why a kind could not be read."""

    __slots__ = ()


async def read_live(client: Client, usage: UsageReader, *, meanwhile: Sequence[str] = ()) -> "ClusterReading":
    """Read all kinds, several at once. Raises `KubeError` for required kinds, and `EmptyCluster`.

    `meanwhile` names modules to import while the server responds, because planning needs many.
    """
    kinds = [each for each in CLUSTER_KINDS if each.decides]
    gate = asyncio.Semaphore(_CONCURRENT_LISTS)
    work: list[Coroutine[Any, Any, Any]] = [_in_turn(gate, list_kind(client, each)) for each in kinds]
    work.append(usage.read())
    work.append(_in_turn(gate, read_autoscaler_signs(client, NO_SIGNS)))
    work.append(asyncio.to_thread(_import, (*meanwhile, "rescheduler.cluster.sources.cluster_kinds")))
    *lists, measured, signs, _ = await gather_all(work)
    reading = _reading(kinds, lists, measured)
    reading.state.apply_autoscaler_signs(signs)
    return reading


async def read_autoscaler_signs(
    client: Client, before: AutoscalerSigns, *, with_node_pools: bool = True
) -> AutoscalerSigns:
    """Read what the server shows of node autoscalers, or return `before` if it does not answer.

    Raises no `KubeError`: planning must not depend on components that may not be there.
    """
    node_pools, updated_s = before.node_pools, None
    try:
        if with_node_pools:
            node_pools = await _node_pools(client)
        with contextlib.suppress(errors.NotFound, errors.Forbidden):
            status = await client.get(CONFIG_MAPS, AUTOSCALER_STATUS_CONFIG_MAP)
            updated_s = parse_status_time(status)
    except errors.KubeError as error:
        log.info("can't read the state of node autoscalers: %s", error)
        return before
    return AutoscalerSigns(node_pools, updated_s)


async def _node_pools(client: Client) -> dict[str, Consolidation] | None:
    with contextlib.suppress(errors.NotFound, errors.Forbidden):
        pools = (await client.list(NODE_POOLS)).items
        return {str(each["metadata"]["name"]): consolidation_of(each) for each in pools}
    return None


async def _in_turn(gate: asyncio.Semaphore, read: Coroutine[Any, Any, T]) -> T:
    async with gate:
        return await read


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
