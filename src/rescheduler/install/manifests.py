"""All installed objects, in an order in which they can be applied, and their YAML.

NetworkPolicies close the ports that nothing needs. They don't restrict outgoing connections: a policy can't
name the API server or Prometheus in every cluster, and RBAC limits what our pods may do.
"""

import yaml

from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.install.account_policies import daemon_policies
from rescheduler.install.component_manifests import configuration_text, daemon_objects, webhook_objects
from rescheduler.install.install_options import NetworkPolicies, Options
from rescheduler.install.object_metadata import (
    DAEMON,
    EXTENDER_PORT,
    HEALTH_PORT,
    NAMESPACE,
    WEBHOOK,
    WEBHOOK_PORT,
    labels,
    metadata,
    with_install_id,
)
from rescheduler.install.webhook_policies import webhook_policies
from rescheduler.kube.api_resources import Object

__all__ = [
    "ReadableDumper",
    "as_yaml",
    "daemon_network_policy",
    "install_manifests",
    "webhook_network_policy",
]


def daemon_network_policy(chosen: NetworkPolicies, namespace: str) -> Object:
    """Open the port for health and metrics; network plugins allow kubelets to connect from the pod's node."""
    rule: Object = {"ports": [_tcp(HEALTH_PORT)]}
    if chosen.metrics_from:
        rule["from"] = chosen.metrics_from
    return _policy(DAEMON, namespace, "daemon", rule)


def webhook_network_policy(namespace: str) -> Object:
    """Open both ports for all: API servers and schedulers often run outside the pod network.

    Schedulers need a client certificate.
    """
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
        *(webhook_objects(options, namespace, text) if options.webhook.enabled else ()),
        *_network_policies(options, namespace),
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
    webhook = [webhook_network_policy(namespace)] if options.webhook.enabled else []
    return [daemon_network_policy(chosen, namespace), *webhook]


def _admission_policies(options: Options, namespace: str) -> list[Object]:
    chosen = options.admission_policies
    if not chosen.enabled:
        return []
    return [
        *daemon_policies(chosen, namespace),
        *(webhook_policies(chosen, namespace) if options.webhook.enabled else ()),
    ]


def _namespace(name: str) -> Object:
    """Return the namespace, without anything that would change a namespace that is there already.

    `kubectl apply` can't be told to create only. So a Pod Security Standard is not enforced here: it would
    apply to every other pod in an existing namespace.
    """
    return with_install_id({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(name)}, name)


def _without_empty_fields(item: Object) -> Object:
    """Return a Deployment without the pod fields that are empty."""
    if item["kind"] != "Deployment":
        return item
    spec = item["spec"]["template"]["spec"]
    chosen = {name: value for name, value in spec.items() if value not in ("", [], {})}
    template = {**item["spec"]["template"], "spec": chosen}
    return {**item, "spec": {**item["spec"], "template": template}}


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
