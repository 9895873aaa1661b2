"""`rescheduler uninstall`: removes an installation from a cluster, or only says what there is."""

import sys
from typing import TYPE_CHECKING

import click

from rescheduler.cli.acting import Acting, verbose_option
from rescheduler.cli.looking import DATA_ERROR, Looking, complain, give_up, live_options
from rescheduler.cli.safe_output import echo

if TYPE_CHECKING:
    from rescheduler.controller.silence import Holding
    from rescheduler.daemon import Rescheduler
    from rescheduler.install.removal import Findings, Removal
    from rescheduler.kube.client import Client

__all__ = ["uninstall"]

_SOMETHING_LEFT = 3

_TIME_TO_END_S = 120.0
"""For pods whose Deployment is deleted: more than their grace period, and than Kubernetes needs to delete
pods of nodes that are gone."""


@click.command()
@live_options
@click.option(
    "--namespace", "-n", metavar="NAME", help="Where rescheduler is installed; by default it is looked for."
)
@click.option("--check", is_flag=True, help="Only say what is there; nothing is changed.")
@click.option(
    "--history", is_flag=True, help="Finished migrations, their marks and their definition go, too."
)
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@click.option(
    "--force", is_flag=True, help="Also while a daemon still runs, which would make anew what is removed."
)
@verbose_option
def uninstall(
    looking: Looking, namespace: str | None, check: bool, history: bool, yes: bool, force: bool
) -> None:
    """Removes everything of rescheduler from the cluster.

    Its programs end first, with all their pods; migrations that are under way are rolled back, or finished
    where the pod has gone already; nodes that we cordoned are uncordoned; labels, annotations and budgets of
    ours are removed; then each object that was installed, if it carries the label rescheduler.dev/install-id.
    The namespace goes only if it was created with rescheduler and holds nothing else. Finished migrations
    stay, as history, unless --history is said. While a daemon runs that was not installed in the cluster
    nothing is removed, unless --force is said. Exit codes: 0 if nothing is left, 3 for --check if something
    is there, 1 if it can't be removed, 2 for wrong options.
    """
    uninstalling = _Uninstalling(Acting(looking, looking.configuration()), namespace, history)
    found = uninstalling.find()
    for sentence in found.kept:
        complain(sentence)
    _refuse_if_unknown(found, check=check)
    if not found.traces:
        echo("Nothing of rescheduler is in the cluster" + ("." if history else ", but for its history."))
        return
    for trace in found.traces:
        echo(f"{trace.name}: {trace.what}")
    if check:
        sys.exit(_SOMETHING_LEFT)
    if not yes and not click.confirm(f"Remove these {len(found.traces)}?", default=False):
        give_up("nothing was removed", DATA_ERROR)
    uninstalling.stop(force=force)
    uninstalling.end_migrations(found)
    failures = uninstalling.clean()
    left = uninstalling.find()
    for trace in left.traces:
        echo(f"still there: {trace.name}: {trace.what}", err=True)
    for failure in failures or left.failures:
        echo(failure, err=True)
    if left.traces or failures or left.failures:
        give_up("Not everything could be removed: see above, and try again.", DATA_ERROR)
    echo(f"Removed {len(found.traces)}; nothing is left" + ("." if history else ", but for the history."))


def _refuse_if_unknown(found: "Findings", *, check: bool) -> None:
    """Say what can't be read; with nothing else to remove, that is the end."""
    for failure in found.failures:
        complain(failure)
    if found.failures and (check or not found.traces):
        give_up("It can't be told what is left of rescheduler: see above.", DATA_ERROR)


class _Uninstalling:
    """The steps, each with a connection of its own. Each ends the program if it can't be done."""

    def __init__(self, acting: Acting, namespace: str | None, history: bool) -> None:
        self._acting = acting
        self._history = history
        self._namespace = namespace or acting.ask(self._found_namespace)

    def find(self) -> "Findings":
        async def find(client: "Client") -> "Findings":
            return await self._removal(client).find()

        return self._acting.ask(find)

    def stop(self, *, force: bool) -> None:
        """End the programs. Ends this one if something goes on all the same."""

        async def stopped(client: "Client") -> "tuple[list[str], Holding | None]":
            from rescheduler.controller.silence import still_renewed  # noqa: PLC0415
            from rescheduler.daemon.whereabouts import UNINSTALLED_NAMESPACE  # noqa: PLC0415

            left = await self._removal(client).stop(patience_s=_TIME_TO_END_S)
            if left or force:
                return left, None
            lease = self._acting.configuration.leader_election.resource_name
            # A daemon outside of the cluster that was started before the installation is in this namespace.
            namespaces = {self._namespace, UNINSTALLED_NAMESPACE}
            return [], await still_renewed(client, {f"{each}/{lease}" for each in namespaces})

        left, holding = self._acting.ask(stopped)
        if left and not force:
            give_up(
                f"{', '.join(left)} did not end within {_TIME_TO_END_S:g} s, and would make anew what is "
                "removed. So nothing was removed but the Deployments. Find out why (kubectl describe), "
                "delete what still runs, and try again; --force removes all the same",
                DATA_ERROR,
            )
        if holding is not None:
            give_up(
                f"{holding.holder} still renews the Lease {holding.lease}: a daemon or command that runs "
                "outside the cluster would make anew what is removed. So nothing was removed but the "
                "Deployments that run in it. Stop it and try again; --force removes all the same",
                DATA_ERROR,
            )

    def end_migrations(self, found: "Findings") -> None:
        """Roll back what is under way, or bring it to its end."""
        from rescheduler.install.traces import Sort  # noqa: PLC0415

        async def end(rescheduler: "Rescheduler") -> None:
            from rescheduler.controller.ending import end_all  # noqa: PLC0415

            async with rescheduler.executing():
                await end_all(rescheduler.client, rescheduler.followed)

        if any(trace.sort is Sort.RUNNING for trace in found.traces):
            self._acting.prepare()
            self._acting.run(end, namespace=self._namespace)

    def clean(self) -> list[str]:
        """Return what failed, in words."""

        async def clean(client: "Client") -> list[str]:
            return await self._removal(client).clean()

        return self._acting.ask(clean)

    async def _found_namespace(self, client: "Client") -> str:
        from rescheduler.daemon.whereabouts import UNINSTALLED_NAMESPACE  # noqa: PLC0415
        from rescheduler.install.installations import find_what_to_uninstall  # noqa: PLC0415

        configured = self._acting.configuration.leader_election.resource_namespace
        return configured or await find_what_to_uninstall(client) or UNINSTALLED_NAMESPACE

    def _removal(self, client: "Client") -> "Removal":
        from rescheduler.install.removal import Removal  # noqa: PLC0415

        lease_name = self._acting.configuration.leader_election.resource_name
        return Removal(client, self._namespace, lease_name=lease_name, with_history=self._history)
