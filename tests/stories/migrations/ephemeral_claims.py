"""The controller that creates claims for ephemeral volumes; the simulator has none."""

import contextlib

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.informer import Informer
from tests.stories.migrations.workloads import CLAIMS


class EphemeralClaims:
    def __init__(self, client):
        self._client = client
        self._pods = Informer(client, PODS.as_json)

    @contextlib.asynccontextmanager
    async def playing(self, tasks):
        async with self._pods.running():
            await self._pods.synced()
            self._pods.subscribe(lambda old, new: old or tasks.create_task(self._provide(new)))
            yield

    async def _provide(self, pod):
        metadata = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        for volume in pod["spec"].get("volumes") or ():
            if "ephemeral" not in volume:
                continue
            claim = {
                "metadata": {
                    "namespace": metadata["namespace"],
                    "name": f"{metadata['name']}-{volume['name']}",
                    "ownerReferences": [owner | {"controller": True}],
                },
                "spec": volume["ephemeral"]["volumeClaimTemplate"]["spec"],
            }
            await self._client.create(CLAIMS, claim)
