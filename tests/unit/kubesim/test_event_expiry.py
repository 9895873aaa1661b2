"""Events are kept for an hour, as the API server's default is."""

EVENTS = "/api/v1/namespaces/default/events"


def event(name):
    about = {"kind": "Pod", "namespace": "default", "name": "web"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "Started", "message": "started"}


async def names(api):
    return [each["metadata"]["name"] for each in (await api.get(EVENTS)).body["items"]]


async def test_an_event_is_removed_an_hour_after_its_last_change(api, clock):
    """A cluster that runs for hours would otherwise keep all Events that were ever written."""
    await api.post(EVENTS, event("once"))
    await api.post(EVENTS, event("repeated"))
    clock.advance(1800)
    repeated = (await api.get(f"{EVENTS}/repeated")).body
    await api.put(f"{EVENTS}/repeated", repeated | {"count": 2})
    clock.advance(1799)
    assert await names(api) == ["once", "repeated"]
    clock.advance(1)
    assert await names(api) == ["repeated"]
    clock.advance(1800)
    assert await names(api) == []
    await api.post(EVENTS, event("later"))
    clock.advance(3600)
    assert await names(api) == []


async def test_an_event_with_the_name_of_an_expired_one_lives_its_own_hour(api, clock):
    await api.post(EVENTS, event("e"))
    clock.advance(1800)
    await api.delete(f"{EVENTS}/e")
    await api.post(EVENTS, event("e"))
    clock.advance(1800)
    assert await names(api) == ["e"]
    clock.advance(1800)
    assert await names(api) == []
