"""The API server refuses every shipped service account what is beyond its task."""

import json
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kubevalues.connections import ClosingConnector
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME
from rescheduler.install.install_options import DAEMON, WEBHOOK
from rescheduler.kube.client import FIELD_MANAGER
from tests.e2e.installed import attacks
from tests.e2e.installed.attacks import BOTH, DAEMONS, HOME, JOB, POLICY, WEBHOOKS, WEBHOOKS_JOB, Request
from tests.testbed import ControlPlane, Part
from tests.testbed.options import Options

STILL = Options(
    flags={Part.CONTROLLER_MANAGER: ("--controllers=validatingadmissionpolicy-status-controller",)}
)
"""No controller touches the objects: a pod stays although its owner doesn't exist."""

Send = Callable[..., Awaitable[tuple[int, dict[str, Any]]]]
Eventually = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    rescheduler = Path(sys.executable).with_name("rescheduler")
    command = [rescheduler, "manifests", "--create-namespace"]
    manifests = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    with ControlPlane(tmp_path_factory.mktemp("attacked"), STILL) as started:
        started.kubectl("apply", "--server-side", "-f", "-", stdin="---\n".join(manifests.split("---\n")[:2]))
        started.wait_until_served(PODMIGRATION_CRD_NAME)
        started.kubectl("apply", "--server-side", "-f", "-", stdin=manifests)
        for item in attacks.stage():
            started.kubectl("create", "--validate=strict", "-f", "-", stdin=json.dumps(item))
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
        started.kubectl(
            "patch",
            "pod",
            "web-1",
            "-n",
            attacks.SHOP,
            "--subresource=status",
            "-p",
            json.dumps({"status": ready}),
        )
        yield started


@pytest.fixture(scope="module")
def tokens(control_plane: ControlPlane) -> dict[str, str]:
    def token(account: str) -> str:
        return control_plane.kubectl("create", "token", account, "-n", HOME).strip()

    return {"admin": control_plane.admin_token, DAEMON: token(DAEMON), WEBHOOK: token(WEBHOOK)}


@pytest.fixture
async def send(control_plane: ControlPlane, tokens: dict[str, str]) -> AsyncIterator[Send]:
    """await send(request, as_whom, dry_run=False): the status code and what the server says."""
    trusted = ssl.create_default_context(cafile=str(control_plane.ca_certificate))
    async with aiohttp.ClientSession(connector=ClosingConnector(ssl=trusted)) as session:

        async def sent(request: Request, whom: str, *, dry_run: bool = False) -> tuple[int, dict[str, Any]]:
            headers = {"Authorization": f"Bearer {tokens[whom]}", "Content-Type": request.content_type}
            path = request.path
            if request.method not in {"GET", "DELETE"} and "fieldManager" not in path:
                # As our programs do.
                path += ("&" if "?" in path else "?") + f"fieldManager={FIELD_MANAGER}"
            if dry_run and request.method != "GET":
                path += ("&" if "?" in path else "?") + "dryRun=All"
            async with session.request(
                request.method,
                f"{control_plane.server}{path}",
                headers=headers | dict(request.headers),
                data=None if request.body is None else json.dumps(request.body),
            ) as response:
                text = await response.text()
                try:
                    return response.status, json.loads(text)
                except ValueError:
                    return response.status, {"message": text}

        yield sent


@pytest.fixture
async def enforced(control_plane: ControlPlane, send: Send, eventually: Eventually) -> None:
    """The server evaluates the policies, of which it learns a moment after they are created."""
    if control_plane in _enforced:
        return
    for request in DAEMONS:
        if request.by == POLICY and "kube-system" not in request.path:  # where dry runs are allowed

            async def is_refused(request: Request = request) -> bool:
                return (await send(request, DAEMON, dry_run=True))[0] == 403

            await eventually(is_refused, timeout_s=60)
    _enforced.append(control_plane)


_enforced: list[ControlPlane] = []


ATTACKS = [
    *(
        pytest.param(account, request, id=f"{account} can't {request.name}")
        for account in (DAEMON, WEBHOOK)
        for request in BOTH
    ),
    *(pytest.param(DAEMON, request, id=f"{DAEMON} can't {request.name}") for request in DAEMONS),
    *(pytest.param(WEBHOOK, request, id=f"{WEBHOOK} can't {request.name}") for request in WEBHOOKS),
]


@pytest.mark.parametrize(("account", "request_"), ATTACKS)
async def test_an_attack_is_refused(account: str, request_: Request, send: Send, enforced: None) -> None:
    if request_.is_dry_run:
        # Else it might be refused because it is invalid.
        code, said = await send(request_, "admin", dry_run=True)
        assert code < 300, said
    code, said = await send(request_, account)
    assert (code, said.get("reason")) == (403, "Forbidden"), said
    is_by_policy = "ValidatingAdmissionPolicy" in said["message"]
    assert is_by_policy == (request_.by == POLICY), said["message"]


NEEDED = [
    *(pytest.param(DAEMON, request, id=f"{DAEMON} can {request.name}") for request in JOB),
    *(pytest.param(WEBHOOK, request, id=f"{WEBHOOK} can {request.name}") for request in WEBHOOKS_JOB),
]


@pytest.mark.parametrize(("account", "request_"), NEEDED)
async def test_what_it_needs_is_allowed(account: str, request_: Request, send: Send, enforced: None) -> None:
    code, said = await send(request_, account, dry_run=True)
    assert code < 300, said


async def test_the_server_finds_no_fault_in_the_expressions(
    control_plane: ControlPlane, eventually: Eventually
) -> None:
    """It checks their types against the kinds that they are for."""

    async def policies() -> list[dict[str, Any]]:
        listed = control_plane.kubectl("get", "validatingadmissionpolicies", "-o", "json")
        found: list[dict[str, Any]] = json.loads(listed)["items"]
        return found if all("typeChecking" in item.get("status", {}) for item in found) else []

    found = await eventually(policies)
    assert len(found) > 10
    assert {item["metadata"]["name"]: item["status"]["typeChecking"] for item in found} == {
        item["metadata"]["name"]: {} for item in found
    }
