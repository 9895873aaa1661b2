"""`rescheduler drain` and `undrain`: nodes are emptied without anybody noticing, and taken back."""

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click
import msgspec

from rescheduler.cli.acting import INTERRUPTED, Acting, acting_options, interrupts, say_who_executes
from rescheduler.cli.looking import DATA_ERROR, Looking, give_up, live_options
from rescheduler.cli.printing import output_option, print_document
from rescheduler.cli.safe_output import echo

if TYPE_CHECKING:
    from rescheduler.cli.drain_view import DrainView
    from rescheduler.daemon import Rescheduler
    from rescheduler.kube.client import Client
    from rescheduler.model.status import NodeInMaintenance

__all__ = ["drain", "undrain"]


@click.command()
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
@live_options
@click.option("--include-system", is_flag=True, help="Pods of the system and of excluded namespaces, too.")
@click.option("--wait", is_flag=True, help="Also for what can't be moved now: until the nodes are empty.")
@acting_options
@output_option
def drain(
    nodes: tuple[str, ...], looking: Looking, include_system: bool, wait: bool, install: bool, output: str
) -> None:
    """Empties nodes: pods run elsewhere before they go, also single replicas and under full budgets.

    The nodes get the label scheduler.alpha.kubernetes.io/maintenance=true and are cordoned; `undrain` takes
    both back. What can't be moved is named, with the reason. Pods of DaemonSets and static pods stay. Exit
    codes: 0 if the nodes are empty, 1 if something is left, 2 for wrong options, 130 after Ctrl-C.
    """
    configuration = looking.configuration()
    policy = configuration.policy
    if include_system:
        policy = replace(policy, maintenance_includes_system=True)
    configuration = replace(configuration, policy=policy)
    from rescheduler.cli.drain_view import drain_view_on  # noqa: PLC0415

    to_stderr = output != "table"
    view = drain_view_on(sys.stderr if to_stderr else sys.stdout, to_stderr=to_stderr)
    acting = Acting(looking, configuration, install)

    async def drained(rescheduler: "Rescheduler") -> "tuple[NodeInMaintenance, ...]":
        return await _drain(rescheduler, dict.fromkeys(nodes), view, wait=wait)

    acting.prepare()
    states = acting.run(drained)
    _report(states, output, view)
    sys.stdout.flush()
    if view.is_interrupted:
        sys.exit(INTERRUPTED)
    sys.exit(DATA_ERROR if any(state.left for state in states) else 0)


async def _drain(
    rescheduler: "Rescheduler", names: dict[str, None], view: "DrainView", *, wait: bool
) -> "tuple[NodeInMaintenance, ...]":
    from rescheduler.controller.draining import Draining, send_away  # noqa: PLC0415

    _must_not_miss([name for name in names if rescheduler.followed.nodes.get(name) is None])
    draining = Draining(
        rescheduler.client,
        rescheduler.cluster,
        rescheduler.configuration.policy,
        names,
        webhook=rescheduler.webhook,
        tell=view.tell,
    )
    last: tuple[NodeInMaintenance, ...] = ()

    async def follow() -> None:
        nonlocal last
        async for last in draining.states(wait=wait):
            view.tell_nodes(last)

    async with rescheduler.executing():
        await say_who_executes(rescheduler, by_hand=False)
        await send_away(rescheduler.client, names)
        await _labels_seen(rescheduler, names)
        running = asyncio.create_task(follow())
        with view.showing_nodes(draining.now), interrupts(draining.stop, running.cancel, view):
            await asyncio.wait([running])
        if not running.cancelled():
            running.result()
    return last or draining.now()


async def _labels_seen(rescheduler: "Rescheduler", names: dict[str, None]) -> None:
    """Until what we have just written has come back to us: plans are made of what is followed."""
    from rescheduler.model.node_marks import in_maintenance  # noqa: PLC0415

    changed = asyncio.Event()
    informer = rescheduler.followed.nodes
    end = informer.subscribe(lambda _old, _new: changed.set())
    try:
        while not all((node := informer.get(name)) is None or in_maintenance(node) for name in names):
            await changed.wait()
            changed.clear()
    finally:
        end()


@click.command()
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
@live_options
def undrain(nodes: tuple[str, ...], looking: Looking) -> None:
    """Takes nodes back into service: no longer in maintenance, and uncordoned if we had cordoned them."""
    acting = Acting(looking, looking.configuration())

    async def undrained(client: "Client") -> dict[str, str]:
        """With no more than who may get and patch nodes can do."""
        from rescheduler.controller.draining import call_back  # noqa: PLC0415

        names = dict.fromkeys(nodes)
        _must_not_miss([name for name in names if not await _is_there(client, name)])
        return await call_back(client, names)

    for node, words in acting.ask(undrained).items():
        echo(f"{node}: {words}")


async def _is_there(client: "Client", node: str) -> bool:
    from rescheduler.kube import errors  # noqa: PLC0415
    from rescheduler.kube.resources import NODES  # noqa: PLC0415

    try:
        await client.get(NODES, node)
    except errors.NotFound:
        return False
    return True


def _must_not_miss(unknown: list[str]) -> None:
    """To be asked of all nodes before anything is done to one."""
    if unknown:
        give_up(f"there is no node {', '.join(unknown)}: nothing was done", DATA_ERROR)


def _report(states: "tuple[NodeInMaintenance, ...]", output: str, view: "DrainView") -> None:
    if output != "table":
        print_document({"nodes": [msgspec.to_builtins(state) for state in states]}, output)
        return
    from rescheduler.planner.reasons import REMEDIES  # noqa: PLC0415

    remedies = {str(reason): remedy for reason, (_, remedy) in REMEDIES.items()}
    for state in states:
        if state.blocked or not view.has_told(state):
            echo(f"{state.node}: {state.message}")
        for pod in state.blocked:
            echo(f"  - {pod}")
            reason = pod.partition(": ")[2].partition(",")[0]
            if reason in remedies:
                echo(f"    {remedies[reason]}")
