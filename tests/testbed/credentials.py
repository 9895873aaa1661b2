"""Credentials of the API server: tokens for the three identities, and the key pair of service accounts.

Each part has the identity it has in a real cluster, so RBAC and the audit log tell the truth about it.
"""

import secrets
import subprocess
from collections.abc import Iterable

from tests.testbed.parts import Part
from tests.testbed.run_dir import RunDir

__all__ = ["KUBE_PROXY", "Tokens", "write_service_account_keys", "write_tokens"]

KUBE_PROXY = "kube-proxy"

# Name, and the groups it is in.
_IDENTITIES: dict[Part | None, tuple[str, str]] = {
    None: ("admin", "system:masters"),
    Part.CONTROLLER_MANAGER: ("system:kube-controller-manager", ""),
    Part.SCHEDULER: ("system:kube-scheduler", ""),
}

Tokens = dict[Part | str | None, str]  # None is the administrator, a name is a node or kube-proxy


def write_tokens(run_dir: RunDir, nodes: Iterable[str] = ()) -> Tokens:
    identities: dict[Part | str | None, tuple[str, str]] = {**_IDENTITIES}
    identities |= {name: (f"system:node:{name}", "system:nodes") for name in nodes}
    if len(identities) > len(_IDENTITIES):
        identities[KUBE_PROXY] = ("system:kube-proxy", "")
    tokens: Tokens = {}
    lines = []
    for holder, (user, group) in identities.items():
        tokens[holder] = secrets.token_hex(20)
        lines.append(f'{tokens[holder]},{user},{user},"{group}"')
    run_dir.tokens.write_text("\n".join(lines) + "\n")
    return tokens


def write_service_account_keys(run_dir: RunDir) -> None:
    private, public = str(run_dir.service_account_key), str(run_dir.service_account_public_key)
    _openssl("genrsa", "-out", private, "2048")
    _openssl("rsa", "-in", private, "-pubout", "-out", public)


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(
            f"`openssl {arguments[0]}` could not make the service account keys: {done.stderr.strip()}"
        )
