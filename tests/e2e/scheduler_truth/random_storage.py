"""Claims and volumes in every state, and pods that use them."""

from random import Random

from tests.e2e.scheduler_truth.random_nodes import ZONES
from tests.e2e.scheduler_truth.worlds import NAMESPACES, NODES, Object

__all__ = ["DRIVER", "add_disk", "add_volumes", "random_storage"]

DRIVER = "truth.csi.example.com"
_CLASSES = ("waits", "waits-static", "waits-zone", "at-once")
_ZONE = "topology.kubernetes.io/zone"
_KINDS = (
    "plain", "local", "zone-label", "beta-zone-label", "csi", "csi", "csi", "single", "single",
    "waiting", "waiting", "static", "static", "zoned", "selected",
    "unbound", "lost", "ending", "no-volume", "prebound",
)  # fmt: skip


def random_storage(dice: Random, number: int) -> tuple[list[Object], dict[str, list[str]]]:
    """The objects, and the names of the claims in each namespace."""
    storage = _Storage(dice, number)
    storage.driver()
    for name in _CLASSES:
        storage.storage_class(name)
    for namespace in NAMESPACES:
        for index, kind in enumerate(dice.sample(_KINDS, 10)):
            storage.claim(namespace, f"{kind}-{index}", kind)
    for index in range(3):
        storage.volume(
            f"free-{index}", storage.name("waits-static"), dice.choice(("1Gi", "5Gi")), affine=True
        )
    return storage.objects, storage.claims


class _Storage:
    """Names of what has no namespace carry the world's number: caches of the world before can't mix in."""

    def __init__(self, dice: Random, number: int) -> None:
        self._dice = dice
        self._number = number
        self.objects: list[Object] = []
        self.claims: dict[str, list[str]] = {namespace: [] for namespace in NAMESPACES}

    def name(self, text: str) -> str:
        return f"{text}-{self._number}"

    def driver(self) -> None:
        dice = self._dice
        spec = {"storageCapacity": dice.random() < 0.5, "attachRequired": True}
        if dice.random() < 0.4:
            spec["preventPodSchedulingIfMissing"] = True
        self._add("storage.k8s.io/v1", "CSIDriver", DRIVER, spec=spec)
        for node in NODES:
            if dice.random() < 0.75:
                driver: Object = {"name": DRIVER, "nodeID": node, "topologyKeys": []}
                if dice.random() < 0.8:
                    driver["allocatable"] = {"count": dice.randint(1, 3)}
                drivers = [driver] if dice.random() < 0.9 else []
                self._add("storage.k8s.io/v1", "CSINode", node, spec={"drivers": drivers})

    def storage_class(self, name: str) -> None:
        dice = self._dice
        item: Object = {
            "provisioner": "kubernetes.io/no-provisioner" if name == "waits-static" else DRIVER,
            "volumeBindingMode": "Immediate" if name == "at-once" else "WaitForFirstConsumer",
        }
        if name == "waits-zone":
            item["allowedTopologies"] = [
                {"matchLabelExpressions": [{"key": _ZONE, "values": dice.sample(ZONES, 2)}]}
            ]
        self._add("storage.k8s.io/v1", "StorageClass", self.name(name), **item)
        if item["provisioner"] == DRIVER and name != "at-once":
            for index in range(dice.randint(0, 2)):
                self._capacity(name, index)

    def _capacity(self, class_name: str, index: int) -> None:
        dice = self._dice
        item: Object = {
            "storageClassName": self.name(class_name),
            "capacity": dice.choice(("1Gi", "3Gi", "10Gi")),
        }
        if dice.random() < 0.3:
            item["maximumVolumeSize"] = dice.choice(("1Gi", "4Gi"))
        if dice.random() < 0.9:
            item["nodeTopology"] = {"matchLabels": {_ZONE: dice.choice(ZONES)}} if dice.random() < 0.7 else {}
        name = f"{class_name}-{index}"
        self._add("storage.k8s.io/v1", "CSIStorageCapacity", name, namespace="truth-a", **item)

    def claim(self, namespace: str, name: str, kind: str) -> None:
        dice = self._dice
        self.claims[namespace].append(name)
        size = dice.choice(("1Gi", "2Gi", "5Gi"))
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
            metadata["annotations"]["volume.kubernetes.io/selected-node"] = dice.choice(NODES)
        if kind == "ending":
            metadata["finalizers"] = ["example.com/truth"]
            truth["ends"] = True
        if kind == "static" and dice.random() < 0.3:
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
        dice = self._dice
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
            labels[_ZONE] = "__".join(dice.sample(ZONES, dice.randint(1, 2)))
        if kind == "beta-zone-label":
            labels["failure-domain.beta.kubernetes.io/zone"] = dice.choice(ZONES)
        if dice.random() < 0.5:
            labels["speed"] = "fast"
        if kind == "local" or affine:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [dice.choice((
                {"key": "kubernetes.io/hostname", "operator": "In", "values": dice.sample(NODES, 3)},
                {"key": _ZONE, "operator": "In", "values": dice.sample(ZONES, 2)},
                {"key": _ZONE, "operator": "NotIn", "values": [dice.choice(ZONES)]},
            ))]}]}}  # fmt: skip
        status = {"phase": "Bound" if reference else dice.choice(("Available", "Available", "Released"))}
        volume_name = name if reference else self.name(name)
        self._add(
            "v1",
            "PersistentVolume",
            volume_name,
            metadata={"labels": labels},
            spec=spec,
            truth={"status": status},
        )
        if kind == "csi" and dice.random() < 0.2:
            attachment = {
                "attacher": DRIVER,
                "nodeName": dice.choice(NODES),
                "source": {"persistentVolumeName": name},
            }
            self._add("storage.k8s.io/v1", "VolumeAttachment", self.name(name), spec=attachment)

    def _add(self, api_version: str, kind: str, name: str, namespace: str = "", **fields: Object) -> None:
        metadata = {"name": name, **fields.pop("metadata", {})}
        if namespace:
            metadata["namespace"] = namespace
        self.objects.append({"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields})


_CLASS_OF = {"waiting": "waits", "static": "waits-static", "zoned": "waits-zone", "selected": "waits"}


def add_volumes(dice: Random, pod: Object, claims: list[str]) -> None:
    """Mostly claims that are there; sometimes one that isn't, or one that nobody made for it yet."""
    names = dice.sample(claims, dice.choice((1, 1, 1, 2)))
    if dice.random() < 0.05:
        names = ["missing"]
    volumes = [
        {"name": f"claim-{index}", "persistentVolumeClaim": {"claimName": name}}
        for index, name in enumerate(names)
    ]
    if dice.random() < 0.04:
        template = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        volumes.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": template}}})
    pod["spec"].setdefault("volumes", []).extend(volumes)


def add_disk(dice: Random, pod: Object) -> None:
    read_only = {"readOnly": True} if dice.random() < 0.5 else {}
    number = dice.randint(1, 2)
    disk: Object = dice.choice(
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
            {"rbd": {"monitors": dice.sample(("m1", "m2", "m3"), 2), "image": f"disk-{number}", **read_only}},
        )
    )
    pod["spec"].setdefault("volumes", []).append({"name": "disk", **disk})
