"""The API does what its description says, whatever is sent: requests are generated from the description."""

import asyncio
import contextlib
import threading

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from rescheduler.web.web_authorization import LinkAuthorizer
from rescheduler.web.web_openapi import openapi_document
from rescheduler.web.web_server import PageOptions, serve_page
from tests.unit.web.conftest import living, saved_page

CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]


@contextlib.asynccontextmanager
async def read_only_page():
    page = saved_page()
    yield page, LinkAuthorizer(page, read_only=True)


@contextlib.asynccontextmanager
async def acting_page():
    async with living() as (page, client):
        yield page, LinkAuthorizer(page, read_only=False, client=client)


@pytest.fixture(
    scope="module", params=[read_only_page, acting_page], ids=["a saved cluster", "a live cluster"]
)
def served(request):
    """A server in a thread of its own, and the headers of a session."""
    ready, ended, found = threading.Event(), asyncio.Event(), {}

    async def serve():
        async with request.param() as (page, authorizer):
            options = PageOptions(requests_per_second=1e6)
            async with serve_page(page, authorizer, options) as port:
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


NODES = st.sampled_from(["node-1", "node-2", "node-3", "none", ""]) | st.text(max_size=30)


def actions(pods, migrations):
    """Actions on these pods and migrations, and on others that don't exist."""
    unknown = st.sampled_from(["shop/none", "kube-system/agent", "../..", "shop/", "shop/.."]) | st.text(
        max_size=30
    )
    pods, migrations = st.sampled_from(pods) | unknown, st.sampled_from([*migrations, "shop/none"]) | unknown
    return st.one_of(
        st.fixed_dictionaries({"kind": st.just("move"), "pod": pods}, optional={"node": NODES}),
        st.fixed_dictionaries({"kind": st.sampled_from(["drain", "undrain"]), "node": NODES}),
        st.fixed_dictionaries({"kind": st.just("pause")}, optional={"why": st.text(max_size=600)}),
        st.fixed_dictionaries({"kind": st.sampled_from(["resume", "apply"])}),
        st.fixed_dictionaries(
            {"kind": st.just("apply"), "uids": st.lists(st.text(max_size=130), max_size=3)}
        ),
        st.fixed_dictionaries({"kind": st.just("cancel"), "migration": migrations}),
        st.dictionaries(st.sampled_from(["kind", "pod", "node", "code", "x"]), st.text(max_size=10)),
    )


def test_actions_with_names_of_the_cluster_answer_as_described(served):
    """Names that exist lead further than random ones: to previews, and to confirmations that are used."""
    base, headers = served
    found = requests.get(f"{base}/api/v1/pods?limit=5", headers=headers, timeout=10).json()["pods"]
    pods, migrations, confirmed = [each["pod"] for each in found], [], set()

    def call(name, body):
        case = OPERATIONS[name].Case(body=body, headers=headers, media_type="application/json")
        answer = case.call(base_url=base)
        case.validate_response(answer, checks=CHECKS)
        return answer

    @given(data=st.data(), confirms=st.booleans())
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    def fuzz(data, confirms):
        action = data.draw(actions(pods, migrations))
        previewed = call("preview_action", action)
        confirmation = previewed.json().get("confirmation", "")
        if confirms:
            answer = call("confirm_action", {"confirmation": confirmation or "none"})
            if answer.status_code == 200:
                confirmed.add(answer.json()["kind"])
                migrations.extend(answer.json()["migrations"])

    fuzz()
    is_live = requests.get(f"{base}/api/v1/session", headers=headers, timeout=10).json()["mode"] != "file"
    assert confirmed >= ({"move", "drain", "pause"} if is_live else set())
