"""`rescheduler drain` and `undrain`: nodes are emptied without anybody noticing, and taken back."""

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click
import msgspec

from rescheduler.cli.cluster_source import EXIT_ERROR, ClusterSource, exit_with_error, live_cluster_options
from rescheduler.cli.execution import (
    EXIT_INTERRUPTED,
    Execution,
    execution_options,
    interrupt_handlers,
    report_other_executor,
)
from rescheduler.cli.safe_output import echo, output_option, print_document

if TYPE_CHECKING:
    from rescheduler.api.daemon_status import NodeInMaintenance
    from rescheduler.cli.drain_display import DrainDisplay
    from rescheduler.daemon.components import Rescheduler
    from rescheduler.kube.client import Client

__all__ = ["drain", "undrain"]


@click.command()
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
@live_cluster_options
@click.option("--include-system", is_flag=True, help="Pods of the system and of excluded namespaces, too.")
@click.option("--wait", is_flag=True, help="Also for what can't be moved now: until the nodes are empty.")
@execution_options
@output_option
def drain(
    nodes: tuple[str, ...],
    cluster: ClusterSource,
    include_system: bool,
    wait: bool,
    install: bool,
    output: str,
) -> None:
    """Empties nodes: pods run elsewhere before they go, also single replicas and under full budgets.

    The nodes get the label scheduler.alpha.kubernetes.io/maintenance=true and are cordoned; `undrain` takes
    both back. What can't be moved is named, with the reason. Pods of DaemonSets and static pods stay. Exit
    codes: 0 if the nodes are empty, 1 if something is left, 2 for wrong options, 130 after Ctrl-C.
    """
    configuration = cluster.configuration()
    policy = configuration.policy
    if include_system:
        policy = replace(policy, maintenance_includes_system=True)
    configuration = replace(configuration, policy=policy)
    from rescheduler.cli.drain_display import drain_display_for  # noqa: PLC0415

    to_stderr = output != "table"
    view = drain_display_for(sys.stderr if to_stderr else sys.stdout, to_stderr=to_stderr)
    execution = Execution(cluster, configuration, install)

    async def drained(rescheduler: "Rescheduler") -> "tuple[NodeInMaintenance, ...]":
        return await _drain(rescheduler, dict.fromkeys(nodes), view, wait=wait)

    execution.prepare()
    states = execution.run(drained)
    _report(states, output, view)
    sys.stdout.flush()
    if view.is_interrupted:
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(EXIT_ERROR if any(state.left for state in states) else 0)


async def _drain(
    rescheduler: "Rescheduler", names: dict[str, None], view: "DrainDisplay", *, wait: bool
) -> "tuple[NodeInMaintenance, ...]":
    from rescheduler.daemon.node_drain import NodeDrain, start_maintenance  # noqa: PLC0415

    _exit_if_unknown([name for name in names if rescheduler.followed.nodes.get(name) is None])
    draining = NodeDrain(
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
        await report_other_executor(rescheduler, by_hand=False)
        await start_maintenance(rescheduler.client, names)
        await _wait_for_labels(rescheduler, names)
        running = asyncio.create_task(follow())
        with view.showing_nodes(draining.now), interrupt_handlers(draining.stop, running.cancel, view):
            await asyncio.wait([running])
        if not running.cancelled():
            running.result()
    return last or draining.now()


async def _wait_for_labels(rescheduler: "Rescheduler", names: dict[str, None]) -> None:
    """Until what we have just written has come back to us: plans are made of what is followed."""
    from rescheduler.cluster.node_record import in_maintenance  # noqa: PLC0415

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
@live_cluster_options
def undrain(nodes: tuple[str, ...], cluster: ClusterSource) -> None:
    """Takes nodes back into service: no longer in maintenance, and uncordoned if we had cordoned them."""
    execution = Execution(cluster, cluster.configuration())

    async def undrained(client: "Client") -> dict[str, str]:
        """With no more than who may get and patch nodes can do."""
        from rescheduler.daemon.node_drain import end_maintenance  # noqa: PLC0415

        names = dict.fromkeys(nodes)
        _exit_if_unknown([name for name in names if not await _node_exists(client, name)])
        return await end_maintenance(client, names)

    for node, words in execution.ask(undrained).items():
        echo(f"{node}: {words}")


async def _node_exists(client: "Client", node: str) -> bool:
    from rescheduler.cluster.codecs.record_resources import NODES  # noqa: PLC0415
    from rescheduler.kube import errors  # noqa: PLC0415

    try:
        await client.get(NODES, node)
    except errors.NotFound:
        return False
    return True


def _exit_if_unknown(unknown: list[str]) -> None:
    """To be asked of all nodes before anything is done to one."""
    if unknown:
        exit_with_error(f"there is no node {', '.join(unknown)}: nothing was done", EXIT_ERROR)


def _report(states: "tuple[NodeInMaintenance, ...]", output: str, view: "DrainDisplay") -> None:
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
