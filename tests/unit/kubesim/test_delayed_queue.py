"""The delayed queue: every key is processed, and errors are reported."""

import pytest

from kubesim.delayed_queue import DelayedQueue
from kubesim.virtual_time import ManualClock


def test_a_key_that_was_added_twice_is_looked_at_once():
    clock, done = ManualClock(), []
    queue = DelayedQueue(clock, 1, done.append)
    for key in ("a", "b", "a"):
        queue.add(key)
    clock.advance(1)
    assert done == ["a", "b"]


def test_one_that_fails_takes_no_turn_of_others_and_is_reported():
    clock, done = ManualClock(), []

    def work(key):
        if key == "bad":
            raise RuntimeError(key)
        done.append(key)

    queue = DelayedQueue(clock, 1, work)
    for key in ("a", "bad", "b"):
        queue.add(key)
    with pytest.raises(ExceptionGroup, match="background work failed"):
        clock.advance(1)
    assert done == ["a", "b"]
