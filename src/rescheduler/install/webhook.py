"""The webhook, which is the scheduler's extender too: what tells replacements where to go.

Its registrations and the Secret for its certificates are installed, too: the program writes certificates and
`caBundle` into them, and may create or delete neither. They come without, so that applying them again leaves
what is there.
"""

from rescheduler.install.names import EXTENDER_PORT, WEBHOOK, WEBHOOK_PORT, labels, metadata
from rescheduler.install.options import Options
from rescheduler.install.pods import Program, deployment, disruption_budget
from rescheduler.install.roles import webhook_roles
from rescheduler.kube.resources import Object
from rescheduler.model.webhook_registration import SECRET, InService, registrations

__all__ = ["EXTENDER_ONLY", "certificate_secret", "webhook_objects"]

EXTENDER_ONLY = "--extender-only"
_COMPONENT = "webhook"
_EXTENDER = "extender"


def webhook_objects(options: Options, namespace: str) -> list[Object]:
    program = Program(
        name=WEBHOOK,
        component=_COMPONENT,
        command=(
            "webhook",
            f"--service={WEBHOOK}",
            f"--port={WEBHOOK_PORT}",
            f"--extender-port={EXTENDER_PORT}",
            *((EXTENDER_ONLY,) if options.webhook.extender_only else ()),
        ),
        port=WEBHOOK_PORT,
        port_name="https",
        scheme="HTTPS",
        more_ports=((_EXTENDER, EXTENDER_PORT),),
        replicas=options.webhook.replicas,
        resources=options.webhook.resources,
    )
    return [
        *webhook_roles(namespace),
        certificate_secret(namespace),
        deployment(program, options, namespace),
        disruption_budget(program, namespace),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(WEBHOOK, namespace, _COMPONENT),
            "spec": {
                "selector": labels(_COMPONENT),
                "ports": [
                    {"name": "https", "port": 443, "targetPort": "https"},
                    {"name": _EXTENDER, "port": EXTENDER_PORT, "targetPort": _EXTENDER},
                ],
            },
        },
        *(() if options.webhook.extender_only is True else _registrations(namespace)),
    ]


def certificate_secret(namespace: str) -> Object:
    """Without data, and without a type: neither is touched when it is applied again."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata(SECRET, namespace, _COMPONENT)}


def _registrations(namespace: str) -> list[Object]:
    found = registrations(InService(namespace, WEBHOOK))
    return [{**each, "metadata": metadata(each["metadata"]["name"], "", _COMPONENT)} for each in found]
