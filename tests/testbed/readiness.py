"""Ask a component over HTTP whether it is ready, instead of sleeping."""

import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

__all__ = ["get", "post", "until"]

_REQUEST_TIMEOUT_S = 5.0
_POLL_S = 0.1


def until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Asks again and again; False if it was not so within the time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def get(url: str, *, token: str = "", ca_certificate: Path | None = None) -> bytes | None:
    """The body of a 200; None for every other answer and for none. Without a CA any certificate will do."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        return _open(urllib.request.Request(url, headers=headers), ca_certificate)
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return None
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return None


def post(url: str, body: dict[str, object]) -> dict[str, object]:
    """POSTs JSON without credentials: etcd's gateway on loopback."""
    answer = json.loads(_open(urllib.request.Request(url, data=json.dumps(body).encode())))
    assert isinstance(answer, dict)
    return answer


def _open(request: urllib.request.Request, ca_certificate: Path | None = None) -> bytes:
    # Loopback only: a proxy from the environment has no business here.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if request.type == "https":
        context = ssl.create_default_context(cafile=ca_certificate)
        if ca_certificate is None:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        handlers.append(urllib.request.HTTPSHandler(context=context))
    opener = urllib.request.build_opener(*handlers)
    with opener.open(request, timeout=_REQUEST_TIMEOUT_S) as answer:
        content = answer.read()
    assert isinstance(content, bytes)
    return content
