"""`rescheduler uninstall`: remove an installation from a cluster, or list its objects."""

import sys
from collections import Counter
from typing import TYPE_CHECKING, NoReturn

import click

from rescheduler.cli.cluster_source import (
    EXIT_ERROR,
    ClusterSource,
    exit_with_error,
    print_note,
    print_words,
)
from rescheduler.cli.command_options import confirmed, live_cluster_options
from rescheduler.cli.execution import Execution, verbose_option
from rescheduler.cli.terminal import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rescheduler.daemon.components import Rescheduler
    from rescheduler.install.removal import Removal, RemovalFindings
    from rescheduler.kube.client import Client
    from rescheduler.kube.leader_election import HeldLease

__all__ = ["uninstall"]

_EXIT_LEFTOVERS = 3

_DELETE_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 120.0
"""Time limit for the pods to end, which is longer than their grace period, and than Kubernetes needs to
delete pods of lost nodes."""


@click.command()
@live_cluster_options
@click.option(
    "--namespace", "-n", metavar="NAME", help="Namespace of the installation; by default it is looked up."
)
@click.option(
    "--check", is_flag=True, help="Only list what would be removed; exit code 3 if there is something."
)
@click.option(
    "--history",
    is_flag=True,
    help="Also remove finished migrations, the labels that they left on pods, and the CRD.",
)
@click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation.")
@click.option(
    "--force", is_flag=True, help="Remove even while a daemon runs, which would recreate what is removed."
)
@verbose_option
def uninstall(
    cluster: ClusterSource, namespace: str | None, check: bool, history: bool, yes: bool, force: bool
) -> None:
    """The daemon and the webhook are stopped first.

    Running migrations are then rolled back, or finished if the pod is already evicted. Nodes that rescheduler
    cordoned are uncordoned, and its labels, annotations and budgets are removed. Last, each installed object
    with the label rescheduler.dev/install-id is removed.

    The namespace is removed only if it was created with rescheduler and contains nothing else. Finished
    migrations are kept as history unless you specify --history. Nothing is removed while a daemon runs
    outside the cluster, unless you specify --force.

    Exit codes: 0 if nothing is left, 3 if --check found something, 1 if something can't be read or removed, 2
    for invalid options.
    """
    uninstalling = _Uninstall(Execution(cluster, cluster.configuration()), namespace, history)
    found = uninstalling.find()
    for sentence in found.kept:
        print_note(sentence)
    for failure in found.failures:
        print_note(failure)
    if found.failures and not found.leftovers:
        exit_with_error("Can't find out what is left of rescheduler: see above.", EXIT_ERROR)
    if not found.leftovers:
        print_words(f"rescheduler is not in the cluster{_except_history(found)}", err=False)
        return
    print_words("\n".join(_listing(found, uninstalling.namespace)), err=False)
    if check:
        _end_check(found, uninstalling.command)
    if not yes and not confirmed("Remove all of this?"):
        exit_with_error("nothing was removed", EXIT_ERROR)
    uninstalling.stop(force=force)
    uninstalling.end_migrations(found)
    failures = uninstalling.clean()
    left = uninstalling.find()
    for leftover in left.leftovers:
        print_words(f"still there: {leftover.name}: {leftover.what}")
    for failure in failures or left.failures:
        print_words(failure)
    if left.leftovers or failures or left.failures:
        exit_with_error("Not everything was removed: see above, then try again.", EXIT_ERROR)
    uninstalling.wait_until_deleted()
    print_words(f"Removed {len(found.leftovers)}; nothing is left{_except_history(left)}", err=False)


def _end_check(findings: "RemovalFindings", command: str) -> NoReturn:
    """Print the next step and exit."""
    print_words(f"\nNothing was changed. To remove this, run: {command}", err=False)
    if kept := _history_text(findings):
        print_words(f"The history is kept ({kept}); with --history, it is removed, too.", err=False)
    if findings.failures:
        exit_with_error("Can't find out what else is left of rescheduler: see the notes.", EXIT_ERROR)
    sys.exit(_EXIT_LEFTOVERS)


def _listing(findings: "RemovalFindings", namespace: str) -> "Iterator[str]":
    """Yield the lines about the findings, by what is done with them and by kind."""
    from rescheduler.install.leftovers import LeftoverKind  # noqa: PLC0415

    is_installed = any(each.kind is LeftoverKind.INSTALLED for each in findings.leftovers)
    yield (
        f"rescheduler is installed in namespace {namespace}."
        if is_installed
        else "rescheduler is not installed."
    )
    for kind, title in (
        (LeftoverKind.RUNNING, "Running migrations, which are rolled back or finished"),
        (LeftoverKind.MARK, "Changes in other objects, which are reverted"),
        (LeftoverKind.HISTORY, "History, which is removed"),
        (LeftoverKind.INSTALLED, "Installed objects, which are deleted"),
        (LeftoverKind.WRITTEN, "Objects that it wrote, which are deleted"),
    ):
        if found := [each for each in findings.leftovers if each.kind is kind]:
            yield ""
            yield f"{title} ({len(found)}):"
            alike: dict[tuple[str, str], list[str]] = {}
            for each in found:
                alike.setdefault((each.resource.kind, each.what), []).append(each.key)
            yield from (f"  {named} {', '.join(keys)}: {what}" for (named, what), keys in alike.items())


def _except_history(findings: "RemovalFindings") -> str:
    """Return the end of the sentence that nothing is left, with the history that is kept."""
    kept = _history_text(findings)
    hint = "To remove it, run: rescheduler uninstall --history"
    return f", except for its history ({kept}). {hint}" if kept else "."


def _history_text(findings: "RemovalFindings") -> str:
    """Return how many objects of each kind belong to the history that is kept."""
    kinds = Counter((each.patch is not None, each.resource.kind) for each in findings.history)
    return ", ".join(
        # Only the labels of a pod belong to the history, not the pod.
        f"{'labels of ' * is_mark}{counted(number, kind)}"
        for (is_mark, kind), number in sorted(kinds.items())
    )


class _Uninstall:
    """The steps of the removal. Each opens its own connection and exits if it fails."""

    def __init__(self, execution: Execution, namespace: str | None, history: bool) -> None:
        self._execution = execution
        self._history = history
        self._namespace = namespace or execution.ask(self._found_namespace)
        self._is_given = namespace is not None

    @property
    def namespace(self) -> str:
        return self._namespace

    @property
    def command(self) -> str:
        """Return the command that removes what was found."""
        options = [f"-n {self._namespace}"] * self._is_given + ["--history"] * self._history
        return " ".join(["rescheduler uninstall", *options])

    def find(self) -> "RemovalFindings":
        async def find(client: "Client") -> "RemovalFindings":
            return await self._removal(client).find()

        return self._execution.ask(find)

    def stop(self, *, force: bool) -> None:
        """Stop the daemon and the webhook; exit if one of them still runs."""

        async def stopped(client: "Client") -> "tuple[list[str], HeldLease | None]":
            from rescheduler.daemon.own_objects import UNINSTALLED_NAMESPACE  # noqa: PLC0415
            from rescheduler.kube.leader_election import find_renewed_lease  # noqa: PLC0415

            left = await self._removal(client).stop(timeout_s=_STOP_TIMEOUT_S)
            if left or force:
                return left, None
            lease = self._execution.configuration.leader_election.resource_name
            # A daemon outside the cluster that was started before the installation uses this namespace.
            namespaces = {self._namespace, UNINSTALLED_NAMESPACE}
            return [], await find_renewed_lease(client, {f"{each}/{lease}" for each in namespaces})

        left, holding = self._execution.ask(stopped)
        if left and not force:
            exit_with_error(
                f"{', '.join(left)} did not stop within {_STOP_TIMEOUT_S:g} s and would recreate what is "
                "removed. Only the Deployments were removed. Find out why (kubectl describe), delete what "
                "still runs and try again, or specify --force",
                EXIT_ERROR,
            )
        if holding is not None:
            exit_with_error(
                f"{holding.holder} still renews the Lease {holding.lease}: a daemon or command outside the "
                "cluster would recreate what is removed. Only the Deployments were removed. Stop it and try "
                "again, or specify --force",
                EXIT_ERROR,
            )

    def end_migrations(self, findings: "RemovalFindings") -> None:
        """Roll back or finish the running migrations."""
        from rescheduler.install.leftovers import LeftoverKind  # noqa: PLC0415

        async def end(rescheduler: "Rescheduler") -> None:
            from rescheduler.migrations.controller.migration_removal import cancel_all_migrations  # noqa: PLC0415

            async with rescheduler.executing():
                await cancel_all_migrations(rescheduler.client, rescheduler.watched)

        if any(leftover.kind is LeftoverKind.RUNNING for leftover in findings.leftovers):
            self._execution.prepare()
            self._execution.run(end, namespace=self._namespace)

    def clean(self) -> list[str]:
        """Remove everything else and return the failures."""

        async def clean(client: "Client") -> list[str]:
            return await self._removal(client).clean()

        return self._execution.ask(clean)

    def wait_until_deleted(self) -> None:
        """Wait for the namespace and the CRD, whose deletion takes time, or print a note."""

        async def waited(client: "Client") -> list[str]:
            return await self._removal(client).deleted(timeout_s=_DELETE_TIMEOUT_S)

        for name in self._execution.ask(waited):
            print_note(
                f"{name} is still being deleted after {_DELETE_TIMEOUT_S:g} s. Install rescheduler again "
                "only when it is gone"
            )

    async def _found_namespace(self, client: "Client") -> str:
        from rescheduler.daemon.own_objects import UNINSTALLED_NAMESPACE  # noqa: PLC0415
        from rescheduler.install.cluster_installation import find_installation_to_remove  # noqa: PLC0415

        configured = self._execution.configuration.leader_election.resource_namespace
        return configured or await find_installation_to_remove(client) or UNINSTALLED_NAMESPACE

    def _removal(self, client: "Client") -> "Removal":
        from rescheduler.daemon.own_objects import UNINSTALLED_NAMESPACE  # noqa: PLC0415
        from rescheduler.install.removal import Removal  # noqa: PLC0415

        return Removal(
            client,
            self._namespace,
            lease_name=self._execution.configuration.leader_election.resource_name,
            with_history=self._history,
            written_before=UNINSTALLED_NAMESPACE,
        )
