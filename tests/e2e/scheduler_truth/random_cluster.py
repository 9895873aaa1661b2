"""A random cluster of plain objects, and pods to ask about, each for one node."""

from typing import Any, NamedTuple

__all__ = ["HEAVY", "NAMESPACES", "NODES", "Object", "Question", "RandomCluster"]

Object = dict[str, Any]

NODES = tuple(f"node-{number}" for number in range(6))
HEAVY = "heavy"
"""A runtime class: pods that ask for it get an overhead."""
NAMESPACES: dict[str, dict[str, str]] = {
    "truth-a": {"team": "red"},
    "truth-b": {"team": "blue"},
    "truth-c": {},
}


class Question(NamedTuple):
    pod: Object
    node: str
    for_real: bool = False
    """Let the scheduler bind it, instead of stopping it a step before."""


class RandomCluster(NamedTuple):
    """Objects as they are to be created.

    Marks below `truth` in an object say what comes after its creation: a `status`, or a deletion that
    doesn't end (`ends`).
    """

    objects: tuple[Object, ...]
    questions: tuple[Question, ...]
