"""Generate the tables of permissions and admission policies in docs/security.md."""

import sys
from collections.abc import Iterator, Sequence

from rescheduler.install.account_policies import DAEMON_POLICIES
from rescheduler.install.admission_policies import WEBHOOK_POLICIES, AdmissionPolicy
from rescheduler.install.install_options import DAEMON, WEBHOOK
from rescheduler.install.rbac import (
    DAEMON_CLUSTER_GRANTS,
    DAEMON_NAMESPACE_GRANTS,
    OPERATOR_CLUSTER_GRANTS,
    OPERATOR_NAMESPACE_GRANTS,
    VIEWER_CLUSTER_GRANTS,
    VIEWER_NAMESPACE_GRANTS,
    WEB_GRANTS,
    WEBHOOK_CLUSTER_GRANTS,
    WEBHOOK_NAMESPACE_GRANTS,
    RbacGrant,
)
from tools.generated_section import GeneratedSection

__all__ = ["REFERENCE"]

_ACCOUNTS = (
    (DAEMON, DAEMON_CLUSTER_GRANTS, DAEMON_NAMESPACE_GRANTS, WEB_GRANTS, DAEMON_POLICIES),
    (WEBHOOK, WEBHOOK_CLUSTER_GRANTS, WEBHOOK_NAMESPACE_GRANTS, (), WEBHOOK_POLICIES),
)


_ROLES: tuple[tuple[str, Sequence[RbacGrant], Sequence[RbacGrant]], ...] = (
    ("rescheduler-viewer", VIEWER_CLUSTER_GRANTS, VIEWER_NAMESPACE_GRANTS),
    ("rescheduler-operator", OPERATOR_CLUSTER_GRANTS, OPERATOR_NAMESPACE_GRANTS),
)


def _reference() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    for account, cluster_grants, namespace_grants, with_page, policies in _ACCOUNTS:
        yield f"### ServiceAccount `{account}`"
        yield ""
        yield "| API group | resource | verbs | where | why |"
        yield "|---|---|---|---|---|"
        yield from _granted(cluster_grants, "all namespaces")
        yield from _granted(namespace_grants, "its own namespace")
        yield from _granted(with_page, "all namespaces, with `web.enabled`")
        yield ""
        yield "| requests | the admission policies require |"
        yield "|---|---|"
        yield from _required(policies)
        yield ""

    for role, cluster_wide, in_namespace in _ROLES:
        yield f"### Role `{role}`"
        yield ""
        yield "| API group | resource | verbs | where | what for |"
        yield "|---|---|---|---|---|"
        yield from _granted(cluster_wide, "all namespaces (ClusterRole)")
        yield from _granted(in_namespace, "rescheduler's namespace (Role)")
        yield ""


def _granted(grants: Sequence[RbacGrant], where: str) -> Iterator[str]:
    for grant in grants:
        named = f", only `{'`, `'.join(grant.names)}`" if grant.names else ""
        group = f"`{grant.group}`" if grant.group else "core"
        yield f"| {group} | `{grant.resource}` | {', '.join(grant.verbs)} | {where}{named} | {grant.why} |"


def _required(policies: Sequence[AdmissionPolicy]) -> Iterator[str]:
    for policy in policies:
        requests = f"{', '.join(policy.operations)} {', '.join(f'`{each}`' for each in policy.resources)}"
        yield f"| {requests} | {' '.join(rule.requirement for rule in policy.rules)} |"


REFERENCE = GeneratedSection(_reference)

if __name__ == "__main__":
    sys.exit(REFERENCE.main())
