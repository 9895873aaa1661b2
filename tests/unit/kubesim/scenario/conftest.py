"""Scenarios that run in virtual time, and a record of all that happens in them."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kubesim import ApiServer
from kubesim.running_cluster import EPOCH, RunningCluster, start_cluster
from kubesim.scenario import Scenario, TimelineEntry, initial_objects
from kubesim.virtual_time import LoopClock, run_virtual

Object = dict[str, Any]

EXAMPLE_SCENARIOS = Path(__file__).parents[4] / "scenarios"


class Run:
    """One run of a scenario: what was there at its end, and what happened on the way."""

    def __init__(self) -> None:
        self.events: list[TimelineEntry] = []
        self.written: Counter[str] = Counter()
        """How often objects of a kind changed since time started."""
        self.broken: list[Any] = []
        self.server: ApiServer
        self.life: RunningCluster
        self._history = hashlib.sha256()

    @property
    def history(self) -> str:
        """Return a digest of every change, in order."""
        return self._history.hexdigest()

    def note(self, kind, change):
        self.written[kind.name] += 1
        raw = change.after.raw if change.after is not None else b"gone"
        self._history.update(f"{kind.resource} {change.version} ".encode() + raw + b"\n")

    def objects(self, api_version: str, kind: str, namespace: str = "") -> list[Object]:
        found = self.server.store.collection(self.server.cluster.kind(api_version, kind))
        return [record.object for record in found.ordered(namespace)]

    def pods(self, app: str) -> list[Object]:
        pods = self.objects("v1", "Pod")
        return [pod for pod in pods if pod["metadata"]["labels"].get("app") == app]

    def places(self, app: str) -> list[str]:
        return sorted(pod["spec"].get("nodeName", "") for pod in self.pods(app))

    def node(self, name: str) -> Object:
        return next(node for node in self.objects("v1", "Node") if node["metadata"]["name"] == name)


def _run_scenario(
    scenario: Scenario,
    seconds: float,
    *,
    objects: list[Object] | None = None,
    start: datetime = EPOCH,
    look: Callable[[Run], Any] | None = None,
) -> Run:
    """`look` is an async function that is called at the end, while the cluster still lives."""
    made = Run()
    contents = initial_objects(scenario, start) if objects is None else objects

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: made.broken.append(context))
        made.server = ApiServer(clock=LoopClock(start), seed=scenario.seed)
        made.server.store.observers.append(made.note)
        made.server.load(contents)
        made.written.clear()
        made.life = start_cluster(made.server, scenario, on_event=made.events.append)
        await asyncio.sleep(seconds)
        if look is not None:
            await look(made)

    run_virtual(main())
    assert not made.broken, made.broken
    return made


@pytest.fixture
def run_scenario():
    return _run_scenario
