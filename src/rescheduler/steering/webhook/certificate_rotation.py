"""The webhook's certificates: an authority of our own, what it signs, and when each is replaced.

    authority   signs; when a third of its time is left, a successor is made
    successor   trusted from the first day, so that every API server knows it when, an overlap later, it takes
                over and signs the serving certificate anew; the one before stays trusted until it expires
    serving     replaced when a third of its time is left, or when it lacks a name
    client      shown by schedulers, which are given it by hand: it lives as long as the authority, so that
                there is one moment at which they have to be given anything

All of it is decided from what there is and the time: whoever looks first does it, and who looks later finds
it done.
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
    """Authorities that signed before, in PEM; their keys are gone."""
    client: IssuedCertificate | None = None
    """What a scheduler shows to the extender; None if an earlier version has made the others."""

    @property
    def trusted(self) -> bytes:
        """All authorities that a certificate may be signed by, of ours or of a scheduler."""
        successor = (self.successor.certificate,) if self.successor else ()
        return b"".join((self.authority.certificate, *successor, *self.predecessors))


# -- when


def renew_credentials(
    found: ServingCredentials | None, names: tuple[str, ...], now: datetime, lifetimes: CertificateLifetimes
) -> ServingCredentials:
    """The same, if nothing is due. `names` are host names and addresses that the webhook is called by."""
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
        # Names that others asked for stay: replicas that are told different ones don't take turns.
        serving = _serving(found.authority, sorted(known | set(names)), now, lifetimes)
        return replace(found, serving=serving)
    return found


def next_renewal_at(found: ServingCredentials, lifetimes: CertificateLifetimes) -> datetime:
    """When something is due, if nobody touches them before."""
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
    # The names differ, so that nobody takes one authority's signature for that of another.
    return new_authority(f"rescheduler-webhook-ca-{now:%Y%m%d%H%M%S}", now, lifetimes.authority)


def _serving(
    authority: IssuedCertificate, names: Iterable[str], now: datetime, lifetimes: CertificateLifetimes
) -> IssuedCertificate:
    return new_serving_certificate(authority, "rescheduler-webhook", names, now, lifetimes.serving)


def _client(
    authority: IssuedCertificate, now: datetime, lifetimes: CertificateLifetimes
) -> IssuedCertificate:
    return new_client_certificate(authority, "rescheduler-extender-client", now, lifetimes.authority)
