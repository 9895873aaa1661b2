"""The kubeconfig that points a client at a simulated API server."""

import base64

import yaml

__all__ = ["kubeconfig"]

_ANYONE = "anyone"  # kubectl asks for a password where there is no credential at all


def kubeconfig(url: str, *, authority: bytes | None = None, token: str | None = None) -> str:
    """`authority` is the PEM of the certificate authority, for HTTPS."""
    cluster: dict[str, str] = {"server": url}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "simulator", "cluster": cluster}],
        "users": [{"name": "simulator", "user": {"token": token or _ANYONE}}],
        "contexts": [{"name": "simulator", "context": {"cluster": "simulator", "user": "simulator"}}],
        "current-context": "simulator",
    }
    return yaml.safe_dump(content, sort_keys=False)
