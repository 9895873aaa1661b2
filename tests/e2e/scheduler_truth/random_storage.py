"""Claims and volumes in every state, and pods that use them."""

from random import Random

from tests.e2e.scheduler_truth.random_cluster import NAMESPACES, NODES, Object
from tests.e2e.scheduler_truth.random_nodes import ZONES

__all__ = ["DRIVER", "add_disk", "add_volumes", "random_storage"]

DRIVER = "truth.csi.example.com"
_CLASSES = ("waits", "waits-static", "waits-zone", "at-once")
_ZONE = "topology.kubernetes.io/zone"
_KINDS = (
    "plain", "local", "zone-label", "beta-zone-label", "csi", "csi", "csi", "single", "single",
    "waiting", "waiting", "static", "static", "zoned", "selected",
    "unbound", "lost", "ending", "no-volume", "prebound",
)  # fmt: skip


def random_storage(rng: Random, number: int) -> tuple[list[Object], dict[str, list[str]]]:
    """The objects, and the names of the claims in each namespace."""
    storage = _Storage(rng, number)
    storage.driver()
    for name in _CLASSES:
        storage.storage_class(name)
    for namespace in NAMESPACES:
        for index, kind in enumerate(rng.sample(_KINDS, 10)):
            storage.claim(namespace, f"{kind}-{index}", kind)
    for index in range(3):
        storage.volume(f"free-{index}", storage.name("waits-static"), rng.choice(("1Gi", "5Gi")), affine=True)
    return storage.objects, storage.claims


class _Storage:
    """Names without a namespace have the cluster's number, so that no cache mixes two clusters."""

    def __init__(self, rng: Random, number: int) -> None:
        self._rng = rng
        self._number = number
        self.objects: list[Object] = []
        self.claims: dict[str, list[str]] = {namespace: [] for namespace in NAMESPACES}

    def name(self, text: str) -> str:
        return f"{text}-{self._number}"

    def driver(self) -> None:
        rng = self._rng
        spec = {"storageCapacity": rng.random() < 0.5, "attachRequired": True}
        if rng.random() < 0.4:
            spec["preventPodSchedulingIfMissing"] = True
        self._add("storage.k8s.io/v1", "CSIDriver", DRIVER, spec=spec)
        for node in NODES:
            if rng.random() < 0.75:
                driver: Object = {"name": DRIVER, "nodeID": node, "topologyKeys": []}
                if rng.random() < 0.8:
                    driver["allocatable"] = {"count": rng.randint(1, 3)}
                drivers = [driver] if rng.random() < 0.9 else []
                self._add("storage.k8s.io/v1", "CSINode", node, spec={"drivers": drivers})

    def storage_class(self, name: str) -> None:
        rng = self._rng
        item: Object = {
            "provisioner": "kubernetes.io/no-provisioner" if name == "waits-static" else DRIVER,
            "volumeBindingMode": "Immediate" if name == "at-once" else "WaitForFirstConsumer",
        }
        if name == "waits-zone":
            item["allowedTopologies"] = [
                {"matchLabelExpressions": [{"key": _ZONE, "values": rng.sample(ZONES, 2)}]}
            ]
        self._add("storage.k8s.io/v1", "StorageClass", self.name(name), **item)
        if item["provisioner"] == DRIVER and name != "at-once":
            for index in range(rng.randint(0, 2)):
                self._capacity(name, index)

    def _capacity(self, class_name: str, index: int) -> None:
        rng = self._rng
        item: Object = {
            "storageClassName": self.name(class_name),
            "capacity": rng.choice(("1Gi", "3Gi", "10Gi")),
        }
        if rng.random() < 0.3:
            item["maximumVolumeSize"] = rng.choice(("1Gi", "4Gi"))
        if rng.random() < 0.9:
            item["nodeTopology"] = {"matchLabels": {_ZONE: rng.choice(ZONES)}} if rng.random() < 0.7 else {}
        name = f"{class_name}-{index}"
        self._add("storage.k8s.io/v1", "CSIStorageCapacity", name, namespace="truth-a", **item)

    def claim(self, namespace: str, name: str, kind: str) -> None:
        rng = self._rng
        self.claims[namespace].append(name)
        size = rng.choice(("1Gi", "2Gi", "5Gi"))
        spec: Object = {
            "accessModes": ["ReadWriteOncePod" if kind == "single" else "ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": self.name(_CLASS_OF.get(kind, "at-once")),
        }
        metadata: Object = {"annotations": {}}
        truth: Object = {}
        if kind not in {"waiting", "static", "zoned", "selected", "unbound"}:
            spec["volumeName"] = volume = self.name(f"{namespace}-{name}")
            if kind != "prebound":
                metadata["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
                truth["status"] = {"phase": "Lost" if kind == "lost" else "Bound"}
            if kind != "no-volume":
                reference = {"namespace": namespace, "name": name}
                self.volume(
                    volume, spec["storageClassName"], size, reference, kind=kind, modes=spec["accessModes"]
                )
        if kind == "selected":
            metadata["annotations"]["volume.kubernetes.io/selected-node"] = rng.choice(NODES)
        if kind == "ending":
            metadata["finalizers"] = ["example.com/truth"]
            truth["ends"] = True
        if kind == "static" and rng.random() < 0.3:
            spec["selector"] = {"matchLabels": {"speed": "fast"}}
        self._add(
            "v1",
            "PersistentVolumeClaim",
            name,
            namespace=namespace,
            metadata=metadata,
            spec=spec,
            truth=truth,
        )

    def volume(
        self, name: str, class_name: str, size: str, reference: Object | None = None, *, kind: str = "",
        affine: bool = False, modes: list[str] | None = None,
    ) -> None:  # fmt: skip
        rng = self._rng
        labels: dict[str, str] = {}
        spec: Object = {
            "capacity": {"storage": size},
            "accessModes": modes or ["ReadWriteOnce"],
            "storageClassName": class_name,
        }
        if reference:
            spec["claimRef"] = reference
        if kind in {"csi", "single"}:
            spec["csi"] = {"driver": DRIVER, "volumeHandle": name}
        else:
            spec["hostPath"] = {"path": "/truth"}
        if kind == "zone-label":
            labels[_ZONE] = "__".join(rng.sample(ZONES, rng.randint(1, 2)))
        if kind == "beta-zone-label":
            labels["failure-domain.beta.kubernetes.io/zone"] = rng.choice(ZONES)
        if rng.random() < 0.5:
            labels["speed"] = "fast"
        if kind == "local" or affine:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [rng.choice((
                {"key": "kubernetes.io/hostname", "operator": "In", "values": rng.sample(NODES, 3)},
                {"key": _ZONE, "operator": "In", "values": rng.sample(ZONES, 2)},
                {"key": _ZONE, "operator": "NotIn", "values": [rng.choice(ZONES)]},
            ))]}]}}  # fmt: skip
        status = {"phase": "Bound" if reference else rng.choice(("Available", "Available", "Released"))}
        volume_name = name if reference else self.name(name)
        self._add(
            "v1",
            "PersistentVolume",
            volume_name,
            metadata={"labels": labels},
            spec=spec,
            truth={"status": status},
        )
        if kind == "csi" and rng.random() < 0.2:
            attachment = {
                "attacher": DRIVER,
                "nodeName": rng.choice(NODES),
                "source": {"persistentVolumeName": name},
            }
            self._add("storage.k8s.io/v1", "VolumeAttachment", self.name(name), spec=attachment)

    def _add(self, api_version: str, kind: str, name: str, namespace: str = "", **fields: Object) -> None:
        metadata = {"name": name, **fields.pop("metadata", {})}
        if namespace:
            metadata["namespace"] = namespace
        self.objects.append({"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields})


_CLASS_OF = {"waiting": "waits", "static": "waits-static", "zoned": "waits-zone", "selected": "waits"}


def add_volumes(rng: Random, pod: Object, claims: list[str]) -> None:
    """Mostly existing claims; sometimes a missing one, or one that was not created for it yet."""
    names = rng.sample(claims, rng.choice((1, 1, 1, 2)))
    if rng.random() < 0.05:
        names = ["missing"]
    volumes = [
        {"name": f"claim-{index}", "persistentVolumeClaim": {"claimName": name}}
        for index, name in enumerate(names)
    ]
    if rng.random() < 0.04:
        template = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        volumes.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": template}}})
    pod["spec"].setdefault("volumes", []).extend(volumes)


def add_disk(rng: Random, pod: Object) -> None:
    read_only = {"readOnly": True} if rng.random() < 0.5 else {}
    number = rng.randint(1, 2)
    disk: Object = rng.choice(
        (
            {"gcePersistentDisk": {"pdName": f"disk-{number}", **read_only}},
            {"awsElasticBlockStore": {"volumeID": f"disk-{number}", **read_only}},
            {
                "iscsi": {
                    "targetPortal": "10.0.0.9",
                    "iqn": f"iqn.2026-01.com.example:{number}",
                    "lun": 0,
                    **read_only,
                }
            },
            {"rbd": {"monitors": rng.sample(("m1", "m2", "m3"), 2), "image": f"disk-{number}", **read_only}},
        )
    )
    pod["spec"].setdefault("volumes", []).append({"name": "disk", **disk})
