"""The options of an installation, which are the values of the Helm chart and of the plain manifests, and the
names and labels of the installed objects.

The chart's `values.yaml` and its schema are generated from these types.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from rescheduler.api.daemon_status import program_version
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
    "AdmissionPolicies",
    "AffinityValues",
    "DaemonValues",
    "Image",
    "NetworkPolicies",
    "Options",
    "PrometheusRule",
    "ServiceMonitor",
    "WebValues",
    "WebhookValues",
    "labels",
    "metadata",
    "with_install_id",
]


def _tag() -> str:
    """Return the version in the form that image tags allow."""
    return program_version().replace("+", "-")


_Replicas = Annotated[int, Meta(ge=0, le=10)]
_DAEMON_NEEDS: Final = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}
"""5,000 nodes and 150,000 pods need about 700 MB."""
_WEBHOOK_NEEDS: Final = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}
"""It keeps all pods, like the daemon, but no snapshots: 321 MB at 150,000 pods (docs/benchmarks.md)."""


class Image(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    repository: Annotated[str, Meta(description="Image repository, without a tag.")] = "rescheduler"
    tag: Annotated[str, Meta(description="Image tag.")] = msgspec.field(default_factory=_tag)
    pull_policy: Annotated[str, Meta(description="IfNotPresent, Always or Never.")] = "IfNotPresent"


class DaemonValues(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    replicas: Annotated[
        _Replicas, Meta(description="Number of pods. One is the leader, the others stand by.")
    ] = 2
    resources: Annotated[dict[str, Any], Meta(description="Resource requests and limits of each pod.")] = (
        msgspec.field(default_factory=lambda: _DAEMON_NEEDS)
    )
    notifications_secret: Annotated[
        str,
        Meta(
            description="Secret, in the same namespace, whose keys are files in "
            "/etc/rescheduler-notifications, for `urlFile` and `headerFile` of `args.notifications`."
        ),
    ] = ""
    otlp_endpoint: Annotated[
        str,
        Meta(
            description="Address of an OpenTelemetry receiver for traces, such as "
            "http://collector.monitoring:4318. Needs an image with OpenTelemetry: see docs/tracing.md."
        ),
    ] = ""


class WebhookValues(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    enabled: Annotated[
        bool,
        Meta(description="Steer replacements of evicted pods. Without it, few pods are evicted."),
    ] = True
    extender_only: Annotated[
        bool, Meta(description="Serve only schedulers, as their extender, and no API servers.")
    ] = False
    replicas: Annotated[_Replicas, Meta(description="Number of pods. All of them serve requests.")] = 2
    resources: Annotated[dict[str, Any], Meta(description="Resource requests and limits of each pod.")] = (
        msgspec.field(default_factory=lambda: _WEBHOOK_NEEDS)
    )


class WebValues(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    enabled: Annotated[
        bool,
        Meta(description="Serve the web page from the daemon's pods."),
    ] = True
    actions: Annotated[
        bool,
        Meta(description="Let viewers move pods, drain nodes and pause, as far as their own permissions go."),
    ] = False
    tls_secret: Annotated[
        str,
        Meta(
            description="Secret with tls.crt and tls.key, in the same namespace. With it, the Service "
            "rescheduler-web serves the page by HTTPS on port 443. Without it, the page listens on loopback "
            "of the pods, for `kubectl port-forward`."
        ),
    ] = ""
    hosts: Annotated[
        str,
        Meta(description="Host names of the page, separated by commas; empty for all. Needs `tlsSecret`."),
    ] = ""


class NetworkPolicies(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    enabled: Annotated[bool, Meta(description="Allow connections only to the ports that our pods serve.")] = (
        True
    )
    metrics_from: Annotated[
        list[dict[str, Any]],
        Meta(
            description="Peers that may connect to the daemon's port for metrics and health, as `from` of a "
            "NetworkPolicy; empty for all."
        ),
    ] = msgspec.field(default_factory=list)
    web_from: Annotated[
        list[dict[str, Any]],
        Meta(
            description="Peers that may connect to the web page with `web.tlsSecret`, as `from` of a "
            "NetworkPolicy; empty for all."
        ),
    ] = msgspec.field(default_factory=list)


class ServiceMonitor(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    enabled: Annotated[bool, Meta(description="Let Prometheus read the metrics of the daemon.")] = False
    interval: Annotated[str, Meta(description="Time between two reads.")] = "30s"
    labels: Annotated[
        dict[str, str], Meta(description="Further labels, by which your Prometheus selects ServiceMonitors.")
    ] = msgspec.field(default_factory=dict)


class PrometheusRule(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    enabled: Annotated[bool, Meta(description="Install our alerts.")] = False
    labels: Annotated[
        dict[str, str], Meta(description="Further labels, by which your Prometheus selects PrometheusRules.")
    ] = msgspec.field(default_factory=dict)


class AffinityValues(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The affinity of our pods, without podAntiAffinity: ours keeps the replicas of a program on different
    nodes."""

    node_affinity: Annotated[dict[str, Any], Meta(description="Node affinity of our pods.")] = msgspec.field(
        default_factory=dict
    )
    pod_affinity: Annotated[dict[str, Any], Meta(description="Affinity of our pods to other pods.")] = (
        msgspec.field(default_factory=dict)
    )


class AdmissionPolicies(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    enabled: Annotated[
        bool,
        Meta(description="Let the API server restrict our service accounts to what they need."),
    ] = True
    system_namespaces: Annotated[
        bool,
        Meta(
            description="Allow the daemon to create pods in kube-system, kube-public and kube-node-lease, "
            "which it needs to move pods there make-before-break (`maintenanceIncludesSystem`)."
        ),
    ] = False


class Options(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    image: Annotated[Image, Meta(description="Image of all pods.")] = Image()
    image_pull_secrets: Annotated[
        list[dict[str, str]], Meta(description="Secrets for pulling the image, each as `name: NAME`.")
    ] = msgspec.field(default_factory=list)
    log_level: Annotated[str, Meta(description="Lowest level to log: debug, info, warning or error.")] = (
        "info"
    )
    dry_run: Annotated[
        bool,
        Meta(
            description="Only plan, and count what would have moved (`rescheduler status`). To move pods, "
            "set it to false."
        ),
    ] = True
    args: Annotated[
        dict[str, Any], Meta(description="Settings of the plugin `Rescheduler`: see docs/configuration.md.")
    ] = msgspec.field(default_factory=dict)
    daemon: Annotated[DaemonValues, Meta(description="The daemon, which plans and executes moves.")] = (
        DaemonValues()
    )
    webhook: Annotated[
        WebhookValues, Meta(description="The webhook, which steers replacements of evicted pods.")
    ] = WebhookValues()
    web: Annotated[WebValues, Meta(description="The web page: see docs/web.md.")] = WebValues()
    network_policies: Annotated[NetworkPolicies, Meta(description="NetworkPolicies for our pods.")] = (
        NetworkPolicies()
    )
    service_monitor: Annotated[
        ServiceMonitor,
        Meta(description="A ServiceMonitor; needs the Prometheus Operator (monitoring.coreos.com/v1)."),
    ] = ServiceMonitor()
    admission_policies: Annotated[
        AdmissionPolicies,
        Meta(description="ValidatingAdmissionPolicies for requests from our service accounts."),
    ] = AdmissionPolicies()
    prometheus_rule: Annotated[
        PrometheusRule,
        Meta(description="A PrometheusRule; needs the Prometheus Operator (monitoring.coreos.com/v1)."),
    ] = PrometheusRule()
    pod_annotations: Annotated[dict[str, str], Meta(description="Annotations of our pods.")] = msgspec.field(
        default_factory=dict
    )
    affinity: Annotated[
        AffinityValues, Meta(description="Affinity of our pods, beside the one that spreads replicas.")
    ] = AffinityValues()
    node_selector: Annotated[dict[str, str], Meta(description="Node selector of our pods.")] = msgspec.field(
        default_factory=dict
    )
    tolerations: Annotated[list[dict[str, Any]], Meta(description="Tolerations of our pods.")] = (
        msgspec.field(default_factory=list)
    )
    priority_class_name: Annotated[str, Meta(description="PriorityClass of our pods; empty for none.")] = ""


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
