"""The extender's endpoints, over HTTPS, with data from the cluster."""

import asyncio
import http.client
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubesim import ApiServer
from kubesim.apiserver.fault_injection import InjectedFault
from kubevalues.connections import load_certificate_into
from kubevalues.x509_certificates import new_authority, new_client_certificate
from rescheduler.http.request_limits import MAX_BODY_BYTES
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS, NAMESPACES, SECRETS, merge_patch
from rescheduler.kube.client import Client
from rescheduler.steering.steering_server import SteeringServer
from rescheduler.steering.webhook.webhook_configurations import WEBHOOK_SECRET
from tests.stories.steering.certificate_rotation import credentials_of
from tests.stories.steering.https_calls import Call, asking, calling, scheduler_tls
from tests.unit.steering.conftest import Serve
from tests.unit.steering.extender_requests import question, scores_of, verdict_of
from tests.unit.steering.reviews import pod_of, review_of
from tests.unit.steering.steered_migrations import MIGRATIONS, Eventually, begin, created, is_steered
from tests.unit.steering.test_extender_verbs import ANY_BYTES, changed_questions
from tests.webhook_installed import configuration_of

FILTER, PRIORITIZE = "/extender/filter", "/extender/prioritize"


async def kept(call: Call, *names: str) -> list[str]:
    status, body = await call("POST", FILTER, question(*names))
    assert status == 200
    return verdict_of(body).kept


async def scores(call: Call, *names: str, uid: str) -> dict[str, int]:
    return scores_of((await call("POST", PRIORITIZE, question(*names, uid=uid)))[1])


def keeping(call: Call, expected: list[str]) -> Callable:
    async def look() -> bool:
        return await kept(call, "old", "new", "a") == expected

    return look


def unknown(webhook: SteeringServer, key: str) -> Callable:
    async def look() -> bool:
        return webhook._service.informer.get(key) is None

    return look


async def test_it_answers_from_the_same_migrations_as_the_webhook(
    client: Client, serve: Serve, eventually: Eventually
):
    async with serve() as webhook, asking(client, webhook) as call:
        assert await kept(call, "old", "new", "a") == ["old", "new", "a"]
        await begin(client)
        await eventually(keeping(call, ["new", "a"]))
        assert is_steered(await created(client))
        assert await scores(call, "new", "a", uid="p-1") == {"new": 10}
        await client.delete(MIGRATIONS, "shop/move-1")
        await eventually(keeping(call, ["old", "new", "a"]))
        assert await scores(call, "new", "a", uid="p-1") == {}


async def test_targets_are_given_out_in_turn_and_each_pod_keeps_its_own(
    client: Client, serve: Serve, eventually: Eventually
):
    await begin(client, "move-1", targetNode="new-1")
    await begin(client, "move-2", targetNode="new-2")
    async with serve() as webhook, asking(client, webhook) as call:
        await eventually(keeping(call, ["new", "a"]))
        asked = ["p-1", "p-1", "p-2", "p-1", "p-2"]
        reported = [await scores(call, "new-1", "new-2", uid=uid) for uid in asked]
        one, other = {"new-1": 10}, {"new-2": 10}
        assert reported == [one, one, other, one, other]


async def test_a_pod_keeps_its_target_when_a_migration_of_the_same_name_ends_elsewhere(
    client: Client, serve: Serve, eventually: Eventually
):
    await client.create(NAMESPACES, {"metadata": {"name": "other"}})
    await begin(client, "move-1", targetNode="new-1")
    await begin(client, "move-2", targetNode="new-2")
    await begin(client, "move-1", namespace="other", targetNode="elsewhere")
    async with serve() as webhook, asking(client, webhook) as call:
        await eventually(keeping(call, ["new", "a"]))
        assert await scores(call, "new-1", "new-2", uid="p-1") == {"new-1": 10}
        await client.delete(MIGRATIONS, "other/move-1")
        await eventually(unknown(webhook, "other/move-1"))
        assert await scores(call, "new-1", "new-2", uid="p-1") == {"new-1": 10}


async def test_before_it_knows_the_migrations_every_node_will_do(
    client: Client, server: ApiServer, serve: Serve, eventually: Eventually
):
    await begin(client)
    fault = InjectedFault("unavailable", verbs=("list",), resource="podmigrations.*", times=None)
    number = server.faults.add(fault)
    async with serve(until_ready=False) as webhook, asking(client, webhook) as call:
        assert await kept(call, "old", "new", "a") == ["old", "new", "a"]
        server.faults.remove(number)
        await eventually(keeping(call, ["new", "a"]))


async def test_alone_it_shows_api_servers_nothing(client: Client, serve: Serve, eventually: Eventually):
    await begin(client)
    async with serve(registers=False) as webhook, asking(client, webhook) as call:
        await eventually(keeping(call, ["new", "a"]))
        (hook,) = (await client.get(MUTATING_WEBHOOKS, configuration_of("ours")))["webhooks"]
        assert "caBundle" not in hook["clientConfig"]


async def test_whatever_is_sent_gets_an_answer_that_a_scheduler_can_read(
    client: Client, serve: Serve, eventually: Eventually
):
    await begin(client)
    async with serve(registers=False) as webhook, asking(client, webhook) as call:
        await eventually(keeping(call, ["new", "a"]))
        context = await scheduler_tls(client)

        @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(st.sampled_from([FILTER, PRIORITIZE]), ANY_BYTES | changed_questions())
        def sent(path: str, body: bytes) -> None:
            connection.request("POST", path, body, {"content-type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200
            (verdict_of if path == FILTER else scores_of)(response.read())

        connection = http.client.HTTPSConnection("127.0.0.1", webhook.extender_port, context=context)
        try:
            await asyncio.to_thread(sent)
        finally:
            connection.close()


# -- who may ask


async def test_who_shows_no_certificate_is_refused_before_anything_is_read(client: Client, serve: Serve):
    async with serve() as webhook:
        known = ssl.create_default_context(cadata=(await credentials_of(client, "ours")).trusted.decode())
        assert await refused(webhook.extender_port, known)


async def test_a_certificate_of_another_authority_is_refused(client: Client, serve: Serve):
    async with serve() as webhook:
        context = ssl.create_default_context(cadata=(await credentials_of(client, "ours")).trusted.decode())
        now = datetime.now(UTC)
        # Of the same name: it is the key that counts.
        name = (await credentials_of(client, "ours")).authority.parsed.subject.rfc4514_string()
        other = new_authority(name.removeprefix("CN="), now, timedelta(days=1))
        shown = new_client_certificate(other, "rescheduler-extender-client", now, timedelta(days=1))
        load_certificate_into(context, shown.certificate, shown.key)
        assert await refused(webhook.extender_port, context)


async def test_the_certificate_of_the_server_does_not_do_for_a_client(client: Client, serve: Serve):
    async with serve() as webhook:
        found = await credentials_of(client, "ours")
        context = ssl.create_default_context(cadata=found.trusted.decode())
        load_certificate_into(context, found.serving.certificate, found.serving.key)
        assert await refused(webhook.extender_port, context)


async def test_an_authority_that_was_replaced_is_not_trusted_any_more(
    client: Client, serve: Serve, eventually: Eventually
):
    """The content of the Secret was deleted, because its key has leaked."""
    async with serve() as webhook:
        leaked = await scheduler_tls(client)
        async with asking(client, webhook) as call:
            assert (await call("GET", "/healthz"))[0] == 200
        await client.patch(SECRETS, f"ours/{WEBHOOK_SECRET}", merge_patch({"data": {"ca.key": "bm9uZQ=="}}))

        async def is_refused() -> bool:
            return await refused(webhook.extender_port, leaked)

        await eventually(is_refused)


async def test_a_question_of_more_than_a_few_megabytes_is_refused(client: Client, serve: Serve):
    """5,000 names are one at most; a scheduler that sends whole nodes gets 413."""
    names = [f"{number:0253}" for number in range(5000)]
    async with serve() as webhook, asking(client, webhook) as call:
        assert await kept(call, *names) == names
        assert (await call("POST", FILTER, b" " * (MAX_BODY_BYTES + 1)))[0] == 413


async def test_each_port_answers_only_its_own_callers(client: Client, serve: Serve):
    async with (
        serve() as webhook,
        calling(client, webhook) as api_server,
        asking(client, webhook) as scheduler,
    ):
        for path in (FILTER, PRIORITIZE):
            assert (await api_server("POST", path, question("a")))[0] == 404
        assert (await scheduler("POST", "/mutate", review_of(pod_of())))[0] == 404


async def refused(port: int, context: ssl.SSLContext) -> bool:
    """Whether a question over this TLS ends without an answer."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except ssl.SSLError:
        return True
    try:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return await asyncio.wait_for(reader.read(1), 20) == b""
    except (ssl.SSLError, ConnectionError):
        return True
    finally:
        writer.transport.abort()
