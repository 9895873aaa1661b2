"""Check through the API server whether the webhook answers.

A registration proves nothing: the process can be dead, its certificate expired, or the network down, and
API servers continue without it. So a pod is created as a dry run, which the webhook denies with its own
reason. If the pod is admitted, or denied for another reason, the webhook did not answer.
"""

from typing import Any, Final

from rescheduler.api.well_known_names import (
    API_VERSION,
    GUARD_WEBHOOK,
    POD_MIGRATION_KIND,
    PROBE_ANSWERED,
    PROBE_LABEL,
    SCHEDULING_GATE,
    STEERING_WEBHOOK,
)
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.cluster_kinds import WebhookProbeResult
from rescheduler.cluster.sources.live_source import gather_all
from rescheduler.kube import errors
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS
from rescheduler.kube.client import Client

__all__ = [
    "NO_WEBHOOK_REGISTERED",
    "WEBHOOK_LABEL_SELECTOR",
    "probe_pod",
    "probe_webhook",
    "probe_webhook_if_registered",
]

WEBHOOK_LABEL_SELECTOR: Final = "app.kubernetes.io/name=rescheduler"
"""A label selector: each installation has a registration of its own, and any of them serves all."""
NO_WEBHOOK_REGISTERED: Final = "no webhook is registered"


async def probe_webhook_if_registered(client: Client, namespace: str = "default") -> WebhookProbeResult:
    """Probe the webhook if it is registered. Raises `KubeError` if the server does not answer."""
    try:
        found = (await client.list(MUTATING_WEBHOOKS, labels=WEBHOOK_LABEL_SELECTOR)).items
    except (errors.Forbidden, errors.NotFound) as error:
        return WebhookProbeResult(problem=f"can't determine whether the webhook is registered: {error.why}")
    if not found:
        return WebhookProbeResult(False, False, NO_WEBHOOK_REGISTERED)
    return await probe_webhook(client, namespace)


async def probe_webhook(client: Client, namespace: str) -> WebhookProbeResult:
    """Return whether API servers reach it for new pods of that namespace. Raises no `KubeError`."""
    steering, guard = await gather_all(
        [_probe(client, namespace, name) for name in (STEERING_WEBHOOK, GUARD_WEBHOOK)]
    )
    problem = "; ".join(dict.fromkeys(each for each in (steering[1], guard[1]) if each))
    return WebhookProbeResult(steering[0], guard[0], problem)


async def _probe(client: Client, namespace: str, webhook: str) -> tuple[bool | None, str]:
    try:
        await client.create(PODS.as_json, probe_pod(namespace, webhook), dry_run=True)
    except errors.Forbidden as refusal:
        if refusal.status.reason == PROBE_ANSWERED:
            return True, ""
        if "cannot create resource" in refusal.why:
            return None, f"probing the webhook needs permission to create pods in namespace {namespace}"
        # What only validates is asked last: others may have refused before it. What changes pods is asked
        # before all who refuse, except for permissions.
        is_unknown = webhook == GUARD_WEBHOOK
        return (None if is_unknown else False), f"the probe of webhook {webhook} was denied: {refusal.why}"
    except errors.KubeError as error:
        return None, f"webhook {webhook} can't be probed: {error.why}"
    return False, f"the API server does not call webhook {webhook}, or it does not answer in time"


def probe_pod(namespace: str, webhook: str) -> dict[str, Any]:
    """Return a pod that no admission policy refuses. It is never created, and could not start if it were."""
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
                    "kind": POD_MIGRATION_KIND,
                    "name": "rescheduler-webhook-probe",
                    "uid": "00000000-0000-0000-0000-000000000000",
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": {
            "schedulingGates": [{"name": SCHEDULING_GATE}],
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
