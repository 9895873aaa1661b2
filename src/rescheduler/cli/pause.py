"""`rescheduler pause` and `resume`: the switch in the ConfigMap `rescheduler-state`."""

import getpass
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from rescheduler.cli.looking import Looking, complain, live_options
from rescheduler.cli.safe_output import echo

if TYPE_CHECKING:
    from rescheduler.config.policy import Configuration
    from rescheduler.kube.client import Client
    from rescheduler.model.status import Pause

__all__ = ["chosen_home", "namespace_option", "pause", "resume"]

namespace_option = click.option(
    "--namespace", "-n", metavar="NAME", help="Where the daemon runs; by default where it is installed."
)


@click.command()
@live_options
@namespace_option
@click.option("--why", metavar="WORDS", default="", help="For whoever wonders.")
def pause(looking: Looking, namespace: str | None, why: str) -> None:
    """Lets the daemon begin no more moves, until `rescheduler resume`.

    Moves that are under way come to their end. It holds for all replicas and survives restarts. Moves that
    people ask for (`rescheduler move`) are made all the same.
    """
    from rescheduler.model.status import Pause  # noqa: PLC0415

    at = _switch(looking, namespace, Pause(paused=True, by=_who(), at=datetime.now(UTC), why=why))
    echo(f"Paused ({at}): no more moves are begun; those under way come to their end.")


@click.command()
@live_options
@namespace_option
def resume(looking: Looking, namespace: str | None) -> None:
    """Ends a pause, and forgives failures of the past.

    The daemon no longer halts because of them.
    """
    from rescheduler.model.status import Pause  # noqa: PLC0415

    at = _switch(looking, namespace, Pause(by=_who(), at=datetime.now(UTC)))
    echo(f"Resumed ({at}): the next check may move pods.")


async def chosen_home(client: "Client", configuration: "Configuration", namespace: str | None) -> str:
    """Return the namespace of our Lease and state: the one that is named, or where we are installed."""
    from rescheduler.daemon.whereabouts import UNINSTALLED_NAMESPACE, home_of  # noqa: PLC0415

    if namespace:
        return namespace
    home = await home_of(client, configuration)
    if home == UNINSTALLED_NAMESPACE:
        complain(
            f"rescheduler is not installed in this cluster, so namespace {home} is used, as by a daemon that "
            "runs outside of it; -n names another"
        )
    return home


def _switch(looking: Looking, namespace: str | None, wanted: "Pause") -> str:
    """Says where."""
    configuration = looking.configuration()

    async def switch(client: "Client") -> str:
        from rescheduler.controller.state import NAME, write_pause  # noqa: PLC0415

        home = await chosen_home(client, configuration, namespace)
        await write_pause(client, home, wanted)
        return f"ConfigMap {home}/{NAME}"

    found: str = looking.with_client(configuration, switch)
    return found


def _who() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # no such user, as in many containers
        return socket.gethostname()
