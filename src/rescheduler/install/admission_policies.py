"""ValidatingAdmissionPolicies that restrict our ServiceAccounts to what they need.

RBAC grants verbs on kinds: who may patch a Deployment for an annotation may also patch its template. These
policies close that gap. They apply only to requests of our own ServiceAccounts, so they can't affect other
users, and they fail closed: a request that can't be evaluated is refused.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rescheduler.install.names import DAEMON, WEBHOOK, metadata
from rescheduler.install.options import AdmissionPolicies
from rescheduler.kube.resources import Object

__all__ = ["SYSTEM_ALLOWED", "AdmissionPolicy", "Rule", "policy_objects", "user_name"]

API_VERSION: Final = "admissionregistration.k8s.io/v1"
_COMPONENTS: Final = {DAEMON: "daemon", WEBHOOK: "webhook"}

SYSTEM_ALLOWED: Final = "⟨systemNamespaces⟩"
"""In an expression, stands for the option of that name: `true` or `false`."""


class Rule(NamedTuple):
    requirement: str
    """What the request must fulfil, as a sentence: the server returns it with the refusal."""
    expression: str
    """The same in CEL."""


class AdmissionPolicy(NamedTuple):
    name: str
    group: str
    resources: tuple[str, ...]
    operations: tuple[str, ...]
    rules: tuple[Rule, ...]
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
            _object("ValidatingAdmissionPolicy", about, _specified(policy, options, condition)),
            _object("ValidatingAdmissionPolicyBinding", about, binding),
        ]
    return found


def _object(kind: str, about: Object, spec: Object) -> Object:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": about, "spec": spec}


def _specified(policy: AdmissionPolicy, options: AdmissionPolicies, condition: str) -> Object:
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
