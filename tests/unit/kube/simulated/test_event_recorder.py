"""Events are written once with a count, and not too many about one object."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.kube.api_resources import EVENTS
from rescheduler.kube.event_recorder import (
    BURST,
    NAMESPACE_BURST,
    NAMESPACE_REFILL_S,
    REFILL_S,
    SERIES_ENDS_AFTER_S,
    EventCorrelator,
    EventRecorder,
    EventSeries,
    InvolvedObject,
)

POD = InvolvedObject("v1", "Pod", "default", "web-1", "uid-1")


@pytest.fixture
async def writer(client, server):
    made = EventRecorder(client, server.clock.now)
    async with made.running():
        yield made


@pytest.fixture
def reported(client):
    async def found(subject=POD):
        await asyncio.sleep(1)
        items = (await client.list(EVENTS)).items
        return [item for item in items if item["involvedObject"]["uid"] == subject.uid]

    return found


async def test_the_same_again_is_the_same_event_with_a_higher_count(writer, reported, server):
    writer.record(POD, "Moved", "to node-2")
    await asyncio.sleep(30)
    writer.record(POD, "Moved", "to node-2")
    (event,) = await reported()
    assert event["count"] == 2
    assert event["firstTimestamp"] < event["lastTimestamp"]


async def test_other_words_are_another_event(writer, reported):
    writer.record(POD, "Moved", "to node-2")
    writer.record(POD, "Moved", "to node-3")
    assert sorted(item["message"] for item in await reported()) == ["to node-2", "to node-3"]


async def test_the_longest_names_have_events(writer, reported):
    """An Event's name begins with that of its object, and must be valid wherever that is cut off."""
    longest = replace(POD, name=f"{'a' * 229}-{'b' * 23}")
    writer.record(longest, "Moved", "to node-2")
    assert len(await reported(longest)) == 1


async def test_after_a_while_the_same_is_a_new_story(writer, reported):
    writer.record(POD, "Moved", "to node-2")
    await asyncio.sleep(SERIES_ENDS_AFTER_S + 1)
    writer.record(POD, "Moved", "to node-2")
    assert [item["count"] for item in await reported()] == [1, 1]


async def test_what_the_server_has_forgotten_is_written_again_with_its_count(writer, reported, client):
    writer.record(POD, "Moved", "to node-2")
    (event,) = await reported()
    await client.delete(EVENTS, f"default/{event['metadata']['name']}")
    writer.record(POD, "Moved", "to node-2")
    (event,) = await reported()
    assert event["count"] == 2


async def test_what_is_reported_once_is_not_reported_again(writer, reported, client, server):
    writer.record(POD, "Empty", "the node is empty", once=True)
    writer.record(POD, "Empty", "the node is empty", once=True)
    another = EventRecorder(client, server.clock.now)
    async with another.running():
        another.record(POD, "Empty", "the node is empty", once=True)
        assert [item["count"] for item in await reported()] == [1]


async def test_too_many_about_one_object_are_dropped_and_others_are_not_affected(writer, reported):
    other = InvolvedObject("v1", "Pod", "default", "web-2", "uid-2")
    for number in range(BURST + 10):
        writer.record(POD, "Restless", f"for the {number}. time")
    writer.record(other, "Moved", "to node-2")
    assert len(await reported()) == BURST
    assert len(await reported(other)) == 1
    await asyncio.sleep(REFILL_S)
    writer.record(POD, "Restless", "at last")
    assert len(await reported()) == BURST + 1


@given(st.lists(st.floats(0, 1000), max_size=200))
def test_however_they_come_no_object_has_more_than_a_burst_and_the_refill(pauses):
    limits, now_s, admitted = EventCorrelator(), 0.0, 0
    for pause in pauses:
        now_s += pause
        admitted += limits.admit("pod", "", now_s)
    assert admitted <= BURST + now_s / REFILL_S + 1e-6
    assert admitted + limits.dropped == len(pauses)


def test_what_was_reported_longest_ago_is_forgotten_first():
    limits = EventCorrelator()
    for number in range(5000):
        limits.note((str(number),), EventSeries(1, "name", "time", 0.0))
    assert limits.series_of(("0",), 0.0) is None
    assert limits.series_of(("4999",), 0.0) is not None


def test_a_namespace_with_very_many_objects_does_not_use_up_the_events_of_others():
    limits = EventCorrelator()
    flood = [limits.admit(f"pod {number}", "greedy", 0.0) for number in range(10 * NAMESPACE_BURST)]
    assert sum(flood) == NAMESPACE_BURST
    assert limits.admit("pod of another", "bank", 0.0)
    later = [limits.admit(f"late {number}", "greedy", 10 * NAMESPACE_REFILL_S) for number in range(100)]
    assert sum(later) == 10
