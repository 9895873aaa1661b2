"""A stage beside which an extender can run that the scheduler asks about every pod."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.e2e.webhook.steered import PROBE, Steered

__all__ = ["Ask", "Extended", "SetExtended"]

Ask = Callable[[str, bytes], Awaitable[bytes]]
"""Verb and arguments → the answer."""
SetExtended = Callable[..., Awaitable["Extended"]]


@dataclass
class Extended(Steered):
    ask: Ask

    async def steers(self) -> bool:
        """Whether a pod of `PROBE` would be kept off a node, if somebody placed it."""
        owner = {**PROBE, "controller": True}
        metadata = {"namespace": self.stage.namespace, "name": "probe", "ownerReferences": [owner]}
        asked = {"Pod": {"metadata": metadata}, "NodeNames": ["nowhere", "anywhere"]}
        answer = json.loads(await self.ask("filter", json.dumps(asked).encode()))
        return bool(answer["NodeNames"] == ["anywhere"])
