"""Requests of a scheduler to an extender, and its responses as a scheduler reads them."""

import json
from typing import Any

from tests.unit.steering.reviews import pod_of

__all__ = ["Verdict", "node_object", "question", "scores_of", "verdict_of"]

Json = dict[str, Any]


class Verdict:
    """The response as the real scheduler parses it: other types would be an error."""

    def __init__(self, answer: Json) -> None:
        assert set(answer) == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
        self.error: str = answer["Error"]
        self.failed: dict[str, str] = answer["FailedAndUnresolvableNodes"]
        self.names: list[str] | None = answer["NodeNames"]
        self.nodes: list[Json] | None = None if answer["Nodes"] is None else answer["Nodes"]["items"]
        assert isinstance(self.error, str)
        assert answer["FailedNodes"] == {}
        assert all(isinstance(part, str) for pair in self.failed.items() for part in pair)
        assert self.names is None or all(isinstance(name, str) for name in self.names)
        # Without nodes and without a fault the pod would have no place at all.
        assert bool(self.error) == (self.names is None and self.nodes is None)

    @property
    def kept(self) -> list[str]:
        if self.names is not None:
            return self.names
        return [node["metadata"].get("name") or "" for node in self.nodes or ()]


def question(*names: str, whole: bool = False, pod: Any = None, uid: str = "p-1", **metadata: Any) -> bytes:
    """About a pod of `rs-1`; with `whole` nodes, or their names."""
    asked = pod or pod_of(name="web-1", uid=uid, **metadata)
    nodes = {"metadata": {}, "items": [node_object(name) for name in names]} if whole else None
    return json.dumps({"Pod": asked, "Nodes": nodes, "NodeNames": None if whole else names}).encode()


def node_object(name: str) -> Json:
    return {"metadata": {"name": name, "labels": {"of": name}}, "status": {"allocatable": {"cpu": "4"}}}


def verdict_of(body: bytes) -> Verdict:
    return Verdict(json.loads(body))


def scores_of(body: bytes) -> dict[str, int]:
    scores = json.loads(body)
    assert isinstance(scores, list)
    assert all(set(each) == {"Host", "Score"} and 0 <= each["Score"] <= 10 for each in scores)
    return {each["Host"]: each["Score"] for each in scores}
