"""Store the certificates of the webhook in one Secret, which all replicas share and which is installed empty.

    tls.crt, tls.key          the serving certificate
    ca.crt, ca.key            the authority; in ca.crt its predecessors follow
    next-ca.crt, next-ca.key  the successor of the authority, if there is one
    extender-client.crt, .key the client certificate to copy to schedulers

A replica that renews certificates writes them with the resourceVersion that it has read; after a conflict it
uses what the other replica wrote. The Secret is never created here: permission to create Secrets would give
access to the tokens of service accounts.

Certificates are replaced in time, each when a third of its lifetime is left:

    authority  signs the others. Its successor is trusted immediately. After an overlap, when every API server
               knows it, the successor signs a new serving certificate. The predecessor stays trusted until it
               expires.
    serving    is also replaced if it lacks a name.
    client     is copied to schedulers manually, so it lives as long as the authority.

The result depends only on the present certificates and the time, so it does not matter which replica renews
them.
"""

import hmac
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from kubevalues.x509_certificates import (
    InvalidCertificate,
    IssuedCertificate,
    load_issued_certificate,
    new_authority,
    new_client_certificate,
    new_serving_certificate,
    parse_certificate,
    subject_names,
)
from rescheduler.kube import errors
from rescheduler.kube.api_resources import SECRETS, Object, key_of
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import log_event
from rescheduler.steering.webhook.webhook_configurations import WEBHOOK_SECRET

__all__ = [
    "CertificateLifetimes",
    "CertificateSecret",
    "ServingCredentials",
    "credentials_of_secret",
    "next_renewal_at",
    "renew_credentials",
    "secret_data",
]


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
    def path_token(self) -> str:
        """Return the secret part of the path of eviction reviews, which have an effect. All replicas derive
        the same one."""
        return hmac.digest(self.authority.key, b"evictions", "sha256").hex()[:32]

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


def next_renewal_at(credentials: ServingCredentials, lifetimes: CertificateLifetimes) -> datetime:
    """Return when the next renewal is due."""
    return min(_due_times(credentials, lifetimes))


def _due_times(credentials: ServingCredentials, lifetimes: CertificateLifetimes) -> Iterator[datetime]:
    yield credentials.serving.due_at
    yield (
        credentials.successor.made_at + lifetimes.overlap
        if credentials.successor
        else credentials.authority.due_at
    )
    yield from (_expiry(each) for each in credentials.predecessors)


def _with_successor(
    credentials: ServingCredentials, now: datetime, lifetimes: CertificateLifetimes
) -> ServingCredentials:
    trusted = tuple(each for each in credentials.predecessors if now < _expiry(each))
    if trusted != credentials.predecessors:
        credentials = replace(credentials, predecessors=trusted)
    if credentials.successor is None:
        if now < credentials.authority.due_at:
            return credentials
        return replace(credentials, successor=_authority(now, lifetimes))
    if now < credentials.successor.made_at + lifetimes.overlap:
        return credentials
    before = (credentials.authority.certificate, *credentials.predecessors)
    return replace(credentials, authority=credentials.successor, successor=None, predecessors=before)


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


log = logging.getLogger(__name__)

_MAX_ATTEMPTS: Final = 5
_END: Final = b"-----END CERTIFICATE-----\n"


class CertificateSecret:
    def __init__(
        self,
        client: Client,
        namespace: str,
        names: tuple[str, ...],
        now: Callable[[], datetime],
        lifetimes: CertificateLifetimes = CertificateLifetimes(),  # noqa: B008 - frozen
    ) -> None:
        self.namespace = namespace
        self._client = client
        self._names = names
        self._now = now
        self._lifetimes = lifetimes

    @property
    def key(self) -> str:
        return key_of(self.namespace, WEBHOOK_SECRET)

    async def credentials(self) -> ServingCredentials:
        """Return the certificates of the Secret, after renewing what is due. Raises `KubeError`, `NotFound`
        if there is no Secret."""
        for _ in range(_MAX_ATTEMPTS - 1):
            try:
                return await self._credentials()
            except errors.Conflict:
                words = f"another replica wrote {WEBHOOK_SECRET} first"
                log_event(log, logging.DEBUG, "CertificateConflict", words)
        return await self._credentials()

    def next_renewal_at(self, credentials: ServingCredentials) -> datetime:
        return next_renewal_at(credentials, self._lifetimes)

    def unsaved(self) -> ServingCredentials:
        """Return credentials to serve without a Secret. API servers don't trust them, but kubelet probes
        work."""
        return renew_credentials(None, self._names, self._now(), self._lifetimes)

    async def _credentials(self) -> ServingCredentials:
        secret = await self._client.get(SECRETS, self.key)
        found = self._usable(secret)
        wanted = renew_credentials(found, self._names, self._now(), self._lifetimes)
        if wanted is found:
            return wanted
        await self._client.replace(SECRETS, {**secret, "data": secret_data(wanted)})
        log_event(
            log,
            logging.INFO,
            "CertificateWritten",
            "wrote new certificates to the Secret",
            secret=self.key,
            until=wanted.serving.expires_at.isoformat(),
        )
        return wanted

    def _usable(self, secret: Object) -> ServingCredentials | None:
        data = secret.get("data") or {}
        if not any(data.values()):
            return None  # as it was installed
        try:
            return credentials_of_secret(data)
        except InvalidCertificate as error:
            words = f"Secret {self.key} is invalid ({error}): creating new certificates"
            log_event(log, logging.WARNING, "CertificateUnusable", words)
            return None


def secret_data(credentials: ServingCredentials) -> Object:
    """Return the data of the Secret."""
    data = {
        "tls.crt": credentials.serving.certificate,
        "tls.key": credentials.serving.key,
        "ca.crt": b"".join((credentials.authority.certificate, *credentials.predecessors)),
        "ca.key": credentials.authority.key,
    }
    if credentials.successor is not None:
        data["next-ca.crt"] = credentials.successor.certificate
        data["next-ca.key"] = credentials.successor.key
    if credentials.client is not None:
        data["extender-client.crt"] = credentials.client.certificate
        data["extender-client.key"] = credentials.client.key
    return {name: b64encode(content).decode() for name, content in data.items()}


def credentials_of_secret(data: Mapping[str, Any]) -> ServingCredentials:
    """Decode the data of the Secret. Raises `InvalidCertificate`."""
    authorities = _certificates(_content(data, "ca.crt"))
    if not authorities:
        raise InvalidCertificate("ca.crt contains no certificate")
    for each in authorities[1:]:
        parse_certificate(each)
    successor = _pair(data, "next-ca") if "next-ca.crt" in data else None
    authority = load_issued_certificate(authorities[0], _content(data, "ca.key"))
    client = _pair(data, "extender-client") if "extender-client.crt" in data else None
    return ServingCredentials(authority, _pair(data, "tls"), successor, authorities[1:], client)


def _pair(data: Mapping[str, Any], name: str) -> IssuedCertificate:
    return load_issued_certificate(_content(data, f"{name}.crt"), _content(data, f"{name}.key"))


def _content(data: Mapping[str, Any], name: str) -> bytes:
    try:
        return b64decode(data[name], validate=True)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidCertificate(f"{name} is missing or not base64") from error


def _certificates(pem: bytes) -> tuple[bytes, ...]:
    return tuple(part + _END for part in pem.split(_END) if part.strip())
