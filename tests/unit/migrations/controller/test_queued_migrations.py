"""Queued migrations cost almost nothing, however many there are."""

import logging

import pytest

from bench.queued import AT_ONCE, measured
from kubesim.virtual_time import run_virtual


@pytest.fixture(autouse=True)
def _quiet_log():
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.size
def test_ten_thousand_that_wait_cost_next_to_nothing_and_keep_the_lease():
    """With a generous margin for busy machines; `python -m bench.queued --gate` has the real targets."""
    few, many = run_virtual(measured(1_000)), run_virtual(measured(10_000))
    assert (few.running, many.running) == (AT_ONCE, AT_ONCE)
    assert many.lease_kept
    assert many.steady_share < 0.03
    assert many.steady_block_s < 0.25
    for what in ("steady_share", "created_cpu_s", "deleted_cpu_s"):
        assert getattr(many, what) < 25 * getattr(few, what), f"{what} grows no more than linearly"
