"""Tokens and certificates, shown to a real TLS server on loopback."""

import base64

import pytest

from rescheduler.kube.access import cluster_access
from rescheduler.kube.access.cluster_access import StoredCredentials
from rescheduler.kube.access.cluster_config import BadClusterConfig, load_cluster_access
from rescheduler.kube.transport import NoResponse


def data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


@pytest.mark.parametrize(
    "token", [pytest.param("secret", id="as it is"), pytest.param("secret\n", id="trimmed")]
)
async def test_a_bearer_token_is_shown(token, serve, reach, ask):
    async with serve() as server, reach(server, {"token": token}) as network:
        assert await ask(network) == 200
        assert server.calls[0].headers["Authorization"] == "Bearer secret"


async def test_user_name_and_password_are_shown(serve, reach, ask):
    async with serve() as server, reach(server, {"username": "me", "password": "pw"}) as network:
        await ask(network)
        assert server.calls[0].headers["Authorization"] == "Basic bWU6cHc="


@pytest.mark.parametrize(
    "as_files", [pytest.param(True, id="from files"), pytest.param(False, id="from data")]
)
async def test_a_client_certificate_is_shown(as_files, serve, reach, authority, tmp_path, ask):
    pair = authority.issue("jane")
    chain, key = pair.write(tmp_path, "jane")
    files = {"client-certificate": chain.name, "client-key": key.name}
    inline = {"client-certificate-data": data(pair.chain), "client-key-data": data(pair.key)}
    async with serve() as server, reach(server, files if as_files else inline) as network:
        await ask(network)
        assert server.calls[0].certificate == "jane"


async def test_a_certificate_without_its_key_is_refused_at_once(kubeconfig):
    with pytest.raises(BadClusterConfig, match="must have both a client certificate and its key"):
        load_cluster_access(kubeconfig({"client-certificate-data": data(b"x")}), environment={})


async def test_groups_to_act_as_become_one_header_each(serve, reach, ask):
    async with (
        serve() as server,
        reach(server, {"token": "t", "as": "jane", "as-groups": ["a", "b"]}) as network,
    ):
        await ask(network)
        assert server.calls[0].headers["Impersonate-User"] == "jane"
        assert server.calls[0].headers["Impersonate-Group"] in {"a", "b"}


async def test_a_token_file_is_read_again_after_a_minute(tmp_path):
    now = [0.0]
    (tmp_path / "token").write_text("first\n")
    stored = StoredCredentials(token_file=tmp_path / "token", now=lambda: now[0])
    assert (await stored.current()).authorization == "Bearer first"
    (tmp_path / "token").write_text("second\n")
    now[0] = cluster_access.REREAD_AFTER_S - 1
    assert (await stored.current()).authorization == "Bearer first"
    now[0] = cluster_access.REREAD_AFTER_S
    assert (await stored.current()).authorization == "Bearer second"


async def test_a_refused_token_is_read_again_and_the_request_repeated_once(serve, reach, tmp_path, ask):
    (tmp_path / "token").write_text("old\n")
    async with serve() as server, reach(server, {"tokenFile": "token"}) as network:
        server.accepts = lambda call: call.headers["Authorization"] == "Bearer new"
        assert await ask(network) == 401
        assert len(server.calls) == 1, "the same token again would be pointless"
        (tmp_path / "token").write_text("new\n")
        assert await ask(network) == 200
        assert [call.headers["Authorization"] for call in server.calls[1:]] == ["Bearer old", "Bearer new"]


async def test_a_token_file_that_is_gone_is_reported_and_nothing_is_sent(serve, reach, ask):
    async with serve() as server, reach(server, {"tokenFile": "missing"}) as network:
        with pytest.raises(NoResponse, match=r"can't read .*missing: No such file") as failed:
            await ask(network)
        assert not failed.value.sent
        assert not server.calls
