"""What is shown of a drain: a bar per node where it can be redrawn, lines elsewhere."""

import asyncio
import io

from rich.console import Console

from rescheduler.api.daemon_status import NodeInMaintenance
from rescheduler.api.podmigration import Handover
from rescheduler.cli.progress_display import DrainDisplay, LiveDrainDisplay
from rescheduler.cli.terminal import Terminal
from rescheduler.migrations.controller.plan_execution import MoveProgress
from rescheduler.planner.plan import Move


def frame(*states):
    """The last of several moments."""
    out = io.StringIO()
    view = LiveDrainDisplay(Console(file=out, width=100, force_terminal=False), Terminal(100))
    rendered = None

    async def show(moment):
        with view.showing_nodes(lambda: moment):
            return view.frame()

    for moment in states:
        rendered = asyncio.run(show(moment))
    Console(file=out, width=100).print(rendered)
    return out.getvalue()


def test_a_bar_grows_by_the_pods_that_have_gone():
    shown = frame([NodeInMaintenance("worker-1", 4)], [NodeInMaintenance("worker-1", 1)])
    assert "worker-1" in shown
    assert "3 of 4 pods moved" in shown


def test_a_node_that_has_nothing_to_lose_is_empty_at_once():
    assert "empty" in frame([NodeInMaintenance("worker-1", 0)])


def test_the_name_of_a_node_is_not_cut_however_much_there_is_to_say_of_its_pods():
    node = "ip-10-0-1-23.eu-west-1.compute.internal"
    out = io.StringIO()
    view = LiveDrainDisplay(Console(file=out, width=100), Terminal(100))
    pod = "team-payments/checkout-with-a-very-long-name-7f9c4d5b6d-x2kqp"
    move = Move(
        pod=pod, uid="uid", source=node, target="other", strategy="NodeMaintenance",
        handover=Handover.ADOPT, reason="", gain=0.0,
    )  # fmt: skip
    view.on_progress(MoveProgress(move))

    async def show():
        with view.showing_nodes(lambda: [NodeInMaintenance(node, 4)]):
            Console(file=out, width=100).print(view.frame())

    asyncio.run(show())
    assert node in out.getvalue()
    assert "0 of 4 pods moved" in out.getvalue()


def test_bars_say_that_a_node_is_empty_but_not_what_is_left():
    view = LiveDrainDisplay(Console(file=io.StringIO(), width=100), Terminal(100))
    assert view.has_reported(NodeInMaintenance("worker-1", 0, (), "empty"))
    left = NodeInMaintenance("worker-1", 2, (), "2 pods are still there")
    view.on_nodes([left])
    assert not view.has_reported(left)


def test_as_lines_each_state_is_reported_once():
    lines = []
    view = DrainDisplay(Terminal(), lines.append)
    state = NodeInMaintenance("worker-1", 2, (), "2 pods are still there")
    view.on_nodes([state])
    view.on_nodes([state])
    view.on_nodes([NodeInMaintenance("worker-1", 0, (), "empty")])
    assert [line.split("  ")[-1] for line in lines] == ["worker-1: 2 pods are still there", "worker-1: empty"]
