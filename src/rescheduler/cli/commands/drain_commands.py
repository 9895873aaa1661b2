"""`rescheduler drain` and `undrain`."""

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click
import msgspec

from rescheduler.cli.cluster_source import EXIT_ERROR, ClusterSource, exit_with_error, print_words
from rescheduler.cli.command_options import (
    effective_config_options,
    label_selector,
    live_cluster_options,
    near_names,
)
from rescheduler.cli.execution import (
    CONTINUE_HINT,
    EXIT_INTERRUPTED,
    Execution,
    execution_options,
    interrupt_handlers,
    report_other_executor,
    requesting_user,
)
from rescheduler.cli.output_formats import output_option, print_document
from rescheduler.cli.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kubevalues.label_selectors import Selector
    from rescheduler.api.daemon_status import NodeInMaintenance
    from rescheduler.cli.progress_display import AnyDrainDisplay
    from rescheduler.cluster.node_record import NodeRecord
    from rescheduler.config.policy import Configuration
    from rescheduler.daemon.components import Rescheduler
    from rescheduler.kube.client import Client

__all__ = ["drain", "undrain"]

_NAMES_OR_SELECTOR: Final = "specify either the names of nodes or a label selector with -l"


@click.command()
@click.argument("nodes", metavar="[NODE...]", nargs=-1)
@click.option("-l", "--selector", metavar="SELECTOR", help="Drain the nodes with these labels: -l pool=old.")
@click.option("--dry-run", is_flag=True, help="Print the moves of the drain; change nothing.")
@effective_config_options
@click.option("--include-system", is_flag=True, help="Also move system pods and pods in excluded namespaces.")
@click.option(
    "--wait", is_flag=True, help="Wait until the nodes are empty, even if some pods can't be moved now."
)
@execution_options
@output_option
def drain(  # noqa: PLR0913 - one per option
    *,
    nodes: tuple[str, ...],
    selector: str | None,
    dry_run: bool,
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
    if bool(nodes) == (selector is not None):
        raise click.UsageError(_NAMES_OR_SELECTOR)
    parsed = label_selector(selector) if selector is not None else None
    configuration = cluster.effective_configuration()
    policy = configuration.policy
    if include_system:
        policy = replace(policy, maintenance_includes_system=True)
    configuration = replace(configuration, policy=policy)
    if dry_run:
        _preview_drain(cluster, configuration, nodes, parsed, output)
        return
    from rescheduler.cli.progress_display import drain_display_for  # noqa: PLC0415

    view = drain_display_for(output, configuration.policy.settle_time)
    execution = Execution(cluster, configuration, install)

    async def drained(rescheduler: "Rescheduler") -> "tuple[NodeInMaintenance, ...]":
        names = dict.fromkeys(_selected_nodes(nodes, parsed, rescheduler.watched.nodes))
        return await _drain(rescheduler, names, view, wait=wait)

    execution.prepare()
    states = execution.run(drained)
    _report(states, output, view)
    sys.stdout.flush()
    _report_remaining([state.node for state in states if state.left])
    if not any(state.left for state in states):
        names = " ".join(state.node for state in states)
        print_words(f"To return to service, run: rescheduler undrain {names}")
    if view.is_interrupted:
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(EXIT_ERROR if any(state.left for state in states) else 0)


def _selected_nodes(
    names: tuple[str, ...], selector: "Selector | None", known: "Iterable[NodeRecord]"
) -> tuple[str, ...]:
    """Return the nodes that the user named or selected; exit if the selector matches none."""
    if selector is None:
        return names
    found = tuple(sorted(node.name for node in known if selector.matches(node.labels)))
    if not found:
        exit_with_error(f"no node has the labels {selector}: nothing was changed", EXIT_ERROR)
    return found


def _preview_drain(
    cluster: ClusterSource,
    configuration: "Configuration",
    nodes: tuple[str, ...],
    selector: "Selector | None",
    output: str,
) -> None:
    """Print the plan of the drain, as `plan` does."""
    from rescheduler.cli.commands.plan_commands import print_plan  # noqa: PLC0415
    from rescheduler.config.profiles import replace_settings  # noqa: PLC0415
    from rescheduler.planner.plan_builder import build_plan  # noqa: PLC0415
    from rescheduler.strategies.node_maintenance import NodeMaintenance  # noqa: PLC0415
    from rescheduler.web.what_if import with_maintenance  # noqa: PLC0415

    snapshot, webhook = cluster.read_snapshot(configuration)
    names = _selected_nodes(nodes, selector, snapshot.nodes.records)
    _exit_if_unknown(names, snapshot.nodes.row)
    policy = replace_settings(configuration.policy, max_reschedule_pods=10_000, windows=())
    strategies = [NodeMaintenance(frozenset(names))]
    snapshot = with_maintenance(snapshot, names)
    made = build_plan(snapshot, policy, strategies, steered=webhook.steers, guarded=bool(webhook.guards))
    print_plan(made, output)
    if output == "table":
        echo("\nDry run: nothing was changed.")


async def _drain(
    rescheduler: "Rescheduler", names: dict[str, None], view: "AnyDrainDisplay", *, wait: bool
) -> "tuple[NodeInMaintenance, ...]":
    from rescheduler.daemon.node_drain import NodeDrain, start_maintenance, wait_for_labels  # noqa: PLC0415

    _exit_if_unknown(names, {node.name for node in rescheduler.watched.nodes})
    user = await requesting_user(rescheduler.client)
    draining = NodeDrain(
        rescheduler.client,
        rescheduler.cluster,
        names,
        runtime=rescheduler.runtime,
        on_progress=view.on_progress,
        requested_by=user,
    )
    last: tuple[NodeInMaintenance, ...] = ()

    async def follow() -> None:
        nonlocal last
        async with rescheduler.checking() as checker:
            async for last in draining.states(wait=wait):
                view.on_nodes(last)
                await draining.write_conditions(last, rescheduler.now())
                await checker.measure()  # the next plan uses these loads

    async with rescheduler.executing():
        await report_other_executor(rescheduler, is_manual=False)
        await start_maintenance(rescheduler.client, names, user)
        await wait_for_labels(rescheduler.watched, names)
        running = asyncio.create_task(follow())
        with view.showing_nodes(draining.now), interrupt_handlers(draining.stop, running.cancel, view):
            await asyncio.wait([running])
        if not running.cancelled():
            running.result()
        # After Ctrl-C, the last states are outdated: moves have ended since.
        states = draining.now() if view.is_interrupted or not last else last
        await draining.write_conditions(states, rescheduler.now())
    if draining.has_running_moves:
        print_words(CONTINUE_HINT)
    return states


def _report_remaining(nodes: list[str]) -> None:
    """Print the state of the nodes that are not empty, and what to do."""
    if not nodes:
        return
    names = " ".join(nodes)
    stay = "stays cordoned and labeled" if len(nodes) == 1 else "stay cordoned and labeled"
    print_words(
        f"{', '.join(nodes)} {stay} for maintenance. To continue, run: rescheduler drain {names}\n"
        f"To return to service, run: rescheduler undrain {names}"
    )


@click.command()
@click.argument("nodes", metavar="[NODE...]", nargs=-1)
@click.option("-l", "--selector", metavar="SELECTOR", help="Return the nodes with these labels: -l pool=old.")
@live_cluster_options
def undrain(nodes: tuple[str, ...], selector: str | None, cluster: ClusterSource) -> None:
    """A node is uncordoned only if rescheduler cordoned it."""
    if bool(nodes) == (selector is not None):
        raise click.UsageError(_NAMES_OR_SELECTOR)
    parsed = label_selector(selector) if selector is not None else None
    execution = Execution(cluster, cluster.configuration())

    async def undrained(client: "Client") -> dict[str, str]:
        # This needs only the permissions to get and patch nodes.
        from rescheduler.cluster.codecs.record_resources import NODES  # noqa: PLC0415
        from rescheduler.daemon.node_drain import end_maintenance  # noqa: PLC0415

        known = [] if parsed is None else (await client.list(NODES)).items
        names = dict.fromkeys(_selected_nodes(nodes, parsed, known))
        _exit_if_unknown(names, [name for name in names if await _node_exists(client, name)])
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


def _exit_if_unknown(names: "Iterable[str]", known: "Collection[str]") -> None:
    """Exit if a node is unknown, before any node is changed."""
    if unknown := [name for name in names if name not in known]:
        hint = near_names(unknown[0], known) if len(unknown) == 1 else ""
        exit_with_error(f"node {', '.join(unknown)} not found: nothing was changed{hint}", EXIT_ERROR)


def _report(states: "tuple[NodeInMaintenance, ...]", output: str, view: "AnyDrainDisplay") -> None:
    if output != "table":
        print_document({"nodes": [msgspec.to_builtins(state) for state in states]}, output)
        return
    from rescheduler.planner.reasons import meaning_and_remedy  # noqa: PLC0415

    for state in states:
        if state.blocked or view.is_interrupted or not view.has_reported(state):
            echo(f"{state.node}: {state.message}")
        for pod in state.blocked:
            echo(f"  - {pod}")
            reason = pod.partition(": ")[2].partition(",")[0]
            if remedy := meaning_and_remedy(reason)[1]:
                echo(f"    {remedy}")
