"""TLS contexts whose certificates can be exchanged while connections are served.

Connections that are open stay with the certificates they began with; each new one gets the newest context. A
context can learn to trust another authority, but not to distrust one: so there is a new one for each change.
"""

import ssl

from rescheduler.serving.certificates import Credentials
from rescheduler.tls.showing import showing

__all__ = ["LiveTls"]


class LiveTls:
    def __init__(self) -> None:
        self._loaded: Credentials | None = None
        self._public: ssl.SSLContext | None = None
        self._mutual: ssl.SSLContext | None = None

    def load(self, found: Credentials) -> bool:
        """Whether it serves another certificate than before."""
        before, self._loaded = self._loaded, found
        if found != before:
            self._public = showing(found.serving.certificate, found.serving.key)
            self._mutual = _expecting_clients(found)
        return before is None or found.serving != before.serving

    def public(self) -> ssl.SSLContext:
        """For anybody."""
        assert self._public is not None, "nothing is loaded yet"
        return self._public

    def mutual(self) -> ssl.SSLContext:
        """Only for clients that show a certificate of our own authority."""
        assert self._mutual is not None, "nothing is loaded yet"
        return self._mutual


def _expecting_clients(found: Credentials) -> ssl.SSLContext:
    context = showing(found.serving.certificate, found.serving.key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=found.trusted.decode())
    # A session that is resumed would be one without a look at the certificate.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context
