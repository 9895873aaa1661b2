"""Small objects for the tests, with only the fields that matter."""

from datetime import UTC, datetime, timedelta

__all__ = ["ago", "budget", "deployment", "node", "pod"]


IMAGE = "example/app:1"


def ago(**duration):
    moment = datetime.now(UTC) - timedelta(**duration)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name, *, cpu="4", labels=None):
    size = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}, "creationTimestamp": ago(days=3, hours=4)},
        "spec": {},
        "status": {
            "capacity": size,
            "allocatable": size,
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.37.0", "osImage": "Simulated", "architecture": "amd64",
                         "kernelVersion": "6.1", "containerRuntimeVersion": "simulated://1"},
        },
    }  # fmt: skip


def pod(name, *, on=None, labels=None, owner=None, cpu="100m", grace_s=1):
    """Running and ready if it is on a node."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}",
        "labels": labels or {},
        "creationTimestamp": ago(minutes=15, seconds=20),
    }
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-of-{owner}"}
        metadata["ownerReferences"] = [reference | {"controller": True}]
    spec = {
        "containers": [{"name": "app", "image": IMAGE, "resources": {"requests": {"cpu": cpu}}}],
        "terminationGracePeriodSeconds": grace_s,
    }
    if on:
        spec["nodeName"] = on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": _running() if on else {"phase": "Pending"},
    }


def _running():
    container = {
        "name": "app",
        "image": IMAGE,
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": ago(minutes=15)}},
    }
    return {
        "phase": "Running",
        "podIPs": [{"ip": "10.1.0.1"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [container],
    }


def deployment(name, *, replicas=2, image=IMAGE):
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [
                        {"name": "app", "image": image},
                        {"name": "side", "image": "example/side:1"},
                    ]
                },
            },
        },
    }


def budget(name, *, min_available, healthy, labels):
    """Return a budget as the disruption controller would have computed it."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default", "generation": 1},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": labels}},
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": max(healthy - min_available, 0),
            "currentHealthy": healthy,
            "desiredHealthy": min_available,
            "expectedPods": healthy,
        },
    }
