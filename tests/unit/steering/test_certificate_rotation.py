"""Certificates are replaced in time, and every served certificate is trusted by all callers."""

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from kubevalues.x509_certificates import InvalidCertificate, load_issued_certificate
from rescheduler.steering.webhook.certificate_secret import (
    CertificateLifetimes,
    ServingCredentials,
    next_renewal_at,
    renew_credentials,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = ("hook.ours.svc", "127.0.0.1")
LIFETIMES = CertificateLifetimes(
    authority=timedelta(days=90), serving=timedelta(days=9), overlap=timedelta(days=1)
)
DAY = timedelta(days=1)


def made(now: datetime = NOW) -> ServingCredentials:
    return renew_credentials(None, NAMES, now, LIFETIMES)


def later(found: ServingCredentials, now: datetime, names: tuple[str, ...] = NAMES) -> ServingCredentials:
    return renew_credentials(found, names, now, LIFETIMES)


def trusts(bundle: bytes, credentials: ServingCredentials) -> bool:
    for pem in bundle.split(b"-----END CERTIFICATE-----\n")[:-1]:
        authority = x509.load_pem_x509_certificate(pem + b"-----END CERTIFICATE-----\n")
        if authority.subject == credentials.serving.parsed.issuer:
            credentials.serving.parsed.verify_directly_issued_by(authority)
            return True
    return False


def test_the_first_ones_are_for_the_names_and_signed_by_the_authority():
    first = made()
    names = first.serving.parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hook.ours.svc"]
    assert list(map(str, names.get_values_for_type(x509.IPAddress))) == ["127.0.0.1"]
    assert trusts(first.trusted, first)
    context = ssl.create_default_context(cadata=first.trusted.decode())
    assert context.cert_store_stats()["x509_ca"] == 1


def test_nothing_changes_before_it_is_due():
    first = made()
    assert later(first, next_renewal_at(first, LIFETIMES) - timedelta(seconds=1)) is first


def test_with_a_third_of_its_time_left_the_serving_certificate_is_replaced():
    first = made()
    assert next_renewal_at(first, LIFETIMES) == NOW + 6 * DAY
    second = later(first, NOW + 6 * DAY)
    assert second.serving != first.serving
    assert second.trusted == first.trusted, "the authority stays, so callers need no update"


def test_a_name_that_is_missing_is_added_and_the_others_stay():
    second = later(made(), NOW, ("other.svc",))
    third = later(second, NOW, NAMES)
    assert second.authority == third.authority
    assert third is second, "two replicas with different names don't take turns"


def test_a_successor_is_trusted_for_a_while_before_it_signs():
    first = made()
    announced = later(first, NOW + 60 * DAY)
    assert announced.successor is not None
    assert announced.authority == first.authority
    assert trusts(first.trusted, announced), "callers without the update are served all the same"
    assert later(announced, NOW + 61 * DAY - timedelta(seconds=1)).authority == first.authority
    succeeded = later(announced, NOW + 61 * DAY)
    assert succeeded.authority == announced.successor
    assert succeeded.successor is None
    assert trusts(announced.trusted, succeeded), "callers with the update trust what the successor has signed"
    assert not trusts(first.trusted, succeeded)
    assert trusts(succeeded.trusted, announced), "a replica that is late is still trusted"


def test_certificates_stay_trusted_for_years():
    """A client that knows the earlier ones trusts each. The key of an old authority is not kept."""
    credentials, now = made(), NOW
    for _ in range(120):
        now = next_renewal_at(credentials, LIFETIMES)
        following = later(credentials, now)
        assert following is not credentials, "what is due is done"
        assert trusts(credentials.trusted, following)
        assert trusts(following.trusted, credentials)
        assert now < following.serving.expires_at <= following.authority.expires_at
        assert len(following.predecessors) <= 1, "those that have expired are forgotten"
        credentials = following
    assert now > NOW + timedelta(days=365)


def test_after_a_long_sleep_all_is_created_again():
    first = made()
    second = later(first, NOW + timedelta(days=400))
    assert second.authority != first.authority
    assert second.predecessors == ()


@pytest.mark.parametrize("broken", ["certificate", "key", "pair"])
def test_what_does_not_belong_together_is_not_usable(broken: str):
    first, other = made().serving, made().serving
    certificate = b"none" if broken == "certificate" else first.certificate
    key = b"none" if broken == "key" else other.key if broken == "pair" else first.key
    with pytest.raises(InvalidCertificate):
        load_issued_certificate(certificate, key)


def test_a_serving_certificate_of_another_authority_is_replaced():
    first, other = made(), made()
    mixed = ServingCredentials(first.authority, other.serving)
    assert trusts(first.trusted, later(mixed, NOW))


# -- the certificate of schedulers


def test_the_certificate_for_schedulers():
    """It is for clients only, and valid as long as the authority."""
    first = made()
    assert first.client is not None
    usage = first.client.parsed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert first.client.expires_at == first.authority.expires_at
    assert later(first, NOW + 6 * DAY).client == first.client, "it does not change with the serving one"


def test_the_certificate_for_schedulers_is_rotated():
    """The next authority creates it again, and the one before stays trusted."""
    first = made()
    announced = later(first, NOW + 60 * DAY)
    assert announced.client == first.client
    second = later(announced, NOW + 61 * DAY)
    assert second.client is not None
    assert first.client is not None
    assert second.authority.signed(second.client)
    assert first.authority.signed(first.client)
    assert first.authority.certificate in second.trusted


def test_credentials_of_an_earlier_version_get_one():
    first = made()
    upgraded = later(replace(first, client=None), NOW)
    assert upgraded.client is not None
    assert first.authority.signed(upgraded.client)
    assert replace(upgraded, client=first.client) == first, "all else stays"
