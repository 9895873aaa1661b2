"""What can be chosen when the product is installed: the values of the Helm chart, and of the plain manifests.

The chart's `values.yaml` and its schema are generated from these types, so that there is one list of them.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from rescheduler.api.daemon_status import program_version

__all__ = ["AdmissionPolicies", "DaemonValues", "Image", "NetworkPolicies", "Options", "WebhookValues"]


def _tag() -> str:
    """The version, as an image tag may have it."""
    return program_version().replace("+", "-")


_Replicas = Annotated[int, Meta(ge=0, le=10)]
_DAEMON_NEEDS: Final = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}
"""5,000 nodes and 150,000 pods take some 700 MB."""
_WEBHOOK_NEEDS: Final = {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}}


class Image(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    repository: Annotated[str, Meta(description="Where the image is, without a tag.")] = "rescheduler"
    tag: Annotated[str, Meta(description="Which version of it.")] = msgspec.field(default_factory=_tag)
    pull_policy: Annotated[str, Meta(description="IfNotPresent, Always or Never.")] = "IfNotPresent"


class DaemonValues(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    replicas: Annotated[_Replicas, Meta(description="One of them leads, the others stand by.")] = 2
    resources: Annotated[dict[str, Any], Meta(description="What each of them asks for.")] = msgspec.field(
        default_factory=lambda: _DAEMON_NEEDS
    )


class WebhookValues(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    enabled: Annotated[
        bool,
        Meta(
            description="Whether replacements of evicted pods are steered. Without it, few pods are evicted."
        ),
    ] = True
    extender_only: Annotated[
        bool, Meta(description="Whether only schedulers ask it, as their extender, and API servers do not.")
    ] = False
    replicas: Annotated[_Replicas, Meta(description="All of them answer; none leads.")] = 2
    resources: Annotated[dict[str, Any], Meta(description="What each of them asks for.")] = msgspec.field(
        default_factory=lambda: _WEBHOOK_NEEDS
    )


class NetworkPolicies(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    enabled: Annotated[
        bool, Meta(description="Whether only the ports that our pods serve can be reached from other pods.")
    ] = True
    metrics_from: Annotated[
        list[dict[str, Any]],
        Meta(
            description="Who may connect to the daemon's port for metrics and health, as `from` of a "
            "NetworkPolicy; empty for everybody."
        ),
    ] = msgspec.field(default_factory=list)


class AdmissionPolicies(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    enabled: Annotated[
        bool,
        Meta(description="Whether the API server restricts our service accounts to what they need."),
    ] = True
    system_namespaces: Annotated[
        bool,
        Meta(
            description="Whether the daemon may create pods in kube-system, kube-public and kube-node-lease: "
            "needed to move pods there make-before-break (`maintenanceIncludesSystem`)."
        ),
    ] = False


class Options(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    image: Annotated[Image, Meta(description="The image that all pods run.")] = Image()
    image_pull_secrets: Annotated[
        list[dict[str, str]], Meta(description="Secrets to pull it with, each as `name: NAME`.")
    ] = msgspec.field(default_factory=list)
    log_level: Annotated[str, Meta(description="debug, info, warning or error.")] = "info"
    args: Annotated[
        dict[str, Any], Meta(description="The args of the plugin `Rescheduler`: see docs/configuration.md.")
    ] = msgspec.field(default_factory=dict)
    daemon: Annotated[DaemonValues, Meta(description="What watches, decides and moves.")] = DaemonValues()
    webhook: Annotated[WebhookValues, Meta(description="What tells replacements where to go.")] = (
        WebhookValues()
    )
    network_policies: Annotated[NetworkPolicies, Meta(description="Which connections our pods accept.")] = (
        NetworkPolicies()
    )
    admission_policies: Annotated[
        AdmissionPolicies,
        Meta(description="ValidatingAdmissionPolicies for requests of our service accounts only."),
    ] = AdmissionPolicies()
    node_selector: Annotated[dict[str, str], Meta(description="Nodes for our pods.")] = msgspec.field(
        default_factory=dict
    )
    tolerations: Annotated[list[dict[str, Any]], Meta(description="Taints that our pods tolerate.")] = (
        msgspec.field(default_factory=list)
    )
    priority_class_name: Annotated[str, Meta(description="Of our pods; empty for none.")] = ""
