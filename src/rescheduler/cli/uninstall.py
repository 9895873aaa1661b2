"""`rescheduler uninstall`: takes everything of ours out of a cluster, or only says what there is."""

import sys
from typing import TYPE_CHECKING

import click

from rescheduler.cli.acting import Acting, verbose_option
from rescheduler.cli.looking import DATA_ERROR, Looking, give_up, live_options
from rescheduler.cli.safe_output import echo

if TYPE_CHECKING:
    from rescheduler.controller.silence import Holding
    from rescheduler.daemon import Rescheduler
    from rescheduler.install.traces import Trace
    from rescheduler.kube.client import Client

__all__ = ["uninstall"]

_SOMETHING_LEFT = 3

_TIME_TO_END_S = 60.0
"""For programs in the cluster whose Deployment is deleted: more than the grace period of their pods."""


@click.command()
@live_options
@click.option("--check", is_flag=True, help="Only say what is there; nothing is changed.")
@click.option(
    "--history", is_flag=True, help="Finished migrations, their marks and their definition go, too."
)
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@click.option(
    "--force", is_flag=True, help="Also while a daemon still runs, which would make anew what is removed."
)
@verbose_option
def uninstall(looking: Looking, check: bool, history: bool, yes: bool, force: bool) -> None:
    """Takes everything of rescheduler out of the cluster.

    What acts is stopped first; migrations that are under way are rolled back, or finished where the pod has
    gone already; nodes that we cordoned are uncordoned; labels, annotations, budgets and all that was
    installed are removed. Finished migrations stay, as history, unless --history is said. While a daemon runs
    that was not installed in the cluster nothing is removed, unless --force is said. Exit codes: 0 if
    nothing is left, 3 for --check if something is there, 1 if it can't be removed, 2 for wrong options.
    """
    acting = Acting(looking, looking.configuration())

    async def find(client: "Client") -> "list[Trace]":
        from rescheduler.install.removal import Removal  # noqa: PLC0415

        return await Removal(client, with_history=history).find()

    found = acting.ask(find)
    if not found:
        echo("Nothing of rescheduler is in the cluster" + ("." if history else ", but for its history."))
        return
    for trace in found:
        echo(f"{trace.name}: {trace.what}")
    if check:
        sys.exit(_SOMETHING_LEFT)
    if not yes and not click.confirm(f"Remove these {len(found)}?", default=False):
        give_up("nothing was removed", DATA_ERROR)
    _stop(acting, found, force=force)
    _remove(acting, found, history=history)
    left = acting.ask(find)
    for trace in left:
        echo(f"still there: {trace.name}: {trace.what}", err=True)
    if left:
        give_up(f"{len(left)} could not be removed: see above, and try again", DATA_ERROR)
    echo(f"Removed {len(found)}; nothing is left" + ("." if history else ", but for the history."))


def _stop(acting: Acting, found: "list[Trace]", *, force: bool) -> None:
    """What acts. Ends the program if somebody goes on all the same, who was not installed in the cluster."""

    async def stopped(client: "Client") -> "Holding | None":
        from rescheduler.controller.silence import still_renewed  # noqa: PLC0415
        from rescheduler.daemon import lease_key, own_namespace  # noqa: PLC0415
        from rescheduler.install.removal import Removal  # noqa: PLC0415
        from rescheduler.kube.resources import LEASES  # noqa: PLC0415

        has_stopped = await Removal(client).stop(found)
        if force:
            return None
        leases = {trace.key for trace in found if trace.resource.kind == LEASES.kind}
        leases.add(await lease_key(client, acting.configuration, own_namespace(client)))
        return await still_renewed(client, leases, patience_s=_TIME_TO_END_S if has_stopped else 0.0)

    holding = acting.ask(stopped)
    if holding is not None:
        give_up(
            f"{holding.holder} still renews the Lease {holding.lease}: a daemon or command that runs outside "
            "the cluster would make anew what is removed. So nothing was removed but the Deployments that "
            "run in it. Stop it and try again; --force removes all the same",
            DATA_ERROR,
        )


def _remove(acting: Acting, found: "list[Trace]", *, history: bool) -> None:
    from rescheduler.install.traces import Sort  # noqa: PLC0415

    async def end(rescheduler: "Rescheduler") -> None:
        from rescheduler.controller.ending import end_all  # noqa: PLC0415

        async with rescheduler.executing():
            await end_all(rescheduler.client, rescheduler.followed)

    async def clean(client: "Client") -> None:
        from rescheduler.install.removal import Removal  # noqa: PLC0415

        await Removal(client, with_history=history).clean()

    if any(trace.sort is Sort.RUNNING for trace in found):
        acting.prepare()
        acting.run(end)
    acting.ask(clean)
