"""What a server must be able to do before anything is moved in it, asked once at the start.

Versions are the sign: what is needed is either part of every server of a version, or can be switched off and
then shows only where it is used (`GateMissing`, `NominationIgnored`). Reading and planning need none of it.
"""

import logging
import re
from typing import Final

from rescheduler.kube import errors
from rescheduler.kube.call import Call
from rescheduler.kube.client import Client
from rescheduler.kube.resources import Object

__all__ = ["OLDEST", "MissingCapability", "must_be_able"]

log = logging.getLogger(__name__)

OLDEST: Final = (1, 30)
"""The first in which scheduling gates and the match conditions of webhooks are there to stay."""

_RELEASE: Final = re.compile(r"v?(\d+)\.(\d+)")


class MissingCapability(errors.Final):
    remedy = "Upgrade the cluster; `rescheduler plan` works with older ones, too."

    def __init__(self, told: str) -> None:
        oldest = ".".join(map(str, OLDEST))
        why = (
            f"the cluster is Kubernetes {told}, and before {oldest} pods can't be held back until their "
            "node is chosen (scheduling gates), nor webhooks be asked only where they matter"
        )
        super().__init__(Call("move", "pods"), why)


async def must_be_able(client: Client) -> None:
    """Raises `MissingCapability` if the server is too old, and `KubeError` if it can't be asked."""
    try:
        told = await client.server_version()
    except (errors.Forbidden, errors.NotFound) as error:
        log.warning("the server's version is not told: %s. What is missing shows where it is needed.", error)
        return
    release = _release(told)
    if release is None:
        log.warning("the server's version is not understood: %s", told)
    elif release < OLDEST:
        raise MissingCapability(str(told.get("gitVersion") or ".".join(map(str, release))))


def _release(told: Object) -> tuple[int, int] | None:
    """Providers write `v1.30.5-gke.1` and `30+`; only the two numbers are alike everywhere."""
    for text in (told.get("gitVersion"), f"{told.get('major')}.{told.get('minor')}"):
        found = _RELEASE.match(text) if isinstance(text, str) else None
        if found is not None:
            return int(found[1]), int(found[2])
    return None
