"""EndpointSlices: the pods behind a Service, and whether each receives traffic."""

from collections.abc import Mapping
from typing import Any

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import StoreChange, StoredObject, key_of
from kubesim.common_fields import format_timestamp
from kubesim.controllers.controller_base import (
    ChangeHandler,
    ControllerContext,
    SelectingController,
    split_key,
)
from kubesim.controllers.node_matching import node_of
from kubesim.controllers.owned_objects import controller_reference
from kubesim.controllers.pod_index import IndexedPod
from kubesim.controllers.selector_index import SelectorIndex
from kubevalues import selector_from_labels

__all__ = ["EndpointSliceController"]

_SERVICE, _MANAGED_BY = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"
_US = "endpointslice-controller.k8s.io"
_ZONE = "topology.kubernetes.io/zone"
_TRIGGERED = "endpoints.kubernetes.io/last-change-trigger-time"
_MOST_ENDPOINTS = 100


class EndpointSliceController(SelectingController):
    name = "endpointslice-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._services = self.kind("v1", "Service")
        self._slices = self.kind("discovery.k8s.io/v1", "EndpointSlice")
        self._nodes = self.kind("v1", "Node")
        self.selectors = SelectorIndex(context.store.collection(self._services).ordered(), plain_labels=True)

    def watches(self) -> Mapping[ResourceKind, ChangeHandler]:
        return {self._services: self.own_changed, self._slices: self._slice_changed}

    def _slice_changed(self, change: StoreChange) -> None:
        record = change.after or change.before
        if record is not None and record.labels.get(_MANAGED_BY) == _US:
            self.queue.add(key_of(record.namespace, record.labels.get(_SERVICE, "")))

    def pod_changed(self, before: IndexedPod | None, after: IndexedPod | None) -> None:
        self.enqueue_selecting(before, after)

    async def reconcile(self, key: str) -> float | None:
        service = self.context.read(self._services, *split_key(key))
        if service is None or "deletionTimestamp" in service["metadata"]:
            return None
        spec = service["spec"]
        if not spec.get("selector") or spec.get("type") == "ExternalName":
            return None
        pods = self._pods(service)
        endpoints = [self._endpoint(pod, service) for pod in pods]
        chunks = [endpoints[at : at + _MOST_ENDPOINTS] for at in range(0, len(endpoints), _MOST_ENDPOINTS)]
        ports = self._ports(spec, pods)
        existing = self._existing(service)
        for position, chunk in enumerate(chunks or [[]]):
            old = existing[position] if position < len(existing) else None
            await self._put(service, old, chunk, ports)
        for record in existing[max(1, len(chunks)) :]:
            await self.writes.delete(self._slices, record.namespace, record.name, record.uid)
        return None

    def _pods(self, service: Object) -> list[IndexedPod]:
        selector = selector_from_labels(service["spec"]["selector"])
        found = self.context.pods.selected(service["metadata"]["namespace"], selector)
        return sorted(
            (pod for pod in found if pod.status.pod_ip and not pod.finished), key=lambda pod: pod.name
        )

    def _existing(self, service: Object) -> list[StoredObject]:
        name = service["metadata"]["name"]
        ours = self.context.store.dependents(service["metadata"]["uid"])
        found = [r for kind, r in ours if kind == self._slices and r.labels.get(_SERVICE) == name]
        return sorted(found, key=lambda record: record.name)

    def _endpoint(self, pod: IndexedPod, service: Object) -> Object:
        always = bool(service["spec"].get("publishNotReadyAddresses"))
        endpoint: Object = {
            "addresses": [pod.status.pod_ip],
            "conditions": {
                "ready": always or (pod.ready and not pod.deleting),
                "serving": pod.ready,
                "terminating": pod.deleting,
            },
            "targetRef": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        }
        if pod.node:
            endpoint["nodeName"] = pod.node
            record = self.context.store.find(self._nodes, "", pod.node)
            zone = node_of(record).labels.get(_ZONE) if record is not None else None
            if zone:
                endpoint["zone"] = zone
        if pod.spec.hostname and pod.spec.subdomain == service["metadata"]["name"]:
            endpoint["hostname"] = pod.spec.hostname
        return endpoint

    def _ports(self, spec: Object, pods: list[IndexedPod]) -> list[Object]:
        """Return the ports by number; a name is resolved by the first pod. Without pods there are none."""
        ports: list[Object] = []
        if not pods:
            return ports
        for port in spec.get("ports") or ():
            target: Any = port.get("targetPort", port["port"])
            number = target if isinstance(target, int) else self._named_port(target, pods)
            if number is not None:
                name, protocol = port.get("name", ""), port.get("protocol", "TCP")
                ports.append({"name": name, "port": number, "protocol": protocol})
        return ports

    def _named_port(self, name: str, pods: list[IndexedPod]) -> int | None:
        for pod in pods:
            record = self.context.store.find(self.context.pod_kind, pod.namespace, pod.name)
            for container in record.object["spec"]["containers"] if record is not None else ():
                for port in container.get("ports") or ():
                    if port.get("name") == name:
                        return int(port["containerPort"])
        return None

    async def _put(
        self, service: Object, old: StoredObject | None, endpoints: list[Object], ports: list[Object]
    ) -> None:
        name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
        labels = {**(service["metadata"].get("labels") or {}), _SERVICE: name, _MANAGED_BY: _US}
        if service["spec"].get("clusterIP") == "None":
            labels["service.kubernetes.io/headless"] = ""
        if old is None:
            content: Object = {
                "metadata": {
                    "generateName": f"{name}-",
                    "labels": labels,
                    "annotations": {_TRIGGERED: format_timestamp(self.context.now())},
                    "ownerReferences": [controller_reference(self._services, service)],
                },
                "addressType": "IPv4",
                "endpoints": endpoints,
                "ports": ports,
            }
            await self.writes.create(self._slices, namespace, content)
            return
        before = old.object
        if (before.get("endpoints") or [], before.get("ports") or [], old.labels) == (
            endpoints,
            ports,
            labels,
        ):
            return

        def edit(live: Object) -> None:
            live["endpoints"], live["ports"] = endpoints, ports
            live["metadata"]["labels"] = labels
            marks = {_TRIGGERED: format_timestamp(self.context.now())}
            live["metadata"]["annotations"] = {**(live["metadata"].get("annotations") or {}), **marks}

        await self.writes.change(self._slices, before, edit)
