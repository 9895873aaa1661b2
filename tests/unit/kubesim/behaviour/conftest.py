"""A pod on a node, and a kubelet's clock that stands still until it is moved."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubesim.behaviour import Behaviour, HostFacts, PodRemoval, StatusUpdate, advance, load_behaviour

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def make_pod(**spec: Any) -> dict[str, Any]:
    made = {
        "nodeName": "n1",
        "restartPolicy": "Always",
        "containers": [{"name": "main", "image": "shop/web:1"}],
    }
    metadata = {"name": "web-1", "namespace": "shop", "uid": "u-1", "generation": 1, "labels": {"app": "web"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made | spec}


class PodTimeline:
    """Plays the API and a kubelet for one pod: steps are applied until there is nothing to do but wait."""

    def __init__(self, behaviour: object, pod: dict[str, Any], host: HostFacts) -> None:
        self.behaviour = behaviour if isinstance(behaviour, Behaviour) else load_behaviour(behaviour)
        self.pod: dict[str, Any] | None = copy.deepcopy(pod)
        self.host = host
        self.now = START
        self.wake_at: datetime | None = None
        self.history: list[dict[str, Any]] = []

    def settle(self) -> "PodTimeline":
        while self.pod is not None:
            action, self.wake_at = advance(self.pod, self.behaviour, self.now, self.host)
            match action:
                case StatusUpdate(status):
                    assert status != self.pod.get("status"), "a step that changes nothing never ends"
                    self.pod = self.pod | {"status": copy.deepcopy(status)}
                    self.history.append(self.pod["status"])
                case PodRemoval(uid):
                    assert uid == self.pod["metadata"]["uid"]
                    self.pod = None
                case None:
                    break
        return self

    def after(self, seconds: float) -> "PodTimeline":
        """Moves the clock and wakes the kubelet whenever it asked for it on the way."""
        end = START + timedelta(seconds=seconds)
        assert end >= self.now
        self.settle()
        while self.pod is not None and self.wake_at is not None and self.wake_at <= end:
            assert self.wake_at > self.now, "asked to be woken at once, forever"
            self.now = self.wake_at
            self.settle()
        self.now = end
        return self.settle()

    def delete(self, grace_s: int = 30) -> "PodTimeline":
        assert self.pod is not None
        at = (self.now + timedelta(seconds=grace_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
        marks = {"deletionTimestamp": at, "deletionGracePeriodSeconds": grace_s}
        self.pod = self.pod | {"metadata": self.pod["metadata"] | marks}
        return self.settle()

    @property
    def status(self) -> dict[str, Any]:
        assert self.pod is not None
        return self.pod["status"]

    @property
    def main(self) -> dict[str, Any]:
        return self.status["containerStatuses"][0]

    def condition(self, name: str) -> dict[str, Any]:
        return next(each for each in self.status["conditions"] if each["type"] == name)

    @property
    def ready(self) -> bool:
        return self.condition("Ready")["status"] == "True"


@pytest.fixture(scope="session")
def life() -> Any:
    """life({...aspects of every pod...}, spec of the pod …)"""

    def begin(aspects: dict[str, Any] | None = None, slow: float = 1.0, **spec: Any) -> PodTimeline:
        return PodTimeline({"pods": [aspects or {}]}, make_pod(**spec), HostFacts("10.0.0.1", slow))

    return begin
