"""A TLS context whose certificate can be exchanged while connections are served.

Connections that are open stay with the certificate they began with; each new one gets the newest.
"""

import ssl
import tempfile
from pathlib import Path

from rescheduler.serving.certificates import Issued

__all__ = ["LiveTls"]


class LiveTls:
    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._loaded: Issued | None = None

    def load(self, serving: Issued) -> bool:
        """Whether it is another than before."""
        if serving == self._loaded:
            return False
        # Python reads keys from files only: this one is for our eyes, and gone at once.
        with tempfile.TemporaryDirectory(prefix="rescheduler-") as folder:
            certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            certificate.write_bytes(serving.certificate)
            key.touch(mode=0o600)
            key.write_bytes(serving.key)
            self.context.load_cert_chain(certificate, key)
        self._loaded = serving
        return True
