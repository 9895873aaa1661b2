"""What the API server is told: about which pods to ask, never to wait for us; and how that stays so."""

from typing import Any

import pytest

from rescheduler.kube.client import Client
from rescheduler.kube.patches import json_patch
from rescheduler.kube.resources import MUTATING_WEBHOOKS
from rescheduler.serving.admission import answer
from rescheduler.serving.registration import CONFIGURATION, AtUrl, InService, Registration
from tests.unit.serving.conftest import Serve
from tests.unit.serving.migrating import Eventually, begin, created, is_steered, steering
from tests.unit.serving.reviews import OWNER


async def test_the_registration_can_t_stop_any_pod(client: Client, serve: Serve):
    async with serve():
        (hook,) = (await client.get(MUTATING_WEBHOOKS, CONFIGURATION))["webhooks"]
    assert hook["failurePolicy"] == "Ignore"
    assert hook["timeoutSeconds"] == 1
    assert hook["sideEffects"] == "None"
    assert hook["reinvocationPolicy"] == "IfNeeded"
    (rule,) = hook["rules"]
    assert (rule["resources"], rule["operations"], rule["apiGroups"]) == (["pods"], ["CREATE"], [""])


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        pytest.param({}, True, id="of a ReplicaSet"),
        pytest.param({"ownerReferences": [{**OWNER, "kind": "StatefulSet"}]}, True, id="of a StatefulSet"),
        pytest.param({"ownerReferences": [{**OWNER, "kind": "CloneSet"}]}, True, id="of a kind of others"),
        pytest.param({"ownerReferences": [{**OWNER, "kind": "DaemonSet"}]}, False, id="of a DaemonSet"),
        pytest.param({"ownerReferences": [{**OWNER, "kind": "PodMigration"}]}, False, id="that is a copy"),
        pytest.param({"ownerReferences": [{**OWNER, "controller": False}]}, False, id="without a controller"),
        pytest.param({"ownerReferences": None}, False, id="of nobody"),
    ],
)
async def test_it_is_asked_about_a_pod(
    client: Client, serve: Serve, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], asked: bool
):
    reviewed: list[bytes] = []
    monkeypatch.setattr(
        "rescheduler.serving.steering_desk.answer",
        lambda body, *rest: reviewed.append(body) or answer(body, *rest),
    )
    async with serve():
        await created(client, **change)
    assert bool(reviewed) is asked


async def test_a_bundle_that_somebody_has_broken_is_mended(
    client: Client, serve: Serve, eventually: Eventually
):
    await begin(client)
    async with serve():
        await eventually(steering(client))
        good = (await client.get(MUTATING_WEBHOOKS, CONFIGURATION))["webhooks"][0]["clientConfig"]["caBundle"]
        broken = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
        await client.patch(MUTATING_WEBHOOKS, CONFIGURATION, json_patch(broken))

        async def mended() -> bool:
            (hook,) = (await client.get(MUTATING_WEBHOOKS, CONFIGURATION))["webhooks"]
            return hook["clientConfig"].get("caBundle") == good

        await eventually(mended)
        assert is_steered(await created(client))


async def test_a_registration_that_somebody_has_deleted_is_made_again(
    client: Client, serve: Serve, eventually: Eventually
):
    async with serve():
        before = await client.get(MUTATING_WEBHOOKS, CONFIGURATION)
        await client.delete(MUTATING_WEBHOOKS, CONFIGURATION)

        async def again() -> bool:
            page = await client.list(MUTATING_WEBHOOKS)
            return any(each["metadata"]["uid"] != before["metadata"]["uid"] for each in page.items)

        await eventually(again)


async def test_a_selector_that_the_cluster_s_owner_has_set_stays(
    client: Client, serve: Serve, eventually: Eventually
):
    async with serve():
        selector = {"matchLabels": {"steer": "yes"}}
        theirs = [
            {"op": "add", "path": "/webhooks/0/namespaceSelector", "value": selector},
            {"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 30},
        ]
        await client.patch(MUTATING_WEBHOOKS, CONFIGURATION, json_patch(theirs))

        async def mended() -> Any:
            (hook,) = (await client.get(MUTATING_WEBHOOKS, CONFIGURATION))["webhooks"]
            return hook if hook["timeoutSeconds"] == 1 else None

        hook = await eventually(mended)
        assert hook["namespaceSelector"] == selector


async def test_what_is_as_it_should_be_is_not_written(client: Client):
    registration = Registration(client, InService("ours", "hook"), "ours")
    assert await registration.keep(b"one")
    assert not await registration.keep(b"one")
    assert await registration.keep(b"another")


def test_a_service_is_called_by_the_name_that_api_servers_ask_for():
    address = InService("ours", "hook", 8443)
    assert "hook.ours.svc" in address.names
    where = {"namespace": "ours", "name": "hook", "path": "/mutate", "port": 8443}
    assert address.client_config == {"service": where}


@pytest.mark.parametrize(
    ("url", "called", "name"),
    [
        pytest.param("https://10.0.0.1:9443", "https://10.0.0.1:9443/mutate", "10.0.0.1", id="an address"),
        pytest.param("https://[::1]:9443/", "https://[::1]:9443/mutate", "::1", id="an IPv6 address"),
        pytest.param("https://hook.example", "https://hook.example/mutate", "hook.example", id="a name"),
    ],
)
def test_outside_of_the_cluster_it_is_called_by_a_url(url: str, called: str, name: str):
    assert AtUrl(url).client_config == {"url": called}
    assert AtUrl(url).names == (name,)
