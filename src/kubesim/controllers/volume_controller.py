"""PersistentVolumeClaims: bind them to existing volumes, or provision new ones.

With the binding mode `WaitForFirstConsumer`, a claim waits for the scheduler's choice of a node.
"""

from collections.abc import Iterator, Mapping

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import StoreChange, key_of
from kubesim.controllers.controller_base import ChangeHandler, ControllerBase, ControllerContext, split_key
from kubesim.controllers.node_matching import node_of
from kubesim.controllers.pod_index import IndexedPod
from kubesim.controllers.selector_index import read_selector
from kubevalues.quantity import quantity_of

__all__ = ["VolumeController"]

_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_BOUND, _BY_US = "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_ZONE = "topology.kubernetes.io/zone"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


class VolumeController(ControllerBase):
    name = "persistent-volume-binder"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._claims = self.kind("v1", "PersistentVolumeClaim")
        self._volumes = self.kind("v1", "PersistentVolume")
        self._classes = self.kind("storage.k8s.io/v1", "StorageClass")
        self._nodes = self.kind("v1", "Node")

    # -- which objects to reconcile

    def watches(self) -> Mapping[ResourceKind, ChangeHandler]:
        return {
            self._claims: self._claim_changed,
            self._volumes: self._volume_changed,
            self._classes: self._enqueue_pending,
        }

    def _claim_changed(self, change: StoreChange) -> None:
        self.enqueue(change)
        if change.after is None and change.before is not None:
            self.queue.add(change.before.object["spec"].get("volumeName", ""))

    def _volume_changed(self, change: StoreChange) -> None:
        self.enqueue(change)
        if change.before is None:
            self._enqueue_pending(change)

    def _enqueue_pending(self, _: StoreChange) -> None:
        for record in self.context.store.collection(self._claims).ordered():
            if not record.object["spec"].get("volumeName"):
                self.queue.add(record.key)

    def pod_changed(self, before: IndexedPod | None, after: IndexedPod | None) -> None:
        if after is not None and after.node and (before is None or not before.node):
            for claim in after.claims:
                self.queue.add(key_of(after.namespace, claim))

    # -- what to do

    async def reconcile(self, key: str) -> float | None:
        namespace, name = split_key(key)
        if not namespace:
            await self._sync_volume(name)
            return None
        claim = self.context.read(self._claims, namespace, name)
        if claim is not None and claim.get("status", {}).get("phase") != "Bound":
            await self._bind(claim)
        return None

    async def _bind(self, claim: Object) -> None:
        storage_class = self._class_of(claim)
        node = self._chosen_node(claim)
        waits = (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
        volume = self._reserved_for(claim)
        if volume is None and waits and not node:
            return
        if volume is None:
            volume = self._fitting(claim, storage_class)
        if volume is None and storage_class and storage_class["provisioner"] != _NO_PROVISIONER:
            volume = await self._provision(claim, storage_class, node if waits else "")
        if volume is not None:
            await self._join(claim, volume, storage_class)

    def _class_of(self, claim: Object) -> Object | None:
        """Return the storage class of a claim, by default the default class."""
        name = claim["spec"].get("storageClassName")
        for record in self.context.store.collection(self._classes).ordered():
            content = self.context.complete(self._classes, record)
            annotations = content["metadata"].get("annotations") or {}
            if record.name == name or (name is None and annotations.get(_IS_DEFAULT) == "true"):
                return content
        return None

    def _chosen_node(self, claim: Object) -> str:
        noted: str = (claim["metadata"].get("annotations") or {}).get(_SELECTED_NODE, "")
        users = self.context.pods.using_claim(claim["metadata"]["namespace"], claim["metadata"]["name"])
        return noted or next((pod.node for pod in users if pod.node), "")

    # -- existing volumes

    def _all_volumes(self) -> Iterator[Object]:
        for record in self.context.store.collection(self._volumes).ordered():
            if not record.deleting:
                yield record.object

    def _reserved_for(self, claim: Object) -> Object | None:
        wanted = claim["spec"].get("volumeName")
        for volume in self._all_volumes():
            if volume["metadata"]["name"] == wanted or _is_claimed_by(volume, claim):
                return volume
        return None

    def _fitting(self, claim: Object, storage_class: Object | None) -> Object | None:
        """Return the smallest volume that is large enough."""
        spec = claim["spec"]
        name = storage_class["metadata"]["name"] if storage_class else spec.get("storageClassName") or ""
        selector = read_selector(spec["selector"]) if spec.get("selector") else None
        asked = quantity_of(spec["resources"].get("requests", {}).get("storage", "0"))
        found = [
            volume
            for volume in self._all_volumes()
            if not volume["spec"].get("claimRef")
            and (volume["spec"].get("storageClassName") or "") == name
            and {*spec["accessModes"]} <= {*volume["spec"]["accessModes"]}
            and quantity_of(volume["spec"]["capacity"]["storage"]) >= asked
            and (selector is None or selector.matches(volume["metadata"].get("labels") or {}))
        ]
        sizes = [
            (quantity_of(v["spec"]["capacity"]["storage"]), v["metadata"]["name"], at)
            for at, v in enumerate(found)
        ]
        return found[min(sizes)[2]] if sizes else None

    # -- provisioned volumes

    async def _provision(self, claim: Object, storage_class: Object, node: str) -> Object:
        provisioner, spec = storage_class["provisioner"], claim["spec"]
        name = f"pvc-{claim['metadata']['uid']}"
        volume: Object = {
            "metadata": {"name": name, "annotations": {_PROVISIONED_BY: provisioner}},
            "spec": {
                "accessModes": spec["accessModes"],
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "claimRef": _claim_reference(claim),
                "csi": {"driver": provisioner, "volumeHandle": name},
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
                "storageClassName": storage_class["metadata"]["name"],
            },
        }
        if (zone := self._zone_of(node)) is not None:
            here = {"key": _ZONE, "operator": "In", "values": [zone]}
            terms = [{"matchExpressions": [here]}]
            volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        return await self.writes.create(self._volumes, "", volume)

    def _zone_of(self, node: str) -> str | None:
        record = self.context.store.find(self._nodes, "", node) if node else None
        return node_of(record).labels.get(_ZONE) if record is not None else None

    # -- both sides of a binding

    async def _join(self, claim: Object, volume: Object, storage_class: Object | None) -> None:
        def take(live: Object) -> None:
            live["spec"]["claimRef"] = _claim_reference(claim)
            live["metadata"]["annotations"] = {**(live["metadata"].get("annotations") or {}), _BY_US: "yes"}

        def settle(live: Object) -> None:
            live["spec"]["volumeName"] = volume["metadata"]["name"]
            if storage_class is not None and live["spec"].get("storageClassName") is None:
                live["spec"]["storageClassName"] = storage_class["metadata"]["name"]
            marks = {_BOUND: "yes", _BY_US: "yes"}
            live["metadata"]["annotations"] = {**(live["metadata"].get("annotations") or {}), **marks}

        if not _is_claimed_by(volume, claim):
            volume = await self.writes.change(self._volumes, volume, take)
        await self.writes.set_status(self._volumes, volume, {**volume.get("status", {}), "phase": "Bound"})
        claim = await self.writes.change(self._claims, claim, settle)
        spec = volume["spec"]
        status = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": spec["capacity"]}
        await self.writes.set_status(self._claims, claim, {**claim.get("status", {}), **status})

    async def _sync_volume(self, name: str) -> None:
        """Release a volume whose claim is deleted, and delete it if its policy says so."""
        volume = self.context.read(self._volumes, "", name)
        if volume is None:
            return
        reference = volume["spec"].get("claimRef")
        if reference is None:
            phase = "Available"
        else:
            record = self.context.store.find(
                self._claims, reference.get("namespace", ""), reference.get("name", "")
            )
            if record is not None and record.uid == reference.get("uid", record.uid):
                self.queue.add(record.key)
                return
            if "uid" not in reference:
                phase = "Available"  # kept for a claim that may still come
            elif volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
                await self.writes.delete(self._volumes, "", name, volume["metadata"]["uid"])
                return
            else:
                phase = "Released"
        await self.writes.set_status(self._volumes, volume, {**volume.get("status", {}), "phase": phase})


def _is_claimed_by(volume: Object, claim: Object) -> bool:
    reference, metadata = volume["spec"].get("claimRef") or {}, claim["metadata"]
    named = (reference.get("namespace"), reference.get("name")) == (metadata["namespace"], metadata["name"])
    return named and reference.get("uid", metadata["uid"]) == metadata["uid"]


def _claim_reference(claim: Object) -> Object:
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
