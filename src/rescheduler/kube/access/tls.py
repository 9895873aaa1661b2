"""A TLS context for a cluster: whom we trust, and the certificate we show."""

import ssl
import tempfile
from pathlib import Path

from rescheduler.kube.access.credentials import Certificate, CredentialsFailed

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
        _show(context, certificate)
    return context


def _show(context: ssl.SSLContext, certificate: Certificate) -> None:
    # OpenSSL's Python face reads keys from files only: one that nobody else can read, for this moment.
    with tempfile.TemporaryDirectory(prefix="rescheduler-") as folder:
        chain, key = Path(folder, "chain.pem"), Path(folder, "key.pem")
        chain.write_bytes(certificate.chain)
        key.write_bytes(certificate.key)
        try:
            # Without a password OpenSSL would ask for one on the terminal, in the middle of everything.
            context.load_cert_chain(chain, key, password="")
        except (ssl.SSLError, OSError) as error:
            raise CredentialsFailed(f"can't use the client certificate: {error}") from error
