"""Who may connect to our pods: ports that nobody needs are closed.

Connections that our pods open are not restricted. The API server is none that a policy could name in every
cluster, nor is Prometheus; and what our pods may ask of the API server is decided by their permissions.
"""

from rescheduler.install.names import (
    DAEMON,
    EXTENDER_PORT,
    HEALTH_PORT,
    WEBHOOK,
    WEBHOOK_PORT,
    labels,
    metadata,
)
from rescheduler.install.options import NetworkPolicies
from rescheduler.kube.resources import Object

__all__ = ["daemon_network_policy", "webhook_network_policy"]


def daemon_network_policy(chosen: NetworkPolicies, namespace: str) -> Object:
    """Health and metrics. Kubelets connect from the pod's own node, which network plugins allow."""
    rule: Object = {"ports": [_tcp(HEALTH_PORT)]}
    if chosen.metrics_from:
        rule["from"] = chosen.metrics_from
    return _policy(DAEMON, namespace, "daemon", rule)


def webhook_network_policy(namespace: str) -> Object:
    """From everywhere: API servers and schedulers often run outside of the network of pods, so that no
    selector matches them. Schedulers have to show a certificate."""
    return _policy(WEBHOOK, namespace, "webhook", {"ports": [_tcp(WEBHOOK_PORT), _tcp(EXTENDER_PORT)]})


def _policy(name: str, namespace: str, component: str, rule: Object) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name, namespace, component),
        "spec": {
            "podSelector": {"matchLabels": labels(component)},
            "policyTypes": ["Ingress"],
            "ingress": [rule],
        },
    }


def _tcp(port: int) -> Object:
    return {"protocol": "TCP", "port": port}
