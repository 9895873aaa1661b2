"""A watch that several unanswered requests make suspect at the same time."""

import asyncio

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiCall
from rescheduler.kube.watch_cache import Watch


class Endless:
    """An answer that goes on without a byte."""

    headers = {"content-type": "application/json"}  # noqa: RUF012 - never changed

    async def chunks(self):
        await asyncio.Event().wait()
        yield b""

    async def close(self):
        pass


async def test_a_read_that_is_given_up_twice_before_it_has_ended_ends_once():
    async def send():
        return Endless()

    async with Watch(ApiCall("watch", "pods"), PODS.as_json.codec, send, 0.0) as events:
        reading = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        for _ in range(3):
            events.give_up()
            await asyncio.sleep(0)
        with pytest.raises(errors.WatchStalled):
            await reading
