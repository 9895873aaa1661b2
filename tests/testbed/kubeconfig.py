"""A kubeconfig with one cluster and one user, and the certificate that clients trust."""

import re
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["certificate_authority", "kubeconfig"]

_TEMPLATE = """\
apiVersion: v1
kind: Config
clusters:
- name: testbed
  cluster:
    server: {server}
    certificate-authority: {ca_certificate}
    tls-server-name: {tls_server_name}
users:
- name: {user}
  user:
    token: {token}
contexts:
- name: testbed
  context:
    cluster: testbed
    user: {user}
current-context: testbed
"""


def kubeconfig(*, server: str, ca_certificate: Path, user: str, token: str, tls_server_name: str = "") -> str:
    """Clients expect the server's address in its certificate, unless it is reached under another name."""
    name = tls_server_name or urlsplit(server).hostname
    return _TEMPLATE.format(
        server=server, ca_certificate=ca_certificate, user=user, token=token, tls_server_name=name
    )


def certificate_authority(serving_certificate: str) -> str:
    """The authority that the API server made for itself: the last certificate in its own file."""
    found = re.findall(
        r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", serving_certificate, re.DOTALL
    )
    if not found:
        raise ValueError("the API server's serving certificate file holds no certificate")
    return str(found[-1])
