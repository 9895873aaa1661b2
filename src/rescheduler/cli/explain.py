"""`rescheduler explain`: why a pod stays, where it could go; what a node holds, and what could come."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from rescheduler.cli.looking import DATA_ERROR, Looking, give_up, looking_options
from rescheduler.cli.naming import key_of_name
from rescheduler.cli.printing import print_document
from rescheduler.cli.safe_output import echo_lines

if TYPE_CHECKING:
    from rescheduler.snapshot.snapshot import Snapshot

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
@looking_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="For people, or for programs.",
)
def explain(kind: str, name: str, namespace: str | None, looking: Looking, output: str) -> None:
    """Says whether a pod may move, why not, and what forbids each node; and the like of a node.

    A pod is named as for kubectl, with -n NAMESPACE, or as NAMESPACE/NAME.
    """
    configuration = looking.configuration()
    key = key_of_name(name, namespace, looking) if kind == "pod" else name
    snapshot, webhook = looking.seen(configuration, meanwhile=["rescheduler.planner.explaining"])
    _must_be_there(kind, key, snapshot)
    from rescheduler.planner.explaining import explain_node, explain_pod  # noqa: PLC0415

    explained = explain_pod if kind == "pod" else explain_node
    steered, guarded = webhook.steers, bool(webhook.guards)
    told = explained(snapshot, configuration.policy, key, steered=steered, guarded=guarded)
    assumptions = (*snapshot.assumptions, *told.assumptions)
    if output == "text":
        from rescheduler.cli.explain_view import lines_of  # noqa: PLC0415
        from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415

        terminal = terminal_of(sys.stdout)
        lines = lines_of(told, assumptions, terminal)
        echo_lines(lines, color=terminal.colour)
    else:
        from rescheduler.cli.explain_form import form_of  # noqa: PLC0415

        print_document(form_of(told, assumptions), output)


def _must_be_there(kind: str, key: str, snapshot: "Snapshot") -> None:
    known: Mapping[str, int] = snapshot.pods.row if kind == "pod" else snapshot.nodes.row
    if key in known:
        return
    from rescheduler.config.faults import did_you_mean  # noqa: PLC0415

    near = did_you_mean(key, known)
    elsewhere = [each for each in known if kind == "pod" and each.endswith(f"/{key.partition('/')[2]}")]
    hint = f"; there is {', '.join(sorted(elsewhere)[:3])}" if elsewhere else near
    give_up(f"there is no {kind} {key}{hint}", DATA_ERROR)
