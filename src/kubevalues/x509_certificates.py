"""Issue and parse X.509 certificates, with a private certificate authority."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = [
    "InvalidCertificate",
    "IssuedCertificate",
    "load_issued_certificate",
    "new_authority",
    "new_client_certificate",
    "new_serving_certificate",
    "parse_certificate",
    "subject_names",
]

_CLOCK_SKEW: Final = timedelta(minutes=5)
"""Certificates become valid this long before they are issued, because other clocks may be behind."""


class InvalidCertificate(ValueError):  # noqa: N818 - says what they are
    """The certificate or the key is invalid, or they don't match."""


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
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
        """Return when to renew the certificate: a third of its lifetime is left then."""
        return self.expires_at - (self.expires_at - self.made_at) / 3

    def signed(self, other: "IssuedCertificate") -> bool:
        try:
            other.parsed.verify_directly_issued_by(self.parsed)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


# -- issuing


def new_authority(common_name: str, now: datetime, lifetime: timedelta) -> IssuedCertificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
    certificate = (
        _builder(name, name, key.public_key(), now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _written(certificate, key)


def new_serving_certificate(
    authority: IssuedCertificate, common_name: str, names: Iterable[str], now: datetime, lifetime: timedelta
) -> IssuedCertificate:
    """Return a certificate for a server with these host names and IP addresses."""
    alternative_names = x509.SubjectAlternativeName(list(map(_general_name, names)))
    return _signed(authority, common_name, ExtendedKeyUsageOID.SERVER_AUTH, now, lifetime, alternative_names)


def new_client_certificate(
    authority: IssuedCertificate, common_name: str, now: datetime, lifetime: timedelta
) -> IssuedCertificate:
    """Return a certificate that authenticates a client, and can't be used by a server."""
    return _signed(authority, common_name, ExtendedKeyUsageOID.CLIENT_AUTH, now, lifetime)


def _signed(
    authority: IssuedCertificate,
    common_name: str,
    usage: x509.ObjectIdentifier,
    now: datetime,
    lifetime: timedelta,
    *extensions: x509.ExtensionType,
) -> IssuedCertificate:
    key = ec.generate_private_key(ec.SECP256R1())
    signer = serialization.load_pem_private_key(authority.key, password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    # A certificate is not valid after its authority has expired.
    end = min(now + lifetime, authority.expires_at)
    builder = _builder(_name(common_name), authority.parsed.subject, key.public_key(), now, end)
    for each in extensions:
        builder = builder.add_extension(each, critical=False)
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return _written(certificate, key)


# -- parsing


def load_issued_certificate(certificate: bytes, key: bytes) -> IssuedCertificate:
    """Load a certificate and its key; raise `InvalidCertificate`."""
    parsed = parse_certificate(certificate)
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError) as error:
        raise InvalidCertificate(f"invalid key: {error}") from error
    if private.public_key() != parsed.public_key():
        raise InvalidCertificate("the key does not match the certificate")
    return IssuedCertificate(certificate, key, parsed)


def parse_certificate(pem: bytes) -> x509.Certificate:
    """Parse a certificate; raise `InvalidCertificate`."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise InvalidCertificate(f"invalid certificate: {error}") from error


def subject_names(serving: IssuedCertificate) -> set[str]:
    """Return the host names and IP addresses of a serving certificate."""
    try:
        found = serving.parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))}


def _written(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> IssuedCertificate:
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return IssuedCertificate(certificate.public_bytes(encoding), private, certificate)


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
