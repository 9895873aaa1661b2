"""`rescheduler explain`: why a pod stays, where it could go; what a node holds, and what could come."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from rescheduler.cli.cluster_source import (
    EXIT_ERROR,
    ClusterSource,
    cluster_and_config_options,
    exit_with_error,
    object_key,
)
from rescheduler.cli.safe_output import echo_lines, print_document

if TYPE_CHECKING:
    from rescheduler.cluster.snapshot import Snapshot

__all__ = ["explain"]

_KINDS = {"pod": "pod", "pods": "pod", "po": "pod", "node": "node", "nodes": "node", "no": "node"}
"""As kubectl lets one say it."""


def _kind(_ctx: click.Context, _argument: click.Parameter, value: str) -> str:
    if value not in _KINDS:
        raise click.BadParameter(f'"{value}" is neither pod nor node')
    return _KINDS[value]


@click.command()
@click.argument("kind", callback=_kind, metavar="pod|node")
@click.argument("name", metavar="NAME")
@click.option("-n", "--namespace", metavar="NAME", help="Of the pod; the context's if not given.")
@cluster_and_config_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="For people, or for programs.",
)
def explain(kind: str, name: str, namespace: str | None, cluster: ClusterSource, output: str) -> None:
    """Says whether a pod may move, why not, and what forbids each node; and the like of a node.

    A pod is named as for kubectl, with -n NAMESPACE, or as NAMESPACE/NAME.
    """
    configuration = cluster.configuration()
    key = object_key(name, namespace, cluster) if kind == "pod" else name
    snapshot, webhook = cluster.read_snapshot(configuration, meanwhile=["rescheduler.planner.explanation"])
    _exit_if_missing(kind, key, snapshot)
    from rescheduler.planner.explanation import explain_node, explain_pod  # noqa: PLC0415

    explained = explain_pod if kind == "pod" else explain_node
    steered, guarded = webhook.steers, bool(webhook.guards)
    told = explained(snapshot, configuration.policy, key, steered=steered, guarded=guarded)
    assumptions = (*snapshot.assumptions, *told.assumptions)
    if output == "text":
        from rescheduler.cli.explain_view import explanation_lines  # noqa: PLC0415
        from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415

        terminal = terminal_of(sys.stdout)
        lines = explanation_lines(told, assumptions, terminal)
        echo_lines(lines, color=terminal.colour)
    else:
        from rescheduler.cli.explain_view import explanation_document  # noqa: PLC0415

        print_document(explanation_document(told, assumptions), output)


def _exit_if_missing(kind: str, key: str, snapshot: "Snapshot") -> None:
    known: Mapping[str, int] = snapshot.pods.row if kind == "pod" else snapshot.nodes.row
    if key in known:
        return
    from rescheduler.config.config_validation import did_you_mean  # noqa: PLC0415

    near = did_you_mean(key, known)
    elsewhere = [each for each in known if kind == "pod" and each.endswith(f"/{key.partition('/')[2]}")]
    hint = f"; there is {', '.join(sorted(elsewhere)[:3])}" if elsewhere else near
    exit_with_error(f"there is no {kind} {key}{hint}", EXIT_ERROR)
