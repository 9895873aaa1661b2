"""Actions of other clients that hit what a running migration depends on, at the worst moment."""

from typing import Any

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    Object,
    merge_patch,
)
from rescheduler.kube.client import Propagation
from tests.campaign.campaign_actions import TAINT, CampaignActions

__all__ = ["TargetedActions"]

RACK = "example.com/rack"


class TargetedActions(CampaignActions):
    async def lose_a_target(self) -> None:
        """Cordon, taint, kill or delete the node to which a pod is moving."""
        usable = set(self._usable_nodes())
        moves = [each for each in await self._unfinished() if _target(each) in usable]
        name = _target(self.rng.choice(moves))
        how = self.rng.choice(("cordon", "taint", "kill", "delete"))
        self.note(f"{how} {name}, the target of a migration")
        if how == "kill":
            self.stage.running.kubelets.kill(name)
            await self._wait(20.0, 400.0)
            self.stage.running.kubelets.revive(name)
        elif how == "delete":
            await self.client.delete(NODES, name)
            await self._wait(5.0, 200.0)
            await self.until_done(lambda: self.register(name))
        else:
            before: dict[str, Any] = {"unschedulable": None} if how == "cordon" else {"taints": []}
            after: dict[str, Any] = {"unschedulable": True} if how == "cordon" else {"taints": [TAINT]}
            await self.client.patch(NODES, name, merge_patch({"spec": after}))
            await self._wait(5.0, 200.0)
            await self.until_done(lambda: self.client.patch(NODES, name, merge_patch({"spec": before})))
        self.note(f"{name} is usable again")

    async def change_a_moving_workload(self) -> None:
        """Roll out or scale down the Deployment whose pod is moving, or delete the pod's ReplicaSet."""
        replica_set, workload = await self._moving_workload()
        how = self.rng.choice(("roll out", "scale", "delete the ReplicaSet of"))
        if how == "roll out":
            template = {"metadata": {"annotations": {"revision": f"{self.rng.random()}"}}}
            change = merge_patch({"spec": {"template": template}})
            await self.client.patch(DEPLOYMENTS, _key(workload), change)
        elif how == "scale":
            await self._scale(workload, max(0, workload["spec"]["replicas"] + self.rng.choice((-1, 1))))
        else:
            propagation: Propagation = self.rng.choice(["Background", "Foreground"])
            await self.client.delete(REPLICA_SETS, _key(replica_set), propagation=propagation)
        self.note(f"{how} {_key(workload)}, whose pod moves")

    async def _moving_workload(self) -> tuple[Object, Object]:
        """Return the ReplicaSet and the Deployment of the pod of a running migration."""
        moves = await self._unfinished()
        self.rng.shuffle(moves)
        for move in moves:
            namespace = move["metadata"]["namespace"]
            pod = await self.client.get(PODS.as_json, f"{namespace}/{move['spec']['pod']['name']}")
            for owner in pod["metadata"].get("ownerReferences", ()):
                if owner["kind"] == "ReplicaSet":
                    replica_set = await self.client.get(REPLICA_SETS, f"{namespace}/{owner['name']}")
                    for parent in replica_set["metadata"].get("ownerReferences", ()):
                        key = f"{namespace}/{parent['name']}"
                        return replica_set, await self.client.get(DEPLOYMENTS, key)
        raise IndexError("no pod of a Deployment moves")

    async def add_a_budget(self) -> None:
        """Cover the pod of a migration with one more budget: with two, no API server evicts it."""
        move = self.rng.choice(await self._unfinished())
        namespace = move["metadata"]["namespace"]
        pod = await self.client.get(PODS.as_json, f"{namespace}/{move['spec']['pod']['name']}")
        app = pod["metadata"]["labels"]["app"]
        budget = {
            "apiVersion": POD_DISRUPTION_BUDGETS.api_version,
            "kind": POD_DISRUPTION_BUDGETS.kind,
            "metadata": {"namespace": namespace, "name": f"more-{self.rng.getrandbits(32):08x}"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}},
        }
        await self.client.create(POD_DISRUPTION_BUDGETS, budget)
        self.note(f"one more budget for {namespace}/{app}")
        await self._wait(10.0, 300.0)
        await self.until_done(lambda: self.client.delete(POD_DISRUPTION_BUDGETS, _key(budget)))
        self.note(f"one budget less for {namespace}/{app}")

    async def label_a_node(self) -> None:
        name = self.rng.choice(self._usable_nodes())
        labels = {RACK: f"rack-{self.rng.randint(0, 9)}"}
        await self.client.patch(NODES, name, merge_patch({"metadata": {"labels": labels}}))
        self.note(f"{name} gets the label {labels}")


def _target(move: Object) -> str:
    return str((move.get("status") or {}).get("targetNode") or move["spec"].get("targetNode", ""))


def _key(item: Object) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"
