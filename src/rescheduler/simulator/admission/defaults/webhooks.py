"""Defaults of webhook configurations."""

from rescheduler.simulator.admission.defaults.filling import Circumstances, fill
from rescheduler.simulator.exchange import Object

__all__ = ["fill_webhook_configuration"]


def fill_webhook_configuration(configuration: Object, about: Circumstances) -> None:
    for webhook in configuration.get("webhooks", ()):
        if about.kind.name == "MutatingWebhookConfiguration":
            fill(webhook, reinvocationPolicy="Never")
        fill(
            webhook,
            failurePolicy="Fail",
            matchPolicy="Equivalent",
            namespaceSelector={},
            objectSelector={},
            timeoutSeconds=10,
        )
        for rule in webhook.get("rules", ()):
            fill(rule, scope="*")
        if "service" in webhook.get("clientConfig", {}):
            fill(webhook["clientConfig"]["service"], port=443)
