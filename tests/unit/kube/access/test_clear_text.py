"""Credentials are never sent unencrypted, whatever a kubeconfig says.

The sockets here record what arrives, as an attacker on the network would.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from rescheduler.config.policy_blocks import is_confidential
from rescheduler.kube.access.cluster_access import ClusterAccess, StoredCredentials, bearer_authorization
from rescheduler.kube.access.cluster_config import BadClusterConfig, load_cluster_access
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.transport import ApiRequest, NoResponse

TOKEN = "top-secret-token"

USERS = [
    pytest.param({"token": TOKEN}, id="a token"),
    pytest.param({"tokenFile": "token"}, id="a token file"),
    pytest.param({"username": "me", "password": TOKEN}, id="a password"),
    pytest.param({"client-certificate": "me.crt", "client-key": "me.key"}, id="a client certificate"),
    pytest.param({"exec": {"command": "/nonexistent"}}, id="a credential plugin"),
    pytest.param(
        {"auth-provider": {"name": "oidc", "config": {"idp-issuer-url": "https://x", "id-token": TOKEN}}},
        id="an id token",
    ),
]


@contextlib.asynccontextmanager
async def recording(answer: bytes = b"") -> AsyncIterator[tuple[int, bytearray]]:
    """A listener that answers anything with `answer`; gives its port and what arrived."""
    received = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.read(65536))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], received
    finally:
        server.close()
        await server.wait_closed()


async def test_a_server_without_a_scheme_gets_tls_before_it_gets_a_token(kubeconfig) -> None:
    async with recording() as (port, received):
        file = kubeconfig({"token": TOKEN}, cluster={"server": f"127.0.0.1:{port}"})
        async with HttpTransport(load_cluster_access(file, environment={})) as network:
            with pytest.raises(NoResponse):
                await network.send(ApiRequest("GET", "/version"))
    assert received[:1] == b"\x16", "a TLS handshake"
    assert TOKEN.encode() not in received


@pytest.mark.parametrize("user", USERS)
def test_credentials_make_a_server_without_a_scheme_https(kubeconfig, user) -> None:
    file = kubeconfig(user, cluster={"server": "host.test:6443"})
    assert load_cluster_access(file, environment={}).server == "https://host.test:6443"


@pytest.mark.parametrize(
    ("cluster", "server"),
    [
        pytest.param({"insecure-skip-tls-verify": True}, "https://host.test:6443", id="as for kubectl"),
        pytest.param({}, "http://host.test:6443", id="without credentials or TLS settings, as for kubectl"),
    ],
)
def test_without_credentials_tls_settings_decide(kubeconfig, cluster, server) -> None:
    file = kubeconfig({}, cluster={"server": "host.test:6443", **cluster})
    assert load_cluster_access(file, environment={}).server == server


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("server", ["http://host.test:6443", "HTTP://192.0.2.7", "http://localhost.test"])
def test_credentials_for_a_server_without_tls_are_refused(kubeconfig, user, server) -> None:
    file = kubeconfig(user, cluster={"server": server})
    with pytest.raises(BadClusterConfig) as refused:
        load_cluster_access(file, environment={})
    said = str(refused.value)
    assert str(file) in said
    assert 'cluster "test"' in said
    assert server.lower() in said
    assert "Use https://" in said


def test_a_server_on_this_machine_may_do_without_tls(kubeconfig) -> None:
    """`kubectl proxy`, and the simulator."""
    for server in ("http://127.0.0.1:8001", "http://localhost:8001", "http://[::1]:8001"):
        file = kubeconfig({"token": TOKEN}, cluster={"server": server})
        assert load_cluster_access(file, environment={}).server == server


def test_but_not_through_a_proxy_on_another_machine(kubeconfig) -> None:
    cluster = {"server": "http://127.0.0.1:8001", "proxy-url": "http://proxy.test:3128"}
    with pytest.raises(BadClusterConfig, match=r"through the proxy http://proxy\.test:3128"):
        load_cluster_access(kubeconfig({"token": TOKEN}, cluster=cluster), environment={})


async def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(kubeconfig, monkeypatch) -> None:
    """It would see the token."""
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
    async with recording(answer) as (proxy, recorded_requests), recording(answer) as (port, received):
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy}")
        monkeypatch.delenv("no_proxy", raising=False)
        file = kubeconfig({"token": TOKEN}, cluster={"server": f"http://127.0.0.1:{port}"})
        async with (
            HttpTransport(load_cluster_access(file, environment={})) as network,
            await network.send(ApiRequest("GET", "/version")) as response,
        ):
            await response.read()
    assert TOKEN.encode() in received
    assert not recorded_requests


async def test_a_proxy_sees_no_credentials_of_a_server_with_tls(kubeconfig) -> None:
    async with recording(b"HTTP/1.1 502 Bad Gateway\r\n\r\n") as (proxy, recorded_requests):
        cluster = {"server": "https://host.test:6443", "proxy-url": f"http://127.0.0.1:{proxy}"}
        async with HttpTransport(
            load_cluster_access(kubeconfig({"token": TOKEN}, cluster=cluster), environment={})
        ) as network:
            with pytest.raises(NoResponse):
                await network.send(ApiRequest("GET", "/version"))
    assert recorded_requests.startswith(b"CONNECT host.test:6443")
    assert TOKEN.encode() not in recorded_requests


async def test_a_redirect_to_another_server_gets_no_credentials(kubeconfig) -> None:
    async with recording() as (elsewhere, recorded_requests):
        location = f"Location: http://127.0.0.1:{elsewhere}/\r\nContent-Length: 0\r\n\r\n"
        async with recording(b"HTTP/1.1 307 Temporary Redirect\r\n" + location.encode()) as (port, _):
            file = kubeconfig({"token": TOKEN}, cluster={"server": f"http://127.0.0.1:{port}"})
            async with (
                HttpTransport(load_cluster_access(file, environment={})) as network,
                await network.send(ApiRequest("GET", "/version")) as response,
            ):
                assert response.status == 307
    assert not recorded_requests


async def test_credentials_over_the_network_are_refused_likewise() -> None:
    """Such as the settings of Prometheus, which name a token file and a URL."""
    access = ClusterAccess(
        "http://host.test:9090", StoredCredentials(authorization=bearer_authorization(TOKEN)), "the settings"
    )
    async with HttpTransport(access) as network:
        with pytest.raises(NoResponse, match="credentials would be sent unencrypted") as refused:
            await network.send(ApiRequest("GET", "/"))
    assert not refused.value.sent


@pytest.mark.parametrize(
    "server", ["ftp://host", "https://", "https://host:port", "https://host:0", "https://[::1"]
)
def test_what_is_no_url_of_a_server_is_refused(kubeconfig, server) -> None:
    with pytest.raises(BadClusterConfig, match=r"must be https://HOST\[:PORT\]"):
        load_cluster_access(kubeconfig({}, cluster={"server": server}), environment={})


def test_a_password_in_the_server_is_refused_and_not_repeated(kubeconfig) -> None:
    file = kubeconfig({}, cluster={"server": f"https://me:{TOKEN}@host.test"})
    with pytest.raises(BadClusterConfig, match="Move them to a user") as refused:
        load_cluster_access(file, environment={})
    assert TOKEN not in str(refused.value)


def test_an_issuer_without_tls_is_refused(kubeconfig) -> None:
    config = {"idp-issuer-url": "http://issuer.test", "refresh-token": TOKEN}
    file = kubeconfig({"auth-provider": {"name": "oidc", "config": config}})
    with pytest.raises(BadClusterConfig, match="refresh tokens would be sent unencrypted"):
        load_cluster_access(file, environment={})


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://host", True),
        ("http://host", False),
        ("http://127.0.0.1", True),
        ("http://127.0.0.1.nip.test", False),
        ("http://2130706433", False),
        ("http://[::ffff:127.0.0.1]", False),
        ("http://localhost@host.test", False),
        ("http://0.0.0.0", False),
    ],
)
def test_only_tls_and_this_machine_are_confidential(url, expected) -> None:
    assert is_confidential(url) == expected
