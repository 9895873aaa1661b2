"""A certificate for one name on loopback, made on the spot."""

import ssl
from datetime import UTC, datetime, timedelta

from kubevalues.connections import server_tls_context
from kubevalues.x509_certificates import new_authority, new_serving_certificate

__all__ = ["self_signed"]

_LIFETIME = timedelta(days=30)


def self_signed(host: str) -> tuple[ssl.SSLContext, bytes]:
    """What a server needs, and the authority that its clients should trust."""
    now = datetime.now(UTC)
    authority = new_authority(f"{host}-ca", now, _LIFETIME)
    serving = new_serving_certificate(authority, host, (host,), now, _LIFETIME)
    return server_tls_context(serving.certificate, serving.key), authority.certificate
