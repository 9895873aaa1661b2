"""One object of each kind with everything in it that matters, and much that does not."""

import copy
from collections.abc import Iterable
from typing import Any

from tests.building import LONG_AGO, cluster

__all__ = ["SECRETS", "complete", "rich_objects", "saved"]

Json = dict[str, Any]

SECRETS = (
    "hunter2",
    "--token=abcdef",
    "managed-by-someone",
    "very long message",
    "last-applied",
    "vault:s3cr3t",
)
"""What stands in the objects and must not be saved."""

_NOISE = {
    "managedFields": [{"manager": "managed-by-someone"}],
    "annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": "last-applied",
        "team": "vault:s3cr3t",
    },
}
_SELECTOR = {
    "matchLabels": {"app": "cart"},
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}],
}
_TERM = {
    "topologyKey": "topology.kubernetes.io/zone",
    "labelSelector": _SELECTOR,
    "namespaces": ["shop", "default"],
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop", "owner": "payments"}},
    "matchLabelKeys": ["pod-template-hash"],
}
_NODE_TERM = {
    "matchExpressions": [
        {"key": "generation", "operator": "Gt", "values": ["4"]},
        {"key": "disk.example.com/kind", "operator": "NotIn", "values": ["spinning"]},
    ],
    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["broken-node"]}],
}
_CONTAINER = {
    "name": "server",
    "image": "registry.example.com/team/cart:1.7",
    "args": ["--token=abcdef"],
    "env": [{"name": "PASSWORD", "value": "hunter2"}],
    "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.1.2.3", "protocol": "TCP"}],
    "resources": {"requests": {"cpu": "500m", "example.com/dongle": "1"}, "limits": {"memory": "1Gi"}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "cart-0",
        "namespace": "shop",
        "uid": "8d3c0f0a-cart",
        "creationTimestamp": LONG_AGO,
        "labels": {
            "app": "cart", "tier": "gold", "statefulset.kubernetes.io/pod-name": "cart-0",
            "scheduler.alpha.kubernetes.io/migration-status": "completed",
            "scheduler.alpha.kubernetes.io/migrated-from": "broken-node",
        },
        **_NOISE,
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "cart", "uid": "s", "controller": True}
        ],
        "finalizers": ["example.com/hold"],
    },
    "spec": {
        "nodeName": "node-a",
        "containers": [_CONTAINER],
        "initContainers": [{**_CONTAINER, "name": "mesh", "restartPolicy": "Always"}],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-cart-0"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"volumeMode": "Block"}}}},
            {"name": "keys", "secret": {"secretName": "vault:s3cr3t"}},
            {"name": "host", "hostPath": {"path": "/srv/cart"}},
            {"name": "blocks", "rbd": {"image": "i", "pool": "p", "monitors": ["mon-1"]}},
            {"name": "files", "nfs": {"server": "filer", "path": "/exports"}},
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": _NODE_TERM}],
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]},
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": _TERM}]
            },
        },
        "nodeSelector": {"disk.example.com/kind": "fast"},
        "tolerations": [
            {"key": "dedicated", "operator": "Equal", "value": "payments", "effect": "NoSchedule"},
            {"operator": "Exists"},
        ],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1, "topologyKey": "rack.example.com/name", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": _SELECTOR, "minDomains": 2, "matchLabelKeys": ["tier"],
            }
        ],
        "priority": 7, "priorityClassName": "important", "schedulerName": "default-scheduler",
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "overhead": {"cpu": "10m"},
        "readinessGates": [{"conditionType": "example.com/warm"}],
        "schedulingGates": [{"name": "example.com/quota"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
        "resources": {"requests": {"cpu": "2"}},
        "schedulingGroup": {"podGroupName": "pair"},
    },
    "status": {
        "phase": "Running", "startTime": LONG_AGO, "message": "very long message", "podIP": "10.0.0.1",
        "nominatedNodeName": "node-b",
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO, "message": ""},
            {"type": "example.com/warm", "status": "False", "reason": "Cold", "lastTransitionTime": LONG_AGO},
        ],
        "containerStatuses": [
            {
                "name": "server", "ready": True, "started": True, "restartCount": 2,
                "state": {"running": {"startedAt": LONG_AGO}},
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": LONG_AGO}},
                "allocatedResources": {"cpu": "400m"}, "resources": {"requests": {"cpu": "400m"}},
            }
        ],
    },
}  # fmt: skip
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "node-a", "uid": "node-uid", "creationTimestamp": LONG_AGO, **_NOISE,
        "labels": {
            "kubernetes.io/hostname": "node-a", "topology.kubernetes.io/zone": "europe-west-1b",
            "disk.example.com/kind": "fast", "generation": "5", "rack.example.com/name": "rack-17",
            "node-role.kubernetes.io/payments": "",
        },
    },
    "spec": {
        "providerID": "cloud://project/zone/node-a", "podCIDR": "10.0.0.0/24",
        "taints": [{"key": "dedicated", "value": "payments", "effect": "NoSchedule", "timeAdded": LONG_AGO}],
    },
    "status": {
        "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110", "example.com/dongle": "4"},
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", "example.com/dongle": "4"},
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": LONG_AGO}
        ],
        "volumesInUse": ["kubernetes.io/csi/disks.example.com^vol-9"],
        "volumesAttached": [{"name": "kubernetes.io/csi/ebs.csi.aws.com^vol-8", "devicePath": ""}],
        "images": [{"names": ["registry.example.com/team/cart:1.7"]}],
    },
}  # fmt: skip
MIGRATION = {
    "apiVersion": "rescheduler.dev/v1alpha1",
    "kind": "PodMigration",
    "metadata": {"name": "cart-0-m1", "namespace": "shop", "uid": "m-uid", "creationTimestamp": LONG_AGO},
    "spec": {
        "pod": {"name": "cart-0", "uid": "8d3c0f0a-cart"},
        "sourceNode": "broken-node", "targetNode": "node-a",
        "strategy": "LoadBalancing", "reason": "very long message", "handover": "Evict",
    },
    "status": {
        "phase": "Completed", "finishedAt": LONG_AGO, "targetPod": {"name": "cart-0", "uid": "new-uid"},
    },
}  # fmt: skip
CSI_NODE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSINode",
    "metadata": {
        "name": "node-a",
        "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"},
    },
    "spec": {
        "drivers": [
            {
                "name": "disks.example.com", "nodeID": "i-0123", "topologyKeys": ["rack.example.com/name"],
                "allocatable": {"count": 5},
            }
        ]
    },
}  # fmt: skip
OTHER_STORAGE = [
    {
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "disks.example.com"},
        "spec": {"attachRequired": False, "storageCapacity": True, "preventPodSchedulingIfMissing": True},
    },
    {
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
        "metadata": {"name": "rack-17-left", "namespace": "kube-system"},
        "storageClassName": "fast", "nodeTopology": {"matchLabels": {"rack.example.com/name": "rack-17"}},
        "capacity": "100Gi", "maximumVolumeSize": "50Gi",
    },
    {
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "csi-123abc"},
        "spec": {
            "attacher": "disks.example.com", "nodeName": "node-a", "source": {"persistentVolumeName": "pv-1"},
        },
        "status": {"attached": True},
    },
]  # fmt: skip
METRICS = {
    "apiVersion": "metrics.k8s.io/v1beta1",
    "kind": "PodMetrics",
    "metadata": {"name": "cart-0", "namespace": "shop"},
    "timestamp": "2026-03-02T11:59:30Z",
    "window": "30s",
    "containers": [{"name": "server", "usage": {"cpu": "123456789n", "memory": "200Mi"}}],
}


def rich_objects() -> list[Json]:
    made = cluster()
    made.namespace("shop", owner="payments").namespace("kube-system")
    made.stateful_set("shop/cart", replicas=1)
    made.deployment("shop/web", replicas=2, on=["node-a", "node-b"])
    made.daemon_set("kube-system/agent", on=["node-a"])
    made.job("shop/report", on=["node-b"])
    made.budget("shop/web", selector={"app": "web"}, allowed=1)
    racks = [{"matchLabelExpressions": [{"key": "rack.example.com/name", "values": ["rack-17"]}]}]
    made.storage_class("fast", waits=True, allowedTopologies=racks)
    made.claim("shop/data-cart-0", volume="pv-1", storage_class="fast")
    made.volume("pv-1", claim="shop/data-cart-0", storage_class="fast")
    made.node("node-b", labels={"generation": "3"})
    named = {(each["kind"], each["metadata"]["name"]) for each in (POD, NODE, CSI_NODE)}
    others = [each for each in made.objects if (each["kind"], each["metadata"]["name"]) not in named]
    return complete([*copy.deepcopy([POD, NODE, MIGRATION, CSI_NODE, *OTHER_STORAGE, METRICS]), *others])


def complete(objects: Iterable[Json]) -> list[Json]:
    """Copies that name their group: builders leave it out where it doesn't matter."""
    groups = {"Namespace": "v1", "CSINode": "storage.k8s.io/v1"}
    return [{"apiVersion": groups.get(each["kind"], ""), **copy.deepcopy(each)} for each in objects]


def saved(objects: list[Json], **annotations: str) -> Json:
    reported = {name.replace("_", "-"): value for name, value in annotations.items()}
    return {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {"annotations": {f"rescheduler.dev/{name}": value for name, value in reported.items()}},
        "items": objects,
    }
