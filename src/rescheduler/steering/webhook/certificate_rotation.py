"""When the certificates of the webhook are replaced. Pure.

    authority   signs the others; when a third of its lifetime is left, a successor is created successor
    trusted immediately, and after an overlap, when every API server knows it, it becomes the authority and
    signs a new serving certificate; its predecessor stays trusted until it expires serving     replaced when
    a third of its lifetime is left, or when it lacks a name client      copied to schedulers manually, so it
    lives as long as the authority

The result depends only on the present certificates and the time, so it does not matter which replica renews
them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kubevalues.x509_certificates import (
    IssuedCertificate,
    new_authority,
    new_client_certificate,
    new_serving_certificate,
    parse_certificate,
    subject_names,
)

__all__ = ["CertificateLifetimes", "ServingCredentials", "next_renewal_at", "renew_credentials"]


@dataclass(frozen=True, slots=True)
class CertificateLifetimes:
    authority: timedelta = timedelta(days=730)
    serving: timedelta = timedelta(days=90)
    overlap: timedelta = timedelta(days=1)
    """How long a successor is trusted before it signs."""


@dataclass(frozen=True, slots=True)
class ServingCredentials:
    authority: IssuedCertificate
    serving: IssuedCertificate
    successor: IssuedCertificate | None = None
    predecessors: tuple[bytes, ...] = ()
    """Former authorities, in PEM, without their keys."""
    client: IssuedCertificate | None = None
    """The client certificate of schedulers; None in a Secret of an earlier version."""

    @property
    def trusted(self) -> bytes:
        """Return all trusted authorities, in PEM."""
        successor = (self.successor.certificate,) if self.successor else ()
        return b"".join((self.authority.certificate, *successor, *self.predecessors))


def renew_credentials(
    found: ServingCredentials | None, names: tuple[str, ...], now: datetime, lifetimes: CertificateLifetimes
) -> ServingCredentials:
    """Return renewed credentials, or the same if nothing is due. `names` are the names and addresses of the
    webhook."""
    if found is None or now >= found.authority.expires_at:
        authority = _authority(now, lifetimes)
        return ServingCredentials(
            authority, _serving(authority, names, now, lifetimes), client=_client(authority, now, lifetimes)
        )
    found = _with_successor(found, now, lifetimes)
    if found.client is None or not found.authority.signed(found.client):
        found = replace(found, client=_client(found.authority, now, lifetimes))
    known = subject_names(found.serving)
    if now >= found.serving.due_at or set(names) - known or not found.authority.signed(found.serving):
        # Names of other replicas stay: replicas with different names must not overwrite each other.
        serving = _serving(found.authority, sorted(known | set(names)), now, lifetimes)
        return replace(found, serving=serving)
    return found


def next_renewal_at(found: ServingCredentials, lifetimes: CertificateLifetimes) -> datetime:
    """Return when the next renewal is due."""
    return min(_due_times(found, lifetimes))


def _due_times(found: ServingCredentials, lifetimes: CertificateLifetimes) -> Iterator[datetime]:
    yield found.serving.due_at
    yield found.successor.made_at + lifetimes.overlap if found.successor else found.authority.due_at
    yield from (_expiry(each) for each in found.predecessors)


def _with_successor(
    found: ServingCredentials, now: datetime, lifetimes: CertificateLifetimes
) -> ServingCredentials:
    trusted = tuple(each for each in found.predecessors if now < _expiry(each))
    if trusted != found.predecessors:
        found = replace(found, predecessors=trusted)
    if found.successor is None:
        if now < found.authority.due_at:
            return found
        return replace(found, successor=_authority(now, lifetimes))
    if now < found.successor.made_at + lifetimes.overlap:
        return found
    before = (found.authority.certificate, *found.predecessors)
    return replace(found, authority=found.successor, successor=None, predecessors=before)


def _expiry(pem: bytes) -> datetime:
    return parse_certificate(pem).not_valid_after_utc


def _authority(now: datetime, lifetimes: CertificateLifetimes) -> IssuedCertificate:
    # Distinct names, so that authorities can be distinguished.
    return new_authority(f"rescheduler-webhook-ca-{now:%Y%m%d%H%M%S}", now, lifetimes.authority)


def _serving(
    authority: IssuedCertificate, names: Iterable[str], now: datetime, lifetimes: CertificateLifetimes
) -> IssuedCertificate:
    return new_serving_certificate(authority, "rescheduler-webhook", names, now, lifetimes.serving)


def _client(
    authority: IssuedCertificate, now: datetime, lifetimes: CertificateLifetimes
) -> IssuedCertificate:
    return new_client_certificate(authority, "rescheduler-extender-client", now, lifetimes.authority)
