"""A certificate authority, and API servers on loopback that report which client called."""

import base64
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rescheduler.http.http_server import serve_http
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.transport import ApiRequest

WHEN = dt.datetime.now(dt.UTC)


@dataclass
class Pair:
    """A certificate with its key, as PEM."""

    chain: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        chain, key = folder / f"{name}.crt", folder / f"{name}.key"
        chain.write_bytes(self.chain)
        key.write_bytes(self.key)
        return chain, key


LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


def data(pem: bytes) -> str:
    """Encode it as the `…-data` fields of a kubeconfig."""
    return base64.b64encode(pem).decode()


class Authority:
    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        own = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.pem = own.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(self, common_name: str, *names: x509.GeneralName) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = self._builder(subject, key)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return Pair(
            signed.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(WHEN - dt.timedelta(days=1))
            .not_valid_after(WHEN + dt.timedelta(days=1))
        )


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority("the cluster's authority")


@dataclass
class Call:
    """What a server saw of a request."""

    headers: dict[str, str]
    path: str
    certificate: str
    """The common name in the client's certificate."""


@dataclass
class LoopbackServer:
    url: str
    accepts: Callable[[Call], bool] = lambda call: True
    calls: list[Call] = field(default_factory=list)


@pytest.fixture
def serve(authority: Authority, tmp_path: Path) -> Callable[..., Any]:
    """`async with serve() as server`: HTTPS on a free port; answers 401 to what it does not accept."""

    @asynccontextmanager
    async def running(*names: x509.GeneralName, tls: bool = True) -> AsyncIterator[LoopbackServer]:
        context = None
        if tls:
            pair = authority.issue("server", *(names or (LOOPBACK,)))
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*pair.write(tmp_path, "server"))
            context.load_verify_locations(cadata=authority.pem.decode())
            context.verify_mode = ssl.CERT_OPTIONAL

        async def answer(request: web.Request) -> web.Response:
            shown = request.transport.get_extra_info("peercert") if request.transport else None
            subject = dict(part[0] for part in shown["subject"]) if shown else {}
            call = Call(dict(request.headers), request.path_qs, subject.get("commonName", ""))
            server.calls.append(call)
            return web.json_response({}, status=200 if server.accepts(call) else 401)

        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", answer)
        async with serve_http(app, "127.0.0.1", 0, tls=(lambda: context) if context else None) as port:
            server = LoopbackServer(f"{'https' if tls else 'http'}://127.0.0.1:{port}")
            yield server

    return running


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Callable[..., Path]:
    """Writes a kubeconfig with one context, and returns its path."""

    def write(
        user: dict[str, Any] | None = None,
        *,
        cluster: dict[str, Any] | None = None,
        name: str = "test",
        context: dict[str, Any] | None = None,
        file: str = "kubeconfig",
    ) -> Path:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "contexts": [
                {
                    "name": name,
                    "context": {
                        "cluster": name,
                        **({"user": name} if user is not None else {}),
                        **(context or {}),
                    },
                }
            ],
            "clusters": [{"name": name, "cluster": {"server": "https://127.0.0.1:1", **(cluster or {})}}],
            "users": [{"name": name, "user": user}] if user is not None else [],
        }
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content))
        return path

    return write


@pytest.fixture
def reach(kubeconfig: Callable[..., Path], authority: Authority) -> Callable[..., HttpTransport]:
    """A network to `server`, as a kubeconfig with this user describes it."""

    def network(server: LoopbackServer, user: dict[str, Any]) -> HttpTransport:
        cluster = {"server": server.url, "certificate-authority-data": data(authority.pem)}
        return HttpTransport(load_cluster_access(kubeconfig(user, cluster=cluster), environment={}))

    return network


@pytest.fixture
def ask() -> Callable[[HttpTransport], Awaitable[int]]:
    """Sends a request and returns the status of the answer."""

    async def send(network: HttpTransport) -> int:
        async with await network.send(ApiRequest("GET", "/version")) as response:
            await response.read()
            return response.status

    return send
