"""The kinds of clusters that stories run on, and the event loop of each."""

import asyncio
from typing import Any

import pytest

from kubesim.virtual_time import VirtualLoop

__all__ = ["CONTROL_PLANE", "SIMULATOR", "FailureRecorder", "SimulatorLoop", "kind_of", "loops_of"]

SIMULATOR = "simulator"
CONTROL_PLANE = "control_plane"
KINDS = (SIMULATOR, CONTROL_PLANE)


class FailureRecorder:
    """Keeps what fails in the background of a loop, so that the test fails too."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.failures.append(context))  # type: ignore[attr-defined]


class SimulatorLoop(FailureRecorder, VirtualLoop):
    kind = SIMULATOR


class SimulatorRealTimeLoop(FailureRecorder, asyncio.SelectorEventLoop):
    kind = SIMULATOR


class ControlPlaneLoop(asyncio.SelectorEventLoop):
    kind = CONTROL_PLANE


def loops_of(story: pytest.Item) -> dict[str, type[asyncio.AbstractEventLoop]]:
    """Return the event loops that a story runs in: one for each kind of cluster."""
    has_sockets = any(story.get_closest_marker(mark) for mark in ("real_time", "kubectl"))
    loops = {
        SIMULATOR: SimulatorRealTimeLoop if has_sockets else SimulatorLoop,
        CONTROL_PLANE: ControlPlaneLoop,
    }
    return {kind: loops[kind] for kind in _only_kinds(story) or KINDS}


def _only_kinds(story: pytest.Item) -> list[str]:
    marks = [mark for kind in KINDS if (mark := story.get_closest_marker(kind))]
    for mark in marks:
        if not mark.kwargs.get("reason"):
            raise pytest.UsageError(
                f"{story.nodeid}: say why it runs on one kind of cluster: {mark.name}(reason=…)"
            )
    return [mark.name for mark in marks]


def kind_of(item: pytest.Item) -> str:
    """Return the kind of cluster that a collected item runs on."""
    case = getattr(item, "callspec", None)
    for value in case.params.values() if case else ():
        if isinstance(value, type) and issubclass(value, (FailureRecorder, ControlPlaneLoop)):
            return str(value.kind)
    raise pytest.UsageError(f"{item.nodeid}: a story is an async function")
