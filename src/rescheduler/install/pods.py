"""What the pods of all our Deployments have in common: no rights on their node, and spread over nodes."""

from dataclasses import dataclass, field
from typing import Any, Final

from rescheduler.install.names import labels, metadata
from rescheduler.install.options import Options
from rescheduler.kube.resources import Object

__all__ = ["Program", "deployment", "disruption_budget"]

_SCRATCH: Final = {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}
"""Python takes TLS keys from files only; they are written here, in memory, and removed at once."""

_NOBODY: Final = 65532
_HOSTNAME: Final = "kubernetes.io/hostname"
_ZONE: Final = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class Program:
    """One of our commands, as it runs in a pod."""

    name: str
    component: str
    command: tuple[str, ...]
    port: int
    port_name: str
    scheme: str
    """By which its health is asked."""
    more_ports: tuple[tuple[str, int], ...] = field(default=(), kw_only=True)
    """By name."""
    replicas: int
    resources: dict[str, Any]
    configured: bool = False
    """Whether it reads the configuration file."""
    grace_s: int = 30


def deployment(program: Program, options: Options, namespace: str) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(program.name, namespace, program.component),
        "spec": {
            "replicas": program.replicas,
            "selector": {"matchLabels": labels(program.component)},
            "template": {"metadata": {"labels": labels(program.component)}, "spec": _pod(program, options)},
        },
    }


def disruption_budget(program: Program, namespace: str) -> Object:
    """One at a time: maintenance goes on, and never takes all of them."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(program.name, namespace, program.component),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": labels(program.component)},
        },
    }


def _pod(program: Program, options: Options) -> Object:
    volumes = [_SCRATCH]
    if program.configured:
        volumes.append({"name": "configuration", "configMap": {"name": program.name}})
    return {
        "serviceAccountName": program.name,
        "imagePullSecrets": options.image_pull_secrets,
        "priorityClassName": options.priority_class_name,
        "nodeSelector": options.node_selector,
        "tolerations": options.tolerations,
        **_spread(program.component),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": program.grace_s,
        "containers": [_container(program, options)],
        "volumes": volumes,
    }


def _container(program: Program, options: Options) -> Object:
    mounts = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - of the container
    if program.configured:
        mounts.append({"name": "configuration", "mountPath": "/etc/rescheduler"})
    return {
        "name": program.component,
        "image": f"{options.image.repository}:{options.image.tag}",
        "imagePullPolicy": options.image.pull_policy,
        "args": [*program.command, f"--log-level={options.log_level}"],
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
        "ports": [
            {"name": name, "containerPort": port}
            for name, port in ((program.port_name, program.port), *program.more_ports)
        ],
        "livenessProbe": _probe(program, "/healthz", period_s=10, failures=6),
        "readinessProbe": _probe(program, "/readyz", period_s=5, failures=2),
        "resources": program.resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _probe(program: Program, path: str, *, period_s: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": program.port_name, "scheme": program.scheme},
        "periodSeconds": period_s,
        "failureThreshold": failures,
    }


def _spread(component: str) -> Object:
    """Return what keeps replicas on different nodes, and in different zones where nodes have any.

    Both are preferences: on a single node, or where only one has room, all replicas run there, and a rollout
    never waits for a node. Together they outweigh the resource scores of the default scheduler: where another
    node has room, it is chosen. Zones are not a topology spread constraint, because a node without the key of
    one constraint gets no score for any of them: without zone labels, nodes would not count either.
    """
    # Pods of the revision before don't count: they are about to be deleted.
    selector = {"labelSelector": {"matchLabels": labels(component)}, "matchLabelKeys": ["pod-template-hash"]}
    weights = ((_HOSTNAME, 100), (_ZONE, 50))
    terms = [
        {"weight": weight, "podAffinityTerm": {"topologyKey": key, **selector}} for key, weight in weights
    ]
    constraint = {"maxSkew": 1, "topologyKey": _HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway", **selector}
    return {
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}},
        "topologySpreadConstraints": [constraint],
    }
