"""Cluster DNS, which real nodes need."""

from typing import Any

from tests.testbed.nodes.node_config import CLUSTER_DNS

__all__ = ["cluster_dns"]

_NAMESPACE, _NAME = "kube-system", "coredns"
_LABELS = {"k8s-app": "kube-dns"}
_COREFILE = """\
.:1053 {
    errors
    health :8080
    ready :8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        ttl 5
    }
    cache 5
}
"""


def cluster_dns() -> list[dict[str, Any]]:
    """CoreDNS with two replicas on different nodes, if there are as many."""
    account = {"name": _NAME, "namespace": _NAMESPACE}
    rules = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "testbed:coredns"}
    ports = [
        {"name": f"dns-{protocol.lower()}", "port": 53, "targetPort": 1053, "protocol": protocol}
        for protocol in ("UDP", "TCP")
    ]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {"apiVersion": role["apiGroup"] + "/v1", "kind": "ClusterRole", "metadata": {"name": role["name"]}}
        | {"rules": rules},
        {
            "apiVersion": role["apiGroup"] + "/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role["name"]},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": account,
            "data": {"Corefile": _COREFILE},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": _NAMESPACE, "labels": _LABELS},
            "spec": {"clusterIP": CLUSTER_DNS, "selector": _LABELS, "ports": ports},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": account | {"labels": _LABELS},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": _LABELS},
                "template": {"metadata": {"labels": _LABELS}, "spec": _pod()},
            },
        },
    ]


def _pod() -> dict[str, Any]:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _LABELS},
    }
    return {
        "serviceAccountName": _NAME,
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "topologySpreadConstraints": [spread],
        "containers": [
            {
                "name": _NAME,
                "image": "testbed.local/coredns:1",
                "imagePullPolicy": "Never",
                "args": ["-conf", "/etc/coredns/Corefile"],
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
                "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
                "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
            }
        ],
        "volumes": [{"name": "config", "configMap": {"name": _NAME}}],
    }
