"""Pods and nodes with every field that the records read.

Together they fill every field of our records; a test makes sure of that, so a field that is added to a record
has to be added here as well. Statuses are apart, because the API server takes them apart.
"""

from typing import Any, Final

__all__ = ["FEATURES", "NODES", "PODS", "RUNTIME_CLASS", "URGENT", "Object"]

Object = dict[str, Any]

FEATURES: Final = {"GenericWorkload": True, "UserNamespacesHostNetworkSupport": True}
"""What some of them need and an API server does not have by default."""

RUNTIME_CLASS: Final[Object] = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "sandboxed"},
    "handler": "sandboxed",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
}
URGENT: Final[Object] = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "preemptionPolicy": "Never",
    "value": 100_000,
}

EARLY, LATER, LATEST = "2026-01-05T08:00:00Z", "2026-01-05T08:00:07Z", "2026-01-05T09:30:00Z"
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
WEB: Final = {"matchLabels": {"app": "web", "tier": "front"}}
NOT_BATCH: Final = {
    "matchExpressions": [
        {"key": "tier", "operator": "NotIn", "values": ["batch", "test"]},
        {"key": "app", "operator": "Exists"},
    ]
}


def container(name: str = "main", **more: Any) -> Object:
    return {"name": name, "image": f"registry.example.com/{name}:1.2.3", **more}


def pod(name: str, spec: Object, status: Object | None = None, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"containers": [container()], **spec},
        **({"status": status} if status else {}),
    }


# -- where it may run

NODE_AFFINITY: Final = {
    REQUIRED: {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]},
                    {"key": "cores", "operator": "Gt", "values": ["8"]},
                    {"key": "spot", "operator": "DoesNotExist"},
                ]
            },
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
        ]
    },
    PREFERRED: [
        {"weight": 7, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}},
        {
            "weight": 100,
            "preference": {"matchExpressions": [{"key": "age", "operator": "Lt", "values": ["9"]}]},
        },
    ],
}
POD_AFFINITY: Final = {
    REQUIRED: [
        {"topologyKey": "zone", "labelSelector": WEB, "namespaces": ["shop", "bank"]},
        {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}},
        {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": NOT_BATCH,
            "matchLabelKeys": ["pod-template-hash"],
            "mismatchLabelKeys": ["tenant"],
        },
    ],
    PREFERRED: [
        {
            "weight": 30,
            "podAffinityTerm": {
                "topologyKey": "zone",
                "labelSelector": WEB,
                "namespaceSelector": {"matchLabels": {"team": "shop"}},
            },
        }
    ],
}
ANTI_AFFINITY: Final = {
    REQUIRED: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": WEB}],
    PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": NOT_BATCH}}],
}
TOLERATIONS: Final = [
    {"key": "dedicated", "operator": "Equal", "value": "shop", "effect": "NoSchedule"},
    {"key": "flaky", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 45},
    {"key": "at-once", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
    {"operator": "Exists", "effect": "PreferNoSchedule"},
]
SPREAD: Final = [
    {
        "maxSkew": 2,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": WEB,
        "minDomains": 3,
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
        "matchLabelKeys": ["pod-template-hash"],
    },
    {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"},
]
CONSTRAINED: Final = pod(
    "constrained",
    {
        "nodeSelector": {"pool": "blue", "arch": "amd64"},
        "affinity": {
            "nodeAffinity": NODE_AFFINITY,
            "podAffinity": POD_AFFINITY,
            "podAntiAffinity": ANTI_AFFINITY,
        },
        "tolerations": TOLERATIONS,
        "topologySpreadConstraints": SPREAD,
        "schedulerName": "another-scheduler",
        "schedulingGates": [{"name": "example.com/wait"}, {"name": "example.com/approval"}],
        "readinessGates": [{"conditionType": "example.com/attached"}],
    },
    labels={"app": "web", "tier": "front", "pod-template-hash": "7f", "tenant": "a", "empty": ""},
)

# -- what it asks for

SIDECARS: Final = pod(
    "sidecars",
    {
        "runtimeClassName": "sandboxed",
        "priorityClassName": "urgent",
        "initContainers": [
            container("migrate", resources={"requests": {"cpu": "2", "memory": "1G"}}),
            container(
                "proxy",
                restartPolicy="Always",
                ports=[{"containerPort": 15001, "hostPort": 15001, "hostIP": "127.0.0.1"}],
                resources={"requests": {"cpu": "100m", "ephemeral-storage": "1Gi"}},
            ),
        ],
        "containers": [
            container(
                resources={
                    "requests": {"cpu": "1500m", "memory": "64Mi", "example.com/gpu": "2"},
                    "limits": {
                        "cpu": "2500m",
                        "memory": "128Mi",
                        "ephemeral-storage": "3Gi",
                        "example.com/gpu": "2",
                        "hugepages-2Mi": "4Mi",
                    },
                },
                ports=[
                    {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"},
                    {"containerPort": 8080},
                ],
            ),
            container("second", resources={"requests": {"cpu": "0.1"}}),
        ],
        "terminationGracePeriodSeconds": 0,
    },
)
ON_THE_HOST: Final = pod(
    "on-the-host",
    {
        "hostNetwork": True,
        "hostUsers": False,
        "containers": [
            container(
                restartPolicy="Never",
                restartPolicyRules=[
                    {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
                ],
                ports=[{"containerPort": 9100, "hostPort": 9100}],
            )
        ],
        "restartPolicy": "Never",
    },
)
AS_A_WHOLE: Final = pod(
    "as-a-whole",
    {
        "resources": {"requests": {"cpu": "3", "memory": "2Gi"}, "limits": {"cpu": "4", "memory": "3Gi"}},
        "schedulingGroup": {"podGroupName": "training"},
        "resourceClaims": [
            {"name": "gpu", "resourceClaimTemplateName": "one-gpu"},
            {"name": "shared", "resourceClaimName": "the-shared-one"},
        ],
        "containers": [container(resources={"claims": [{"name": "gpu"}]})],
    },
)

# -- its volumes

SOURCES: Final[dict[str, Object]] = {
    "claim": {"persistentVolumeClaim": {"claimName": "data-0", "readOnly": True}},
    "own-claim": {
        "ephemeral": {
            "volumeClaimTemplate": {
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            }
        }
    },
    "host": {"hostPath": {"path": "/var/log", "type": "Directory"}},
    "scratch": {"emptyDir": {}},
    "memory": {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    "config": {"configMap": {"name": "settings"}},
    "secret": {"secret": {"secretName": "keys"}},
    "downward": {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    "projected": {"projected": {"sources": [{"configMap": {"name": "settings"}}]}},
    "image": {"image": {"reference": "registry.example.com/data:1"}},
    "csi": {"csi": {"driver": "inline.example.com", "readOnly": True}},
    "nfs": {"nfs": {"server": "nfs.example.com", "path": "/a"}},
    "rbd": {"rbd": {"monitors": ["10.1.1.1:6789", "10.1.1.2:6789"], "image": "disk", "pool": "fast"}},
    "rbd-default": {"rbd": {"monitors": ["10.1.1.1:6789"], "image": "disk", "readOnly": True}},
    "iscsi": {"iscsi": {"targetPortal": "10.1.1.1:3260", "iqn": "iqn.2001-04.com.example:s.0", "lun": 0}},
    "ebs": {"awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": True}},
    "gce": {"gcePersistentDisk": {"pdName": "disk-1"}},
    "azure": {"azureDisk": {"diskName": "d", "diskURI": "https://example.com/d.vhd", "readOnly": True}},
    "cinder": {"cinder": {"volumeID": "cinder-1"}},
    "vsphere": {"vsphereVolume": {"volumePath": "[store] a.vmdk"}},
    "portworx": {"portworxVolume": {"volumeID": "px-1"}},
    "ceph": {"cephfs": {"monitors": ["10.1.1.1:6789"]}},
    "fibre": {"fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0}},
    "flex": {"flexVolume": {"driver": "example.com/flex"}},
    "gluster": {"glusterfs": {"endpoints": "e", "path": "p"}},
}
WITH_VOLUMES: Final = pod(
    "with-volumes", {"volumes": [{"name": name, **source} for name, source in SOURCES.items()]}
)

# -- how it is

MARKED: Final = pod(
    "marked",
    {"nodeName": "node-1", "terminationGracePeriodSeconds": 3600},
    {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": LATER}],
        "startTime": EARLY,
    },
    labels={"scheduler.alpha.kubernetes.io/migration-id": "m-1"},
    annotations={
        "scheduler.alpha.kubernetes.io/original-pod": "another",
        "scheduling-retries": "3",
        "example.com/not-for-us": "x" * 1000,
    },
    finalizers=["example.com/first", "example.com/second"],
    ownerReferences=[
        {"apiVersion": "example.com/v1", "kind": "Other", "name": "other", "uid": "u-2"},
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web-7f",
            "uid": "u-1",
            "controller": True,
            "blockOwnerDeletion": True,
        },
    ],
)
RUNNING: Final = pod(
    "running",
    {
        "nodeName": "node-1",
        "initContainers": [container("migrate"), container("proxy", restartPolicy="Always")],
        "containers": [container(), container("slow"), container("broken"), container("done")],
    },
    {
        "phase": "Running",
        "startTime": EARLY,
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": EARLY},
            {"type": "Initialized", "status": "True", "lastTransitionTime": LATER},
            {
                "type": "Ready",
                "status": "False",
                "lastTransitionTime": LATEST,
                "reason": "ContainersNotReady",
                "message": "containers with unready status: [slow broken]",
            },
            {"type": "example.com/attached", "status": "Unknown"},
        ],
        "initContainerStatuses": [
            {
                "name": "migrate",
                "image": "i",
                "imageID": "i",
                "ready": True,
                "restartCount": 0,
                "state": {
                    "terminated": {
                        "exitCode": 0,
                        "reason": "Completed",
                        "startedAt": EARLY,
                        "finishedAt": LATER,
                    }
                },
            },
            {
                "name": "proxy",
                "image": "i",
                "imageID": "i",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": LATER}},
            },
        ],
        "containerStatuses": [
            {
                "name": "main",
                "image": "i",
                "imageID": "i",
                "ready": True,
                "started": True,
                "restartCount": 2,
                "state": {"running": {"startedAt": LATEST}},
                "lastState": {
                    "terminated": {
                        "exitCode": 137,
                        "signal": 9,
                        "reason": "OOMKilled",
                        "startedAt": LATER,
                        "finishedAt": LATEST,
                    }
                },
            },
            {
                "name": "slow",
                "image": "i",
                "imageID": "i",
                "ready": False,
                "started": False,
                "restartCount": 0,
                "state": {"waiting": {"reason": "ContainerCreating"}},
            },
            {
                "name": "broken",
                "image": "i",
                "imageID": "i",
                "ready": False,
                "restartCount": 7,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting"}},
            },
            {"name": "done", "image": "i", "imageID": "i", "ready": False, "restartCount": 0},
        ],
    },
)
RESIZED: Final = pod(
    "resized",
    {
        "nodeName": "node-1",
        "containers": [
            container(resources={"requests": {"cpu": "1", "memory": "1Gi"}}),
            container("second", resources={"requests": {"cpu": "1"}}),
        ],
    },
    {
        "phase": "Running",
        "startTime": EARLY,
        "resize": "Deferred",
        "conditions": [
            {
                "type": "PodResizePending",
                "status": "True",
                "reason": "Deferred",
                "message": "node didn't have enough resource: cpu",
                "lastTransitionTime": LATEST,
            },
            {"type": "Ready", "status": "True", "lastTransitionTime": LATER},
        ],
        "containerStatuses": [
            {
                "name": "main",
                "image": "i",
                "imageID": "i",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": LATER}},
                "allocatedResources": {"cpu": "2", "memory": "1Gi"},
                "resources": {"requests": {"cpu": "3", "memory": "512Mi"}},
            },
            {
                "name": "second",
                "image": "i",
                "imageID": "i",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {}},
                "allocatedResources": {"cpu": "1"},
            },
        ],
    },
)
RESIZED_AS_A_WHOLE: Final = pod(
    "resized-as-a-whole",
    {
        "nodeName": "node-1",
        "resources": {"requests": {"cpu": "2", "memory": "2Gi"}},
        "containers": [container(resources={"requests": {"cpu": "1"}})],
    },
    {
        "phase": "Running",
        "allocatedResources": {"cpu": "3", "memory": "2Gi"},
        "resources": {"requests": {"cpu": "4", "memory": "1Gi"}},
    },
)
EVICTED: Final = pod(
    "evicted",
    {"nodeName": "node-1", "restartPolicy": "OnFailure"},
    {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "startTime": EARLY,
        "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"},
        ],
    },
)

NOMINATED: Final = pod(
    "nominated",
    {},
    {
        "phase": "Pending",
        "nominatedNodeName": "node-2",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/3 nodes are available: 3 Insufficient cpu.",
                "lastTransitionTime": EARLY,
            }
        ],
    },
)

PODS: Final = (
    pod("plain", {}),
    CONSTRAINED,
    SIDECARS,
    ON_THE_HOST,
    AS_A_WHOLE,
    WITH_VOLUMES,
    MARKED,
    RUNNING,
    RESIZED,
    RESIZED_AS_A_WHOLE,
    EVICTED,
    NOMINATED,
)


# -- nodes


def node(name: str, spec: Object, status: Object | None = None, **metadata: Any) -> Object:
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}, "spec": spec}
    return made | ({"status": status} if status else {})


NODES: Final = (
    node("bare", {}),
    node(
        "loaded",
        {
            "providerID": "example://zone-1/i-0123",
            "unschedulable": True,
            "taints": [
                {"key": "dedicated", "value": "shop", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": LATEST},
            ],
        },
        {
            "capacity": {
                "cpu": "16",
                "memory": "65932312Ki",
                "ephemeral-storage": "100Gi",
                "pods": "110",
                "example.com/gpu": "8",
                "hugepages-1Gi": "2Gi",
            },
            "allocatable": {
                "cpu": "15890m",
                "memory": "62Gi",
                "ephemeral-storage": "95e9",
                "pods": "110",
                "example.com/gpu": "7",
                "attachable-volumes-csi-disk.example.com": "25",
            },
            "conditions": [
                {
                    "type": "Ready",
                    "status": "Unknown",
                    "reason": "NodeStatusUnknown",
                    "message": "Kubelet stopped posting node status.",
                    "lastHeartbeatTime": LATER,
                    "lastTransitionTime": LATEST,
                },
                {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": LATER},
            ],
            "volumesInUse": ["kubernetes.io/csi/disk^b", "kubernetes.io/csi/disk^a"],
            "volumesAttached": [
                {"name": "kubernetes.io/csi/disk^b", "devicePath": "/dev/b"},
                {"name": "kubernetes.io/csi/disk^a", "devicePath": ""},
            ],
            "declaredFeatures": ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"],
        },
        labels={"zone": "zone-1", "kubernetes.io/hostname": "loaded", "empty": ""},
        annotations={
            "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
            "example.com/not-for-us": "x",
        },
        finalizers=["example.com/drained"],
    ),
)
