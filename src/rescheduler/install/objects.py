"""Everything that is installed, in an order in which it can be applied."""

from rescheduler.install.account_policies import daemon_policies, webhook_policies
from rescheduler.install.daemon import configuration_text, daemon_objects
from rescheduler.install.names import NAMESPACE, identified, metadata
from rescheduler.install.network_policies import daemon_network_policy, webhook_network_policy
from rescheduler.install.options import Options
from rescheduler.install.webhook import webhook_objects
from rescheduler.kube.resources import Object
from rescheduler.migrations.definition import definition

__all__ = ["installed"]


def installed(
    options: Options = Options(),  # noqa: B008 - frozen
    *,
    namespace: str = NAMESPACE,
    configuration: str | None = None,
    create_namespace: bool = False,
) -> list[Object]:
    """`configuration` is the content of a configuration file, in place of what `options.args` say."""
    text = configuration_text(options) if configuration is None else configuration
    found = [
        *_policies(options, namespace),
        *daemon_objects(options, namespace, text),
        *(webhook_objects(options, namespace) if options.webhook.enabled else ()),
        *_network_policies(options, namespace),
    ]
    return [
        *((_namespace(namespace),) if create_namespace else ()),
        definition(),
        *(_without_empty(identified(each, namespace)) for each in found),
    ]


def _network_policies(options: Options, namespace: str) -> list[Object]:
    chosen = options.network_policies
    if not chosen.enabled:
        return []
    webhook = [webhook_network_policy(namespace)] if options.webhook.enabled else []
    return [daemon_network_policy(chosen, namespace), *webhook]


def _policies(options: Options, namespace: str) -> list[Object]:
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
    return identified({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(name)}, name)


def _without_empty(item: Object) -> Object:
    """What nobody has chosen is not said at all."""
    if item["kind"] != "Deployment":
        return item
    spec = item["spec"]["template"]["spec"]
    chosen = {name: value for name, value in spec.items() if value not in ("", [], {})}
    template = {**item["spec"]["template"], "spec": chosen}
    return {**item, "spec": {**item["spec"], "template": template}}
