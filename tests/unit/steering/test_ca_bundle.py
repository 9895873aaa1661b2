"""The webhook configurations: selected pods, failure policy, and how they stay current."""

from typing import Any

import pytest

from rescheduler.install.component_manifests import objects_that_the_webhook_writes
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, json_patch
from rescheduler.kube.client import Client
from rescheduler.steering.steering_server import SteeringServer, SteeringServerOptions
from rescheduler.steering.webhook.pod_mutation import answer_review
from rescheduler.steering.webhook.webhook_configurations import (
    WEBHOOK_SECRET,
    CABundleWriter,
    ServiceAddress,
    UnguardedEvictions,
    UrlAddress,
    webhook_configurations,
)
from tests.stories.steering.https_calls import calling
from tests.stories.steering.simulated_steering import PACE
from tests.unit.steering.conftest import Serve
from tests.unit.steering.reviews import OWNER
from tests.unit.steering.steered_migrations import Eventually, begin, created, is_steered, steering
from tests.webhook_installed import configuration_of, install_webhook

OURS = configuration_of("ours")


@pytest.mark.parametrize("number", [0, 1], ids=["that steers", "that guards"])
def test_a_registration_can_t_hold_up_pods(number: int):
    hook = webhook_configurations(ServiceAddress("ours", "hook"))[number]["webhooks"][0]
    assert hook["failurePolicy"] == "Ignore"
    assert hook["timeoutSeconds"] == 1
    assert hook["sideEffects"] == "None"
    (rule,) = hook["rules"]
    assert (rule["resources"], rule["operations"], rule["apiGroups"]) == (["pods"], ["CREATE"], [""])
    assert "caBundle" not in hook["clientConfig"], "applying it again leaves what was written"


def test_the_registration_for_evictions_can_t_hold_up_drains():
    unguarded = UnguardedEvictions("system:serviceaccount:ours:rescheduler", '["kube-system"]')
    address = ServiceAddress("ours", "hook")
    _, hook = webhook_configurations(address, unguarded=unguarded)[1]["webhooks"]
    assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 2)
    assert hook["sideEffects"] == "NoneOnDryRun"
    (rule,) = hook["rules"]
    assert (rule["resources"], rule["operations"]) == (["pods/eviction"], ["CREATE"])
    assert "path" not in hook["clientConfig"]["service"], "applying it again leaves what was written"
    assert [each["expression"] for each in hook["matchConditions"]] == [
        "request.userInfo.username != 'system:serviceaccount:ours:rescheduler'",
        '!(request.namespace in ["kube-system"])',
    ]


async def test_the_secret_part_of_the_path_is_written_and_restored(client: Client):
    """Installing again removes it; nothing else of where requests go is ever changed."""
    address = ServiceAddress("ours", "hook")
    await install_webhook(client, "ours", address)
    registration = CABundleWriter(client, address, "ours")

    async def service() -> Any:
        _, hook = (await client.get(VALIDATING_WEBHOOKS, OURS))["webhooks"]
        return hook["clientConfig"]["service"]

    await registration.sync(b"ca", "token")
    written = await service()
    assert written == {"namespace": "ours", "name": "hook", "port": 443, "path": "/evictions/token"}
    removal = {"op": "remove", "path": "/webhooks/1/clientConfig/service/path"}
    await client.patch(VALIDATING_WEBHOOKS, OURS, json_patch([removal]))
    await registration.sync(b"ca", "token")
    assert await service() == written


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        pytest.param({}, True, id="of a ReplicaSet"),
        pytest.param({"ownerReferences": [{**OWNER, "kind": "StatefulSet"}]}, True, id="of a StatefulSet"),
        pytest.param({"ownerReferences": [{**OWNER, "kind": "CloneSet"}]}, True, id="of a kind of others"),
        pytest.param({"ownerReferences": [{**OWNER, "kind": "DaemonSet"}]}, False, id="of a DaemonSet"),
        pytest.param({"ownerReferences": [{**OWNER, "kind": "PodMigration"}]}, False, id="that is a copy"),
        pytest.param({"ownerReferences": [{**OWNER, "controller": False}]}, False, id="without a controller"),
        pytest.param({"ownerReferences": None}, False, id="without an owner"),
    ],
)
async def test_it_is_asked_about_a_pod(
    client: Client, serve: Serve, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], asked: bool
):
    reviewed: list[bytes] = []
    monkeypatch.setattr(
        "rescheduler.steering.steering_service.answer_review",
        lambda body, *rest: reviewed.append(body) or answer_review(body, *rest),
    )
    async with serve():
        await created(client, **change)
    assert bool(reviewed) is asked


async def test_a_broken_bundle_is_repaired(client: Client, serve: Serve, eventually: Eventually):
    await begin(client)
    async with serve():
        await eventually(steering(client))
        good = (await client.get(MUTATING_WEBHOOKS, OURS))["webhooks"][0]["clientConfig"]["caBundle"]
        broken = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
        await client.patch(MUTATING_WEBHOOKS, OURS, json_patch(broken))

        async def repaired() -> bool:
            (hook,) = (await client.get(MUTATING_WEBHOOKS, OURS))["webhooks"]
            return hook["clientConfig"].get("caBundle") == good

        await eventually(repaired)
        assert is_steered(await created(client))


async def test_a_registration_that_is_missing_is_reported_and_never_made(
    client: Client, serve: Serve, eventually: Eventually, caplog: pytest.LogCaptureFixture
):
    await begin(client)
    async with serve() as webhook, calling(client, webhook) as call:
        await eventually(steering(client))
        installed = await client.get(MUTATING_WEBHOOKS, OURS)
        await client.delete(MUTATING_WEBHOOKS, OURS)

        async def reported() -> bool:
            return "MutatingWebhookConfiguration rescheduler.ours is missing" in caplog.text

        await eventually(reported)
        assert "rescheduler manifests" in caplog.text, "what to do"
        assert (await call("GET", "/healthz"))[0] == 200, "it goes on serving"
        assert (await client.list(MUTATING_WEBHOOKS)).items == []
        names = {"name": OURS, "labels": installed["metadata"]["labels"]}
        await client.create(MUTATING_WEBHOOKS, {**installed, "metadata": names})
        await eventually(steering(client))


async def test_a_secret_that_is_missing_is_reported_and_never_made(
    client: Client, serve: Serve, eventually: Eventually, caplog: pytest.LogCaptureFixture
):
    await begin(client)
    async with serve() as webhook:
        await eventually(steering(client))
        await client.delete(SECRETS, f"ours/{WEBHOOK_SECRET}")

        async def reported() -> bool:
            return "Secret ours/rescheduler-webhook-cert is missing" in caplog.text

        await eventually(reported)
        assert is_steered(await created(client)), "it goes on with the certificate that it has"
        assert webhook.is_ready
        assert (await client.list(SECRETS, namespace="ours")).items == []
        await client.create(SECRETS, objects_that_the_webhook_writes("ours")[0])

        async def filled() -> bool:
            return bool((await client.get(SECRETS, f"ours/{WEBHOOK_SECRET}")).get("data"))

        await eventually(filled)
        await eventually(steering(client))


async def test_without_a_secret_it_starts_and_waits_for_one(
    client: Client, unused_tcp_port: int, eventually: Eventually
):
    await begin(client)
    address = UrlAddress(f"https://127.0.0.1:{unused_tcp_port}")
    options = SteeringServerOptions(
        "ours", address, host="127.0.0.1", port=unused_tcp_port, extender_port=0, pace=PACE, drain_s=0.0
    )
    async with SteeringServer(client, options).running():
        await install_webhook(client, "ours", address)
        await eventually(steering(client))


async def test_only_the_bundle_is_written(client: Client, serve: Serve, eventually: Eventually):
    """What else the configurations say is installed, and its owner's to change."""
    selector = {"matchLabels": {"steer": "yes"}}
    theirs = [
        {"op": "add", "path": "/webhooks/0/namespaceSelector", "value": selector},
        {"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"},
    ]
    async with serve():
        for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            before = (await client.get(kind, OURS))["webhooks"][0]
            await client.patch(kind, OURS, json_patch(theirs))

            async def restored(kind: Any = kind) -> Any:
                hook = (await client.get(kind, OURS))["webhooks"][0]
                return hook if hook["clientConfig"].get("caBundle") else None

            assert await eventually(restored) == {**before, "namespaceSelector": selector}


async def test_what_is_as_it_should_be_is_not_written(client: Client):
    address = ServiceAddress("ours", "hook")
    await install_webhook(client, "ours", address)
    registration = CABundleWriter(client, address, "ours")

    async def versions() -> set[str]:
        kinds = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        return {(await client.get(each, OURS))["metadata"]["resourceVersion"] for each in kinds}

    assert await registration.sync(b"one") == []
    before = await versions()
    await registration.sync(b"one")
    assert await versions() == before
    await registration.sync(b"another")
    assert await versions() != before


async def test_one_that_leads_elsewhere_is_reported(client: Client):
    await install_webhook(client, "ours", ServiceAddress("theirs", "hook"))
    first, second = await CABundleWriter(client, ServiceAddress("ours", "hook"), "ours").sync(b"one")
    assert "MutatingWebhookConfiguration rescheduler.ours points to another server" in first
    assert "ValidatingWebhookConfiguration rescheduler.ours points to another server" in second


def test_a_service_is_called_by_the_name_that_api_servers_ask_for():
    address = ServiceAddress("ours", "hook", 8443)
    assert "hook.ours.svc" in address.names
    where = {"namespace": "ours", "name": "hook", "path": "/mutate", "port": 8443}
    assert address.client_config("/mutate") == {"service": where}


@pytest.mark.parametrize(
    ("url", "called", "name"),
    [
        pytest.param("https://10.0.0.1:9443", "https://10.0.0.1:9443/mutate", "10.0.0.1", id="an address"),
        pytest.param("https://[::1]:9443/", "https://[::1]:9443/mutate", "::1", id="an IPv6 address"),
        pytest.param("https://hook.example", "https://hook.example/mutate", "hook.example", id="a name"),
    ],
)
def test_outside_of_the_cluster_it_is_called_by_a_url(url: str, called: str, name: str):
    assert UrlAddress(url).client_config("/mutate") == {"url": called}
    assert UrlAddress(url).names == (name,)
