"""The webhook's process: port, health, certificates under load, and shutdown."""

import asyncio
import contextlib
from base64 import b64decode

import aiohttp
import pytest

from kubesim import ApiServer
from kubesim.apiserver.fault_injection import InjectedFault
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS, SECRETS, merge_patch
from rescheduler.kube.client import Client
from rescheduler.steering.webhook.certificate_manager import CertificateIntervals
from rescheduler.steering.webhook.webhook_configurations import WEBHOOK_SECRET
from tests.stories.steering.certificate_rotation import (
    LIFETIMES,
    ROUNDS_S,
    ClockAhead,
    credentials_of,
    is_caught_up,
    under_load,
)
from tests.stories.steering.https_calls import calling
from tests.unit.steering.conftest import Serve
from tests.unit.steering.reviews import parse_response, pod_of, review_of
from tests.unit.steering.steered_migrations import Eventually, begin, created, is_steered, steering
from tests.webhook_installed import configuration_of


async def bundle(client: Client) -> str:
    (hook,) = (await client.get(MUTATING_WEBHOOKS, configuration_of("ours")))["webhooks"]
    return b64decode(hook["clientConfig"]["caBundle"]).decode()


async def test_it_says_that_it_lives_and_that_it_is_ready(client: Client, serve: Serve):
    async with serve() as webhook, calling(client, webhook) as call:
        assert await call("GET", "/healthz") == (200, b"ok")
        assert await call("GET", "/readyz") == (200, b"ok")
        assert (await call("GET", "/mutate"))[0] == 405
        status, body = await call("POST", "/mutate", b"nonsense")
        assert status == 200
        assert parse_response(body) == ("", [])


async def test_a_pod_of_several_megabytes_is_answered(client: Client, serve: Serve):
    async with serve() as webhook, calling(client, webhook) as call:
        pod = pod_of(annotations={"much": "x" * (3 << 20)})
        status, body = await call("POST", "/mutate", review_of(pod))
        assert status == 200
        assert parse_response(body) == ("review-1", [])


async def test_before_it_knows_the_migrations_it_lets_every_pod_through(
    client: Client, server: ApiServer, serve: Serve, eventually: Eventually
):
    await begin(client)
    fault = InjectedFault("unavailable", verbs=("list",), resource="podmigrations.*", times=None)
    number = server.faults.add(fault)
    async with serve(until_ready=False) as webhook, calling(client, webhook) as call:
        await webhook.registered()
        assert (await call("GET", "/readyz"))[0] == 503
        assert await call("GET", "/healthz") == (200, b"ok")
        assert not is_steered(await created(client))
        server.faults.remove(number)
        await eventually(steering(client))
        assert await call("GET", "/readyz") == (200, b"ok")


async def test_stale_intents_steer_no_pod(
    client: Client, serve: Serve, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
):
    await begin(client)
    async with serve() as webhook, calling(client, webhook) as call:
        await eventually(steering(client))
        monkeypatch.setattr("rescheduler.kube.informer.Informer.staleness", lambda *_: 3600.0)
        assert not is_steered(await created(client))
        assert (await call("GET", "/readyz"))[0] == 503


async def test_at_its_end_it_is_unready_first_and_answers_until_it_is_gone(client: Client, serve: Serve):
    ended = asyncio.Event()
    async with serve(ended=ended, drain_s=0.3) as webhook, calling(client, webhook) as call:
        ended.set()
        await asyncio.sleep(0)
        assert (await call("GET", "/readyz"))[0] == 503
        assert parse_response((await call("POST", "/mutate", review_of(pod_of())))[1]) == ("review-1", [])


# -- certificates


async def test_certificate_and_authority_are_replaced_under_load_without_a_failed_call(
    client: Client, serve: Serve, eventually: Eventually
):
    clock = ClockAhead()
    pace = CertificateIntervals(pause_s=0.01, longest_s=0.02, retry_s=0.05)
    async with (
        serve(lifetimes=LIFETIMES, pace=pace, now=clock.now) as webhook,
        calling(client, webhook) as call,
    ):
        known = await bundle(client)
        seen = []

        async def ask() -> None:
            # Callers that don't have the newest authority yet are served, too.
            for trusted in (known, await bundle(client)):
                status, body = await call("POST", "/mutate", review_of(pod_of()), trusted=trusted)
                assert (status, parse_response(body)) == (200, ("review-1", []))

        async def caught_up() -> bool:
            return is_caught_up(await credentials_of(client, "ours"), clock)

        async with under_load(ask, eventually) as asked:
            for seconds in ROUNDS_S:
                clock.by_s = seconds
                await eventually(caught_up)
                await asked(6)
                known = await bundle(client)
                seen.append(await credentials_of(client, "ours"))
    assert len({each.serving.certificate for each in seen}) >= 3
    assert seen[-1].authority != seen[0].authority


async def test_a_certificate_that_another_replica_has_renewed_is_served_at_once(
    client: Client, serve: Serve, eventually: Eventually
):
    async with serve() as webhook, calling(client, webhook) as call:
        before = await bundle(client)
        await client.patch(SECRETS, f"ours/{WEBHOOK_SECRET}", merge_patch({"data": {"tls.key": "bm9uZQ=="}}))

        async def renewed() -> bool:
            return await bundle(client) != before

        await eventually(renewed)

        async def served() -> bool:
            with contextlib.suppress(aiohttp.ClientError):
                return (await call("GET", "/healthz"))[0] == 200
            return False

        await eventually(served)


async def test_trouble_with_the_server_is_overcome(
    client: Client, server: ApiServer, serve: Serve, eventually: Eventually, caplog: pytest.LogCaptureFixture
):
    resource = "mutatingwebhookconfigurations.*"
    server.faults.add(InjectedFault("unavailable", verbs=("patch",), resource=resource, times=2))
    await begin(client)
    async with serve():
        await eventually(steering(client))
    assert "the webhook's certificates and configuration are not updated" in caplog.text
