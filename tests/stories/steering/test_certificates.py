"""With a real API server, certificates are replaced without a failed call, and mistakes are fixed."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from rescheduler.api.well_known_names import EVICTION_WEBHOOK
from rescheduler.cluster.sources.live_source import WEBHOOK_LABEL_SELECTOR
from rescheduler.install.component_manifests import configuration_text, webhook_objects
from rescheduler.install.install_options import WEBHOOK, Options, with_install_id
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS, SECRETS, Object, json_patch
from rescheduler.kube.client import Client
from rescheduler.steering.steering_server import SteeringServer, SteeringServerOptions
from rescheduler.steering.webhook.certificate_manager import CertificateIntervals
from rescheduler.steering.webhook.certificate_secret import (
    CertificateLifetimes,
    CertificateSecret,
    renew_credentials,
)
from rescheduler.steering.webhook.webhook_configurations import (
    EVICTION_PATH,
    WEBHOOK_CONFIGURATION_KINDS,
    WEBHOOK_SECRET,
    CABundleWriter,
    ServiceAddress,
    UrlAddress,
)
from tests.stories.steering.certificate_rotation import (
    LIFETIMES,
    ROUNDS_S,
    ClockAhead,
    credentials_of,
    is_caught_up,
    under_load,
)
from tests.stories.steering.steered import MakeSteered
from tests.testbed import ControlPlane
from tests.webhook_installed import configuration_of, install_webhook

pytestmark = pytest.mark.control_plane(reason="tests/unit/steering has the rotation on the simulator")


@pytest.fixture
def steering() -> str:
    return "webhook"


async def hook(client: Client) -> Object:
    (installed,) = (await client.list(MUTATING_WEBHOOKS, labels=WEBHOOK_LABEL_SELECTOR)).items
    (found,) = installed["webhooks"]
    return found


async def test_rotation_under_load(
    make_steered: MakeSteered,
    ours: Client,
    unused_tcp_port: int,
    eventually: Callable[..., Any],
    unregistered: None,
) -> None:
    """Certificates and their authority are replaced while pods are created: each one is steered."""
    steered = await make_steered(nodes=1)
    client, namespace, clock = steered.client, steered.sandbox.namespace, ClockAhead()
    options = SteeringServerOptions(
        namespace,
        UrlAddress(f"https://127.0.0.1:{unused_tcp_port}"),
        host="127.0.0.1",
        port=unused_tcp_port,
        extender_port=0,
        lifetimes=LIFETIMES,
        pace=CertificateIntervals(pause_s=0.05, longest_s=0.1),
    )
    answers: list[bool] = []
    seen = []

    async def make_a_pod() -> None:
        answers.append(await steered.steers())

    async def caught_up() -> bool:
        found = await credentials_of(client, namespace)
        bundle = (await hook(client))["clientConfig"]["caBundle"]
        return is_caught_up(found, clock) and b64decode(bundle) == found.trusted

    await install_webhook(client, namespace, options.address)
    webhook = SteeringServer(ours, options, now=clock.now)
    async with webhook.running():
        await webhook.registered()
        async with steered.probing(), under_load(make_a_pod, eventually) as asked:
            for seconds in ROUNDS_S:
                clock.by_s = seconds
                await eventually(caught_up)
                await asked(20)
                seen.append(await credentials_of(client, namespace))
    assert all(answers), f"{answers.count(False)} of {len(answers)} pods were not steered"
    assert len({each.serving.certificate for each in seen}) >= 3
    assert seen[-1].authority != seen[0].authority


async def test_an_edited_bundle_is_restored(
    make_steered: MakeSteered, eventually: Callable[..., Any]
) -> None:
    steered = await make_steered(nodes=1)
    async with steered.serving(), steered.probing():
        good = (await hook(steered.client))["clientConfig"]["caBundle"]
        others = renew_credentials(None, ("127.0.0.1",), datetime.now(UTC), CertificateLifetimes())
        wrong = b64encode(others.trusted).decode()
        change = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": wrong}]
        await steered.client.patch(
            MUTATING_WEBHOOKS, configuration_of(steered.sandbox.namespace), json_patch(change)
        )

        async def restored() -> bool:
            return bool((await hook(steered.client))["clientConfig"]["caBundle"] == good)

        await eventually(restored)
        await eventually(steered.steers)


@pytest.mark.full
async def test_an_empty_secret_of_any_type_is_filled(make_steered: MakeSteered) -> None:
    """Of an earlier version it may be of another type than the installed one: a type never changes."""
    steered = await make_steered(nodes=1)
    metadata = {"namespace": steered.sandbox.namespace, "name": WEBHOOK_SECRET}
    empty = {"tls.crt": "", "tls.key": ""}
    await steered.client.create(SECRETS, {"metadata": metadata, "type": "kubernetes.io/tls", "data": empty})
    async with steered.serving(), steered.probing():
        assert (await credentials_of(steered.client, steered.sandbox.namespace)).serving


@pytest.mark.full
async def test_of_two_that_run_either_answers_for_the_other(make_steered: MakeSteered) -> None:
    """Both serve what is in the one Secret; the address is that of the second."""
    steered = await make_steered(nodes=1)
    async with steered.serving():
        first = await credentials_of(steered.client, steered.sandbox.namespace)
        async with steered.serving(), steered.probing():
            assert await credentials_of(steered.client, steered.sandbox.namespace) == first


@pytest.mark.parametrize("how", [(), ("--server-side", "--force-conflicts")], ids=["kubectl", "the server"])
async def test_manifests_applied_again_by(
    how: tuple[str, ...], control_plane: ControlPlane, ours: Client, namespace: str, unregistered: None
) -> None:
    """What the webhook has written stays. Helm merges like kubectl does."""
    items = [
        with_install_id(item, namespace)
        for item in webhook_objects(Options(), namespace, configuration_text(Options()))
        if item["kind"] == "Secret" or item["kind"].endswith("WebhookConfiguration")
    ]
    assert len(items) == 3

    def apply() -> None:
        everything = {"apiVersion": "v1", "kind": "List", "items": items}
        control_plane.kubectl("apply", *how, "-f", "-", stdin=json.dumps(everything))

    apply()
    address = ServiceAddress(namespace, WEBHOOK)
    credentials = await CertificateSecret(
        ours, namespace, address.names, lambda: datetime.now(UTC)
    ).credentials()
    assert await CABundleWriter(ours, address, namespace).sync(credentials.trusted, "token") == []
    apply()
    assert await credentials_of(ours, namespace) == credentials
    hooks = {
        hook["name"]: hook["clientConfig"]
        for kind in WEBHOOK_CONFIGURATION_KINDS
        for hook in (await ours.get(kind, configuration_of(namespace)))["webhooks"]
    }
    assert len(hooks) == 3
    assert {b64decode(each["caBundle"]) for each in hooks.values()} == {credentials.trusted}
    assert hooks[EVICTION_WEBHOOK]["service"]["path"] == f"{EVICTION_PATH}token"
