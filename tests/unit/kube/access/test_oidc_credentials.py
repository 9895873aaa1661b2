"""Credentials from an OpenID Connect issuer on loopback."""

import asyncio
import base64
import datetime as dt
import ipaddress
import json
import ssl

import pytest
import yaml
from aiohttp import web
from cryptography import x509

from rescheduler.http.http_server import serve_http
from rescheduler.kube.access.cluster_config import BadClusterConfig, load_cluster_access
from rescheduler.kube.transport import NoResponse


def id_token(expires_in_s: float, name: str = "x") -> str:
    claims = {"exp": dt.datetime.now(dt.UTC).timestamp() + expires_in_s, "name": name}
    return f"head.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.signature"


@pytest.fixture
async def issuer(authority, tmp_path):
    """An OpenID Connect issuer: grants what `issuer.grant` says to clients with the right refresh token."""

    class Issuer:
        url = ""
        refresh_token = "refresh-1"
        grant: dict
        asked = 0

    made = Issuer()
    made.grant = {"id_token": id_token(3600, "renewed"), "refresh_token": "refresh-2"}

    async def discovery(request: web.Request) -> web.Response:
        return web.json_response({"token_endpoint": f"{made.url}/token"})

    async def token(request: web.Request) -> web.Response:
        made.asked += 1
        form = await request.post()
        if form["refresh_token"] != made.refresh_token:
            return web.json_response({"error": "invalid_grant"}, status=400)
        made.refresh_token = made.grant.get("refresh_token", made.refresh_token)
        return web.json_response(made.grant)

    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", discovery)
    app.router.add_post("/token", token)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = authority.issue("issuer", x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    context.load_cert_chain(*pair.write(tmp_path, "issuer"))
    async with serve_http(app, "127.0.0.1", 0, tls=lambda: context) as port:
        made.url = f"https://127.0.0.1:{port}"
        yield made


def oidc(issuer, authority=None, **settings) -> dict:
    config = {"idp-issuer-url": issuer.url, "client-id": "kubectl", "refresh-token": "refresh-1", **settings}
    if authority:
        config["idp-certificate-authority-data"] = base64.b64encode(authority.pem).decode()
    return {"auth-provider": {"name": "oidc", "config": config}}


async def test_a_valid_id_token_is_shown_without_asking_the_issuer(serve, reach, issuer, authority, ask):
    valid = id_token(3600)
    async with serve() as server, reach(server, oidc(issuer, authority, **{"id-token": valid})) as network:
        await ask(network)
        assert server.calls[0].headers["Authorization"] == f"Bearer {valid}"
        assert not issuer.asked


async def test_an_expired_id_token_is_renewed_once_and_kept_in_the_file(
    serve, reach, issuer, authority, tmp_path, ask
):
    user = oidc(issuer, authority, **{"id-token": id_token(-1)})
    async with serve() as server, reach(server, user) as network:
        await asyncio.gather(*(ask(network) for _ in range(4)))
        assert {call.headers["Authorization"] for call in server.calls} == {
            f"Bearer {issuer.grant['id_token']}"
        }
        assert issuer.asked == 1
    saved = yaml.safe_load((tmp_path / "kubeconfig").read_text())["users"][0]["user"]["auth-provider"][
        "config"
    ]
    assert saved["id-token"] == issuer.grant["id_token"]
    assert saved["refresh-token"] == "refresh-2"
    assert saved["client-id"] == "kubectl"


async def test_an_issuer_that_gives_no_new_refresh_token_lets_the_old_one_count(
    serve, reach, issuer, authority, ask
):
    issuer.grant = {"id_token": id_token(-1)}
    async with serve() as server, reach(server, oidc(issuer, authority)) as network:
        await ask(network)
        await ask(network)
        assert issuer.asked == 2


async def test_an_issuer_that_cannot_prove_who_it_is_gets_no_refresh_token(serve, reach, issuer, ask):
    async with serve() as server, reach(server, oidc(issuer)) as network:
        with pytest.raises(NoResponse, match=r"did not grant a new id token: .*certificate verify failed"):
            await ask(network)
        assert not issuer.asked


async def test_without_a_refresh_token_a_new_login_is_asked_for(serve, reach, issuer, authority, ask):
    user = oidc(issuer, authority, **{"id-token": id_token(-1), "refresh-token": ""})
    async with serve() as server, reach(server, user) as network:
        with pytest.raises(NoResponse, match="Log in again"):
            await ask(network)


async def test_a_provider_that_kubernetes_has_dropped_is_refused(kubeconfig):
    with pytest.raises(BadClusterConfig, match=r'auth provider "gcp".*exec plugin'):
        load_cluster_access(kubeconfig({"auth-provider": {"name": "gcp"}}), environment={})
