"""Names and labels of the installed objects."""

from typing import Final

from rescheduler.api.well_known_names import INSTALL_ID, cluster_scoped_name, install_id
from rescheduler.kube.api_resources import Object

__all__ = [
    "CONFIGURATION_FILE",
    "DAEMON",
    "EXTENDER_PORT",
    "HEALTH_PORT",
    "NAMESPACE",
    "PAGE_PORT",
    "PRODUCT",
    "WEB",
    "WEBHOOK",
    "WEBHOOK_PORT",
    "labels",
    "metadata",
    "with_install_id",
]

PRODUCT: Final = "rescheduler"
NAMESPACE: Final = "rescheduler"
"""The default namespace."""
DAEMON: Final = "rescheduler"
WEBHOOK: Final = "rescheduler-webhook"
WEB: Final = "rescheduler-web"
CONFIGURATION_FILE: Final = "rescheduler.yaml"
"""The key in the ConfigMap of the daemon."""

HEALTH_PORT: Final = 8080
PAGE_PORT: Final = 8081
"""The page's port: on loopback of the pod, for `kubectl port-forward`; with a certificate, on all its
addresses."""
WEBHOOK_PORT: Final = 9443
EXTENDER_PORT: Final = 9444


def labels(component: str = "") -> dict[str, str]:
    """Return the labels that identify our objects in every namespace."""
    parts = {"app.kubernetes.io/component": component} if component else {}
    return {"app.kubernetes.io/name": PRODUCT, **parts}


def metadata(name: str, namespace: str = "", component: str = "") -> Object:
    where = {"namespace": namespace} if namespace else {}
    return {"name": name, **where, "labels": labels(component)}


def with_install_id(item: Object, namespace: str) -> Object:
    """Return the object as one of the installation in this namespace.

    The object and its pods get the install id. The name of a cluster-scoped object includes the namespace,
    also in references to it.
    """
    about = item["metadata"]
    changed = {**item, "metadata": {**about, "labels": _with_id(about, namespace)}}
    if "namespace" not in about and item["kind"] != "Namespace":
        changed["metadata"]["name"] = cluster_scoped_name(about["name"], namespace)
    if item["kind"] == "Deployment":
        template = item["spec"]["template"]
        pod = {**template["metadata"], "labels": _with_id(template["metadata"], namespace)}
        changed["spec"] = {**item["spec"], "template": {**template, "metadata": pod}}
    if item["kind"] == "ClusterRole":
        changed["rules"] = [_rule(each, namespace) for each in item["rules"]]
    if item.get("roleRef", {}).get("kind") == "ClusterRole":
        role = item["roleRef"]
        changed["roleRef"] = {**role, "name": cluster_scoped_name(role["name"], namespace)}
    if "policyName" in item.get("spec", {}):
        policy = cluster_scoped_name(item["spec"]["policyName"], namespace)
        changed["spec"] = {**item["spec"], "policyName": policy}
    return changed


def _rule(rule: Object, namespace: str) -> Object:
    """Return the rule with the names of the installed cluster-scoped objects."""
    if "resourceNames" not in rule:
        return rule
    # Other components' objects, such as the status of the cluster autoscaler, keep their names.
    names = [
        cluster_scoped_name(each, namespace) if each.startswith(DAEMON) else each
        for each in rule["resourceNames"]
    ]
    return {**rule, "resourceNames": names}


def _with_id(about: Object, namespace: str) -> dict[str, str]:
    return {**about["labels"], INSTALL_ID: install_id(namespace)}
