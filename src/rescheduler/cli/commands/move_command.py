"""`rescheduler move`: one pod to another node, because a person wants it there."""

import sys
from typing import TYPE_CHECKING, Final

import click

from rescheduler.cli.cluster_source import (
    EXIT_ERROR,
    ClusterSource,
    live_cluster_options,
    namespace_option,
    object_key,
)
from rescheduler.cli.execution import EXIT_INTERRUPTED, Execution, execute_plan, execution_options
from rescheduler.cli.safe_output import echo, output_option, print_document

if TYPE_CHECKING:
    from rescheduler.daemon.components import Rescheduler
    from rescheduler.migrations.controller.plan_execution import PlanExecution
    from rescheduler.planner.plan import Rejection

__all__ = ["move"]

_MANUAL_REMEDIES: Final = {
    "Gone": "Look which there are: kubectl get pods -A",
    "TargetUnfit": "Name another node with --to, or none: then the best one is chosen.",
}
"""What to do where a person, not a plan, has named the pod and the node."""


@click.command()
@click.argument("pod", metavar="POD")
@namespace_option
@click.option("--to", "target", metavar="NODE", help="Where to; without it, the node that suits it best.")
@live_cluster_options
@execution_options
@output_option
def move(
    pod: str, namespace: str | None, target: str | None, cluster: ClusterSource, install: bool, output: str
) -> None:
    """Moves one pod to another node, and tells how far it is until it is there.

    A pod is named as for kubectl, with -n NAMESPACE, or as NAMESPACE/NAME. Its successor runs before the pod
    goes, wherever its owner allows that; if it can't be moved, you are told why, and what to do. What keeps
    the program from moving pods too often (minPodAge, podCooldown, windows) does not keep you from it. Exit
    codes: 0 if it was moved, 1 if it was not, 2 for wrong options or a wrong configuration, 130 after Ctrl-C.
    """
    configuration = cluster.configuration()
    key = object_key(pod, namespace, cluster)
    from rescheduler.cli.move_status import failure_remedy, move_results  # noqa: PLC0415
    from rescheduler.cli.progress_display import progress_display_for  # noqa: PLC0415

    to_stderr = output != "table"
    progress = progress_display_for(sys.stderr if to_stderr else sys.stdout, to_stderr=to_stderr)

    async def moved(rescheduler: "Rescheduler") -> "PlanExecution | list[Rejection]":
        from rescheduler.cli.manual_move import manual_move_refusals, manual_plan  # noqa: PLC0415

        snapshot = rescheduler.cluster.snapshot()
        refusals = manual_move_refusals(snapshot, configuration.policy, key, target, rescheduler.webhook)
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
        echo(f"{key} is not moved. {failure_remedy(found.moves[0])}", err=True)
    sys.stdout.flush()
    if progress.is_interrupted:
        sys.exit(EXIT_INTERRUPTED)
    is_moved = not isinstance(found, list) and found.moves[0].is_completed
    sys.exit(0 if is_moved else EXIT_ERROR)


def _report_refusals(key: str, refusals: "list[Rejection]", output: str) -> None:
    from rescheduler.planner.reasons import REMEDIES  # noqa: PLC0415

    remedies = {str(reason): remedy for reason, (_, remedy) in REMEDIES.items()} | _MANUAL_REMEDIES
    if output != "table":
        told = [
            {
                "reason": each.reason,
                "by": each.by,
                "detail": each.detail,
                "remedy": remedies.get(each.reason, ""),
            }
            for each in refusals
        ]
        print_document({"pod": key, "result": "Refused", "refusals": told}, output)
        return
    echo(f"{key} is not moved", err=True)
    for each in refusals:
        echo(f"  - {each.reason}: {each.detail}", err=True)
        if remedy := remedies.get(each.reason):
            echo(f"    {remedy}", err=True)
