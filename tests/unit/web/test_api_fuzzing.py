"""The API does what its description says, whatever is sent: requests are generated from the description."""

import asyncio
import threading

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from rescheduler.web.web_authorization import LinkAuthorizer
from rescheduler.web.web_openapi import openapi_document
from rescheduler.web.web_server import PageOptions, serve_page
from tests.unit.web.conftest import saved_page

CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def served():
    """A server in a thread of its own, and the headers of a session."""
    ready, ended, found = threading.Event(), asyncio.Event(), {}

    async def serve():
        page = saved_page()
        authorizer = LinkAuthorizer(page, read_only=True)
        async with serve_page(page, authorizer, PageOptions(requests_per_second=1e6)) as port:
            found.update(loop=asyncio.get_running_loop(), port=port, secret=authorizer.secret)
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(30)
    base = f"http://127.0.0.1:{found['port']}"
    with requests.Session() as session:
        answer = session.post(f"{base}/api/v1/login", json={"token": found["secret"]}, timeout=10)
        assert answer.status_code == 200
        cookie = "; ".join(f"{each.name}={each.value}" for each in session.cookies)
    yield base, {"Cookie": cookie, "X-Rescheduler-CSRF": answer.json()["csrfToken"]}
    found["loop"].call_soon_threadsafe(ended.set)
    thread.join()


SCHEMA = schemathesis.openapi.from_dict(openapi_document())
NOT_FUZZED = {"events", "login", "logout"}
"""A stream that does not end, and what would end the session."""
OPERATIONS = {
    operation.definition.raw["operationId"]: operation
    for operation in (found.ok() for found in SCHEMA.get_all_operations())
    if operation.definition.raw["operationId"] not in NOT_FUZZED
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_answer_is_as_described(name, served):
    base, headers = served

    @given(case=OPERATIONS[name].as_strategy())
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    def fuzz(case):
        # What the fuzzer invents for the session would only lead to 401 and 403.
        case.headers = {**(case.headers or {}), **headers}
        case.cookies = {}
        answer = case.call(base_url=base)
        case.validate_response(answer, checks=CHECKS)

    fuzz()
