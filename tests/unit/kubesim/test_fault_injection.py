"""Faults on demand, by the Python API and over HTTP."""

import asyncio

import pytest

from kubesim.apiserver.fault_injection import InjectedFault, ResponseLost

MAPS = "/api/v1/namespaces/default/configmaps"
FAULTS = "/simulator/faults"


@pytest.fixture(autouse=True)
async def stored(api):
    await api.post(MAPS, {"metadata": {"name": "a"}})


@pytest.mark.parametrize(
    ("fault", "status", "reason", "retry_after"),
    [
        (InjectedFault("conflict"), 409, "Conflict", None),
        (InjectedFault("too-many-requests", retry_after_s=3), 429, "TooManyRequests", "3"),
        (InjectedFault("too-many-requests"), 429, "TooManyRequests", None),
        (InjectedFault("not-ready"), 403, "Forbidden", None),
        (InjectedFault("internal-error"), 500, "InternalError", None),
        (InjectedFault("unavailable", retry_after_s=1), 503, "ServiceUnavailable", "1"),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
async def test_a_refusal_strikes_once_and_nothing_is_done(api, fault, status, reason, retry_after):
    api.server.inject(fault)
    before = api.server.store.version
    refused = await api.patch(MAPS + "/a", {"data": {"x": "y"}})
    assert (refused.status, refused.body["reason"]) == (status, reason)
    assert refused.headers.get("retry-after") == retry_after
    assert api.server.store.version == before
    assert (await api.patch(MAPS + "/a", {"data": {"x": "y"}})).status == 200


async def test_a_lost_response_leaves_the_write_done(api):
    api.server.inject(InjectedFault("lose-response", verbs=("create",)))
    with pytest.raises(ResponseLost):
        await api.post(MAPS, {"metadata": {"name": "b"}})
    assert (await api.get(MAPS + "/b")).status == 200


async def test_a_slow_answer_takes_its_time(api, clock):
    api.server.inject(InjectedFault("slow", delay_s=5))
    answer = asyncio.ensure_future(api.get(MAPS))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not answer.done()
    clock.advance(5)
    assert (await answer).status == 200


async def test_watches_are_dropped_by_resource(api):
    async with api.watch(MAPS) as maps, api.watch("/api/v1/pods") as pods:
        await maps.next()
        reading = asyncio.ensure_future(pods.next())
        await asyncio.sleep(0)
        assert api.server.inject(InjectedFault("drop-watches", resource="configmaps")) == {"dropped": 1}
        assert await maps.rest() == []
        assert not reading.done()
        reading.cancel()
        await asyncio.wait([reading])


async def test_compaction_makes_old_versions_unknown(api):
    version = (await api.get(MAPS)).body["metadata"]["resourceVersion"]
    await api.patch(MAPS + "/a", {"data": {"x": "y"}})
    api.server.inject(InjectedFault("compact"))
    async with api.watch(f"{MAPS}?resourceVersion={version}") as events:
        assert [event["type"] for event in await events.rest()] == ["ERROR"]


class TestMatching:
    @pytest.mark.parametrize(
        ("fault", "hit"),
        [
            pytest.param(InjectedFault("unavailable", verbs=("get",)), True, id="its verb"),
            pytest.param(InjectedFault("unavailable", verbs=("list", "watch")), False, id="another verb"),
            pytest.param(
                InjectedFault("unavailable", resource="config*"), True, id="a pattern of its resource"
            ),
            pytest.param(InjectedFault("unavailable", resource="pods"), False, id="another resource"),
            pytest.param(InjectedFault("unavailable", name="a*", namespace="default"), True, id="its name"),
            pytest.param(InjectedFault("unavailable", name="b"), False, id="another name"),
            pytest.param(InjectedFault("unavailable", probability=0), False, id="never"),
            pytest.param(InjectedFault("conflict"), False, id="a conflict while reading makes no sense"),
        ],
    )
    async def test_by(self, api, fault, hit):
        api.server.inject(fault)
        assert (await api.get(MAPS + "/a")).status == (503 if hit else 200)

    async def test_subresources_are_named_as_in_rbac(self, api):
        pods = "/api/v1/namespaces/default/pods"
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await api.post(pods, {"metadata": {"name": "p"}, "spec": spec})
        api.server.inject(InjectedFault("too-many-requests", resource="pods/eviction", times=None))
        body = {"metadata": {"name": "p"}}
        assert (await api.post(pods + "/p/eviction", body)).status == 429
        assert (await api.get(pods + "/p")).status == 200

    async def test_so_many_times(self, api):
        api.server.inject(InjectedFault("unavailable", times=2))
        assert [(await api.get(MAPS)).status for _ in range(4)] == [503, 503, 200, 200]

    async def test_the_same_seed_throws_the_same_dice(self, api):
        api.server.inject(InjectedFault("unavailable", times=None, probability=0.5))
        statuses = [(await api.get(MAPS)).status for _ in range(40)]
        assert {200, 503} == set(statuses)


class TestAdminEndpoint:
    async def test_adds_lists_and_removes(self, api):
        added = await api.post(
            FAULTS, {"kind": "unavailable", "verbs": ["list"], "times": None, "retryAfterS": 2}
        )
        assert (added.status, added.body) == (201, {"number": 1})
        assert (await api.get(MAPS)).status == 503
        listed = (await api.get(FAULTS)).body["faults"]["1"]
        assert (listed["kind"], listed["injected"], listed["retryAfterS"]) == ("unavailable", 1, 2)
        assert (await api.delete(FAULTS + "/1")).body == {"faults": {}}
        assert (await api.get(MAPS)).status == 200

    async def test_removes_all(self, api):
        await api.post(FAULTS, {"kind": "unavailable"})
        await api.delete(FAULTS)
        assert (await api.get(MAPS)).status == 200

    async def test_says_what_is_wrong_with_a_fault(self, api):
        reply = await api.post(FAULTS, {"kind": "earthquake"})
        assert reply.status == 400
        assert "earthquake" in reply.message

    async def test_shows_what_is_there(self, api):
        overview = (await api.get("/simulator")).body
        assert overview["objects"]["configmaps"] == 1
        assert overview["resourceVersion"] == str(api.server.store.version)
