"""The admission policies for the service account of the webhook.

The webhook may write its certificates, `caBundle`, and the path of its reviews. It may request one kind of
move, and the daemon checks everything about it again.
"""

from typing import Final

from rescheduler.api.podmigration import EVICTION
from rescheduler.api.well_known_names import GROUP, VERSION
from rescheduler.install.admission_policies import (
    METADATA_VARIABLES,
    OBJECT_VARIABLES,
    AdmissionPolicy,
    PolicyRequirement,
    metadata_unchanged_except,
    new_and_old,
    policy_objects,
    unchanged_except,
)
from rescheduler.install.install_options import AdmissionPolicies
from rescheduler.install.object_metadata import WEBHOOK
from rescheduler.kube.api_resources import Object
from rescheduler.steering.webhook.eviction_decision import eviction_migration_name
from rescheduler.steering.webhook.webhook_configurations import EVICTION_PATH

__all__ = ["WEBHOOK_POLICIES", "webhook_policies"]

_CA_BUNDLE_AND_PATH_ONLY: Final = (
    unchanged_except("dyn(w)", "dyn(o)", "k == 'clientConfig'")
    + " && "
    + unchanged_except("dyn(w.clientConfig)", "dyn(o.clientConfig)", "k in ['caBundle', 'service', 'url']")
    + " && has(w.clientConfig.url) == has(o.clientConfig.url) && (!has(w.clientConfig.url) || "
    + " == ".join(f"{each}.clientConfig.url.split('{EVICTION_PATH}')[0]" for each in ("w", "o"))
    + ") && has(w.clientConfig.service) == has(o.clientConfig.service)"
    + " && (!has(w.clientConfig.service) || ("
    + unchanged_except("dyn(w.clientConfig.service)", "dyn(o.clientConfig.service)", "k == 'path'")
    + "))"
)

_METADATA_OF_REQUEST: Final = ("labels", "annotations", "ownerReferences", "finalizers")

WEBHOOK_POLICIES: Final = (
    AdmissionPolicy(
        "update-registrations",
        "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        ("UPDATE",),
        (
            # Otherwise the account could send every request of every user to an address of its choice.
            PolicyRequirement(
                "Of a webhook, only caBundle and the path may change.",
                "variables.webhooks.size() == variables.oldWebhooks.size()"
                f" && variables.webhooks.all(w, variables.oldWebhooks.exists(o, {_CA_BUNDLE_AND_PATH_ONLY}))",
            ),
            metadata_unchanged_except(),
        ),
        (*METADATA_VARIABLES, *new_and_old("webhooks", "oldWebhooks", "webhooks", "[]")),
    ),
    AdmissionPolicy(
        "update-secrets",
        "",
        ("secrets",),
        ("UPDATE",),
        (
            # A missing owner would delete the Secret, and an immutable Secret can't be renewed.
            PolicyRequirement(
                "Besides metadata, only data may change.",
                unchanged_except("variables.whole", "variables.oldWhole", "k in ['metadata', 'data']"),
            ),
            metadata_unchanged_except(),
        ),
        (*METADATA_VARIABLES, *OBJECT_VARIABLES),
    ),
    AdmissionPolicy(
        "create-podmigrations",
        GROUP,
        ("podmigrations",),
        ("CREATE",),
        (
            PolicyRequirement(
                f"Only the strategy {EVICTION} may be requested, once per pod: the name contains its uid.",
                f"object.spec.strategy == '{EVICTION}'"
                f" && object.metadata.name == '{eviction_migration_name('')}' + object.spec.pod.uid",
            ),
            PolicyRequirement(
                "The handover must be Adopt or Copy, so that no pod is evicted before its copy is ready.",
                "object.spec.handover in ['Adopt', 'Copy']",
            ),
            PolicyRequirement(
                "No target node, no group and no room for other pods may be requested.",
                "!has(object.spec.rooms) && "
                + " && ".join(
                    f"(!has(object.spec.{field}) || object.spec.{field} == {empty})"
                    for field, empty in (("targetNode", "''"), ("group", "''"), ("groupSize", "0"))
                ),
            ),
            PolicyRequirement(
                f"No {', '.join(_METADATA_OF_REQUEST)} may be set.",
                " && ".join(f"!has(object.metadata.{each})" for each in _METADATA_OF_REQUEST),
            ),
        ),
        version=VERSION,
    ),
)


def webhook_policies(options: AdmissionPolicies, namespace: str) -> list[Object]:
    """Return the policies for the webhook's service account, with their bindings."""
    return policy_objects(WEBHOOK_POLICIES, options, account=WEBHOOK, namespace=namespace)
