"""A webhook of another vendor that injects a container into pods, depending on their controller."""

import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS, Object
from rescheduler.kube.client import Client
from tests.stories.facts.admission import webhook_for_new_pods
from tests.stories.objects import pod

__all__ = ["SIDECAR", "webhook_adds_sidecars"]

SIDECAR = {"name": "proxy", "image": "mesh/proxy:1"}


@contextlib.asynccontextmanager
async def webhook_adds_sidecars(
    client: Client, namespace: str, eventually: Callable[..., Awaitable[Any]]
) -> AsyncIterator[None]:
    """While the context lasts: to all new pods of the namespace but those of ReplicaSets."""
    async with webhook_for_new_pods(client, MUTATING_WEBHOOKS, namespace, _add_sidecar):
        await eventually(lambda: _is_in_force(client, namespace))
        yield


def _add_sidecar(asked: Object) -> Object:
    owners = asked["object"]["metadata"].get("ownerReferences", ())
    if any(each["kind"] == "ReplicaSet" and each.get("controller") for each in owners):
        return {"allowed": True}
    added = [{"op": "add", "path": "/spec/containers/-", "value": SIDECAR}]
    patch = base64.b64encode(json.dumps(added).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


async def _is_in_force(client: Client, namespace: str) -> bool:
    probe = pod(namespace, "probe", {"containers": [{"name": "main", "image": "x"}]})
    made = await client.create(PODS.as_json, probe, dry_run=True)
    return len(made["spec"]["containers"]) == 2
