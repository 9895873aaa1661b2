"""Load a certificate into a TLS context."""

import ssl
import tempfile
from pathlib import Path

__all__ = ["load_certificate_into", "server_tls_context"]


def load_certificate_into(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Use the certificate for new connections. Raises `ssl.SSLError` if OpenSSL can't read it."""
    # Python reads keys from files only: this one is private and removed immediately.
    with tempfile.TemporaryDirectory(prefix="rescheduler-") as folder:
        chain_file, key_file = Path(folder, "tls.crt"), Path(folder, "tls.key")
        chain_file.write_bytes(certificate)
        key_file.touch(mode=0o600)
        key_file.write_bytes(key)
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(chain_file, key_file, password="")


def server_tls_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return the context of a server with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_certificate_into(context, certificate, key)
    return context
