"""All installed objects, in an order in which they can be applied, and their YAML.

NetworkPolicies close the ports that nothing needs. They don't restrict outgoing connections: a policy can't
name the API server or Prometheus in every cluster, and RBAC limits what our pods may do.
"""

from enum import StrEnum
from importlib import resources
from typing import Any, Final

import yaml

from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.install.account_policies import daemon_policies
from rescheduler.install.admission_policies import webhook_policies
from rescheduler.install.component_manifests import (
    configuration_text,
    daemon_objects,
    web_service,
    webhook_objects,
)
from rescheduler.install.install_options import (
    DAEMON,
    EXTENDER_PORT,
    HEALTH_PORT,
    NAMESPACE,
    PAGE_PORT,
    WEB,
    WEBHOOK,
    WEBHOOK_PORT,
    NetworkPolicies,
    Options,
    PrometheusRule,
    ServiceMonitor,
    labels,
    metadata,
    with_install_id,
)
from rescheduler.kube.api_resources import Object

__all__ = [
    "EXTENDER_PROFILE",
    "ReadableDumper",
    "SchedulerProfiles",
    "as_yaml",
    "daemon_network_policy",
    "install_manifests",
    "prometheus_rule",
    "scheduler_configuration",
    "service_monitor",
    "web_network_policy",
    "webhook_network_policy",
]


def daemon_network_policy(chosen: NetworkPolicies, namespace: str) -> Object:
    """Return the policy that opens the port for health and metrics.

    Network plugins allow kubelets to connect from the pod's node.
    """
    rule: Object = {"ports": [_tcp(HEALTH_PORT)]}
    if chosen.metrics_from:
        rule["from"] = chosen.metrics_from
    return _policy(DAEMON, namespace, "daemon", rule)


def web_network_policy(chosen: NetworkPolicies, namespace: str) -> Object:
    """Return the policy that opens the port of the web page; viewers prove who they are with a token."""
    rule: Object = {"ports": [_tcp(PAGE_PORT)]}
    if chosen.web_from:
        rule["from"] = chosen.web_from
    return _policy(WEB, namespace, "daemon", rule)


def webhook_network_policy(namespace: str) -> Object:
    """Return the policy that opens both ports for all clients.

    API servers and schedulers often run outside the pod network. Schedulers need a client certificate.
    """
    return _policy(WEBHOOK, namespace, "webhook", {"ports": [_tcp(WEBHOOK_PORT), _tcp(EXTENDER_PORT)]})


def service_monitor(chosen: ServiceMonitor, namespace: str) -> Object:
    """Return the ServiceMonitor. All replicas have metrics; the leader's are not zero."""
    about = metadata(DAEMON, namespace, "daemon")
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {**about, "labels": {**chosen.labels, **about["labels"]}},
        "spec": {
            "selector": {"matchLabels": labels("daemon")},
            "endpoints": [{"port": "metrics", "interval": chosen.interval}],
        },
    }


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


def prometheus_rule(chosen: PrometheusRule, namespace: str) -> Object:
    """Return our alerts for the Prometheus Operator; for others, they are in deploy/prometheus."""
    about = metadata(DAEMON, namespace, "daemon")
    about["labels"] = {**chosen.labels, **about["labels"]}
    text = (resources.files("rescheduler.install") / "alerts.yaml").read_text(encoding="utf-8")
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": about,
        "spec": yaml.safe_load(text),
    }


def install_manifests(
    options: Options = Options(),  # noqa: B008 - frozen
    *,
    namespace: str = NAMESPACE,
    configuration: str | None = None,
    create_namespace: bool = False,
) -> list[Object]:
    """Return all objects; `configuration` is the content of a file that replaces `options.args`."""
    text = configuration_text(options) if configuration is None else configuration
    found = [
        *_admission_policies(options, namespace),
        *daemon_objects(options, namespace, text),
        *((web_service(namespace),) if _serves_page(options) else ()),
        *(webhook_objects(options, namespace, text) if options.webhook.enabled else ()),
        *_network_policies(options, namespace),
        *([service_monitor(options.service_monitor, namespace)] if options.service_monitor.enabled else ()),
        *([prometheus_rule(options.prometheus_rule, namespace)] if options.prometheus_rule.enabled else ()),
    ]
    return [
        *((_namespace(namespace),) if create_namespace else ()),
        podmigration_crd(),
        *(_without_empty_fields(with_install_id(each, namespace)) for each in found),
    ]


def _network_policies(options: Options, namespace: str) -> list[Object]:
    chosen = options.network_policies
    if not chosen.enabled:
        return []
    return [
        daemon_network_policy(chosen, namespace),
        *((web_network_policy(chosen, namespace),) if _serves_page(options) else ()),
        *((webhook_network_policy(namespace),) if options.webhook.enabled else ()),
    ]


def _serves_page(options: Options) -> bool:
    """Return whether the page is reached by a Service, and not only by `kubectl port-forward`."""
    return bool(options.web.enabled and options.web.tls_secret)


def _admission_policies(options: Options, namespace: str) -> list[Object]:
    chosen = options.admission_policies
    if not chosen.enabled:
        return []
    return [
        *daemon_policies(chosen, namespace),
        *(webhook_policies(chosen, namespace) if options.webhook.enabled else ()),
    ]


def _namespace(name: str) -> Object:
    """Return the namespace, without anything that would change a namespace that exists already.

    `kubectl apply` has no option to only create. So a Pod Security Standard is not enforced here: it would
    apply to every other pod in an existing namespace.
    """
    return with_install_id({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(name)}, name)


def _without_empty_fields(item: Object) -> Object:
    """Return a Deployment without the fields of its pods that are empty."""
    if item["kind"] != "Deployment":
        return item
    template = item["spec"]["template"]
    spec = {**template["spec"], "affinity": _filled(template["spec"]["affinity"])}
    filled = {**template, "metadata": _filled(template["metadata"]), "spec": _filled(spec)}
    return {**item, "spec": {**item["spec"], "template": filled}}


def _filled(fields: Object) -> Object:
    return {name: value for name, value in fields.items() if value not in ("", [], {})}


_YAML_WIDTH = 10_000
"""Wide enough to break no line: chart placeholders and long descriptions must stay on one line."""


class ReadableDumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - of all
        """Repeat values: readers of manifests should not have to look up anchors."""
        return True


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


ReadableDumper.add_representer(str, _represent_text)


def as_yaml(*items: object) -> str:
    """Return the objects as YAML documents."""
    return yaml.dump_all(items, Dumper=ReadableDumper, sort_keys=False, allow_unicode=True, width=_YAML_WIDTH)


# -- the configuration of a kube-scheduler that uses our extender
#
# Extenders belong to a scheduler's process, not to one of its profiles: the extender is called for every pod
# that the process schedules, whatever its `schedulerName`. To steer only some pods, run a separate scheduler
# for them.

EXTENDER_PROFILE: Final = "rescheduler-scheduler"
"""The `schedulerName` of pods that use this profile."""

_DEFAULT_PROFILE: Final = "default-scheduler"
_FOLDER: Final = "/etc/kubernetes/rescheduler"
_SCORE_WEIGHT: Final = 2
"""Makes our ten points count as much as the preferred node affinity of weight 100 that the webhook adds."""


class SchedulerProfiles(StrEnum):
    BESIDE = "beside"
    """For the scheduler of the cluster: the default profile stays, and ours is added."""
    INSTEAD = "instead"
    """For a second scheduler, which schedules only pods that name it."""


def scheduler_configuration(
    profiles: SchedulerProfiles = SchedulerProfiles.BESIDE,
    *,
    namespace: str = NAMESPACE,
    service: str = WEBHOOK,
    folder: str = _FOLDER,
) -> dict[str, Any]:
    """Return the configuration; `folder` is where the scheduler finds its certificates."""
    names = (
        [EXTENDER_PROFILE] if profiles is SchedulerProfiles.INSTEAD else [_DEFAULT_PROFILE, EXTENDER_PROFILE]
    )
    host = f"{service}.{namespace}.svc"
    configuration: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": name} for name in names],
        "extenders": [
            {
                "urlPrefix": f"https://{host}:{EXTENDER_PORT}/extender",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "weight": _SCORE_WEIGHT,
                # If the extender fails or is slow, pods are scheduled as usual.
                "ignorable": True,
                "httpTimeout": "1s",
                "nodeCacheCapable": True,
                "enableHTTPS": True,
                "tlsConfig": {
                    "serverName": host,
                    "caFile": f"{folder}/ca.crt",
                    "certFile": f"{folder}/client.crt",
                    "keyFile": f"{folder}/client.key",
                },
            }
        ],
    }
    if profiles is SchedulerProfiles.INSTEAD:
        # Two schedulers must not compete for one Lease.
        configuration["leaderElection"] = {"leaderElect": True, "resourceName": EXTENDER_PROFILE}
    return configuration
