"""The objects that the tests create on real nodes."""

import json
from typing import Any

from tests.testbed.nodes import Nodes, RealNode

__all__ = [
    "answers",
    "cluster_ip",
    "deployment",
    "load_pod",
    "names_of_pods",
    "service",
    "stateful_set",
    "web_container",
]

Object = dict[str, Any]


def web_container(*flags: str, **more: Any) -> Object:
    """A web server that complies with the Pod Security Standard `restricted`."""
    return {
        "name": "web",
        "image": "testbed.local/webapp:1",
        "imagePullPolicy": "Never",
        "args": [*flags],
        "ports": [{"containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "50m", "memory": "16Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **more,
    }


def deployment(namespace: str, name: str, replicas: int, *flags: str, **pod: Any) -> Object:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [web_container(*flags)], "enableServiceLinks": False, **pod},
            },
        },
    }


def stateful_set(namespace: str, name: str, replicas: int, *flags: str, **pod: Any) -> Object:
    made = deployment(namespace, name, replicas, *flags, **pod)
    made["kind"] = "StatefulSet"
    made["spec"]["serviceName"] = name
    return made


def service(namespace: str, name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"app": name},
            "ports": [
                {"name": "http", "port": 80, "targetPort": 8080},
                {"name": "grpc", "port": 9090, "targetPort": 9090},
            ],
        },
    }


def cluster_ip(nodes: Nodes, namespace: str, name: str) -> str:
    """The address of a Service."""
    return nodes.kubectl("get", "service", "-n", namespace, name, "-o", "jsonpath={.spec.clusterIP}")


def answers(node: RealNode, nodes: Nodes, address: str) -> bool:
    """Whether a Service answers on a node. A pod is Ready a moment before each kube-proxy knows it."""
    program = str(nodes.binaries.programs / "loadgen")
    found = json.loads(node.run(program, f"-url=http://{address}/", "-rate=10", "-duration=100ms"))
    return bool(found["failed"] == 0)


def load_pod(namespace: str, name: str, url: str, rate: int, seconds: int, *flags: str) -> Object:
    """A pod that sends requests to a URL, writes the result to its log and ends."""
    arguments = [f"-url={url}", f"-rate={rate}", f"-duration={seconds}s", *flags]
    container = {
        "name": "load",
        "image": "testbed.local/loadgen:1",
        "imagePullPolicy": "Never",
        "args": arguments,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def names_of_pods(nodes: Nodes, namespace: str, app: str) -> dict[str, str]:
    """The node of each pod that is ready and not about to end."""
    listed = json.loads(nodes.kubectl("get", "pods", "-n", namespace, "-l", f"app={app}", "-o", "json"))
    return {
        pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
        for pod in listed["items"]
        if not pod["metadata"].get("deletionTimestamp")
        and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
    }
