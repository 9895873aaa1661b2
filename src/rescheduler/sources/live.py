"""A running cluster, read once."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.model.migrations import UnreadableMigration
from rescheduler.sources.kinds import CLUSTER_KINDS, ClusterKind
from rescheduler.sources.needs import needs_of
from rescheduler.sources.together import together
from rescheduler.usage.reading import UsageReader
from rescheduler.usage.readings import Outcome

if TYPE_CHECKING:
    from rescheduler.sources.reading import Reading

__all__ = ["EmptyCluster", "Missing", "listed", "read_live"]

_AT_ONCE = 4
"""Lists. The pods take longest and come first; meanwhile three connections serve for all the rest, most of
which is short. One for each would be more work for both sides than the lists themselves."""


class EmptyCluster(Exception):  # noqa: N818 - says what was found
    """There is nothing to plan with."""


class Missing(str):
    """Why a kind could not be read."""

    __slots__ = ()


async def read_live(client: Client, usage: UsageReader, *, meanwhile: Sequence[str] = ()) -> "Reading":
    """All kinds, several at once. Raises `KubeError` for what is required, and `EmptyCluster`.

    `meanwhile` names modules that are imported while the server is at work: those who plan need many.
    """
    kinds = [each for each in CLUSTER_KINDS if each.decides]
    gate = asyncio.Semaphore(_AT_ONCE)
    work: list[Coroutine[Any, Any, Any]] = [_in_turn(gate, client, each) for each in kinds]
    work.append(usage.read())
    work.append(asyncio.to_thread(_import, (*meanwhile, "rescheduler.sources.reading")))
    *lists, measured, _ = await together(work)
    return _reading(kinds, lists, measured)


async def _in_turn(gate: asyncio.Semaphore, client: Client, kind: ClusterKind) -> list[Any] | Missing:
    async with gate:
        return await listed(client, kind)


def _import(modules: Iterable[str]) -> None:
    for module in modules:
        import_module(module)


def _reading(kinds: list[ClusterKind], lists: list[Any], measured: Outcome) -> "Reading":
    from rescheduler.sources.reading import Reading  # noqa: PLC0415

    reading = Reading(datetime.now(UTC).timestamp(), usage=measured)
    by_kind = dict(zip([each.kind for each in kinds], lists, strict=True))
    reading.pods = by_kind["Pod"]
    reading.node_uids = {node.name: node.uid for node in by_kind["Node"]}
    if not reading.node_uids:
        raise EmptyCluster("the cluster has no nodes: there is nothing to plan with")
    needs = needs_of(reading.pods)
    for kind, found in zip(kinds, lists, strict=True):
        if not isinstance(found, Missing):
            apply = kind.applier(reading.state)
            for item in found:
                try:
                    apply(item)
                except UnreadableMigration as error:
                    # Only memory of a move: a plan can do without it, and without it is better than none.
                    reading.assumptions.append(f"{error}: it is left out")
        elif kind.without and kind.matters(needs):
            reading.assumptions.append(f"{kind.without}: {found}")
    return reading


async def listed(client: Client, kind: ClusterKind) -> list[Any] | Missing:
    """What the server has cached: a moment old at most, and far cheaper for it than the newest."""
    try:
        return (await client.list(kind.resource, version="0")).items
    except (errors.NotFound, errors.Forbidden) as error:
        if kind.required:
            raise
        return Missing(error)
