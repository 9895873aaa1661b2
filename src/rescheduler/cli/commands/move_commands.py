"""`rescheduler move`, `drain` and `undrain`."""

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click
import msgspec

from rescheduler.cli.cluster_source import (
    EXIT_ERROR,
    ClusterSource,
    exit_with_error,
    live_cluster_options,
    namespace_option,
    object_key,
)
from rescheduler.cli.execution import (
    EXIT_INTERRUPTED,
    Execution,
    execute_plan,
    execution_options,
    interrupt_handlers,
    report_other_executor,
)
from rescheduler.cli.terminal import echo, output_option, print_document

if TYPE_CHECKING:
    from rescheduler.api.daemon_status import NodeInMaintenance
    from rescheduler.cli.progress_display import DrainDisplay
    from rescheduler.daemon.components import Rescheduler
    from rescheduler.kube.client import Client
    from rescheduler.migrations.controller.plan_execution import PlanExecution
    from rescheduler.planner.plan import Rejection

__all__ = ["drain", "move", "undrain"]

_MANUAL_REMEDIES: Final = {
    "Gone": "To list the pods, run: kubectl get pods -A",
    "TargetUnfit": "Choose another node with --to, or omit --to to use the best node.",
}
"""Remedies for a pod and a node that the user has named."""


@click.command()
@click.argument("pod", metavar="POD")
@namespace_option
@click.option("--to", "target", metavar="NODE", help="Target node; defaults to the best one.")
@live_cluster_options
@execution_options
@output_option
def move(
    pod: str, namespace: str | None, target: str | None, cluster: ClusterSource, install: bool, output: str
) -> None:
    """Name a pod as for kubectl, with -n NAMESPACE, or as NAMESPACE/NAME.

    A copy is ready before the pod is evicted, if the owner of the pod allows it. If the pod can't be moved,
    the command prints the reason and the remedy. Limits that prevent frequent moves (minPodAge, podCooldown,
    windows) don't apply.

    Exit codes: 0 if the pod was moved, 1 if it was not, 2 for invalid options or an invalid configuration,
    130 after Ctrl-C.
    """
    configuration = cluster.configuration()
    key = object_key(pod, namespace, cluster)
    from rescheduler.cli.move_status import failure_remedy, move_results  # noqa: PLC0415
    from rescheduler.cli.progress_display import progress_display_for  # noqa: PLC0415

    to_stderr = output != "table"
    progress = progress_display_for(sys.stderr if to_stderr else sys.stdout, to_stderr=to_stderr)

    async def moved(rescheduler: "Rescheduler") -> "PlanExecution | list[Rejection]":
        from rescheduler.daemon.manual_move import manual_move_refusals, manual_plan  # noqa: PLC0415

        snapshot = rescheduler.cluster.snapshot()
        refusals = manual_move_refusals(snapshot, key, target, rescheduler.runtime.current)
        if refusals:
            return refusals
        return await execute_plan(rescheduler, manual_plan(snapshot, key, target), progress)

    execution = Execution(cluster, configuration, install)
    execution.prepare()
    found = execution.run(moved)
    if isinstance(found, list):
        _report_refusals(key, found, output)
    elif to_stderr:
        print_document(move_results(found.moves)[0], output)
    elif found.moves[0].is_over and not found.moves[0].is_completed:
        echo(f"{key} was not moved. {failure_remedy(found.moves[0])}", err=True)
    sys.stdout.flush()
    if progress.is_interrupted:
        sys.exit(EXIT_INTERRUPTED)
    is_moved = not isinstance(found, list) and found.moves[0].is_completed
    sys.exit(0 if is_moved else EXIT_ERROR)


def _report_refusals(key: str, refusals: "list[Rejection]", output: str) -> None:
    from rescheduler.planner.reasons import meaning_and_remedy  # noqa: PLC0415

    remedies = [_MANUAL_REMEDIES.get(each.reason) or meaning_and_remedy(each.reason)[1] for each in refusals]
    if output != "table":
        documents = [
            {
                "reason": each.reason,
                "by": each.by,
                "detail": each.detail,
                "remedy": remedy,
            }
            for each, remedy in zip(refusals, remedies, strict=True)
        ]
        print_document({"pod": key, "result": "Refused", "refusals": documents}, output)
        return
    echo(f"{key} was not moved", err=True)
    for each, remedy in zip(refusals, remedies, strict=True):
        echo(f"  - {each.reason}: {each.detail}", err=True)
        if remedy:
            echo(f"    {remedy}", err=True)


@click.command()
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
@live_cluster_options
@click.option("--include-system", is_flag=True, help="Also move system pods and pods in excluded namespaces.")
@click.option(
    "--wait", is_flag=True, help="Wait until the nodes are empty, even if some pods can't be moved now."
)
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
    """This also works for single replicas and for budgets that allow no disruption.

    The nodes get the label scheduler.alpha.kubernetes.io/maintenance=true and are cordoned; `undrain` reverts
    both. Pods that can't be moved are listed with the reason. DaemonSet pods and static pods stay.

    Exit codes: 0 if the nodes are empty, 1 if pods are left, 2 for invalid options, 130 after Ctrl-C.
    """
    configuration = cluster.configuration()
    policy = configuration.policy
    if include_system:
        policy = replace(policy, maintenance_includes_system=True)
    configuration = replace(configuration, policy=policy)
    from rescheduler.cli.progress_display import drain_display_for  # noqa: PLC0415

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
    from rescheduler.daemon.node_drain import NodeDrain, start_maintenance, wait_for_labels  # noqa: PLC0415

    _exit_if_unknown([name for name in names if rescheduler.watched.nodes.get(name) is None])
    draining = NodeDrain(
        rescheduler.client,
        rescheduler.cluster,
        names,
        runtime=rescheduler.runtime,
        on_progress=view.on_progress,
    )
    last: tuple[NodeInMaintenance, ...] = ()

    async def follow() -> None:
        nonlocal last
        async for last in draining.states(wait=wait):
            view.on_nodes(last)

    async with rescheduler.executing():
        await report_other_executor(rescheduler, is_manual=False)
        await start_maintenance(rescheduler.client, names)
        await wait_for_labels(rescheduler.watched, names)
        running = asyncio.create_task(follow())
        with view.showing_nodes(draining.now), interrupt_handlers(draining.stop, running.cancel, view):
            await asyncio.wait([running])
        if not running.cancelled():
            running.result()
    return last or draining.now()


@click.command()
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
@live_cluster_options
def undrain(nodes: tuple[str, ...], cluster: ClusterSource) -> None:
    """A node is uncordoned only if rescheduler cordoned it."""
    execution = Execution(cluster, cluster.configuration())

    async def undrained(client: "Client") -> dict[str, str]:
        # This needs only the permissions to get and patch nodes.
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
    """Exit if a node is unknown, before any node is changed."""
    if unknown:
        exit_with_error(f"node {', '.join(unknown)} not found: nothing was changed", EXIT_ERROR)


def _report(states: "tuple[NodeInMaintenance, ...]", output: str, view: "DrainDisplay") -> None:
    if output != "table":
        print_document({"nodes": [msgspec.to_builtins(state) for state in states]}, output)
        return
    from rescheduler.planner.reasons import meaning_and_remedy  # noqa: PLC0415

    for state in states:
        if state.blocked or not view.has_reported(state):
            echo(f"{state.node}: {state.message}")
        for pod in state.blocked:
            echo(f"  - {pod}")
            reason = pod.partition(": ")[2].partition(",")[0]
            if remedy := meaning_and_remedy(reason)[1]:
                echo(f"    {remedy}")
