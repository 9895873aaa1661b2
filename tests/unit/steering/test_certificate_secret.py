"""All replicas share one Secret: the first writer wins, and a broken Secret is replaced."""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rescheduler.install.component_manifests import objects_that_the_webhook_writes
from rescheduler.kube import errors
from rescheduler.kube.api_resources import SECRETS, merge_patch
from rescheduler.kube.client import Client
from rescheduler.steering.webhook.certificate_secret import (
    CertificateLifetimes,
    CertificateSecret,
    credentials_of_secret,
    renew_credentials,
    secret_data,
)
from rescheduler.steering.webhook.webhook_configurations import WEBHOOK_SECRET

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = f"ours/{WEBHOOK_SECRET}"
LIFETIMES = CertificateLifetimes()


@pytest.fixture(autouse=True)
async def installed(client: Client) -> None:
    await client.create(SECRETS, objects_that_the_webhook_writes("ours")[0])


def kept_by(client: Client, now: datetime = NOW) -> CertificateSecret:
    return CertificateSecret(client, "ours", ("hook.ours.svc",), lambda: now)


async def test_the_first_replica_makes_them_and_the_next_finds_them(client: Client):
    first = await kept_by(client).credentials()
    assert await kept_by(client).credentials() == first


async def test_of_many_that_start_at_once_all_serve_the_same(client: Client, connect: Callable[[], Client]):
    found = await asyncio.gather(*(kept_by(connect()).credentials() for _ in range(5)))
    assert len({each.serving.certificate for each in found}) == 1


async def test_of_many_that_find_them_due_one_renews_them(client: Client, connect: Callable[[], Client]):
    before = await kept_by(client).credentials()
    due = before.serving.due_at
    found = await asyncio.gather(*(kept_by(connect(), due).credentials() for _ in range(5)))
    assert {each.serving.certificate for each in found} != {before.serving.certificate}
    assert len({each.serving.certificate for each in found}) == 1
    assert (await client.get(SECRETS, KEY))["metadata"]["labels"], "what else it says stays"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"tls.crt": b64encode(b"none").decode()}, id="no certificate"),
        pytest.param({"tls.key": b64encode(b"none").decode()}, id="no key"),
        pytest.param({"ca.crt": None}, id="no authority"),
        pytest.param({"ca.key": None}, id="no key of the authority"),
        pytest.param({"ca.crt": ""}, id="an authority that is empty"),
        pytest.param({"next-ca.crt": b64encode(b"none").decode()}, id="half a successor"),
    ],
)
async def test_a_broken_secret_is_created_again(
    client: Client, change: dict[str, Any], caplog: pytest.LogCaptureFixture
):
    before = await kept_by(client).credentials()
    await client.patch(SECRETS, KEY, merge_patch({"data": change}))
    after = await kept_by(client).credentials()
    assert after.authority != before.authority
    assert await kept_by(client).credentials() == after
    assert "is invalid" in caplog.text


async def test_one_that_is_missing_is_not_made(client: Client):
    await client.delete(SECRETS, KEY)
    with pytest.raises(errors.NotFound, match="secrets"):
        await kept_by(client).credentials()
    assert (await client.list(SECRETS, namespace="ours")).items == []


def test_everything_comes_back_from_a_secret_as_it_went_in():
    names = ("a",)
    credentials = renew_credentials(None, names, NOW, LIFETIMES)
    announced = renew_credentials(credentials, names, credentials.authority.due_at, LIFETIMES)
    succeeded = renew_credentials(
        announced, names, credentials.authority.due_at + timedelta(days=1), LIFETIMES
    )
    for each in (credentials, announced, succeeded):
        assert credentials_of_secret(secret_data(each)) == each
    assert announced.successor is not None
    assert succeeded.predecessors == (credentials.authority.certificate,)
