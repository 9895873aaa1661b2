"""ValidatingAdmissionPolicies that restrict our service accounts, and the CEL expressions they share.

RBAC grants verbs on kinds: an account that may patch an annotation of a Deployment may also patch its
template. The policies close that gap. They apply only to requests from our own service accounts, so they
can't affect other users, and they fail closed: a request that can't be evaluated is rejected.

The policies for the daemon are in `account_policies`. Those for the webhook are here: it may write its
certificates, `caBundle`, the path of its reviews, the turns of evictions, and Events. It may request one kind
of move, and the daemon checks everything about it again.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rescheduler.api.podmigration import EVICTION
from rescheduler.api.well_known_names import GROUP, POD_MIGRATION_KIND, VERSION
from rescheduler.install.install_options import DAEMON, PRODUCT, WEBHOOK, AdmissionPolicies, metadata
from rescheduler.kube.api_resources import Object
from rescheduler.kube.client import FIELD_MANAGER
from rescheduler.steering.webhook.eviction_decision import eviction_migration_name
from rescheduler.steering.webhook.webhook_configurations import EVICTION_PATH

__all__ = [
    "BUDGET_OF_ONE_WORKLOAD",
    "METADATA_VARIABLES",
    "OBJECT_VARIABLES",
    "OWN_PREFIX",
    "STATUS_VARIABLES",
    "SYSTEM_ALLOWED",
    "WEBHOOK_POLICIES",
    "AdmissionPolicy",
    "PolicyRequirement",
    "any_of",
    "is_controller",
    "is_migration",
    "is_owned_by_migration",
    "listed",
    "metadata_unchanged_except",
    "new_and_old",
    "or_empty",
    "own_event",
    "policy_objects",
    "unchanged_except",
    "user_name",
    "webhook_policies",
]

API_VERSION: Final = "admissionregistration.k8s.io/v1"
_COMPONENTS: Final = {DAEMON: "daemon", WEBHOOK: "webhook"}

SYSTEM_ALLOWED: Final = "⟨systemNamespaces⟩"
"""Placeholder in an expression for the option `systemNamespaces`: `true` or `false`."""


class PolicyRequirement(NamedTuple):
    requirement: str
    """The requirement as a sentence, which the server returns when it rejects a request."""
    expression: str
    """The same in CEL."""


class AdmissionPolicy(NamedTuple):
    name: str
    group: str
    resources: tuple[str, ...]
    operations: tuple[str, ...]
    rules: tuple[PolicyRequirement, ...]
    variables: tuple[tuple[str, str], ...] = ()
    version: str = "v1"


def user_name(account: str, namespace: str) -> str:
    return f"system:serviceaccount:{namespace}:{account}"


def policy_objects(
    policies: Sequence[AdmissionPolicy], options: AdmissionPolicies, *, account: str, namespace: str
) -> list[Object]:
    """Return each policy with its binding."""
    condition = f"request.userInfo.username == '{user_name(account, namespace)}'"
    objects: list[Object] = []
    for policy in policies:
        about = metadata(f"{account}-{policy.name}", component=_COMPONENTS[account])
        binding = {"policyName": about["name"], "validationActions": ["Deny"]}
        objects += [
            _object("ValidatingAdmissionPolicy", about, _policy_spec(policy, options, condition)),
            _object("ValidatingAdmissionPolicyBinding", about, binding),
        ]
    return objects


def _object(kind: str, about: Object, spec: Object) -> Object:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": about, "spec": spec}


def _policy_spec(policy: AdmissionPolicy, options: AdmissionPolicies, condition: str) -> Object:
    # In the chart, the option is a placeholder for a value that Helm prints as CEL writes it.
    chosen = str(options.system_namespaces)
    system_allowed = chosen.lower() if chosen in {"True", "False"} else chosen
    rule = {
        "apiGroups": [policy.group],
        # Not "*", which would turn off the server's type check of the expressions.
        "apiVersions": [policy.version],
        "operations": list(policy.operations),
        "resources": list(policy.resources),
    }
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "requested-by-our-account", "expression": condition}],
    }
    if policy.variables:
        spec["variables"] = [{"name": name, "expression": text} for name, text in policy.variables]
    spec["validations"] = [
        {
            "expression": each.expression.replace(SYSTEM_ALLOWED, system_allowed),
            "message": each.requirement,
            "reason": "Forbidden",
        }
        for each in policy.rules
    ]
    return spec


OWN_PREFIX: Final = f"{GROUP}/"


def any_of(*expressions: str) -> str:
    return " || ".join(f"({each})" for each in expressions)


def listed(names: tuple[str, ...]) -> str:
    return f"[{', '.join(repr(name) for name in names)}]"


def or_empty(path: str, empty: str) -> str:
    """Return the field or an empty value; `dyn` lets CEL iterate over the fields of an object."""
    return f"has({path}) ? dyn({path}) : dyn({empty})"


def unchanged_except(new: str, old: str, allowed: str) -> str:
    """Return an expression that holds if the maps differ only in keys `k` for which `allowed` holds."""
    return (
        f"{new}.all(k, {allowed} || (k in {old} && {new}[k] == {old}[k]))"
        f" && {old}.all(k, {allowed} || k in {new})"
    )


def is_migration(reference: str) -> str:
    return (
        f"({reference}.kind == '{POD_MIGRATION_KIND}' && {reference}.apiVersion.startsWith('{OWN_PREFIX}'))"
    )


def is_controller(reference: str) -> str:
    return f"(has({reference}.controller) && {reference}.controller)"


def is_owned_by_migration(item: str) -> str:
    owned = f"o, {is_migration('o')} && {is_controller('o')}"
    return f"has({item}.metadata.ownerReferences) && {item}.metadata.ownerReferences.exists({owned})"


BUDGET_OF_ONE_WORKLOAD: Final = PolicyRequirement(
    "A budget must select pods and allow one disruption; others could block every eviction.",
    "has(object.spec.maxUnavailable) && string(object.spec.maxUnavailable) == '1' && "
    "has(object.spec.selector) && "
    "(object.spec.selector.?matchLabels.orValue({}).size() > 0 || "
    "object.spec.selector.?matchExpressions.orValue([]).size() > 0)",
)

_SERVER_FIELDS: Final = ("managedFields", "resourceVersion", "generation")
"""Metadata fields that the server itself changes with every write."""


def new_and_old(new: str, old: str, field: str, empty: str = "{}") -> tuple[tuple[str, str], ...]:
    """Return the variables `new` and `old`: the field of both objects, or an empty value if it is not set."""
    return (new, or_empty(f"object.{field}", empty)), (old, or_empty(f"oldObject.{field}", empty))


METADATA_VARIABLES: Final = (
    ("newMetadata", "dyn(object.metadata)"),
    ("oldMetadata", "dyn(oldObject.metadata)"),
    *new_and_old("managers", "oldManagers", "metadata.managedFields", "[]"),
    *new_and_old("newLabels", "oldLabels", "metadata.labels"),
    *new_and_old("newAnnotations", "oldAnnotations", "metadata.annotations"),
)
STATUS_VARIABLES: Final = new_and_old("newStatus", "oldStatus", "status")
OBJECT_VARIABLES: Final = (("whole", "dyn(object)"), ("oldWhole", "dyn(oldObject)"))


_MANAGERS: Final = (FIELD_MANAGER, "ancient-changes", "before-first-apply", "unknown")
"""Our clients, and names that the server itself gives to entries of `managedFields`."""
_NO_FOREIGN_MANAGER: Final = (
    f"variables.managers.all(n, n.?manager.orValue('') in {listed(_MANAGERS)}"
    " || variables.oldManagers.exists(o, o.?manager.orValue('') == n.?manager.orValue('')))"
)


def metadata_unchanged_except(*fields: str) -> PolicyRequirement:
    """Return the requirement that only these metadata fields may change, and under no other client's name.

    `managedFields` says who wrote what, but a client chooses the name itself, and may write the whole field.
    """
    allowed = f"k in {listed((*fields, *_SERVER_FIELDS))}"
    which = f"In the metadata, only {', '.join(fields)} may change" if fields else "No metadata may change"
    return PolicyRequirement(
        f"{which}, and no field manager other than {FIELD_MANAGER} may be added.",
        unchanged_except("variables.newMetadata", "variables.oldMetadata", allowed)
        + f" && {_NO_FOREIGN_MANAGER}",
    )


def own_event(item: str, done: str) -> PolicyRequirement:
    return PolicyRequirement(
        f"Only Events whose source is {PRODUCT} may be {done}.",
        # `dyn`: events.k8s.io, which the server checks too, has another name for the field.
        f"has(dyn({item}).source) && has(dyn({item}).source.component)"
        f" && dyn({item}).source.component == '{PRODUCT}'",
    )


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
                "In a webhook, only caBundle and the path may change.",
                "variables.webhooks.size() == variables.oldWebhooks.size()"
                f" && variables.webhooks.all(w, variables.oldWebhooks.exists(o, {_CA_BUNDLE_AND_PATH_ONLY}))",
            ),
            metadata_unchanged_except(),
        ),
        (*METADATA_VARIABLES, *new_and_old("webhooks", "oldWebhooks", "webhooks", "[]")),
    ),
    *(
        AdmissionPolicy(
            f"update-{resource}",
            "",
            (resource,),
            ("UPDATE",),
            (
                # A missing owner would delete the object, and an immutable one can't be written again.
                PolicyRequirement(
                    "Besides metadata, only data may change.",
                    unchanged_except("variables.whole", "variables.oldWhole", "k in ['metadata', 'data']"),
                ),
                metadata_unchanged_except(),
            ),
            (*METADATA_VARIABLES, *OBJECT_VARIABLES),
        )
        for resource in ("secrets", "configmaps")
    ),
    AdmissionPolicy("create-events", "", ("events",), ("CREATE",), (own_event("object", "created"),)),
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
