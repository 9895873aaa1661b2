"""How each action of a scenario is done."""

import random
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import Any

from rescheduler.simulator.behaviour import Behaviour
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kubelets import Kubelets
from rescheduler.simulator.scenario.events import Change, Choice, Marks, RollOut, Scaling
from rescheduler.simulator.scenario.faults import Trouble
from rescheduler.simulator.scenario.operator import Operator, Refused, Target
from rescheduler.simulator.scenario.words import Reference
from rescheduler.simulator.server import ApiServer

__all__ = ["Actor"]

_NODE = "Node"


class Actor:
    def __init__(self, server: ApiServer, kubelets: Kubelets, seed: int) -> None:
        self._server = server
        self._kubelets = kubelets
        self._operator = Operator(server)
        self._dice = random.Random(seed)  # noqa: S311 - dice, not secrets
        self._refusals: list[str] = []
        self._deeds: dict[str, Callable[[Any], Awaitable[None]]] = {
            "cordon": self._cordon,
            "uncordon": self._uncordon,
            "label": self._label,
            "annotate": self._annotate,
            "patch": self._patch,
            "scale": self._scale,
            "roll_out": self._roll_out,
            "delete": self._delete,
            "evict": self._evict,
            "apply": self._apply,
            "kill": self._kill,
            "revive": self._revive,
            "fault": self._fault,
            "behaviour": self._behaviour,
        }

    async def do(self, action: str, given: Any) -> list[str]:
        """Everything that was refused on the way, in the API server's words."""
        self._refusals = []
        try:
            await self._deeds[action](given)
        except Refused as refused:
            self._refusals.append(str(refused))
        return self._refusals

    # -- through the API

    async def _cordon(self, names: tuple[str, ...]) -> None:
        await self._set_unschedulable(names, True)

    async def _uncordon(self, names: tuple[str, ...]) -> None:
        await self._set_unschedulable(names, None)

    async def _set_unschedulable(self, names: tuple[str, ...], value: bool | None) -> None:
        for name in names:
            nodes = Reference(_NODE, "", name)
            await self._patch_all(nodes, {"spec": {"unschedulable": value}})

    async def _label(self, marks: Marks) -> None:
        await self._patch_all(marks.what, {"metadata": {"labels": dict(marks.set)}})

    async def _annotate(self, marks: Marks) -> None:
        await self._patch_all(marks.what, {"metadata": {"annotations": dict(marks.set)}})

    async def _patch(self, change: Change) -> None:
        await self._patch_all(change.what, dict(change.patch))

    async def _scale(self, scaling: Scaling) -> None:
        await self._patch_all(scaling.what, {"spec": {"replicas": scaling.replicas}}, "scale")

    async def _roll_out(self, wanted: RollOut) -> None:
        async def change(target: Target) -> None:
            found = await self._operator.get(target)
            name = wanted.container or found["spec"]["template"]["spec"]["containers"][0]["name"]
            pod = {"spec": {"containers": [{"name": name, "image": wanted.image}]}}
            await self._operator.merge(target, {"spec": {"template": pod}})

        await self._each(self._operator.find(wanted.what), change)

    async def _delete(self, choice: Choice) -> None:
        await self._each(self._chosen(choice), self._operator.delete)

    async def _evict(self, choice: Choice) -> None:
        await self._each(self._chosen(choice), self._operator.evict)

    async def _apply(self, content: Object) -> None:
        await self._operator.apply(content)

    async def _patch_all(self, what: Reference, patch: Object, subresource: str = "") -> None:
        async def change(target: Target) -> None:
            await self._operator.patch(target, patch, subresource)

        await self._each(self._operator.find(what), change)

    def _chosen(self, choice: Choice) -> list[Target]:
        found = self._operator.find(choice.what)
        if choice.count is None or choice.count >= len(found):
            return found
        return self._dice.sample(found, choice.count)

    async def _each(self, targets: list[Target], deed: Callable[[Target], Awaitable[object]]) -> None:
        """One refusal does not keep the others from being done."""
        for target in targets:
            try:
                await deed(target)
            except Refused as refused:
                self._refusals.append(f"{target.name}: {refused}")

    # -- what no API can do

    async def _kill(self, names: tuple[str, ...]) -> None:
        for node in self._nodes(names):
            self._kubelets.kill(node)

    async def _revive(self, names: tuple[str, ...]) -> None:
        for node in self._nodes(names):
            self._kubelets.revive(node)

    async def _fault(self, trouble: Trouble) -> None:
        number = self._server.inject(trouble.fault).get("number")
        if number is not None and trouble.lasts is not None:
            self._server.clock.call_later(
                trouble.lasts.total_seconds(), lambda: self._server.faults.remove(number)
            )

    async def _behaviour(self, rules: Behaviour) -> None:
        self._kubelets.obey_first(rules)

    def _nodes(self, names: tuple[str, ...]) -> list[str]:
        kind = self._server.cluster.kind("v1", _NODE)
        return [
            record.name
            for record in self._server.store.collection(kind).ordered()
            if any(fnmatchcase(record.name, name) for name in names)
        ]
