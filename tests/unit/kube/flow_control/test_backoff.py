"""Waits that double, have a limit, and are never all alike."""

import random

from rescheduler.kube.request_sender import Backoff


def test_waits_double_up_to_the_limit_each_from_the_upper_half_of_its_range():
    backoff = Backoff(1.0, 30.0, random.Random(5))
    for ceiling in (1, 2, 4, 8, 16, 30, 30, 30):
        assert ceiling / 2 <= backoff.next_delay_s() <= ceiling


def test_two_that_fail_together_do_not_come_back_together():
    first, second = Backoff(1.0, 30.0, random.Random(1)), Backoff(1.0, 30.0, random.Random(2))
    assert [first.next_delay_s() for _ in range(5)] != [second.next_delay_s() for _ in range(5)]


def test_after_a_success_it_starts_again():
    backoff = Backoff(1.0, 30.0, random.Random(5))
    for _ in range(5):
        backoff.next_delay_s()
    backoff.reset()
    assert backoff.next_delay_s() <= 1.0


def test_a_server_that_is_away_for_a_year_causes_no_overflow():
    backoff = Backoff(1.0, 30.0, random.Random(5))
    assert all(backoff.next_delay_s() <= 30.0 for _ in range(5000))
