"""A TLS context whose certificate can be exchanged while connections are served.

Connections that are open stay with the certificate they began with; each new one gets the newest.
"""

import ssl

from rescheduler.tls.issuing import Issued
from rescheduler.tls.showing import show

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
        show(self.context, serving.certificate, serving.key)
        self._loaded = serving
        return True
