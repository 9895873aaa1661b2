"""How the installed objects are called, and the labels by which they are known."""

from typing import Final

from rescheduler.kube.resources import Object

__all__ = [
    "DAEMON",
    "EXTENDER_PORT",
    "HEALTH_PORT",
    "NAMESPACE",
    "PRODUCT",
    "WEBHOOK",
    "WEBHOOK_PORT",
    "labels",
    "metadata",
]

PRODUCT: Final = "rescheduler"
NAMESPACE: Final = "rescheduler"
"""Unless another one is asked for."""
DAEMON: Final = "rescheduler"
WEBHOOK: Final = "rescheduler-webhook"

HEALTH_PORT: Final = 8080
WEBHOOK_PORT: Final = 9443
EXTENDER_PORT: Final = 9444


def labels(component: str = "") -> dict[str, str]:
    """By the name our own pods are recognised, in every namespace."""
    parts = {"app.kubernetes.io/component": component} if component else {}
    return {"app.kubernetes.io/name": PRODUCT, **parts}


def metadata(name: str, namespace: str = "", component: str = "") -> Object:
    where = {"namespace": namespace} if namespace else {}
    return {"name": name, **where, "labels": labels(component)}
