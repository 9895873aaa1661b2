"""A TLS context for a cluster: whom we trust, and the certificate we show."""

import ssl

from rescheduler.kube.access.credentials import Certificate, CredentialsFailed
from rescheduler.tls.showing import show

__all__ = ["tls_context"]


def tls_context(
    authority: bytes | None, *, insecure: bool, certificate: Certificate | None
) -> ssl.SSLContext:
    """Raises `CredentialsFailed` for certificates that OpenSSL can't read."""
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise CredentialsFailed(f"can't read the cluster's certificate authority: {error}") from error
    # From Python 3.13 the default also refuses authorities without key identifiers, as many clusters
    # have them. Go's TLS, for which those clusters were made, does not ask for these.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        try:
            show(context, certificate.chain, certificate.key)
        except (ssl.SSLError, OSError) as error:
            raise CredentialsFailed(f"can't use the client certificate: {error}") from error
    return context
