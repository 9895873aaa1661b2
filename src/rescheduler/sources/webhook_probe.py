"""Whether our webhook answers, asked in the only way that proves it: through the API server.

A registration proves nothing: the process behind it may be dead, its certificate expired, the network cut;
and since API servers go on without it, nobody would notice. So a pod is created as a dry run that the webhook
denies with a reason of its own. If it is admitted, or refused for any other reason, nobody answered.
"""

from typing import Any, Final

from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.resources import MUTATING_WEBHOOKS, PODS
from rescheduler.model.migrations import API_VERSION, KIND
from rescheduler.model.webhook_registration import (
    GUARD,
    PROBE_ANSWERED,
    PROBE_LABEL,
    STEERING,
    WebhookAnswers,
)
from rescheduler.sources.together import together

__all__ = ["NOT_REGISTERED", "REGISTRATION", "probe_pod", "probe_webhook", "webhook_answers"]

REGISTRATION: Final = "app.kubernetes.io/name=rescheduler"
"""A label selector: each installation has a registration of its own, and any of them serves all."""
NOT_REGISTERED: Final = "no webhook is registered"

_GATE: Final = "rescheduler.dev/nominate"
"""As every pod has it that the daemon creates."""


async def webhook_answers(client: Client, namespace: str = "default") -> WebhookAnswers:
    """The answers to probes, if there is a registration. Raises `KubeError` if the server does not answer."""
    try:
        found = (await client.list(MUTATING_WEBHOOKS, labels=REGISTRATION)).items
    except (errors.Forbidden, errors.NotFound) as error:
        return WebhookAnswers(problem=f"it is not known whether the webhook is registered: {error.why}")
    if not found:
        return WebhookAnswers(False, False, NOT_REGISTERED)
    return await probe_webhook(client, namespace)


async def probe_webhook(client: Client, namespace: str) -> WebhookAnswers:
    """Whether API servers reach it for new pods of that namespace. Raises no `KubeError`."""
    steering, guard = await together([_probe(client, namespace, name) for name in (STEERING, GUARD)])
    problem = "; ".join(each for each in (steering[1], guard[1]) if each)
    return WebhookAnswers(steering[0], guard[0], problem)


async def _probe(client: Client, namespace: str, webhook: str) -> tuple[bool | None, str]:
    try:
        await client.create(PODS.as_json, probe_pod(namespace, webhook), dry_run=True)
    except errors.Forbidden as refusal:
        if refusal.status.reason == PROBE_ANSWERED:
            return True, ""
        # What only validates is asked last: others may have refused before it. What changes pods is asked
        # before all who refuse, except for permissions.
        is_unknown = webhook == GUARD or "cannot create resource" in refusal.why
        return (None if is_unknown else False), f"the probe of webhook {webhook} was refused: {refusal.why}"
    except errors.KubeError as error:
        return None, f"webhook {webhook} can't be probed: {error.why}"
    return False, f"webhook {webhook} is not called by the API server, or does not answer in time"


def probe_pod(namespace: str, webhook: str) -> dict[str, Any]:
    """What no admission policy has anything against. It is never created, and could not start if it were."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": namespace,
            "name": "rescheduler-webhook-probe",
            "labels": {PROBE_LABEL: webhook},
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": KIND,
                    "name": "rescheduler-webhook-probe",
                    "uid": "00000000-0000-0000-0000-000000000000",
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": {
            "schedulingGates": [{"name": _GATE}],
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "probe",
                    "image": "rescheduler.invalid/probe",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
