"""ValidatingAdmissionPolicies that restrict our ServiceAccounts to what they need.

RBAC grants verbs on kinds: who may patch a Deployment for an annotation may also patch its template. These
policies close that gap. They apply only to requests of our own ServiceAccounts, so they can't affect other
users, and they fail closed: a request that can't be evaluated is refused.

Parts of CEL expressions that several admission policies share.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rescheduler.api.well_known_names import GROUP, POD_MIGRATION_KIND
from rescheduler.install.install_options import AdmissionPolicies
from rescheduler.install.object_metadata import DAEMON, WEBHOOK, metadata
from rescheduler.kube.api_resources import Object

__all__ = [
    "OWN_PREFIX",
    "SYSTEM_ALLOWED",
    "AdmissionPolicy",
    "PolicyRequirement",
    "any_of",
    "is_controller",
    "is_migration",
    "is_owned_by_migration",
    "listed",
    "or_empty",
    "policy_objects",
    "unchanged_except",
    "user_name",
]

API_VERSION: Final = "admissionregistration.k8s.io/v1"
_COMPONENTS: Final = {DAEMON: "daemon", WEBHOOK: "webhook"}

SYSTEM_ALLOWED: Final = "⟨systemNamespaces⟩"
"""In an expression, stands for the option of that name: `true` or `false`."""


class PolicyRequirement(NamedTuple):
    requirement: str
    """What the request must fulfil, as a sentence: the server returns it with the refusal."""
    expression: str
    """The same in CEL."""


class AdmissionPolicy(NamedTuple):
    name: str
    group: str
    resources: tuple[str, ...]
    operations: tuple[str, ...]
    rules: tuple[PolicyRequirement, ...]
    variables: tuple[tuple[str, str], ...] = ()


def user_name(account: str, namespace: str) -> str:
    return f"system:serviceaccount:{namespace}:{account}"


def policy_objects(
    policies: Sequence[AdmissionPolicy], options: AdmissionPolicies, *, account: str, namespace: str
) -> list[Object]:
    """Each policy with its binding."""
    condition = f"request.userInfo.username == '{user_name(account, namespace)}'"
    found: list[Object] = []
    for policy in policies:
        about = metadata(f"{account}-{policy.name}", component=_COMPONENTS[account])
        binding = {"policyName": about["name"], "validationActions": ["Deny"]}
        found += [
            _object("ValidatingAdmissionPolicy", about, _policy_spec(policy, options, condition)),
            _object("ValidatingAdmissionPolicyBinding", about, binding),
        ]
    return found


def _object(kind: str, about: Object, spec: Object) -> Object:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": about, "spec": spec}


def _policy_spec(policy: AdmissionPolicy, options: AdmissionPolicies, condition: str) -> Object:
    # In the chart, the option is a placeholder for a value that Helm prints as CEL writes it.
    chosen = str(options.system_namespaces)
    system_allowed = chosen.lower() if chosen in {"True", "False"} else chosen
    rule = {
        "apiGroups": [policy.group],
        # Not "*", which would turn off the server's type check of the expressions.
        "apiVersions": ["v1"],
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
    """`dyn` lets CEL go through the fields of an object as if it were a map."""
    return f"has({path}) ? dyn({path}) : dyn({empty})"


def unchanged_except(new: str, old: str, allowed: str) -> str:
    """True if the maps differ only in keys `k` for which `allowed` holds."""
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
