"""Whether something tells the replacements of evicted pods where to go."""

from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.resources import MUTATING_WEBHOOKS

__all__ = ["OURS", "is_steered"]

OURS = "app.kubernetes.io/name=rescheduler"
"""The label of everything that is installed."""


async def is_steered(client: Client) -> bool | None:
    """By our webhook; None if we may not look for it. Raises `KubeError`."""
    try:
        return bool((await client.list(MUTATING_WEBHOOKS, labels=OURS)).items)
    except (errors.Forbidden, errors.NotFound):
        return None
