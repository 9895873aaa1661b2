"""The webhook's certificates: an authority of our own, what it signs, and when each is replaced.

    authority   signs; when a third of its time is left, a successor is made
    successor   trusted from the first day, so that every API server knows it when, an overlap later, it takes
                over and signs the serving certificate anew; the one before stays trusted until it expires
    serving     replaced when a third of its time is left, or when it lacks a name

All of it is decided from what there is and the time: whoever looks first does it, and who looks later finds
it done.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = [
    "Credentials",
    "Issued",
    "Lifetimes",
    "UnusableCredentials",
    "expect_certificate",
    "issued",
    "next_change",
    "renewed",
]

_CLOCK_SKEW = timedelta(minutes=5)
"""By so much, certificates are valid before they are made: other machines' clocks may be behind."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    authority: timedelta = timedelta(days=730)
    serving: timedelta = timedelta(days=90)
    overlap: timedelta = timedelta(days=1)
    """How long a successor is trusted before it signs."""


class UnusableCredentials(ValueError):  # noqa: N818 - says what they are
    """Certificates and keys that don't belong together, or are none."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes
    parsed: x509.Certificate = field(repr=False, compare=False)

    @property
    def made_at(self) -> datetime:
        return self.parsed.not_valid_before_utc + _CLOCK_SKEW

    @property
    def expires_at(self) -> datetime:
        return self.parsed.not_valid_after_utc

    @property
    def due_at(self) -> datetime:
        """When a third of its time is left."""
        return self.expires_at - (self.expires_at - self.made_at) / 3

    def signed(self, other: "Issued") -> bool:
        try:
            other.parsed.verify_directly_issued_by(self.parsed)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


@dataclass(frozen=True, slots=True)
class Credentials:
    authority: Issued
    serving: Issued
    successor: Issued | None = None
    predecessors: tuple[bytes, ...] = ()
    """Authorities that signed before, in PEM; their keys are gone."""

    @property
    def trusted(self) -> bytes:
        """All authorities that a serving certificate may be signed by: what callers must know."""
        successor = (self.successor.certificate,) if self.successor else ()
        return b"".join((self.authority.certificate, *successor, *self.predecessors))


# -- when


def renewed(
    found: Credentials | None, names: tuple[str, ...], now: datetime, lifetimes: Lifetimes
) -> Credentials:
    """The same, if nothing is due. `names` are host names and addresses that the webhook is called by."""
    if found is None or now >= found.authority.expires_at:
        authority = _new_authority(now, lifetimes)
        return Credentials(authority, _serving(authority, names, now, lifetimes))
    found = _succeeded(found, now, lifetimes)
    known = _names(found.serving)
    if now >= found.serving.due_at or set(names) - known or not found.authority.signed(found.serving):
        # Names that others asked for stay: replicas that are told different ones don't take turns.
        serving = _serving(found.authority, sorted(known | set(names)), now, lifetimes)
        return replace(found, serving=serving)
    return found


def next_change(found: Credentials, lifetimes: Lifetimes) -> datetime:
    """When something is due, if nobody touches them before."""
    return min(_dues(found, lifetimes))


def _dues(found: Credentials, lifetimes: Lifetimes) -> Iterator[datetime]:
    yield found.serving.due_at
    yield found.successor.made_at + lifetimes.overlap if found.successor else found.authority.due_at
    yield from (_expiry(each) for each in found.predecessors)


def _succeeded(found: Credentials, now: datetime, lifetimes: Lifetimes) -> Credentials:
    trusted = tuple(each for each in found.predecessors if now < _expiry(each))
    if trusted != found.predecessors:
        found = replace(found, predecessors=trusted)
    if found.successor is None:
        if now < found.authority.due_at:
            return found
        return replace(found, successor=_new_authority(now, lifetimes))
    if now < found.successor.made_at + lifetimes.overlap:
        return found
    before = (found.authority.certificate, *found.predecessors)
    return replace(found, authority=found.successor, successor=None, predecessors=before)


def _expiry(pem: bytes) -> datetime:
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc


# -- reading


def issued(certificate: bytes, key: bytes) -> Issued:
    """Raises `UnusableCredentials`."""
    try:
        parsed = x509.load_pem_x509_certificate(certificate)
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError) as error:
        raise UnusableCredentials(f"no certificate with its key: {error}") from error
    if private.public_key() != parsed.public_key():
        raise UnusableCredentials("the key belongs to another certificate")
    return Issued(certificate, key, parsed)


def expect_certificate(pem: bytes) -> None:
    """Raises `UnusableCredentials`."""
    try:
        x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise UnusableCredentials(f"no certificate: {error}") from error


def _names(serving: Issued) -> set[str]:
    try:
        found = serving.parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))}


# -- making


def _new_authority(now: datetime, lifetimes: Lifetimes) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    # The names differ, so that nobody takes one authority's signature for that of another.
    name = _name(f"rescheduler-webhook-ca-{now:%Y%m%d%H%M%S}")
    certificate = (
        _builder(name, name, key.public_key(), now, now + lifetimes.authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _written(certificate, key)


def _serving(authority: Issued, names: Iterable[str], now: datetime, lifetimes: Lifetimes) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    signer = serialization.load_pem_private_key(authority.key, password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    # A certificate that outlives its authority would be worth nothing in the end.
    end = min(now + lifetimes.serving, authority.expires_at)
    certificate = (
        _builder(_name("rescheduler-webhook"), authority.parsed.subject, key.public_key(), now, end)
        .add_extension(x509.SubjectAlternativeName(list(map(_general_name, names))), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return _written(certificate, key)


def _written(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Issued:
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Issued(certificate.public_bytes(encoding), private, certificate)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(end)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
