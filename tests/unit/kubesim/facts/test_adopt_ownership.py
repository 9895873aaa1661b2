"""Owners and the garbage collector around the Adopt handover."""

from tests.e2e.facts.test_adopt_ownership import *  # noqa: F403
