"""`rescheduler move`: one pod to another node, because a person wants it there."""

import sys
from typing import TYPE_CHECKING, Final

import click

from rescheduler.cli.acting import INTERRUPTED, Acting, acting_options, carry_out
from rescheduler.cli.looking import DATA_ERROR, Looking, live_options
from rescheduler.cli.naming import key_of_name, namespace_option
from rescheduler.cli.printing import output_option, print_document
from rescheduler.cli.safe_output import echo

if TYPE_CHECKING:
    from rescheduler.controller.plan_run import PlanRun
    from rescheduler.daemon import Rescheduler
    from rescheduler.model.plan import Rejection

__all__ = ["move"]

_BY_HAND: Final = {
    "Gone": "Look which there are: kubectl get pods -A",
    "TargetUnfit": "Name another node with --to, or none: then the best one is chosen.",
}
"""What to do where a person, not a plan, has named the pod and the node."""


@click.command()
@click.argument("pod", metavar="POD")
@namespace_option
@click.option("--to", "target", metavar="NODE", help="Where to; without it, the node that suits it best.")
@live_options
@acting_options
@output_option
def move(
    pod: str, namespace: str | None, target: str | None, looking: Looking, install: bool, output: str
) -> None:
    """Moves one pod to another node, and tells how far it is until it is there.

    A pod is named as for kubectl, with -n NAMESPACE, or as NAMESPACE/NAME. Its successor runs before the pod
    goes, wherever its owner allows that; if it can't be moved, you are told why, and what to do. What keeps
    the program from moving pods too often (minPodAge, podCooldown, windows) does not keep you from it. Exit
    codes: 0 if it was moved, 1 if it was not, 2 for wrong options or a wrong configuration, 130 after Ctrl-C.
    """
    configuration = looking.configuration()
    key = key_of_name(pod, namespace, looking)
    from rescheduler.cli.course import remedy_of, results  # noqa: PLC0415
    from rescheduler.cli.live_progress import progress_on  # noqa: PLC0415

    to_stderr = output != "table"
    progress = progress_on(sys.stderr if to_stderr else sys.stdout, to_stderr=to_stderr)

    async def moved(rescheduler: "Rescheduler") -> "PlanRun | list[Rejection]":
        from rescheduler.cli.wishing import plan_of_wish, refusals_of_wish  # noqa: PLC0415

        snapshot = rescheduler.cluster.snapshot()
        refusals = refusals_of_wish(snapshot, configuration.policy, key, target, rescheduler.webhook)
        if refusals:
            return refusals
        return await carry_out(rescheduler, plan_of_wish(snapshot, key, target), progress)

    acting = Acting(looking, configuration, install)
    acting.prepare()
    found = acting.run(moved)
    if isinstance(found, list):
        _refuse(key, found, output)
    elif to_stderr:
        print_document(results(found.errands)[0], output)
    elif found.errands[0].is_over and not found.errands[0].is_completed:
        echo(f"{key} is not moved. {remedy_of(found.errands[0])}", err=True)
    sys.stdout.flush()
    if progress.is_interrupted:
        sys.exit(INTERRUPTED)
    is_moved = not isinstance(found, list) and found.errands[0].is_completed
    sys.exit(0 if is_moved else DATA_ERROR)


def _refuse(key: str, refusals: "list[Rejection]", output: str) -> None:
    from rescheduler.planner.reasons import REMEDIES  # noqa: PLC0415

    remedies = {str(reason): remedy for reason, (_, remedy) in REMEDIES.items()} | _BY_HAND
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
