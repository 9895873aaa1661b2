"""`rescheduler uninstall`: takes everything of ours out of a cluster, or only says what there is."""

import sys
from typing import TYPE_CHECKING

import click

from rescheduler.cli.acting import Acting, verbose_option
from rescheduler.cli.looking import DATA_ERROR, Looking, give_up, live_options

if TYPE_CHECKING:
    from rescheduler.daemon import Rescheduler
    from rescheduler.install.traces import Trace
    from rescheduler.kube.client import Client

__all__ = ["uninstall"]

_SOMETHING_LEFT = 3


@click.command()
@live_options
@click.option("--check", is_flag=True, help="Only say what is there; nothing is changed.")
@click.option(
    "--history", is_flag=True, help="Finished migrations, their marks and their definition go, too."
)
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@verbose_option
def uninstall(looking: Looking, check: bool, history: bool, yes: bool) -> None:
    """Takes everything of rescheduler out of the cluster.

    What acts is stopped first; migrations that are under way are rolled back, or finished where the pod has
    gone already; nodes that we cordoned are uncordoned; labels, annotations, budgets and all that was
    installed are removed. Finished migrations stay, as history, unless --history is said. Exit codes: 0 if
    nothing is left, 3 for --check if something is there, 1 if it can't be removed, 2 for wrong options.
    """
    acting = Acting(looking, looking.configuration())

    async def find(client: "Client") -> "list[Trace]":
        from rescheduler.install.removal import Removal  # noqa: PLC0415

        return await Removal(client, with_history=history).find()

    found = acting.ask(find)
    if not found:
        click.echo(
            "Nothing of rescheduler is in the cluster" + ("." if history else ", but for its history.")
        )
        return
    for trace in found:
        click.echo(f"{trace.name}: {trace.what}")
    if check:
        sys.exit(_SOMETHING_LEFT)
    if not yes and not click.confirm(f"Remove these {len(found)}?", default=False):
        give_up("nothing was removed", DATA_ERROR)
    _remove(acting, found, history=history)
    left = acting.ask(find)
    for trace in left:
        click.echo(f"still there: {trace.name}: {trace.what}", err=True)
    if left:
        give_up(f"{len(left)} could not be removed: see above, and try again", DATA_ERROR)
    click.echo(f"Removed {len(found)}; nothing is left" + ("." if history else ", but for the history."))


def _remove(acting: Acting, found: "list[Trace]", *, history: bool) -> None:
    from rescheduler.install.traces import Sort  # noqa: PLC0415

    async def stop(client: "Client") -> None:
        from rescheduler.install.removal import Removal  # noqa: PLC0415

        await Removal(client).stop(found)

    async def end(rescheduler: "Rescheduler") -> None:
        from rescheduler.controller.ending import end_all  # noqa: PLC0415

        async with rescheduler.executing():
            await end_all(rescheduler.client, rescheduler.followed)

    async def clean(client: "Client") -> None:
        from rescheduler.install.removal import Removal  # noqa: PLC0415

        await Removal(client, with_history=history).clean()

    acting.ask(stop)
    if any(trace.sort is Sort.RUNNING for trace in found):
        acting.run(end, steered=acting.prepare())
    acting.ask(clean)
