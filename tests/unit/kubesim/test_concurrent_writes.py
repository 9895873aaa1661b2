"""Other writes happen while webhooks are called."""

import asyncio

import pytest

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def hold(api, monkeypatch):
    """Every write waits at admission until it is let go."""
    let_go = asyncio.Event()
    waiting = asyncio.Semaphore(0)
    admission = api.server.cluster.admission
    admit = admission.admit

    async def slow(*given, **named):
        waiting.release()
        await let_go.wait()
        return await admit(*given, **named)

    async def begun(*requests):
        monkeypatch.setattr(admission, "admit", slow)
        tasks = [asyncio.create_task(request) for request in requests]
        for _ in tasks:
            await waiting.acquire()
        return let_go, asyncio.gather(*tasks)

    return begun


async def test_two_patches_at_once_are_both_done(api, hold):
    await api.post(MAPS, {"metadata": {"name": "m"}})
    one, other = (api.patch(f"{MAPS}/m", {"data": {key: "1"}}) for key in "ab")
    let_go, replies = await hold(one, other)
    let_go.set()
    assert [reply.status for reply in await replies] == [200, 200]
    assert (await api.get(f"{MAPS}/m")).body["data"] == {"a": "1", "b": "1"}


async def test_of_two_updates_that_name_a_version_one_is_refused(api, hold):
    made = (await api.post(MAPS, {"metadata": {"name": "m"}})).body
    one, other = (api.put(f"{MAPS}/m", made | {"data": {key: "1"}}) for key in "ab")
    let_go, replies = await hold(one, other)
    let_go.set()
    assert sorted(reply.status for reply in await replies) == [200, 409]


async def test_of_two_updates_that_name_none_the_later_stands(api, hold):
    await api.post(MAPS, {"metadata": {"name": "m"}})
    one, other = (api.put(f"{MAPS}/m", {"metadata": {"name": "m"}, "data": {key: "1"}}) for key in "ab")
    let_go, replies = await hold(one, other)
    let_go.set()
    assert [reply.status for reply in await replies] == [200, 200]
    assert (await api.get(f"{MAPS}/m")).body["data"] == {"b": "1"}


async def test_nothing_is_created_in_a_namespace_that_went_meanwhile(api, hold, clock):
    await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    let_go, replies = await hold(api.post("/api/v1/namespaces/n/configmaps", {"metadata": {"name": "m"}}))
    await api.delete("/api/v1/namespaces/n")
    clock.advance(10)
    let_go.set()
    assert [reply.status for reply in await replies] == [404]
    assert await api.names("/api/v1/configmaps") == []


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("deletionGracePeriodSeconds", 7, "7"),
        ("deletionTimestamp", "2030-01-01T00:00:00Z", '"2030-01-01T00:00:00Z"'),
    ],
)
async def test_only_a_deletion_may_say_when_an_object_ends(api, field, value, shown):
    await api.post(MAPS, {"metadata": {"name": "m"}})
    reply = await api.patch(f"{MAPS}/m", {"metadata": {field: value}})
    assert reply.status == 422
    assert (
        reply.message
        == f'ConfigMap "m" is invalid: metadata.{field}: Invalid value: {shown}: field is immutable'
    )


async def test_an_object_stays_while_one_of_two_references_to_its_owner_is_right(api, clock):
    owner = (await api.post(MAPS, {"metadata": {"name": "owner"}})).body["metadata"]["uid"]
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner} for name in ("owner", "typo")
    ]
    await api.post(MAPS, {"metadata": {"name": "owned", "ownerReferences": references}})
    clock.advance(10)
    assert await api.names(MAPS) == ["owned", "owner"]
