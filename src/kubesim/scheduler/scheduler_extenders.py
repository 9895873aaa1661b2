"""Scheduler extenders: filter and prioritize nodes through injected transports, without sockets."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kubesim.apiserver.api_messages import Object
from kubesim.scheduler.fit_errors import FilterRejection
from kubesim.scheduler.node_info import NodeInfo, PodInfo

__all__ = ["BY_EXTENDER", "Extender", "ExtenderError", "ExtenderOpinion", "ExtenderTransport", "consult"]

BY_EXTENDER = "an extender"
"""Used instead of a filter's name in the error of an extender."""
_SCALE = 10.0  # extenders score up to 10, nodes up to 100

ExtenderTransport = Callable[[str, Object], Awaitable[Any]]
"""Calls a verb with arguments and returns the decoded response; raises any exception on failure."""


class ExtenderError(Exception):
    """An extender that is not ignorable failed: the pod can't be scheduled now."""


@dataclass(frozen=True)
class Extender:
    """An extender as in KubeSchedulerConfiguration; empty verbs are not called."""

    name: str
    carry: ExtenderTransport
    filter_verb: str = ""
    prioritize_verb: str = ""
    weight: float = 1.0
    ignorable: bool = False
    node_cache_capable: bool = False
    managed_resources: frozenset[str] = frozenset()

    def is_interested_in(self, pod: PodInfo) -> bool:
        """Return whether the pod uses a managed resource, if the extender has any."""
        if not self.managed_resources:
            return True
        containers = (*(pod.spec.get("containers") or ()), *(pod.spec.get("initContainers") or ()))
        listed = (
            (container.get("resources") or {}).get(kind) or {}
            for container in containers
            for kind in ("requests", "limits")
        )
        return any(not self.managed_resources.isdisjoint(names) for names in listed)


class ExtenderOpinion(NamedTuple):
    nodes: list[NodeInfo]
    refusals: dict[str, FilterRejection]
    scores: dict[str, float]


async def consult(extenders: Sequence[Extender], pod: PodInfo, nodes: list[NodeInfo]) -> ExtenderOpinion:
    """Call the extenders one after the other, each with the nodes that remain. Raises `ExtenderError`."""
    refusals: dict[str, FilterRejection] = {}
    interested = [extender for extender in extenders if extender.is_interested_in(pod)]
    for extender in interested:
        if extender.filter_verb and nodes:
            nodes, refused = await _filtered(extender, pod, nodes)
            refusals |= refused
    scores: dict[str, float] = {}
    for extender in interested:
        if extender.prioritize_verb and len(nodes) > 1:
            for name, score in (await _scored(extender, pod, nodes)).items():
                scores[name] = scores.get(name, 0.0) + score * extender.weight * _SCALE
    return ExtenderOpinion(nodes, refusals, scores)


async def _filtered(
    extender: Extender, pod: PodInfo, nodes: list[NodeInfo]
) -> tuple[list[NodeInfo], dict[str, FilterRejection]]:
    try:
        answer = _lower(await extender.carry(extender.filter_verb, _arguments(extender, pod, nodes)))
        return _kept(extender, answer, nodes), _refusals(answer)
    except Exception as error:
        if extender.ignorable:
            return nodes, {}
        raise ExtenderError(str(error) or type(error).__name__) from error


async def _scored(extender: Extender, pod: PodInfo, nodes: list[NodeInfo]) -> dict[str, float]:
    """Return the scores; a failure to score never blocks a pod."""
    try:
        answer = await extender.carry(extender.prioritize_verb, _arguments(extender, pod, nodes))
        return {entry["host"]: float(entry["score"]) for entry in map(_lower, answer or ())}
    except Exception:  # noqa: BLE001 - whatever the carrier raises
        return {}


def _arguments(extender: Extender, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Object:
    names = [node.name for node in nodes] if extender.node_cache_capable else None
    items = None if extender.node_cache_capable else {"items": [node.object for node in nodes]}
    return {"Pod": pod.object, "Nodes": items, "NodeNames": names}


def _kept(extender: Extender, answer: Object, nodes: Sequence[NodeInfo]) -> list[NodeInfo]:
    if answer.get("error"):
        raise ExtenderError(str(answer["error"]))
    known = {node.name: node for node in nodes}
    if extender.node_cache_capable and answer.get("nodenames") is not None:
        names = answer["nodenames"]
    else:
        names = [item["metadata"]["name"] for item in (answer.get("nodes") or {}).get("items") or ()]
    for name in names:
        if name not in known:
            claims = f'extender "{extender.name}" claims a filtered node "{name}"'
            raise ExtenderError(f"{claims} which is not found in the input node list")
    return [known[name] for name in names]


def _refusals(answer: Object) -> dict[str, FilterRejection]:
    found = {
        name: FilterRejection(BY_EXTENDER, (why,), final=False)
        for name, why in (answer.get("failednodes") or {}).items()
    }
    for name, why in (answer.get("failedandunresolvablenodes") or {}).items():
        found[name] = FilterRejection(BY_EXTENDER, (why,))
    return found


def _lower(answer: Mapping[str, Any] | None) -> Object:
    """Return the response with lower-case field names: Go reads, and extenders write, any case."""
    return {key.lower(): value for key, value in (answer or {}).items()}
