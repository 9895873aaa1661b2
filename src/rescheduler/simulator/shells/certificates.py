"""A certificate authority for one run, and the serving certificate it signs."""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from rescheduler.tls.issuing import new_authority, new_serving

__all__ = ["Certificates", "make_certificates"]

_LIFETIME: Final = timedelta(days=365)
_NAMES: Final = ("localhost", "kubernetes.default.svc")


class Certificates(NamedTuple):
    """All in PEM."""

    authority: bytes
    certificate: bytes
    key: bytes


def make_certificates(addresses: tuple[str, ...] = ("127.0.0.1", "::1")) -> Certificates:
    """For the name `localhost` and the given addresses."""
    now = datetime.now(UTC)
    authority = new_authority("simulator-ca", now, _LIFETIME)
    serving = new_serving(authority, "simulator", (*_NAMES, *addresses), now, _LIFETIME)
    return Certificates(authority.certificate, serving.certificate, serving.key)
