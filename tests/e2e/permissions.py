"""Our programs use the installed service accounts, and the audit log shows what they requested.

Tests play the rest of the cluster as administrator. What is granted and never used, and what is used and not
granted, comes out at the end of the whole run (`test_permissions.py`).
"""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rescheduler.api.well_known_names import INSTALL_ID
from rescheduler.install.account_policies import daemon_policies
from rescheduler.install.admission_policies import user_name, webhook_policies
from rescheduler.install.install_options import AdmissionPolicies, with_install_id
from rescheduler.install.rbac import RbacGrant, daemon_roles, web_roles, webhook_roles
from tests.testbed import ControlPlane
from tests.testbed.run_dir import RunDir

__all__ = ["DAEMON", "WEBHOOK", "Request", "Seen", "kubeconfig_as", "unused"]

DAEMON = "rescheduler"
WEBHOOK = "rescheduler-webhook"
_ROLES = {
    DAEMON: lambda namespace: [*daemon_roles(namespace), *web_roles(namespace)],
    WEBHOOK: webhook_roles,
}


class Request(NamedTuple):
    account: str
    group: str
    resource: str
    """With its subresource: `pods/eviction`."""
    verb: str


@dataclass
class Seen:
    used: set[Request] = field(default_factory=set)
    refused: set[tuple[Request, str]] = field(default_factory=set)
    """With the namespace."""
    allowed: set[tuple[Request, str]] = field(default_factory=set)
    denied: set[tuple[Request, str]] = field(default_factory=set)
    """By an admission policy, with what it said."""

    @staticmethod
    def in_folder(folder: Path) -> "Seen":
        """Read the audit logs of all control planes that ran in the folder."""
        seen = Seen()
        for run_dir in (RunDir(path.parent) for path in folder.rglob("logs")):
            if run_dir.audit_log.exists():  # some control planes have none, or never started
                seen.note(run_dir.audited())
        return seen

    def note(self, events: Iterable[dict[str, Any]]) -> None:
        for event in events:
            account = _account(event)
            if account is None or "objectRef" not in event:
                continue
            about = event["objectRef"]
            resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
            request = Request(account, about.get("apiGroup", ""), resource, event["verb"])
            self.used.add(request)
            said = (event.get("responseStatus") or {}).get("message", "")
            if f"ValidatingAdmissionPolicy '{DAEMON}-" in said:
                self.denied.add((request, said))
            decision = (event.get("annotations") or {}).get("authorization.k8s.io/decision")
            (self.refused if decision == "forbid" else self.allowed).add(
                (request, about.get("namespace", ""))
            )

    @property
    def never_allowed(self) -> list[str]:
        """An API server that was just started has not read its roles yet, and refuses for a moment what it
        allows before and after."""
        found = self.refused - self.allowed
        return sorted(f"{request.account}: {' '.join(request[1:])} in {where}" for request, where in found)


def _account(event: dict[str, Any]) -> str | None:
    name = (event.get("impersonatedUser") or {}).get("username", "")
    return name.rpartition(":")[2] if name.startswith("system:serviceaccount:") else None


def kubeconfig_as(
    control_plane: ControlPlane, account: str, namespace: str, folder: Path, *, installed: bool = False
) -> Path:
    """Acts as that service account of that namespace, with exactly what it is granted there.

    `installed` says that the manifests are in the cluster, and with them roles and policies.
    """
    if not installed:
        _restrict(control_plane)
        roles = [with_install_id(each, namespace) for each in _ROLES[account](namespace)]
        for each in roles:
            # Only the roles are there: commands must not take them for an installation.
            del each["metadata"]["labels"][INSTALL_ID]
        _apply(control_plane, roles)
        _wait_until_granted(control_plane, roles, f"system:serviceaccount:{namespace}:{account}")
    content = yaml.safe_load(control_plane.kubeconfig.read_text())
    for user in content["users"]:
        user["user"]["as"] = f"system:serviceaccount:{namespace}:{account}"
        user["user"]["as-groups"] = [
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        ]
    path = folder / f"{account}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(content))
    return path


def _apply(control_plane: ControlPlane, items: list[dict[str, Any]]) -> None:
    content = {"apiVersion": "v1", "kind": "List", "items": items}
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(content))


def _wait_until_granted(control_plane: ControlPlane, roles: list[dict[str, Any]], user: str) -> None:
    """Wait until the API server's authorizer has read the roles: until then it refuses what they allow, and
    a daemon that may not watch a required kind ends."""
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    reviews = []
    for role in roles:
        for rule in role.get("rules", [])[:1]:
            resource, _, subresource = rule["resources"][0].partition("/")
            attributes = {
                "namespace": role["metadata"].get("namespace", ""),
                "group": rule["apiGroups"][0],
                "resource": resource,
                "subresource": subresource,
                "verb": rule["verbs"][0],
                "name": rule.get("resourceNames", [""])[0],
            }
            reviews.append({**kind, "spec": {"user": user, "resourceAttributes": attributes}})
    content = json.dumps({"apiVersion": "v1", "kind": "List", "items": reviews})
    deadline = time.monotonic() + 30
    while True:
        decisions = control_plane.kubectl(
            "create", "-f", "-", "-o", "jsonpath={.status.allowed} ", stdin=content
        ).split()
        if decisions == ["true"] * len(reviews):
            return
        assert time.monotonic() < deadline, f"{user} is not granted its roles after 30 s: {decisions}"
        time.sleep(0.1)


_restricted: set[Path] = set()
"""Control planes that have the admission policies."""


def _restrict(control_plane: ControlPlane) -> None:
    """The policies are installed once, for the accounts of all namespaces: each test has its own."""
    if control_plane.kubeconfig in _restricted:
        return
    policies = AdmissionPolicies()
    written = json.dumps([*daemon_policies(policies, "any"), *webhook_policies(policies, "any")])
    for account in (DAEMON, WEBHOOK):
        one = f"== '{user_name(account, 'any')}'"
        every = f".matches('^{user_name(account, '[^:]+')}$')"
        written = written.replace(f" {one}", every)
    _apply(control_plane, json.loads(written))
    _restricted.add(control_plane.kubeconfig)


def unused(account: str, grants: Iterable[RbacGrant], used: set[Request]) -> list[str]:
    return [
        f"{account}: {verb} {grant.group} {grant.resource} ({grant.why})"
        for grant in grants
        for verb in grant.verbs
        if Request(account, grant.group, grant.resource, verb) not in used
    ]
