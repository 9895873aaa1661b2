"""The service accounts of our pods, and what binds the grants to them."""

from collections.abc import Sequence
from typing import Final

from rescheduler.install.grants import (
    DAEMON_AT_HOME,
    DAEMON_EVERYWHERE,
    WEBHOOK_AT_HOME,
    WEBHOOK_EVERYWHERE,
    Grant,
    rules,
)
from rescheduler.install.names import DAEMON, WEBHOOK, metadata
from rescheduler.kube.resources import Object

__all__ = ["daemon_roles", "webhook_roles"]

_RBAC: Final = "rbac.authorization.k8s.io"


def daemon_roles(namespace: str) -> list[Object]:
    return _roles(DAEMON, namespace, "daemon", DAEMON_EVERYWHERE, DAEMON_AT_HOME)


def webhook_roles(namespace: str) -> list[Object]:
    return _roles(WEBHOOK, namespace, "webhook", WEBHOOK_EVERYWHERE, WEBHOOK_AT_HOME)


def _roles(
    name: str, namespace: str, component: str, everywhere: Sequence[Grant], at_home: Sequence[Grant]
) -> list[Object]:
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name, namespace, component)},
        _role("ClusterRole", metadata(name, component=component), everywhere),
        _binding("ClusterRole", metadata(name, component=component), namespace),
        _role("Role", metadata(name, namespace, component), at_home),
        _binding("Role", metadata(name, namespace, component), namespace),
    ]


def _role(kind: str, about: Object, grants: Sequence[Grant]) -> Object:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": about, "rules": rules(grants)}


def _binding(kind: str, about: Object, namespace: str) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": about,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": about["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": about["name"], "namespace": namespace}],
    }
