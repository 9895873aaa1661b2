"""The webhook, which is the scheduler's extender too: what tells replacements where to go.

Its registration and its certificates are not among these objects: it makes and renews them itself.
"""

from rescheduler.install.names import EXTENDER_PORT, WEBHOOK, WEBHOOK_PORT, labels, metadata
from rescheduler.install.options import Options
from rescheduler.install.pods import Program, deployment, disruption_budget
from rescheduler.install.roles import webhook_roles
from rescheduler.kube.resources import Object

__all__ = ["EXTENDER_ONLY", "webhook_objects"]

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
    ]
