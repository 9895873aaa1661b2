"""Issue a serving certificate from a certificate authority that is made for one run."""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from kubevalues.x509_certificates import new_authority, new_serving_certificate

__all__ = ["ServingCertificate", "make_serving_certificate"]

_LIFETIME: Final = timedelta(days=365)
_NAMES: Final = ("localhost", "kubernetes.default.svc")


class ServingCertificate(NamedTuple):
    """A serving certificate, its key and its authority, in PEM."""

    authority: bytes
    certificate: bytes
    key: bytes


def make_serving_certificate(addresses: tuple[str, ...] = ("127.0.0.1", "::1")) -> ServingCertificate:
    """Return a certificate for the name `localhost` and the given addresses."""
    now = datetime.now(UTC)
    authority = new_authority("simulator-ca", now, _LIFETIME)
    serving = new_serving_certificate(authority, "simulator", (*_NAMES, *addresses), now, _LIFETIME)
    return ServingCertificate(authority.certificate, serving.certificate, serving.key)
