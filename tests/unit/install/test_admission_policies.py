"""Which admission policies are installed. What they refuse is tested on a real API server."""

import pytest
import yaml
from click.testing import CliRunner

from rescheduler.cli import main
from rescheduler.install.account_policies import DAEMON_POLICIES
from rescheduler.install.admission_policies import WEBHOOK_POLICIES
from rescheduler.install.install_options import AdmissionPolicies, Options, WebhookValues
from rescheduler.install.manifests import install_manifests
from rescheduler.install.rbac import DAEMON_CLUSTER_GRANTS, DAEMON_NAMESPACE_GRANTS

OPERATIONS = {"create": "CREATE", "patch": "UPDATE", "update": "UPDATE", "delete": "DELETE"}
UNRESTRICTED = {
    ("podmigrations", "CREATE"),
    ("podmigrations", "UPDATE"),
    ("podmigrations", "DELETE"),
    ("podmigrations/status", "UPDATE"),
    ("tokenreviews", "CREATE"),
    ("subjectaccessreviews", "CREATE"),
}
"""Its own kind, and questions, which create nothing."""


def policies(options=None):
    return [
        item
        for item in install_manifests(options or Options())
        if item["kind"] == "ValidatingAdmissionPolicy"
    ]


def test_every_verb_that_changes_objects_of_others_is_restricted():
    restricted = {
        (resource, operation)
        for policy in DAEMON_POLICIES
        for resource in policy.resources
        for operation in policy.operations
    }
    granted = {
        (grant.resource, OPERATIONS[verb])
        for grant in (*DAEMON_CLUSTER_GRANTS, *DAEMON_NAMESPACE_GRANTS)
        for verb in grant.verbs
        if verb in OPERATIONS and not grant.names
    }
    assert granted - UNRESTRICTED == restricted


def test_policies_restrict_only_our_accounts():
    """A policy that can't be evaluated refuses the request."""
    for item in install_manifests(namespace="elsewhere"):
        if item["kind"] == "ValidatingAdmissionPolicy":
            ((condition),) = item["spec"]["matchConditions"]
            assert condition["expression"] in {
                "request.userInfo.username == 'system:serviceaccount:elsewhere:rescheduler'",
                "request.userInfo.username == 'system:serviceaccount:elsewhere:rescheduler-webhook'",
            }
            assert item["spec"]["failurePolicy"] == "Fail"
            assert {each["reason"] for each in item["spec"]["validations"]} == {"Forbidden"}


def test_every_policy_is_bound_and_denies():
    bound = [item for item in install_manifests() if item["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert [item["spec"] for item in bound] == [
        {"policyName": item["metadata"]["name"], "validationActions": ["Deny"]} for item in policies()
    ]
    assert len(bound) == len(DAEMON_POLICIES) + len(WEBHOOK_POLICIES)


def test_they_can_be_left_out():
    assert policies(Options(admission_policies=AdmissionPolicies(enabled=False))) == []
    printed = CliRunner().invoke(main, ["manifests", "--without-policies"])
    assert printed.exit_code == 0
    assert not [
        item
        for item in yaml.safe_load_all(printed.stdout)
        if item["kind"].startswith("ValidatingAdmissionPolicy")
    ]


def test_without_the_webhook_only_the_daemon_is_restricted():
    found = policies(Options(webhook=WebhookValues(enabled=False)))
    assert len(found) == len(DAEMON_POLICIES)


@pytest.mark.parametrize(("allowed", "written"), [(True, "true || "), (False, "false || ")])
def test_pods_in_system_namespaces_are_allowed_only_where_that_was_chosen(allowed, written):
    options = Options(admission_policies=AdmissionPolicies(system_namespaces=allowed))
    (found,) = [
        item for item in policies(options) if item["metadata"]["name"].startswith("rescheduler-create-pods")
    ]
    (rule,) = [each for each in found["spec"]["validations"] if "systemNamespaces" in each["message"]]
    assert rule["expression"].startswith(written)


def test_the_expressions_stay_within_what_the_server_accepts():
    for item in policies():
        parts = [*item["spec"]["validations"], *item["spec"].get("variables", ())]
        assert all(len(each["expression"]) < 16_384 for each in parts)
        assert all(len(each["message"]) < 1024 for each in item["spec"]["validations"])
